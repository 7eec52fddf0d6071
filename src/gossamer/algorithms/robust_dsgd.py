r"""Robust decentralized SGD: ClippedGossip, or a trimmed mean or median of the neighbours.

$$ X^{t+1/2} = X^t - \eta\, m^t, \qquad x_i^{t+1} = \mathcal A_i \bigl( x_i^{t+1/2}, \{ x_j^{t+1/2} \} \bigr), \qquad
   m^{t+1} = (1-\lambda) m^t + \lambda g(X^{t+1}), \qquad m^0 = g(X^0) $$

where the aggregator $\mathcal A_i$ sees each neighbour's message, so that a few that lie do little harm. With
`aggregators.clipped` it is ClippedGossip; with its radius $\tau = \infty$ and $\lambda = 1$ it is D-PSGD (adapt then
combine). Momentum makes honest agents' messages alike, so that those of attackers stand out. The authors' code keeps
the sum $m \leftarrow \beta m + g$ instead, from $m^0 = g^0$: their $\eta$ is ours times $\lambda = 1 - \beta$, and
their first step shorter by that. One vector to each neighbour a round.

Reference: L. He, S. P. Karimireddy and M. Jaggi, "Byzantine-robust decentralized learning via ClippedGossip", 2022,
arXiv 2202.01545.
"""

from gossamer.core import Agent, Aggregator, Array, State, StepSize, Weight, rule


@rule("robust-dsgd")
class RobustDSGD:
    """Robust DSGD: ClippedGossip, or a trimmed mean or median of the neighbours."""

    eta: StepSize
    lam: Weight
    aggregator: Aggregator

    def init(self, x: Array, agent: Agent) -> State:
        return State(x=x, m=agent.gradient(x))

    def step(self, s: State, agent: Agent) -> State:
        x = agent.gossip_robust(s.x - self.eta * s.m, by=self.aggregator)
        return State(x=x, m=(1 - self.lam) * s.m + self.lam * agent.gradient(x))

    def restart(self, s: State) -> State:
        return s
