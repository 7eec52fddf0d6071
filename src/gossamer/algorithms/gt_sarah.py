r"""GT-SARAH, gradient tracking with full gradients now and then, and recursive ones between them.

$$ V^0 = \nabla f(X^0), \qquad V^{k} = V^{k-1} + g(X^k; \xi^k) - g(X^{k-1}; \xi^k) \ (k = 1, \dots, q), $$

$$ Y^{k+1} = W Y^k + V^k - V^{k-1}, \qquad X^{k+1} = W X^k - \eta Y^{k+1} \ (k = 0, \dots, q) $$

One round is one outer loop: a gradient over all samples that an agent has, then $q$ (`recursions`) estimates, each with
two gradients on one sample, which correct the one before; model and tracker are sent after each. The next round goes on
from $X^{q+1}$, $Y^{q+1}$ and $V^{-1} = V^q$, and the first from $Y^0 = V^{-1} = 0$. The noise of $V$ goes to zero with
the steps, so that with a constant step it reaches a stationary point exactly. Under a biased oracle the full gradient
goes through the same stages. With exact gradients a round is $q + 1$ rounds of GNSD. $q + 1$ messages a round of two
vectors each, $2 q$ queries and one gradient over all samples; on a network that changes all of a round use the weights
of that round. With `warm` $= k$ other than 0 the first round goes on from $V^{-1} = \nabla f(X^0)$ and $Y^0 = W^k
V^{-1}$, by one more gradient over all samples and $k$ messages. One public code takes both gradients of a correction at
the same point, so that nothing is corrected; ours takes them at $X^k$ and $X^{k-1}$, as the equation says.

Reference: R. Xin, U. Khan and S. Kar, "Fast decentralized nonconvex finite-sum optimization with recursive variance
reduction", 2022, arXiv 2008.07428.
"""

from gossamer.core import Agent, Array, Count, State, StepSize, Warm, rule


@rule("gt-sarah")
class GTSARAH:
    """GT-SARAH: recursive variance reduction with full gradients."""

    eta: StepSize
    recursions: Count
    warm: Warm = 0

    def init(self, x: Array, agent: Agent) -> State:
        v = agent.full_gradient(x) if self.warm else 0 * x
        return State(x=x, y=agent.average(v, self.warm), v=v)

    def step(self, s: State, agent: Agent) -> State:
        def move(x: Array, y: Array, change: Array) -> tuple[Array, Array]:
            wx, wy = agent.gossip(x, y)
            y = wy + change
            return wx - self.eta * y, y

        def recur(before: Array, x: Array, y: Array, v: Array) -> tuple[Array, Array, Array, Array]:
            new, old = agent.gradient(x, before)
            return x, *move(x, y, new - old), v + new - old

        v = agent.full_gradient(s.x)
        x, y = move(s.x, s.y, v - s.v)
        _, x, y, v = agent.repeat(self.recursions, recur, s.x, x, y, v)
        return State(x=x, y=y, v=v)

    def restart(self, s: State) -> State:
        return State(x=s.x, y=s.v, v=s.v)

    def tracker(self, s: State) -> Array:
        return s.y
