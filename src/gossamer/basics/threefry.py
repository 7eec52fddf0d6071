r"""Threefry-2x32 written out: the numbers of JAX's own generator, to the bit, in one fused loop.

JAX compiles threefry for CPUs as a rolled loop of five steps, because that compiles fast; each step is some fifteen
kernels and copies, and together they were four in five of the kernels of a round. Written out, XLA fuses all of it.
"""

import math
from typing import Any

import jax.extend.random
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, UInt

from gossamer.basics.cipher import encrypted

Words = UInt[Array, "*shape"]


def _counters(shape: tuple[int, ...]) -> tuple[UInt[Array, ""], Words]:
    size = math.prod(shape)
    if size > 2**32:
        raise NotImplementedError(f"{size:,} random words from one key, but there are 2³² counters")
    return jnp.zeros((), jnp.uint32), jnp.arange(size, dtype=jnp.uint32).reshape(shape)


def _seeded(seed: Array) -> UInt[Array, "2"]:
    wide = jnp.asarray(seed).dtype.itemsize == 8
    high = (seed >> 32).astype(jnp.uint32) if wide else jnp.zeros_like(seed, jnp.uint32)
    return jnp.stack([high, seed.astype(jnp.uint32)])


def _split(key: Array, shape: tuple[int, ...]) -> UInt[Array, "*shape 2"]:
    return jnp.stack(encrypted(key, *_counters(shape)), axis=-1)


def _folded(key: Array, data: Any) -> UInt[Array, "2"]:
    return jnp.stack(encrypted(key, jnp.zeros((), jnp.uint32), jnp.asarray(data).astype(jnp.uint32)))


def _bits(key: Array, width: int, shape: tuple[int, ...]) -> Words:
    a, b = encrypted(key, *_counters(shape))
    if width == 64:
        return (a.astype(jnp.uint64) << np.uint64(32)) | b.astype(jnp.uint64)
    return (a ^ b).astype({8: jnp.uint8, 16: jnp.uint16, 32: jnp.uint32}[width])


THREEFRY = jax.extend.random.define_prng_impl(
    key_shape=(2,), seed=_seeded, split=_split, random_bits=_bits, fold_in=_folded, name="threefry-fused", tag="gsm"
)
"""The implementation, for `jax.random.key` and its kin."""
