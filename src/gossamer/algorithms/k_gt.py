r"""K-GT, gradient tracking with local steps.

$$ Y^0 = X^t, \quad Y^{k+1} = Y^k - \eta_l \bigl( g(Y^k) + c^t \bigr), \qquad
   Z^t = c^t + \frac1K \sum_{k=0}^{K-1} g(Y^k), $$

$$ X^{t+1} = W ( X^t - \eta Z^t ), \qquad c^{t+1} = c^t - Z^t + W Z^t, \qquad c^0 = \bar g^0 - g^0 $$

The correction $c$ has mean zero and turns every agent's $K$ (`local`) steps, of size $\eta_l$ (`inner`), towards the
mean gradient; $Z^t$ is $(X^t - Y^K) / (K \eta_l)$. The authors write $K \eta_s \eta_l$ for our $\eta$, with a
communication step $\eta_s$ that is a number of its own; code of others starts from $c^0 = 0$, which is `warm` $= 0$;
`warm` $= k$ starts from $W^k g^0 - g^0$, by $k$ messages of one vector. With $K = 1$ and $c^0 = 0$ it is DSGT. The
start takes one query and one all-reduce, and with `warm` $= 0$ neither. Two vectors to each neighbour a round, in one
message, and $K$ queries, each with a sample of its own.

Reference: Y. Liu, T. Lin, A. Koloskova and S. Stich, "Decentralized gradient tracking with local steps", 2023, arXiv
2301.01313.
"""

from gossamer.core import Agent, Array, Count, LocalStep, State, StepSize, Warm, rule


@rule("k-gt")
class KGT:
    """K-GT: gradient tracking with local steps."""

    eta: StepSize
    inner: LocalStep
    local: Count
    warm: Warm = "mean"

    def init(self, x: Array, agent: Agent) -> State:
        if not self.warm:
            return State(x=x, c=0 * x)
        g = agent.gradient(x)
        return State(x=x, c=agent.average(g, self.warm) - g)

    def step(self, s: State, agent: Agent) -> State:
        def walk(y: Array, met: Array) -> tuple[Array, Array]:
            g = agent.gradient(y)
            return y - self.inner * (g + s.c), met + g

        _, met = agent.repeat(self.local, walk, s.x, 0 * s.x)
        z = s.c + met / self.local
        x, wz = agent.gossip(s.x - self.eta * z, z)
        return State(x=x, c=s.c - z + wz)

    def restart(self, s: State) -> State:
        return State(x=s.x, c=0 * s.c)
