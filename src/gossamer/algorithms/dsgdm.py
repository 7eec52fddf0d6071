r"""Decentralized momentum SGD (DSGDm), local momentum.

$$ m^{t+1} = \beta m^t + g(X^t), \qquad X^{t+1} = W ( X^t - \eta\, m^{t+1} ), \qquad m^0 = 0 $$

Each agent keeps a momentum of its own gradients, so it settles where D-PSGD (adapt then combine) would with the larger
step $\eta / (1-\beta)$. With $\beta = 0$ it is D-PSGD. One vector to each neighbour a round.

Reference: H. Yu, R. Jin and S. Yang, "On the linear speedup analysis of communication efficient momentum SGD for
distributed non-convex optimization", ICML 2019, arXiv 1905.03817.
"""

from gossamer.core import Agent, Array, Decay, State, StepSize, rule


@rule("dsgdm")
class DSGDm:
    """DSGDm: decentralized SGD with local momentum."""

    eta: StepSize
    beta: Decay

    def init(self, x: Array, agent: Agent) -> State:
        return State(x=x, m=0 * x)

    def step(self, s: State, agent: Agent) -> State:
        m = self.beta * s.m + agent.gradient(s.x)
        return State(x=agent.gossip(s.x - self.eta * m), m=m)

    def restart(self, s: State) -> State:
        return s
