r"""Decentralized SGD with biased gradients (Biased-DSGD).

$$ X^{t+1} = W X^t - \eta\, \tilde g(X^t) $$

The recursion of D-PSGD (combine then adapt), named for what it is fed: a biased oracle $\tilde g$. Its error keeps the
heterogeneity of D-PSGD and adds the bias. One vector to each neighbour a round.

Reference: Y. Jiang, H. Kang, J. Liu and D. Xu, "On the convergence of decentralized stochastic gradient descent with
biased gradients", IEEE Transactions on Signal Processing, 2025.
"""

from gossamer.core import Agent, Array, PostingAgent, State, StepSize, rule


@rule("biased-dsgd")
class BiasedDSGD:
    """Biased-DSGD: D-PSGD fed a biased oracle."""

    eta: StepSize

    def init(self, x: Array, agent: Agent) -> State:
        return State(x=x)

    def step(self, s: State, agent: Agent) -> State:
        return State(x=agent.gossip(s.x) - self.eta * agent.gradient(s.x))

    def ahead(self, s: State, agent: PostingAgent) -> State:
        """Do `step` with a message that travels while the gradient is computed."""
        arrived, g = agent.post(s.x), agent.gradient(s.x)
        return State(x=arrived() - self.eta * g)

    def restart(self, s: State) -> State:
        return s
