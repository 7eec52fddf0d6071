r"""Decentralized parallel SGD (D-PSGD), adapt then combine.

$$ X^{t+1} = W \bigl( X^t - \eta\, g(X^t) \bigr) $$

The order in which the step is averaged as well; on a complete graph it is centralised SGD. One vector to each
neighbour a round.

Reference: X. Lian et al., "Can decentralized algorithms outperform centralized algorithms?", 2017, arXiv 1705.09056.
"""

from gossamer.core import Agent, Array, State, StepSize, rule


@rule("d-psgd-atc")
class DPSGDATC:
    """D-PSGD, adapt then combine."""

    eta: StepSize

    def init(self, x: Array, agent: Agent) -> State:
        return State(x=x)

    def step(self, s: State, agent: Agent) -> State:
        return State(x=agent.gossip(s.x - self.eta * agent.gradient(s.x)))

    def restart(self, s: State) -> State:
        return s
