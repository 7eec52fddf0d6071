r"""Biased-DMT, adapt then combine.

$$ X^{t+1} = W ( X^t - \eta V^t ), \qquad
   M^{t+1} = (1-\lambda) M^t + \lambda\, \tilde g(X^{t+1}), \qquad
   V^{t+1} = W ( V^t + M^{t+1} - M^t ), \qquad M^0 = \tilde g(X^0), \quad V^0 = W M^0 $$

Not in the paper: its Algorithm 1 with both vectors adapted before they combine, as GT-DSGD relates to GNSD. With
$\lambda = 1$ it is GT-DSGD, and on a complete graph it is centralised momentum SGD, which Algorithm 1 is not. Two
vectors to each neighbour a round, in two messages: the second needs the gradient at the point that the first gives.

Reference: Q. Xu, Y. Liao, W. Fan, X. You and S. Dian, "Improved convergence for decentralized stochastic optimization
with biased gradients", 2026, arXiv 2604.08236, for the form that combines first.
"""

from gossamer.core import Agent, Array, State, StepSize, Warm, Weight, rule


@rule("biased-dmt-atc")
class BiasedDMTATC:
    """Biased-DMT, adapt then combine."""

    eta: StepSize
    lam: Weight
    warm: Warm = 0

    def init(self, x: Array, agent: Agent) -> State:
        g = agent.gradient(x)
        return State(x=x, m=g, v=agent.average(agent.gossip(g), self.warm))

    def step(self, s: State, agent: Agent) -> State:
        x = agent.gossip(s.x - self.eta * s.v)
        m = (1 - self.lam) * s.m + self.lam * agent.gradient(x)
        return State(x=x, m=m, v=agent.gossip(s.v + m - s.m))

    def restart(self, s: State) -> State:
        return State(x=s.x, m=s.m, v=s.m)

    def tracker(self, s: State) -> Array:
        return s.v
