r"""Decentralized momentum SGD (DSGDm), gossiped momentum.

$$ \hat m = \beta m^t + g(X^t), \qquad X^{t+1} = W ( X^t - \eta\, \hat m ), \qquad m^{t+1} = W \hat m, \qquad m^0 = 0 $$

Averaging the momentum keeps the agents together, at the price of a second vector; the error from heterogeneous losses
stays. With $\beta = 0$ it is D-PSGD (adapt then combine). Two vectors to each neighbour a round, in one message.

Reference: H. Yu, R. Jin and S. Yang, "On the linear speedup analysis of communication efficient momentum SGD for
distributed non-convex optimization", ICML 2019, arXiv 1905.03817.
"""

from gossamer.core import Agent, Array, Decay, State, StepSize, rule


@rule("dsgdm-gossip")
class DSGDmGossip:
    """DSGDm with gossiped momentum."""

    eta: StepSize
    beta: Decay

    def init(self, x: Array, agent: Agent) -> State:
        return State(x=x, m=0 * x)

    def step(self, s: State, agent: Agent) -> State:
        m = self.beta * s.m + agent.gradient(s.x)
        x, m = agent.gossip(s.x - self.eta * m, m)
        return State(x=x, m=m)

    def restart(self, s: State) -> State:
        return s
