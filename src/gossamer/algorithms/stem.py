r"""STEM, stochastic two-sided momentum, with a parameter server.

$$ x^{t+1} = x^t - \eta\, \bar d^t, \qquad
   d_i^{t+1} = g_i(x^{t+1}; \xi^{t+1}) + (1-a) \bigl( d_i^t - g_i(x^t; \xi^{t+1}) \bigr),
   \qquad d_i^0 = g_i(x^0; \xi^0) $$

Both gradients of a round are on the same sample, so that their difference corrects the old direction and the noise of
$d$ shrinks with $a$. It is the centralised form of GT-HSGD and GT-STORM; with $a = 1$ it is centralised SGD. No gossip:
one all-reduce and two gradients a round.

Reference: P. Khanduri et al., "STEM: a stochastic two-sided momentum algorithm achieving near-optimal sample and
communication complexities for federated learning", 2021, arXiv 2106.10435.
"""

from gossamer.core import Agent, Array, State, StepSize, Weight, rule


@rule("stem", needs="nothing")
class STEM:
    """STEM: two-sided momentum, with a parameter server."""

    eta: StepSize
    a: Weight

    def init(self, x: Array, agent: Agent) -> State:
        return State(x=x, d=agent.gradient(x))

    def step(self, s: State, agent: Agent) -> State:
        x = s.x - self.eta * agent.mean(s.d)
        new, old = agent.gradient(x, s.x)
        return State(x=x, d=new + (1 - self.a) * (s.d - old))
