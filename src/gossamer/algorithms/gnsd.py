r"""Gradient tracking for nonconvex stochastic problems (GNSD), combine then adapt.

$$ X^{t+1} = W X^t - \eta Y^t, \qquad Y^{t+1} = W Y^t + g^{t+1} - g^t, \qquad Y^0 = g^0 $$

If $W$ is doubly stochastic then $\bar y^t = \bar g^t$ for every $t$, which removes the error that heterogeneous losses
cause in D-PSGD. It is Biased-DMT with $\lambda = 1$. Two vectors to each neighbour a round, in one message.

Reference: S. Lu, X. Zhang, H. Sun and M. Hong, "GNSD: a gradient-tracking based nonconvex stochastic algorithm for
decentralized optimization", 2019.
"""

from gossamer.core import Agent, Array, MeetingAgent, State, StepSize, Warm, rule


@rule("gnsd")
class GNSD:
    """GNSD: gradient tracking, combine then adapt."""

    eta: StepSize
    warm: Warm = 0

    def init(self, x: Array, agent: Agent) -> State:
        g = agent.gradient(x)
        return State(x=x, y=agent.average(g, self.warm), g=g)

    def step(self, s: State, agent: Agent) -> State:
        wx, wy = agent.gossip(s.x, s.y)
        x = wx - self.eta * s.y
        g = agent.gradient(x)
        return State(x=x, y=wy + g - s.g, g=g)

    def wake(self, s: State, g: Array, agent: MeetingAgent) -> State:
        """Asynchronous Biased-DMT with λ = 1."""
        y = s.y + g - s.g
        xm, ym = agent.meet(x=s.x, y=y)
        return State(x=xm - self.eta * y, y=ym, g=g)

    def restart(self, s: State) -> State:
        return State(x=s.x, y=s.g, g=s.g)

    def tracker(self, s: State) -> Array:
        return s.y
