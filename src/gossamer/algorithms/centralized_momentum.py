r"""Centralised SGD with momentum, as a parameter server runs it.

$$ x^{t+1} = x^t - \eta\, m^t, \qquad m^{t+1} = (1-\lambda) m^t + \lambda\, \frac1n \sum_i \tilde g_i(x^{t+1}),
   \qquad m^0 = \frac1n \sum_i \tilde g_i(x^0) $$

The mean iterate of Biased-DMT follows it for any doubly stochastic $W$ when all agents have the same Hessian and the
noise is additive. With $\lambda = 1$ it is centralised SGD. One all-reduce a round.
"""

from gossamer.core import Agent, Array, State, StepSize, Weight, rule


@rule("centralized-momentum", needs="nothing")
class CentralizedMomentum:
    """Centralised SGD with momentum."""

    eta: StepSize
    lam: Weight

    def init(self, x: Array, agent: Agent) -> State:
        return State(x=x, m=agent.mean(agent.gradient(x)))

    def step(self, s: State, agent: Agent) -> State:
        x = s.x - self.eta * s.m
        m = (1 - self.lam) * s.m + self.lam * agent.mean(agent.gradient(x))
        return State(x=x, m=m)
