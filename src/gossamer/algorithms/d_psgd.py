r"""Decentralized parallel SGD (D-PSGD), combine then adapt.

$$ X^{t+1} = W X^t - \eta\, g(X^t) $$

At a fixed step size the agents settle where gossip and the differences of their losses balance: an error that grows
with the heterogeneity and with $1/\rho$. One vector to each neighbour a round.

Reference: X. Lian et al., "Can decentralized algorithms outperform centralized algorithms?", 2017, arXiv 1705.09056.
"""

from gossamer.core import Agent, Array, MeetingAgent, PostingAgent, State, StepSize, rule


@rule("d-psgd")
class DPSGD:
    """D-PSGD: combine then adapt."""

    eta: StepSize

    def init(self, x: Array, agent: Agent) -> State:
        return State(x=x)

    def step(self, s: State, agent: Agent) -> State:
        return State(x=agent.gossip(s.x) - self.eta * agent.gradient(s.x))

    def ahead(self, s: State, agent: PostingAgent) -> State:
        """Do `step` with a message that travels while the gradient is computed."""
        arrived, g = agent.post(s.x), agent.gradient(s.x)
        return State(x=arrived() - self.eta * g)

    def wake(self, s: State, g: Array, agent: MeetingAgent) -> State:
        r"""AD-PSGD: the pair takes its mean, and the one that woke a step along a gradient that is stale by then.

        $$ x_i \leftarrow \tfrac12(x_i + x_j) - \eta g, \qquad x_j \leftarrow \tfrac12(x_i + x_j) $$

        An agent that is fast steps more often, so that its loss counts for more.

        Reference: X. Lian, W. Zhang, C. Zhang and J. Liu, "Asynchronous decentralized parallel stochastic gradient
        descent", 2018, arXiv 1710.06952, Algorithm 1.
        """
        return State(x=agent.meet(x=s.x) - self.eta * g)

    def restart(self, s: State) -> State:
        return s
