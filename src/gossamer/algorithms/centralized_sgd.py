r"""Centralised SGD, as a parameter server runs it.

$$ x^{t+1} = x^t - \eta\, \frac1n \sum_i \tilde g_i(x^t) $$

What a decentralized method would do with a perfect network: the control in every comparison. One all-reduce a round.
"""

from gossamer.core import Agent, Array, State, StepSize, rule


@rule("centralized-sgd", needs="nothing")
class CentralizedSGD:
    """Centralised SGD."""

    eta: StepSize

    def init(self, x: Array, agent: Agent) -> State:
        return State(x=x)

    def step(self, s: State, agent: Agent) -> State:
        return State(x=s.x - self.eta * agent.mean(agent.gradient(s.x)))
