r"""GT-STORM, variance-reduced gradient tracking, combine then adapt.

$$ X^{t+1} = W X^t - \eta Y^t, \qquad
   D^{t+1} = g(X^{t+1}; \xi^{t+1}) + (1-a) \bigl( D^t - g(X^t; \xi^{t+1}) \bigr), \qquad
   Y^{t+1} = W Y^t + D^{t+1} - D^t, \qquad Y^0 = D^0 = g^0 $$

The decentralised form of STEM that combines first. Both gradients of a round are on the same sample. With $a = 1$ it is
GNSD. Two vectors to each neighbour a round, in one message, and two gradients.

Reference: X. Zhang, J. Liu, Z. Zhu and E. Bentley, "GT-STORM: taming sample, communication, and memory complexities in
decentralized non-convex learning", 2021, arXiv 2105.01231.
"""

from gossamer.core import Agent, Array, State, StepSize, Warm, Weight, rule


@rule("gt-storm")
class GTSTORM:
    """GT-STORM: variance-reduced gradient tracking, combine then adapt."""

    eta: StepSize
    a: Weight
    warm: Warm = 0

    def init(self, x: Array, agent: Agent) -> State:
        d = agent.gradient(x)
        return State(x=x, d=d, y=agent.average(d, self.warm))

    def step(self, s: State, agent: Agent) -> State:
        wx, wy = agent.gossip(s.x, s.y)
        x = wx - self.eta * s.y
        new, old = agent.gradient(x, s.x)
        d = new + (1 - self.a) * (s.d - old)
        return State(x=x, d=d, y=wy + d - s.d)

    def restart(self, s: State) -> State:
        return State(x=s.x, d=s.d, y=s.d)

    def tracker(self, s: State) -> Array:
        return s.y
