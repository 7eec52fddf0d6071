r"""Mini-batches corrected by a table of each sample's last gradient.

$$ \tilde g_i(x) = \frac1b \sum_{j \in S} \bigl( g_{ij}(x) - T_{ij} \bigr) + \frac{1}{m_i} \sum_{j=1}^{m_i} T_{ij},
   \qquad T_{ij} \leftarrow g_{ij}(x) \ (j \in S), \qquad T^0 = 0 $$

References: A. Defazio, F. Bach and S. Lacoste-Julien, "SAGA: a fast incremental gradient method with support for
non-strongly convex composite objectives", 2014, arXiv 1407.0202; R. Xin, U. Khan and S. Kar, "Variance-reduced
decentralized stochastic optimization with accelerated convergence", 2020, arXiv 1912.04230, for GT-SAGA.
"""

import dataclasses
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from gossamer.basics.pytrees import pytree
from gossamer.core import InputError
from gossamer.oracles.constants import ErrorBounds
from gossamer.oracles.oracle import Oracle, Site, Stage
from gossamer.oracles.sampling import MiniBatch
from gossamer.problems import Empirical, Problem


@pytree
@dataclass(frozen=True)
class Saga(Stage):
    """The stage of `saga`. The stage stands around a mini-batch, whose rows it takes one by one."""

    inner: Oracle | None = None

    def around(self, source: Oracle) -> Stage:
        if not isinstance(source, MiniBatch):
            raise InputError(
                f"saga keeps the last gradient of each sample, so that it cannot stand around {type(source).__name__}: "
                "begin with oracles.minibatch(…), `batch` in a spec, and put other stages behind it."
            )
        return dataclasses.replace(self, inner=source)

    @property
    def batches(self) -> MiniBatch:
        """Return the mini-batches that this stage stands around."""
        assert isinstance(self.source, MiniBatch)
        return self.source

    def init(self, site: Site) -> Any:
        assert isinstance(site.problem, Empirical)
        start = jnp.zeros_like(site.problem.start)
        table = jnp.zeros((site.problem.longest, *start.shape), start.dtype)
        return {"inner": self.source.init(site), "table": table, "mean": start}

    def query(self, site: Site, state: Any, points: tuple[Array, ...]) -> tuple[tuple[Array, ...], Any]:
        assert isinstance(site.problem, Empirical)
        problem, table, mean = site.problem, state["table"], state["mean"]
        rows, inner = self.batches.draw(site, state["inner"])
        found = [jax.vmap(lambda row, x=x: problem.batch_gradient(site.agent, row[None], x))(rows) for x in points]
        gradients = tuple((each - table[rows]).mean(0) + mean for each in found)
        if found:  # of several points on one sample, the table takes the gradient at the first
            again = jnp.tril(rows[:, None] == rows, -1).any(1)  # a row that was drawn twice changes the mean once
            change = jnp.where(again[:, None], 0, found[0] - table[rows])
            mean = mean + change.sum(0) / problem.sizes[site.agent].astype(mean.dtype)
            table = table.at[rows].set(found[0])
        return gradients, {"inner": inner, "table": table, "mean": mean}

    def bias(self, site: Site, state: Any) -> Array | None:
        return self.source.bias(site, state["inner"])

    def full(self) -> Oracle:
        return self.source.full()  # Exact, which hands on the table as it is

    def constants(self, problem: Problem) -> ErrorBounds:
        inner = self.source.constants(problem)
        note = "The variance of saga goes to zero where the points come to rest: measure it along a path."
        return ErrorBounds(inner.relative, inner.absolute, inner.variance, inner.add_notes(note))


def saga() -> Saga:
    r"""Mini-batches corrected by each sample's last gradient: the noise goes to zero where points come to rest.

    $$ \tilde g_i(x) = \frac1b \sum_{j \in S} \bigl( g_{ij}(x) - T_{ij} \bigr) + \frac{1}{m_i} \sum_j T_{ij} $$

    It stands around `minibatch` and draws what that draws. Where all $m_i$ samples of an agent were drawn once, the
    mean of the table $T$ is a full gradient, though each sample's is of another time; before, it is as good as the
    mini-batch alone. Given the past it is unbiased. With `gnsd` it is GT-SAGA, and with `gt-dsgd` GT-SAGA that adapts
    before it combines; the authors fill the table at the start, which costs a pass over all samples, and ours begins
    with zeros. It holds as many gradients as there are samples, so it is for models with few parameters.
    """
    return Saga()
