r"""Biased-DMT on directed graphs, by push and pull.

$$ X^{t+1} = R X^t - \eta V^t, \qquad
   M^{t+1} = (1-\lambda) M^t + \lambda\, \tilde g(X^{t+1}), \qquad
   V^{t+1} = C V^t + M^{t+1} - M^t, \qquad V^0 = M^0 = \tilde g(X^0) $$

Algorithm 1 of the Biased-DMT paper where weights cannot be doubly stochastic, which that paper leaves to the future:
models are pulled by a row-stochastic $R$, trackers pushed by a column-stochastic $C$, so that $\bar v^t = \bar m^t$ for
every $t$. It settles where Biased-DMT does, at $\nabla F = -\bar e$; with doubly stochastic weights it is Biased-DMT.
Two vectors to each neighbour a round, in one message. With `warm` $= k$ the tracker starts from $C^k M^0$, which keeps
the sum; an all-reduce is not offered, since $C$ takes trackers to the shares of the sum that the network gives each
agent, and not to the mean.

Reference: this software; after S. Pu et al., "Push-pull gradient methods for distributed optimization in networks",
2021, arXiv 1810.06653, and the paper of Biased-DMT, arXiv 2604.08236.
"""

from gossamer.core import Agent, Array, PushedWarm, State, StepSize, Weight, rule


@rule("push-pull-dmt", needs="row+column")
class PushPullDMT:
    """Biased-DMT on directed graphs, by push and pull."""

    eta: StepSize
    lam: Weight
    warm: PushedWarm = 0

    def init(self, x: Array, agent: Agent) -> State:
        g = agent.gradient(x)
        return State(x=x, m=g, v=agent.average(g, self.warm, over="C"))

    def step(self, s: State, agent: Agent) -> State:
        rx, cv = agent.gossip(s.x, s.v, over="RC")
        x = rx - self.eta * s.v
        m = (1 - self.lam) * s.m + self.lam * agent.gradient(x)
        return State(x=x, m=m, v=cv + m - s.m)

    def restart(self, s: State) -> State:
        return State(x=s.x, m=s.m, v=s.m)

    def tracker(self, s: State) -> Array:
        return s.v
