r"""Exact Diffusion.

$$ \psi^{t+1} = X^t - \eta g^t, \qquad \phi^{t+1} = \psi^{t+1} + X^t - \psi^t, \qquad
   X^{t+1} = \tfrac12 (I + W)\, \phi^{t+1}, \qquad \psi^0 = X^0 $$

Adapt, correct, combine: the correction removes the bias of diffusion with a constant step. On $W$ it is D² on $\tfrac12
(I + W)$, so every symmetric $W$ serves. One vector to each neighbour a round.

Reference: K. Yuan, B. Ying, X. Zhao and A. Sayed, "Exact diffusion for distributed optimization and learning, part I:
algorithm development", 2019, arXiv 1702.05122.
"""

from gossamer.core import Agent, Array, State, StepSize, rule


@rule("exact-diffusion", lowest=-1, decays=(), drifts=True)
class ExactDiffusion:
    """Exact Diffusion: adapt, correct, combine."""

    eta: StepSize

    def init(self, x: Array, agent: Agent) -> State:
        return State(x=x, psi=x)

    def step(self, s: State, agent: Agent) -> State:
        psi = s.x - self.eta * agent.gradient(s.x)
        phi = psi + s.x - s.psi
        return State(x=(phi + agent.gossip(phi)) / 2, psi=psi)

    def restart(self, s: State) -> State:
        return State(x=s.x, psi=s.x)
