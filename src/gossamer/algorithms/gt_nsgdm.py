r"""GT-NSGDm, gradient tracking with normalised steps and momentum.

$$ M^{t+1} = (1-\lambda) M^t + \lambda g(X^t), \qquad V^{t+1} = W ( V^t + M^{t+1} - M^t ), $$

$$ x_i^{t+1} = \sum_j w_{ij} \Bigl( x_j^t - \eta \frac{v_j^{t+1}}{\|v_j^{t+1}\|} \Bigr), \qquad M^0 = V^0 = 0 $$

Every step has the length $\eta$, whatever the noise, which heavy tails ask for; so it settles only as $\eta$ falls, as
by a schedule. Where $v_j = 0$ the agent stays (the authors would divide by zero). On a complete graph it is centralised
momentum SGD with normalised steps, from $m^0 = 0$. With `warm` $= k$ other than 0 it starts from $M^0 = g^0$ and $V^0 =
W^k g^0$, by one query and $k$ messages. Two vectors to each neighbour a round, in two messages: the second needs what
the first gives.

Reference: S. Yu, D. Jakovetić and S. Kar, "Decentralized nonconvex optimization under heavy-tailed noise: normalization
and optimal convergence", 2025, arXiv 2505.03736.
"""

from gossamer.core import Agent, Array, State, StepSize, Warm, Weight, rule


@rule("gt-nsgdm")
class GTNSGDm:
    """GT-NSGDm: gradient tracking with normalised steps."""

    eta: StepSize
    lam: Weight
    warm: Warm = 0

    def init(self, x: Array, agent: Agent) -> State:
        m = agent.gradient(x) if self.warm else 0 * x
        return State(x=x, m=m, v=agent.average(m, self.warm))

    def step(self, s: State, agent: Agent) -> State:
        m = (1 - self.lam) * s.m + self.lam * agent.gradient(s.x)
        v = agent.gossip(s.v + m - s.m)
        length = agent.norm(v)
        return State(x=agent.gossip(s.x - self.eta * v / (length + (length == 0))), m=m, v=v)

    def restart(self, s: State) -> State:
        return State(x=s.x, m=s.m, v=s.m)

    def tracker(self, s: State) -> Array:
        return s.v
