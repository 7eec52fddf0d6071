r"""Decentralized momentum tracking for biased gradients (Biased-DMT).

$$ X^{t+1} = W X^t - \eta V^t, \qquad
   M^{t+1} = (1-\lambda) M^t + \lambda\, \tilde g(X^{t+1}), \qquad
   V^{t+1} = W V^t + M^{t+1} - M^t, \qquad V^0 = M^0 = \tilde g(X^0) $$

If $W$ is doubly stochastic then $\bar v^t = \bar m^t$ for every $t$, so the agents descend along the mean momentum
whatever their own data. With $\lambda = 1$ it is GNSD; in other coordinates it is Momentum Tracking with $\beta = 1 -
\lambda$ and step $\lambda\eta$. Two vectors to each neighbour a round, in one message. With `warm` $= k$ the tracker
starts from $V^0 = W^k M^0$, by $k$ messages of one vector before round 0, and with "mean" from $\bar m^0$: the mean of
$V$ is that of $M$ all the same, and what the agents' first gradients disagree by is gone before the first step.

Reference: Q. Xu, Y. Liao, W. Fan, X. You and S. Dian, "Improved convergence for decentralized stochastic optimization
with biased gradients", 2026, arXiv 2604.08236, Algorithm 1.
"""

from gossamer.core import Agent, Array, MeetingAgent, PostingAgent, State, StepSize, Warm, Weight, rule


@rule("biased-dmt")
class BiasedDMT:
    """Biased-DMT: momentum tracking for biased gradients."""

    eta: StepSize
    lam: Weight
    warm: Warm = 0

    def init(self, x: Array, agent: Agent) -> State:
        g = agent.gradient(x)
        return State(x=x, m=g, v=agent.average(g, self.warm))

    def step(self, s: State, agent: Agent) -> State:
        wx, wv = agent.gossip(s.x, s.v)
        x = wx - self.eta * s.v
        m = (1 - self.lam) * s.m + self.lam * agent.gradient(x)
        return State(x=x, m=m, v=wv + m - s.m)

    def shift(self, s: State, agent: Agent) -> State:
        """Turn the state of `init` into that of `ahead`, whose model is one round on."""
        return State(x=agent.gossip(s.x) - self.eta * s.v, m=s.m, v=s.v)

    def ahead(self, s: State, agent: PostingAgent) -> State:
        """Do `step` in another phase, with the same iterates.

        It holds $X^t, M^{t-1}, V^{t-1}$ and asks for the gradient where it stands, so that what it gossips is known
        before: an engine that can posts the message first, and it travels while the gradient is computed.
        """
        arrived, g = agent.post(s.x, s.v, late=(0, 1)), agent.gradient(s.x)
        m = (1 - self.lam) * s.m + self.lam * g
        wx, wv = arrived()
        v = wv + m - s.m
        return State(x=wx - self.eta * v, m=m, v=v)

    def wake(self, s: State, g: Array, agent: MeetingAgent) -> State:
        r"""Asynchronous Biased-DMT, ours: i wakes with a gradient that it asked for when it woke last, and meets j.

        $$ m' = (1-\lambda) m_i + \lambda g, \quad v' = v_i + m' - m_i, \qquad
           x_i \leftarrow \tfrac12(x_i + x_j) - \eta v', \quad x_j \leftarrow \tfrac12(x_i + x_j), \quad
           v_i, v_j \leftarrow \tfrac12(v' + v_j), \quad m_i \leftarrow m' $$

        The sum of $v$ stays the sum of $m$ whoever is slow, so that its fixed point is that of Biased-DMT.
        """
        m = (1 - self.lam) * s.m + self.lam * g
        v = s.v + m - s.m
        xm, vm = agent.meet(x=s.x, v=v)
        return State(x=xm - self.eta * v, m=m, v=vm)

    def restart(self, s: State) -> State:
        return State(x=s.x, m=s.m, v=s.m)

    def tracker(self, s: State) -> Array:
        return s.v
