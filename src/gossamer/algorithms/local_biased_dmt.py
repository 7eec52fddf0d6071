r"""Local Biased-DMT, momentum tracking with local steps that are corrected for drift.

$$ X^{t+1} = W X^t - \eta V^t, \qquad c = V^t - M^t, \qquad
   Y^0 = X^{t+1}, \quad Y^{k+1} = Y^k - \eta_l \bigl( \tilde g(Y^k) + c \bigr), $$

$$ Z = \frac1K \sum_{k=0}^{K-1} \tilde g(Y^k), \qquad M^{t+1} = (1-\lambda) M^t + \lambda Z, \qquad
   V^{t+1} = W V^t + M^{t+1} - M^t, \qquad V^0 = M^0 = \tilde g(X^0) $$

Ours, and not in the paper. An agent takes $K$ (`local`) steps of its own, of size $\eta_l$ (`inner`), and $Z$ is the
mean of the gradients that it meets, $(X^{t+1} - Y^K) / (K \eta_l) - c$. Without $c$ every agent would walk towards the
optimum of its own loss, and the mean of what they meet would not vanish at that of $F$: a bias, which tracking does not
remove. With $c$ all walk along what they take for the mean momentum, and at the optimum none moves. So it settles where
Biased-DMT does, for every $K$; with $K = 1$ it is Biased-DMT. A small $\lambda$ keeps a large $K$ stable. Two vectors
to each neighbour a round, in one message, and $K$ queries, each with a sample of its own.

Reference: this software; Q. Xu, Y. Liao, W. Fan, X. You and S. Dian, "Improved convergence for decentralized stochastic
optimization with biased gradients", 2026, arXiv 2604.08236, for Biased-DMT.
"""

from gossamer.core import Agent, Array, Count, LocalStep, State, StepSize, Warm, Weight, rule


@rule("local-biased-dmt")
class LocalBiasedDMT:
    """Local Biased-DMT: momentum tracking with corrected local steps."""

    eta: StepSize
    lam: Weight
    inner: LocalStep
    local: Count
    warm: Warm = 0

    def init(self, x: Array, agent: Agent) -> State:
        g = agent.gradient(x)
        return State(x=x, m=g, v=agent.average(g, self.warm))

    def step(self, s: State, agent: Agent) -> State:
        wx, wv = agent.gossip(s.x, s.v)
        x, c = wx - self.eta * s.v, s.v - s.m

        def walk(y: Array, met: Array) -> tuple[Array, Array]:
            g = agent.gradient(y)
            return y - self.inner * (g + c), met + g

        _, met = agent.repeat(self.local, walk, x, 0 * x)
        m = (1 - self.lam) * s.m + self.lam * (met / self.local)
        return State(x=x, m=m, v=wv + m - s.m)

    def restart(self, s: State) -> State:
        return State(x=s.x, m=s.m, v=s.m)

    def tracker(self, s: State) -> Array:
        return s.v
