r"""CEDAS, compressed exact diffusion with adaptive step sizes.

$$ \psi^t = X^t - \eta g^t, \qquad Q^t = C ( \psi^t - D^t - H^t ), \qquad \hat Y^t = H^t + Q^t, \qquad
   H^{t+1} = H^t + \alpha Q^t, $$

$$ D^{t+1} = D^t + \tfrac{\gamma}{2} (I - W) \hat Y^t, \qquad X^{t+1} = \psi^t - D^{t+1}, \qquad
   H^0 = X^0, \quad D^0 = 0 $$

Exact Diffusion with compressed messages: without compression, and with $\gamma = 1$, it is that. With a constant step
it is LEAD from other copies $H^0$, whose dual variable is $D / \eta$. With a schedule they differ: LEAD divides what
it hears by the step of its round, which magnifies the error of compression as the step goes to zero; this one divides
by nothing. For compressors that contract, such as top-k, $\alpha = 1$ serves; unbiased ones that do not, for which the
theory of the authors is, need less. The running sum $W H$ is right only for one symmetric $W$ without losses. One
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
        return State(x=x, d=0 * x, h=x, wh=agent.gossip(x))

    def step(self, s: State, agent: Agent) -> State:
        x = s.x - self.eta * agent.gradient(s.x)
        q, wq = agent.gossip_compressed(x - s.d - s.h, by=self.compressor)
        d = s.d + self.gamma / 2 * (s.h + q - s.wh - wq)
        return State(x=x - d, d=d, h=s.h + self.alpha * q, wh=s.wh + self.alpha * wq)
