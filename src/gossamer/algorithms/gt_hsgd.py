r"""GT-HSGD, hybrid variance-reduced gradient tracking, adapt then combine.

$$ X^{t+1} = W ( X^t - \eta Y^t ), \qquad
   D^{t+1} = g(X^{t+1}; \xi^{t+1}) + (1-a) \bigl( D^t - g(X^t; \xi^{t+1}) \bigr), \qquad
   Y^{t+1} = W ( Y^t + D^{t+1} - D^t ), \qquad D^0 = g^0, \quad Y^0 = W D^0 $$

The decentralised form of STEM: $Y$ tracks the mean of the variance-reduced directions $D$. Both gradients of a round
are on the same sample. With $a = 1$ it is GT-DSGD. Two vectors to each neighbour a round, in two messages, and two
gradients.

Reference: R. Xin, U. Khan and S. Kar, "A hybrid variance-reduced method for decentralized stochastic non-convex
optimization", ICML 2021, arXiv 2102.06752.
"""

from gossamer.core import Agent, Array, State, StepSize, Warm, Weight, rule


@rule("gt-hsgd")
class GTHSGD:
    """GT-HSGD: variance-reduced gradient tracking, adapt then combine."""

    eta: StepSize
    a: Weight
    warm: Warm = 0

    def init(self, x: Array, agent: Agent) -> State:
        d = agent.gradient(x)
        return State(x=x, d=d, y=agent.average(agent.gossip(d), self.warm))

    def step(self, s: State, agent: Agent) -> State:
        x = agent.gossip(s.x - self.eta * s.y)
        new, old = agent.gradient(x, s.x)
        d = new + (1 - self.a) * (s.d - old)
        return State(x=x, d=d, y=agent.gossip(s.y + d - s.d))

    def restart(self, s: State) -> State:
        return State(x=s.x, d=s.d, y=s.d)

    def tracker(self, s: State) -> Array:
        return s.y
