r"""Distributed stochastic gradient tracking (DSGT).

$$ X^{t+1} = W ( X^t - \eta Y^t ), \qquad Y^{t+1} = W Y^t + g^{t+1} - g^t, \qquad Y^0 = g^0 $$

The model adapts then combines, the tracker combines then adapts; $\bar y^t = \bar g^t$ for every $t$ if $W$ is doubly
stochastic. Two vectors to each neighbour a round, in one message.

Reference: S. Pu and A. Nedić, "Distributed stochastic gradient tracking methods", 2021, arXiv 1805.11454.
"""

from gossamer.core import Agent, Array, State, StepSize, Warm, rule


@rule("dsgt")
class DSGT:
    """DSGT: distributed stochastic gradient tracking."""

    eta: StepSize
    warm: Warm = 0

    def init(self, x: Array, agent: Agent) -> State:
        g = agent.gradient(x)
        return State(x=x, y=agent.average(g, self.warm), g=g)

    def step(self, s: State, agent: Agent) -> State:
        x, wy = agent.gossip(s.x - self.eta * s.y, s.y)
        g = agent.gradient(x)
        return State(x=x, y=wy + g - s.g, g=g)

    def restart(self, s: State) -> State:
        return State(x=s.x, y=s.g, g=s.g)

    def tracker(self, s: State) -> Array:
        return s.y
