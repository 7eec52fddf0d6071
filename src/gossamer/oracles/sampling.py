"""Sources: the exact gradient, mini-batches of an agent's own samples, and SAGA's correction of them.

References of SAGA: A. Defazio, F. Bach and S. Lacoste-Julien, "SAGA: a fast incremental gradient method with support
for non-strongly convex composite objectives", 2014, arXiv 1407.0202; R. Xin, U. Khan and S. Kar, "Variance-reduced
decentralized stochastic optimization with accelerated convergence", 2020, arXiv 1912.04230, for GT-SAGA.
"""

from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, UInt

from gossamer.basics.keys import draw_once
from gossamer.basics.pytrees import pytree
from gossamer.core import InputError, brief, flag, whole
from gossamer.oracles.constants import ErrorBounds
from gossamer.oracles.oracle import Oracle, Site, Stage
from gossamer.problems import Empirical, Problem


@pytree
@dataclass(frozen=True)
class Exact(Oracle):
    """The source of `exact`."""

    def check(self, problem: Problem) -> None:
        pass

    def query(self, site: Site, state: Any, points: tuple[Array, ...]) -> tuple[tuple[Array, ...], Any]:
        return tuple(site.problem.local_gradient(site.agent, x) for x in points), state

    def value(self, site: Site, state: Any, points: tuple[Array, ...]) -> tuple[Array, ...]:
        return tuple(site.problem.local_loss(site.agent, x) for x in points)

    def bias(self, site: Site, state: Any) -> Array:
        return jnp.zeros_like(site.problem.start)

    def constants(self, problem: Problem) -> ErrorBounds:
        return ErrorBounds(0.0, 0.0, 0.0)

    def full(self) -> Oracle:
        return self


@pytree
@dataclass(frozen=True)
class MiniBatch(Oracle):
    """The source of `minibatch`."""

    batch: int = field(metadata={"static": True})
    replace: bool = field(metadata={"static": True})

    def check(self, problem: Problem) -> None:
        if not isinstance(problem, Empirical):
            raise InputError(
                f"minibatch({self.batch}) needs a problem made of samples, but {type(problem).__name__} has none. "
                "Use oracles.exact(), with a stage behind it for noise."
            )
        least = int(np.argmin(problem.sizes))
        if not self.replace and self.batch > problem.sizes[least]:
            raise InputError(
                f"minibatch({self.batch}, replace=False) is larger than all {problem.sizes[least]} samples of agent "
                f"{least}. Take a batch of at most {problem.sizes[least]}, or replace=True."
            )

    def init(self, site: Site) -> Any:
        if self.replace:
            return ()
        return {"order": jnp.arange(_samples(site).longest, dtype=jnp.int32), "next": jnp.int32(0)}

    def query(self, site: Site, state: Any, points: tuple[Array, ...]) -> tuple[tuple[Array, ...], Any]:
        rows, state = self.draw(site, state)
        return tuple(_samples(site).batch_gradient(site.agent, rows, x) for x in points), state

    def value(self, site: Site, state: Any, points: tuple[Array, ...]) -> tuple[Array, ...]:
        rows, _ = self.draw(site, state)
        return tuple(_samples(site).batch_loss(site.agent, rows, x) for x in points)

    def bias(self, site: Site, state: Any) -> Array:
        return jnp.zeros_like(site.problem.start)

    def constants(self, problem: Problem) -> ErrorBounds:
        if self.replace:
            note = "The variance of a mini-batch has no bound in closed form: measure it."
            return ErrorBounds(0.0, 0.0, None, note)
        if isinstance(problem, Empirical) and (problem.sizes == self.batch).all():
            return ErrorBounds(0.0, 0.0, 0.0)
        note = "Given what was already drawn in an epoch, a batch is biased, with no bound in closed form: measure it."
        return ErrorBounds(None, None, None, note)

    def full(self) -> Oracle:
        return exact()  # Exact hands on the state of an epoch as it is

    def passes(self, problem: Problem) -> float:
        assert isinstance(problem, Empirical)
        return float(np.mean(problem.sizes) / self.batch)

    def draw(self, site: Site, state: Any) -> tuple[Int[Array, " batch"], Any]:
        """Return the rows of a batch, counted from the agent's first, and the next state."""
        size = _samples(site).sizes[site.agent]
        # straight from the query's key, which no other draw takes: a fold for each agent and round is saved
        bits = draw_once(site.round, lambda: jax.random.bits(site.key, (self.batch,), jnp.uint32))
        if self.replace:
            return below(bits, size), state

        # Fisher and Yates's shuffle, as many swaps a query as the batch is large: at every place p one of the rows
        # that were not dealt in this epoch, each with the same chance
        def swap(k: Array, carry: Any) -> Any:
            order, place, rows = carry
            other = place + below(bits[k], size - place)
            row = order[other]
            order = order.at[other].set(order[place]).at[place].set(row)
            return order, jnp.where(place + 1 == size, 0, place + 1), rows.at[k].set(row)

        first = (state["order"], state["next"], jnp.zeros(bits.shape, jnp.int32))
        order, place, rows = jax.lax.fori_loop(0, self.batch, swap, first)
        return rows, {"order": order, "next": place}


def exact() -> Exact:
    """The full gradient of an agent's own loss."""
    return Exact()


def minibatch(batch: int, *, replace: bool = True) -> MiniBatch:
    """The mean gradient of `batch` samples that the agent draws from its own at every query.

    With ``replace=False`` it goes through all its samples in a random order before it draws any again (epochs); a batch
    at the end of an epoch takes its rest from the next. Averaged over an epoch it is unbiased; given what was already
    drawn in an epoch, a single batch is not.
    """
    return MiniBatch(whole("minibatch(batch=…)", batch), flag("minibatch(replace=…)", replace))


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
        return replace(self, inner=source)

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


def completed(oracle: Oracle | None) -> Oracle:
    """Return the oracle with a source: a stage alone is put around the exact gradient, and None becomes that."""
    if oracle is None:
        return exact()
    if not isinstance(oracle, Oracle):
        raise InputError(f"the oracle must be made by gossamer.oracles, but is {brief(oracle)}.")
    return oracle if oracle.rooted else exact() | oracle


def below(bits: UInt[Array, "*k"], size: Array) -> Int[Array, "*k"]:
    """Return uniform integers in [0, size) from 32 random bits each: the high word of bits · size.

    One draw costs one word and no division; a value's probability is off by at most 2⁻³². The product is made of 16-bit
    halves, because 64-bit integers are off unless x64 is on.
    """
    size = size.astype(jnp.uint32)
    high, low = bits >> 16, bits & 0xFFFF
    size_high, size_low = size >> 16, size & 0xFFFF
    middle = high * size_low + ((low * size_low) >> 16)
    carry = (middle & 0xFFFF) + low * size_high
    return (high * size_high + (middle >> 16) + (carry >> 16)).astype(jnp.int32)


def _samples(site: Site) -> Empirical:
    assert isinstance(site.problem, Empirical)
    return site.problem
