r"""LEAD, a primal-dual method with compressed messages.

$$ Y^t = X^t - \eta g^t - \eta D^t, \qquad Q^t = C ( Y^t - H^t ), \qquad \hat Y^t = H^t + Q^t, \qquad
   H^{t+1} = H^t + \alpha Q^t, $$

$$ D^{t+1} = D^t + \frac{\gamma}{2\eta} (I - W) \hat Y^t, \qquad X^{t+1} = X^t - \eta g^t - \eta D^{t+1}, \qquad
   H^0 = D^0 = 0 $$

The dual variable $D$ has mean zero and goes to minus the own gradient of each agent, so heterogeneity costs nothing,
and what is compressed goes to zero as the copies $H$ catch up. Without compression and with $\gamma = 1$ it is Exact
Diffusion, whatever $\alpha$. Its theory is for unbiased compressors, such as QSGD, which need an $\alpha$ below 1 if
they do not contract. For those that contract, such as top-k, $\alpha = 1$ serves if enough is kept, and less may
diverge; with few coordinates it may diverge at every $\gamma$. $D$ adds up $(I - W) \hat Y$, which is made of the
differences $\hat Y_i - \hat Y_j$: with the rounding of $\hat Y$ itself the mean of $D$ would drift in float32. Copies
are right only for one symmetric $W$ without losses. One compressed vector to each neighbour a round.

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
        return State(x=x, d=0 * x, h=0 * x, apart=0 * x)

    def step(self, s: State, agent: Agent) -> State:
        x = s.x - self.eta * agent.gradient(s.x)
        q, apart = agent.gossip_copies(s.h, s.apart, x - self.eta * s.d - s.h, by=self.compressor)
        d = s.d + self.gamma / (2 * self.eta) * apart
        h, apart = s.h + self.alpha * q, s.apart + self.alpha * (apart - s.apart)
        return State(x=x - self.eta * d, d=d, h=h, apart=apart)

    def restart(self, s: State) -> State:
        return State(x=s.x, d=0 * s.x, h=0 * s.x, apart=0 * s.x)
