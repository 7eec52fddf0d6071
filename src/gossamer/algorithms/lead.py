r"""LEAD, a primal-dual method with compressed messages.

$$ Y^t = X^t - \eta g^t - \eta D^t, \qquad Q^t = C ( Y^t - H^t ), \qquad \hat Y^t = H^t + Q^t, \qquad
   H^{t+1} = H^t + \alpha Q^t, $$

$$ D^{t+1} = D^t + \frac{\gamma}{2\eta} (I - W) \hat Y^t, \qquad X^{t+1} = X^t - \eta g^t - \eta D^{t+1}, \qquad
   H^0 = D^0 = 0 $$

The dual variable $D$ has mean zero and goes to minus the own gradient of each agent, so heterogeneity costs nothing,
and what is compressed goes to zero as the copies $H$ catch up. Without compression and with $\gamma = 1$ it is Exact
Diffusion, whatever $\alpha$. For compressors that contract, such as top-k, $\alpha = 1$ serves, and less may diverge;
unbiased ones that do not contract need less. The running sum $W H$ is right only for one symmetric $W$ without losses.
One compressed vector to each neighbour a round.

Reference: X. Liu, Y. Li, R. Wang, J. Tang and M. Yan, "Linear convergent decentralized optimization with compression",
ICLR 2021, arXiv 2007.00232.
"""

from typing import Annotated

from gossamer.core import Agent, Array, Compressor, Mixing, Range, State, StepSize, Value, rule


@rule("lead", lowest=-1)
class LEAD:
    """LEAD: a primal-dual method with compressed messages."""

    eta: StepSize
    gamma: Mixing
    compressor: Compressor
    alpha: Annotated[Value, Range(0, 1, True, False, grid=(1.0, 0.5, 0.2, 0.1), beyond="low")] = 1.0

    def init(self, x: Array, agent: Agent) -> State:
        return State(x=x, d=0 * x, h=0 * x, wh=0 * x)

    def step(self, s: State, agent: Agent) -> State:
        x = s.x - self.eta * agent.gradient(s.x)
        q, wq = agent.gossip_compressed(x - self.eta * s.d - s.h, by=self.compressor)
        y, wy = s.h + q, s.wh + wq
        d = s.d + self.gamma / (2 * self.eta) * (y - wy)
        return State(x=x - self.eta * d, d=d, h=s.h + self.alpha * q, wh=s.wh + self.alpha * wq)

    def restart(self, s: State) -> State:
        return State(x=s.x, d=0 * s.x, h=0 * s.x, wh=0 * s.x)
