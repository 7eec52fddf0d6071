r"""Biased-DMT on directed graphs, by push-sum.

$$ U^{t+1} = C U^t - \eta V^t, \qquad w^{t+1} = C w^t, \qquad X^{t+1} = U^{t+1} / w^{t+1}, $$

$$ M^{t+1} = (1-\lambda) M^t + \lambda\, \tilde g(X^{t+1}), \qquad
   V^{t+1} = C V^t + M^{t+1} - M^t, \qquad V^0 = M^0 = \tilde g(X^0), \quad w^0 = \mathbf 1 $$

Algorithm 1 of the Biased-DMT paper on directed graphs that may change, which that paper leaves to the future, with
column-stochastic weights alone; $\bar v^t = \bar m^t$ for every $t$. It settles where Biased-DMT does, at $\nabla F =
-\bar e$; with doubly stochastic weights it is Biased-DMT. Two vectors and one number to each neighbour a round, in one
message. With `warm` $= k$ the tracker starts from $C^k M^0$, which keeps the sum; an all-reduce is not offered, since
$C$ takes trackers to the shares of the sum that the network gives each agent, and not to the mean.

Reference: this software; after A. Nedić et al., "Achieving geometric convergence for distributed optimization over
time-varying graphs", 2017, arXiv 1607.03218, and the paper of Biased-DMT, arXiv 2604.08236.
"""

from gossamer.core import Agent, Array, PushedWarm, State, StepSize, Weight, rule


@rule("push-diging-dmt", needs="column", decays=("u",))
class PushDIGingDMT:
    """Biased-DMT on directed graphs, by push-sum."""

    eta: StepSize
    lam: Weight
    warm: PushedWarm = 0

    def init(self, x: Array, agent: Agent) -> State:
        g = agent.gradient(x)
        return State(x=x, u=x, w=agent.ones(), m=g, v=agent.average(g, self.warm, over="C"))

    def step(self, s: State, agent: Agent) -> State:
        cu, w, cv = agent.gossip(s.u, s.w, s.v, over="C")
        u = cu - self.eta * s.v
        x = u / w
        m = (1 - self.lam) * s.m + self.lam * agent.gradient(x)
        return State(x=x, u=u, w=w, m=m, v=cv + m - s.m)

    def restart(self, s: State) -> State:
        return State(x=s.x, u=s.x, w=0 * s.w + 1, m=s.m, v=s.m)

    def tracker(self, s: State) -> Array:
        return s.v
