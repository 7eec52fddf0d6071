r"""Quasi-global momentum (QG-DSGDm).

$$ X^{t+1} = W \bigl( X^t - \eta ( \beta M^t + g^t ) \bigr), \qquad
   M^{t+1} = \beta M^t + (1-\beta)\, \tfrac1\eta ( X^t - X^{t+1} ), \qquad M^0 = 0 $$

The momentum follows the model after gossip, which holds the neighbours' directions too, in place of the agent's own
gradients. It settles where D-PSGD (adapt then combine) does with the same step. One vector to each neighbour a round.

Reference: T. Lin, S. P. Karimireddy, S. Stich and M. Jaggi, "Quasi-global momentum: accelerating decentralized deep
learning on heterogeneous data", ICML 2021, arXiv 2102.04761.
"""

from gossamer.core import Agent, Array, Decay, State, StepSize, rule


@rule("qg-dsgdm")
class QGDSGDm:
    """QG-DSGDm: quasi-global momentum."""

    eta: StepSize
    beta: Decay

    def init(self, x: Array, agent: Agent) -> State:
        return State(x=x, m=0 * x)

    def step(self, s: State, agent: Agent) -> State:
        x = agent.gossip(s.x - self.eta * (self.beta * s.m + agent.gradient(s.x)))
        return State(x=x, m=self.beta * s.m + (1 - self.beta) * (s.x - x) / self.eta)

    def restart(self, s: State) -> State:
        return s
