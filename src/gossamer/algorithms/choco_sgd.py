r"""CHOCO-SGD, decentralized SGD with compressed messages.

$$ X^{t+1/2} = X^t - \eta g^t, \qquad H^{t+1} = H^t + C ( X^{t+1/2} - H^t ), \qquad
   X^{t+1} = X^{t+1/2} + \gamma (W - I) H^{t+1}, \qquad H^0 = 0 $$

Only the compressed difference to $H$, the copy that everyone holds, travels, so what compression leaves out is sent
later. Each agent keeps the running sum $W H$ in place of a copy for each neighbour, which is right only for one $W$
without losses. With no compression and $\gamma = 1$ it is D-PSGD (adapt then combine). One compressed vector to each
neighbour a round.

Reference: A. Koloskova, S. Stich and M. Jaggi, "Decentralized stochastic optimization and gossip algorithms with
compressed communication", ICML 2019, arXiv 1902.00340.
"""

from gossamer.core import Agent, Array, Compressor, Mixing, State, StepSize, rule


@rule("choco-sgd", static=True)
class ChocoSGD:
    """CHOCO-SGD: D-PSGD with compressed messages."""

    eta: StepSize
    gamma: Mixing
    compressor: Compressor

    def init(self, x: Array, agent: Agent) -> State:
        return State(x=x, h=0 * x, wh=0 * x)

    def step(self, s: State, agent: Agent) -> State:
        x = s.x - self.eta * agent.gradient(s.x)
        q, wq = agent.gossip_compressed(x - s.h, by=self.compressor)
        h, wh = s.h + q, s.wh + wq
        return State(x=x + self.gamma * (wh - h), h=h, wh=wh)

    def restart(self, s: State) -> State:
        return State(x=s.x, h=0 * s.x, wh=0 * s.x)
