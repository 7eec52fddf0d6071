r"""EXTRA, the exact first-order algorithm.

$$ X^{t+1} = (I + W) X^t - \tfrac12 (I + W) X^{t-1} - \eta\, ( g^t - g^{t-1} ), \qquad X^1 = W X^0 - \eta g^0 $$

Two rounds' difference makes gradient descent with a constant step exact. It needs one symmetric $W$. One vector to each
neighbour a round: $W X^{t-1}$ is kept from the round before. With a schedule each gradient keeps the step size of its
own round.

Reference: W. Shi, Q. Ling, G. Wu and W. Yin, "EXTRA: an exact first-order algorithm for decentralized consensus
optimization", 2015, arXiv 1404.6264.
"""

from gossamer.core import Agent, Array, State, StepSize, rule


@rule("extra", lowest=-1, decays=(), drifts=True)
class EXTRA:
    """EXTRA: the exact first-order algorithm."""

    eta: StepSize

    def init(self, x: Array, agent: Agent) -> State:
        return State(x=x, half=x, move=0 * x)  # half = ½(I + W)X⁻; at the start it leaves W X⁰

    def step(self, s: State, agent: Agent) -> State:
        move = self.eta * agent.gradient(s.x)
        both = s.x + agent.gossip(s.x)
        return State(x=both - s.half - move + s.move, half=both / 2, move=move)

    def restart(self, s: State) -> State:
        return State(x=s.x, half=s.x, move=0 * s.x)
