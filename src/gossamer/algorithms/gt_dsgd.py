r"""Gradient tracking, adapt then combine (GT-DSGD).

$$ X^{t+1} = W ( X^t - \eta Y^t ), \qquad Y^{t+1} = W ( Y^t + g^{t+1} - g^t ), \qquad Y^0 = W g^0 $$

Both model and tracker adapt before they combine; $\bar y^t = \bar g^t$ for every $t$ if $W$ is doubly stochastic. Two
vectors to each neighbour a round, in two messages: the second needs the gradient at the point that the first gives.

Reference: R. Xin, U. Khan and S. Kar, "An improved convergence analysis for decentralized online stochastic non-convex
optimization", 2021, arXiv 2008.04195.
"""

from gossamer.core import Agent, Array, State, StepSize, Warm, rule


@rule("gt-dsgd")
class GTDSGD:
    """GT-DSGD: gradient tracking, adapt then combine."""

    eta: StepSize
    warm: Warm = 0

    def init(self, x: Array, agent: Agent) -> State:
        g = agent.gradient(x)
        return State(x=x, y=agent.average(agent.gossip(g), self.warm), g=g)

    def step(self, s: State, agent: Agent) -> State:
        x = agent.gossip(s.x - self.eta * s.y)
        g = agent.gradient(x)
        return State(x=x, y=agent.gossip(s.y + g - s.g), g=g)

    def restart(self, s: State) -> State:
        return State(x=s.x, y=s.g, g=s.g)

    def tracker(self, s: State) -> Array:
        return s.y
