r"""BEER, gradient tracking with compressed messages.

$$ X^{t+1} = X^t + \gamma (W - I) H^t - \eta V^t, \qquad H^{t+1} = H^t + C ( X^{t+1} - H^t ), $$

$$ V^{t+1} = V^t + \gamma (W - I) G^t + g^{t+1} - g^t, \qquad G^{t+1} = G^t + C ( V^{t+1} - G^t ), \qquad
   V^0 = g^0, \quad H^0 = G^0 = 0 $$

MoTEF without momentum, $\lambda = 1$; without compression as well, and with $\gamma = 1$, it is GNSD. The running sums
$W H$ and $W G$ are right only for one $W$ without losses. Two compressed vectors to each neighbour a round, in one
message. What `warm` gossips before round 0 is sent uncompressed.

PORTER (arXiv 2305.09896), which clips gradients before or after they are averaged, is not here by name: neither code
nor text of its recursion was found. This rule with the oracle `private`, which clips before and adds noise, or with
`clip`, which clips after, is the nearest to its abstract.

Reference: H. Zhao et al., "BEER: fast O(1/T) rate for decentralized nonconvex optimization with communication
compression", NeurIPS 2022, arXiv 2201.13320.
"""

from gossamer.core import Agent, Array, Compressor, Mixing, State, StepSize, Warm, rule


@rule("beer", static=True, drifts=True)
class BEER:
    """BEER: gradient tracking with compressed messages."""

    eta: StepSize
    gamma: Mixing
    compressor: Compressor
    warm: Warm = 0

    def init(self, x: Array, agent: Agent) -> State:
        d = agent.gradient(x)
        return State(x=x, d=d, v=agent.average(d, self.warm), h=0 * x, wh=0 * x, g=0 * x, wg=0 * x)

    def step(self, s: State, agent: Agent) -> State:
        x = s.x + self.gamma * (s.wh - s.h) - self.eta * s.v
        d = agent.gradient(x)
        v = s.v + self.gamma * (s.wg - s.g) + d - s.d
        (qx, wqx), (qv, wqv) = agent.gossip_compressed(x - s.h, v - s.g, by=self.compressor)
        return State(x=x, d=d, v=v, h=s.h + qx, wh=s.wh + wqx, g=s.g + qv, wg=s.wg + wqv)

    def restart(self, s: State) -> State:
        return State(x=s.x, d=s.d, v=s.d, h=0 * s.x, wh=0 * s.x, g=0 * s.x, wg=0 * s.x)

    def tracker(self, s: State) -> Array:
        return s.v
