r"""GT-SVRG, gradient tracking with gradients that are corrected by those at a snapshot.

$$ V^0 = \nabla f(X^0), \qquad V^k = g(X^k; \xi^k) - g(X^0; \xi^k) + \nabla f(X^0) \ (k = 1, \dots, q), $$

$$ Y^{k+1} = W Y^k + V^k - V^{k-1}, \qquad X^{k+1} = W X^k - \eta Y^{k+1} \ (k = 0, \dots, q) $$

One round is one snapshot $X^0$: a gradient over all samples that an agent has, then $q$ (`corrections`) estimates, each
with two gradients on one sample; model and tracker are sent after each. The next round goes on from $X^{q+1}$,
$Y^{q+1}$ and $V^{-1} = V^q$, and the first from $Y^0 = V^{-1} = 0$. Where GT-SARAH corrects its last estimate, this one
corrects the full gradient, so that every estimate is unbiased and errors do not add up within a round. The noise of $V$
goes to zero with the steps. Under a biased oracle the full gradient goes through the same stages. With exact gradients
a round is $q + 1$ rounds of GNSD. $q + 1$ messages a round of two vectors each, $2 q$ queries and one gradient over all
samples; on a network that changes all of a round use the weights of that round. With `warm` $= k$ other than 0 the
first round goes on from $V^{-1} = \nabla f(X^0)$ and $Y^0 = W^k V^{-1}$, by one more gradient over all samples and $k$
messages.

No code of the authors is public that we know of. The estimate is as in public code of GT-VR, in which each agent takes
a new snapshot with some probability in each step and which adapts before it combines; here all take it after $q$ steps
and combine first, as in GT-SARAH. GT-SAGA, which the same paper proposes, keeps a table of each sample's gradient: it
is `gnsd` with the oracle `saga`, and public code of it, which adapts before it combines, is `gt-dsgd` with that.

Reference: R. Xin, U. Khan and S. Kar, "Variance-reduced decentralized stochastic optimization with accelerated
convergence", 2020, arXiv 1912.04230.
"""

from gossamer.core import Agent, Array, Count, State, StepSize, Warm, rule


@rule("gt-svrg")
class GTSVRG:
    """GT-SVRG: gradients corrected by those at a snapshot."""

    eta: StepSize
    corrections: Count
    warm: Warm = 0

    def init(self, x: Array, agent: Agent) -> State:
        v = agent.full_gradient(x) if self.warm else 0 * x
        return State(x=x, y=agent.average(v, self.warm), v=v)

    def step(self, s: State, agent: Agent) -> State:
        full = agent.full_gradient(s.x)

        def move(x: Array, y: Array, v: Array, old: Array) -> tuple[Array, Array, Array]:
            wx, wy = agent.gossip(x, y)
            y = wy + v - old
            return wx - self.eta * y, y, v

        def correct(x: Array, y: Array, v: Array) -> tuple[Array, Array, Array]:
            here, there = agent.gradient(x, s.x)
            return move(x, y, here - there + full, v)

        x, y, v = agent.repeat(self.corrections, correct, *move(s.x, s.y, full, s.v))
        return State(x=x, y=y, v=v)

    def tracker(self, s: State) -> Array:
        return s.y

    def restart(self, s: State) -> State:
        return State(x=s.x, y=s.v, v=s.v)
