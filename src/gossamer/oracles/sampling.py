"""Sources: the exact gradient, and mini-batches of an agent's own samples."""

from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, UInt

from gossamer.basics.keys import draw_once
from gossamer.basics.pytrees import pytree
from gossamer.core import InputError, brief, flag, whole
from gossamer.oracles.constants import ErrorBounds
from gossamer.oracles.oracle import Oracle, Site
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
