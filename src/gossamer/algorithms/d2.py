r"""D², decentralized training over decentralized data.

$$ X^{t+1} = W \bigl( 2 X^t - X^{t-1} - \eta\, ( g^t - g^{t-1} ) \bigr), \qquad X^1 = W ( X^0 - \eta g^0 ) $$

The difference to the round before cancels what the agents' losses differ by, with one vector to each neighbour a round.
It needs one symmetric $W$ whose eigenvalues all lie above $-\tfrac13$; a ring with weights $\tfrac13$ of even length
touches that, and weights = "lazy", $\tfrac12 (I + W)$, always clears it. With a schedule each gradient keeps the step
size of its own round. In float32 the mean iterate drifts on long runs, because $2 X^t - X^{t-1}$ accumulates rounding.

Reference: H. Tang, X. Lian, M. Yan, C. Zhang and J. Liu, "D²: decentralized training over decentralized data", ICML
2018, arXiv 1803.07068.
"""

from gossamer.core import Agent, Array, State, StepSize, rule


@rule("d2", lowest=-1 / 3, decays=(), drifts=True)
class D2:
    """D²: the last round's difference cancels heterogeneity."""

    eta: StepSize

    def init(self, x: Array, agent: Agent) -> State:
        return State(x=x, old=x, move=0 * x)

    def step(self, s: State, agent: Agent) -> State:
        move = self.eta * agent.gradient(s.x)
        return State(x=agent.gossip(2 * s.x - s.old - move + s.move), old=s.x, move=move)

    def restart(self, s: State) -> State:
        return State(x=s.x, old=s.x, move=0 * s.x)
