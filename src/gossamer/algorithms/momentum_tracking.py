r"""Momentum Tracking.

$$ u^{t+1} = \beta u^t + g(X^t), \qquad X^{t+1} = W X^t - \eta ( u^{t+1} - c^t ), \qquad
   c^{t+1} = W ( c^t - u^{t+1} ) + u^{t+1}, \qquad u^0 = c^0 = \frac{g^0 - \bar g^0}{1-\beta} $$

The correction $c$ has mean zero, so the agents move along the mean momentum. It is Biased-DMT in other coordinates
($\lambda = 1-\beta$, step $\eta/\lambda$) from another start, which takes one all-reduce. With `warm` $= k$ that start
is $u^0 = c^0 = (g^0 - W^k g^0) / (1-\beta)$, by $k$ messages of one vector, and with 0 it is zero. Round 0 uses the
sample of the start, so that a round costs one query. Two vectors to each neighbour a round, in one message.

Reference: Y. Takezawa et al., "Momentum tracking: momentum acceleration for decentralized deep learning on
heterogeneous data", TMLR 2023, arXiv 2209.15505.
"""

from gossamer.core import Agent, Array, Decay, State, StepSize, Warm, rule


@rule("momentum-tracking")
class MomentumTracking:
    """Momentum Tracking."""

    eta: StepSize
    beta: Decay
    warm: Warm = "mean"

    def init(self, x: Array, agent: Agent) -> State:
        g = agent.gradient(x)
        u = (g - agent.average(g, self.warm)) / (1 - self.beta)
        return State(x=x, u=u, c=u, g=g)

    def step(self, s: State, agent: Agent) -> State:
        u = self.beta * s.u + s.g
        wx, wc = agent.gossip(s.x, s.c - u)
        x = wx - self.eta * (u - s.c)
        return State(x=x, u=u, c=wc + u, g=agent.gradient(x))

    def restart(self, s: State) -> State:
        return State(x=s.x, u=s.u, c=0 * s.u, g=s.g)

    def tracker(self, s: State) -> Array:
        return s.u - s.c
