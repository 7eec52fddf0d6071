r"""CEDAS, compressed exact diffusion with adaptive step sizes.

$$ \psi^t = X^t - \eta g^t, \qquad Q^t = C ( \psi^t - D^t - H^t ), \qquad \hat Y^t = H^t + Q^t, \qquad
   H^{t+1} = H^t + \alpha Q^t, $$

$$ D^{t+1} = D^t + \tfrac{\gamma}{2} (I - W) \hat Y^t, \qquad X^{t+1} = \psi^t - D^{t+1}, \qquad
   H^0 = X^0, \quad D^0 = 0 $$

Exact Diffusion with compressed messages: without compression, and with $\gamma = 1$, it is that. With a constant step
it is LEAD from other copies $H^0$, whose dual variable is $D / \eta$. With a schedule they differ: LEAD divides what
it hears by the step of its round, which magnifies the error of compression as the step goes to zero; this one divides
by nothing. The theory of the authors is for unbiased compressors, such as QSGD, with an $\alpha$ below 1 unless they
contract. Top-k serves at $\alpha = 1$ if enough is kept; with few coordinates it may diverge at every $\gamma$. As in
LEAD, $(I - W) \hat Y$ is made of differences, and copies are right only for one symmetric $W$ without losses. One
compressed vector to each neighbour a round. The code that this was read in, of others than the authors, takes one step
of plain SGD before all this, and ours does not.

Reference: K. Huang and S. Pu, "CEDAS: a compressed decentralized stochastic gradient method with improved convergence",
IEEE Transactions on Automatic Control, 2023, arXiv 2301.05872.
"""

from typing import Annotated

from gossamer.core import Agent, Array, Compressor, Mixing, Range, State, StepSize, Value, rule


@rule("cedas", lowest=-1)
class CEDAS:
    """CEDAS: Exact Diffusion with compressed messages."""

    eta: StepSize
    gamma: Mixing
    compressor: Compressor
    alpha: Annotated[Value, Range(0, 1, True, False, grid=(1.0, 0.5, 0.2, 0.1), beyond="low")] = 1.0

    def init(self, x: Array, agent: Agent) -> State:
        _, apart = agent.gossip_copies(0 * x, 0 * x, x)
        return State(x=x, d=0 * x, h=x, apart=apart)

    def step(self, s: State, agent: Agent) -> State:
        x = s.x - self.eta * agent.gradient(s.x)
        q, apart = agent.gossip_copies(s.h, s.apart, x - s.d - s.h, by=self.compressor)
        d = s.d + self.gamma / 2 * apart
        h, apart = s.h + self.alpha * q, s.apart + self.alpha * (apart - s.apart)
        return State(x=x - d, d=d, h=h, apart=apart)
