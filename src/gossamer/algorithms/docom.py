r"""DoCoM, doubly compressed momentum-assisted gradient tracking.

$$ X^{t+1/2} = X^t - \eta Y^t, \qquad H^{t+1} = H^t + C ( X^{t+1/2} - H^t ), \qquad
   X^{t+1} = X^{t+1/2} + \gamma (W - I) H^{t+1}, $$

$$ D^{t+1} = g(X^{t+1}; \xi^{t+1}) + (1-a) \bigl( D^t - g(X^t; \xi^{t+1}) \bigr), $$

$$ Y^{t+1/2} = Y^t + D^{t+1} - D^t, \qquad G^{t+1} = G^t + C ( Y^{t+1/2} - G^t ), \qquad
   Y^{t+1} = Y^{t+1/2} + \gamma (W - I) G^{t+1}, $$

$$ Y^0 = D^0 = g^0, \qquad H^0 = G^0 = 0 $$

GT-HSGD with compressed messages: model and tracker each have a copy that everyone holds, and only compressed
differences to it travel. Without compression and with $\gamma = 1$ it is GT-HSGD from $Y^0 = D^0$. The running sums $W
H$ and $W G$ are right only for one $W$ without losses. Two compressed vectors to each neighbour a round, in two
messages, and two gradients on one sample. What `warm` gossips before round 0 is sent uncompressed.

Reference: C.-Y. Yau and H.-T. Wai, "DoCoM: compressed decentralized optimization with near-optimal sample complexity",
2022, arXiv 2202.00255.
"""

from gossamer.core import Agent, Array, Compressor, Mixing, State, StepSize, Warm, Weight, rule


@rule("docom", static=True, drifts=True)
class DoCoM:
    """DoCoM: variance-reduced tracking with compressed messages."""

    eta: StepSize
    a: Weight
    gamma: Mixing
    compressor: Compressor
    warm: Warm = 0

    def init(self, x: Array, agent: Agent) -> State:
        d = agent.gradient(x)
        return State(x=x, d=d, y=agent.average(d, self.warm), h=0 * x, wh=0 * x, g=0 * x, wg=0 * x)

    def step(self, s: State, agent: Agent) -> State:
        x = s.x - self.eta * s.y
        q, wq = agent.gossip_compressed(x - s.h, by=self.compressor)
        h, wh = s.h + q, s.wh + wq
        x = x + self.gamma * (wh - h)
        new, old = agent.gradient(x, s.x)
        d = new + (1 - self.a) * (s.d - old)
        y = s.y + d - s.d
        q, wq = agent.gossip_compressed(y - s.g, by=self.compressor)
        g, wg = s.g + q, s.wg + wq
        return State(x=x, d=d, y=y + self.gamma * (wg - g), h=h, wh=wh, g=g, wg=wg)

    def restart(self, s: State) -> State:
        return State(x=s.x, d=s.d, y=s.d, h=0 * s.x, wh=0 * s.x, g=0 * s.x, wg=0 * s.x)

    def tracker(self, s: State) -> Array:
        return s.y
