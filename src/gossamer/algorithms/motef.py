r"""MoTEF, momentum tracking with error feedback.

$$ X^{t+1} = X^t + \gamma (W - I) H^t - \eta V^t, \qquad H^{t+1} = H^t + C ( X^{t+1} - H^t ), $$

$$ M^{t+1} = (1-\lambda) M^t + \lambda g^{t+1}, \qquad V^{t+1} = V^t + \gamma (W - I) G^t + M^{t+1} - M^t, \qquad
   G^{t+1} = G^t + C ( V^{t+1} - G^t ), $$

$$ V^0 = M^0 = g^0, \qquad H^0 = G^0 = 0 $$

Biased-DMT with compressed messages: model and tracker each have a copy that everyone holds, and only compressed
differences to it travel. Without compression, from $H^0 = X^0$ and $G^0 = V^0$, it is Biased-DMT on $I + \gamma (W -
I)$. In the authors' code for data $M^0$ is zero while $V^0$ is not, so that the mean of $V$ stays apart from that of
$M$; in their code for quadratics it is as here. The running sums $W H$ and $W G$ are right only for one $W$ without
losses. Two compressed vectors to each neighbour a round, in one message. What `warm` gossips before round 0 is sent
uncompressed.

Reference: R. Islamov, Y. Gao and S. Stich, "Towards faster decentralized stochastic optimization with communication
compression", 2024, arXiv 2405.20114.
"""

from gossamer.core import Agent, Array, Compressor, Mixing, State, StepSize, Warm, Weight, rule


@rule("motef", static=True, drifts=True)
class MoTEF:
    """MoTEF: momentum tracking with compressed messages."""

    eta: StepSize
    lam: Weight
    gamma: Mixing
    compressor: Compressor
    warm: Warm = 0

    def init(self, x: Array, agent: Agent) -> State:
        m = agent.gradient(x)
        return State(x=x, m=m, v=agent.average(m, self.warm), h=0 * x, wh=0 * x, g=0 * x, wg=0 * x)

    def step(self, s: State, agent: Agent) -> State:
        x = s.x + self.gamma * (s.wh - s.h) - self.eta * s.v
        m = (1 - self.lam) * s.m + self.lam * agent.gradient(x)
        v = s.v + self.gamma * (s.wg - s.g) + m - s.m
        (qx, wqx), (qv, wqv) = agent.gossip_compressed(x - s.h, v - s.g, by=self.compressor)
        return State(x=x, m=m, v=v, h=s.h + qx, wh=s.wh + wqx, g=s.g + qv, wg=s.wg + wqv)

    def restart(self, s: State) -> State:
        return State(x=s.x, m=s.m, v=s.m, h=0 * s.x, wh=0 * s.x, g=0 * s.x, wg=0 * s.x)

    def tracker(self, s: State) -> Array:
        return s.v
