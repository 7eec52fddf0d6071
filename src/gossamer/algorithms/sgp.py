r"""Stochastic gradient push (SGP), with or without momentum.

$$ M^{t+1} = \beta M^t + g(Z^t), \qquad U^{t+1} = C ( U^t - \eta M^{t+1} ), \qquad w^{t+1} = C w^t, \qquad
   Z^{t+1} = U^{t+1} / w^{t+1}, \qquad w^0 = \mathbf 1, \quad M^0 = 0 $$

Push-sum: on a directed graph, where only columns of $C$ need to sum to one, the weights $w$ tell how much of the whole
an agent holds, and $Z$ is the model. With doubly stochastic weights $w$ stays $\mathbf 1$ and it is DSGDm, or D-PSGD
(adapt then combine) where $\beta = 0$. One vector and one number to each neighbour a round.

Reference: M. Assran, N. Loizou, N. Ballas and M. Rabbat, "Stochastic gradient push for distributed deep learning", ICML
2019, arXiv 1811.10792.
"""

from gossamer.core import Agent, Array, Decay, State, StepSize, rule


@rule("sgp", needs="column", decays=("u",))
class SGP:
    """SGP: stochastic gradient push, for directed graphs."""

    eta: StepSize
    beta: Decay

    def init(self, x: Array, agent: Agent) -> State:
        return State(x=x, u=x, w=agent.ones(), m=0 * x)

    def step(self, s: State, agent: Agent) -> State:
        m = self.beta * s.m + agent.gradient(s.x)
        u, w = agent.gossip(s.u - self.eta * m, s.w, over="C")
        return State(x=u / w, u=u, w=w, m=m)

    def restart(self, s: State) -> State:
        return State(x=s.x, u=s.x, w=0 * s.w + 1, m=s.m)
