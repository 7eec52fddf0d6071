"""Keys of random draws, and Threefry-2x32 written out for them.

A key is the end of a path of numbers that are folded in, one after the other, from a root. Different paths have
different keys (but for a chance of 2⁻⁶⁴ a pair), so the path of a draw names all that distinguishes it:

    root          its domain and the seed: a run has domain 0, a network 1, a measurement of an oracle 2
    a run         once, or every round; then the agent
      once        the stage: 0 is the source, 1 the innermost stage, …; 2²⁰ is the agent's own start
      a round     0 is the start, t + 1 round t; this is the key of the agent's round, and below it are
                    itself         the first query
                    2²¹ + q        the query q = 1, 2, …
                    2²⁰ + k        the k-th array that is sent compressed, from 0
                  and below every query's key
                    0, 1, 2, …     the stage, as above; below the key of local training
                      1, 2, …      its steps after the first: each is the key of a query of what it stands around
    a network     the round; then, for faults, 2²⁰ + how deep they lie; then the pair of agents
    a measurement the agent, the point, how often it was asked there; then as below a query's key

Since the first query's key is that of the round, stages, compressed arrays and further queries share one row of
numbers, and each has its own part of it. `minibatch` takes its random words from the query's key itself, which saves a
fold for each agent and round: no other draw takes that key. `private` draws its rows as
the source, 0, and its noise as the stage, 1. Local training draws nothing itself: its first step asks with the key of
the query, as if it were not there. All points of one query share its sample, so they share its keys; a network's draws
of a round are the same for all that is gossiped in it, and for all runs.

Random words are those of JAX's own generator, to the bit. JAX compiles Threefry for CPUs as a rolled loop of five
steps, because that compiles fast; each step is some fifteen kernels and copies, and together they were four in five of
the kernels of a round. Written out, XLA fuses all of them.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import jax
import jax.extend.random
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key, UInt

from gossamer.basics.cipher import RUN, encrypt
from gossamer.core import InputError

T = TypeVar("T")

ARRAYS = 1 << 20
"""The first number of compressed arrays below the key of a round; before it are the stages."""

QUERIES = 1 << 21
"""The first number of queries after the first one."""

Words = UInt[Array, "*shape"]


def _counters(shape: tuple[int, ...]) -> tuple[UInt[Array, ""], Words]:
    size = math.prod(shape)
    if size > 2**32:
        raise NotImplementedError(f"{size:,} random words from one key, but there are 2³² counters")
    return jnp.zeros((), jnp.uint32), jnp.arange(size, dtype=jnp.uint32).reshape(shape)


def _seed(seed: Array) -> UInt[Array, "2"]:
    wide = jnp.asarray(seed).dtype.itemsize == 8
    high = (seed >> 32).astype(jnp.uint32) if wide else jnp.zeros_like(seed, jnp.uint32)
    return jnp.stack([high, seed.astype(jnp.uint32)])


def _split(key: Array, shape: tuple[int, ...]) -> UInt[Array, "*shape 2"]:
    return jnp.stack(encrypt(key, *_counters(shape)), axis=-1)


def _fold_in(key: Array, data: Any) -> UInt[Array, "2"]:
    return jnp.stack(encrypt(key, jnp.zeros((), jnp.uint32), jnp.asarray(data).astype(jnp.uint32)))


def _bits(key: Array, width: int, shape: tuple[int, ...]) -> Words:
    a, b = encrypt(key, *_counters(shape))
    if width == 64:
        return (a.astype(jnp.uint64) << np.uint64(32)) | b.astype(jnp.uint64)
    return (a ^ b).astype({8: jnp.uint8, 16: jnp.uint16, 32: jnp.uint32}[width])


THREEFRY = jax.extend.random.define_prng_impl(
    key_shape=(2,), seed=_seed, split=_split, random_bits=_bits, fold_in=_fold_in, name="threefry-fused", tag="gsm"
)
"""The implementation, for `jax.random.key` and its kin."""


def root(domain: int, seed: Any) -> Key[Array, ""]:
    """Return the key of all draws of a domain with a seed of 32 bits; that of a run is ``jax.random.key(seed)``."""
    words = jnp.stack([jnp.uint32(domain), jnp.asarray(seed).astype(jnp.uint32)])
    return jax.random.wrap_key_data(words, impl=THREEFRY)


Keys = Key[Array, "seeds 2 agents"]


def keys_of(seeds: Any, agents: int, *, using: Any = np) -> Keys:
    """Return for each seed and agent the key of what is drawn once and the key of what is drawn every round.

    NumPy makes them, which takes less time than to compile a program; in one, give ``using=jax.numpy``.
    """
    zero, counters = np.zeros(1, np.uint32), partial(using.arange, dtype=np.uint32)
    high, low = encrypt((zero + np.uint32(RUN), using.asarray(seeds, np.uint32)[:, None]), zero, counters(2))
    words = encrypt((high[..., None], low[..., None]), zero, counters(agents))
    words = using.stack(words, axis=-1)
    return jax.random.wrap_key_data(jax.device_put(words) if using is np else words, impl=THREEFRY)


def of_round(key: Key[Array, ""], number: Any) -> Key[Array, ""]:
    """Return the key of an agent's round, from the key of all its rounds: number 0 is the start, t + 1 is round t."""
    return jax.random.fold_in(key, number)


def of_query(key: Key[Array, ""], query: Any) -> Key[Array, ""]:
    """Return the key of a query, counted from 0, from the key of the round; a traced number is never 0."""
    if isinstance(query, jax.Array):
        return jax.random.fold_in(key, QUERIES + query)
    return jax.random.fold_in(key, _number("queries", query, QUERIES, 1 << 32)) if query else key


def of_array(key: Key[Array, ""], number: Any) -> Key[Array, ""]:
    """Return the key of a compressed array, counted from 0, from the key of the round."""
    if isinstance(number, jax.Array):
        return jax.random.fold_in(key, ARRAYS + number)
    return jax.random.fold_in(key, _number("compressed arrays", number, ARRAYS, QUERIES))


def of_stage(key: Key[Array, ""], depth: int) -> Key[Array, ""]:
    """Return the key of a stage's own draws, from the key of the query, or of what is drawn once."""
    return jax.random.fold_in(key, _number("stages", depth, 0, ARRAYS))


def of_start(key: Key[Array, ""]) -> Key[Array, ""]:
    """Return the key of an agent's own start, from the key of what is drawn once."""
    return jax.random.fold_in(key, ARRAYS)


def of_step(key: Key[Array, ""], number: Any) -> Key[Array, ""]:
    """Return the key with which a later step of local training asks, counted from 1, from the key of that stage."""
    return jax.random.fold_in(key, number)


def draw_once(t: Any, draw: Callable[[], T]) -> T:
    """Return what `draw()` draws in round t, with random words that are made once.

    XLA takes integer arithmetic for cheap, and would make random words anew in every kernel that reads them: for every
    column of a row that they choose. But XLA does not look into the branches of a `cond`, nor know the sign of a round.
    """
    blank = jax.tree.map(lambda like: jnp.zeros(like.shape, like.dtype), jax.eval_shape(draw))
    return jax.lax.cond(t >= 0, draw, lambda: blank)


def _number(what: str, number: int, first: int, end: int) -> int:
    """Return the number to fold in for the `number`-th of these, which have the numbers from `first` to `end` − 1."""
    if first + number >= end:
        raise InputError(f"there are keys for {end - first:,} {what}, but number {number:,} was asked for.")
    return first + number
