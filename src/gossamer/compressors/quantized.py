r"""Quantizers: every coordinate is sent, with few bits.

Reference: D. Alistarh et al., "QSGD: communication-efficient SGD via gradient quantization and encoding", 2017,
arXiv 1610.02132; scaled sign: S. P. Karimireddy et al., "Error feedback fixes SignSGD", 2019, arXiv 1901.09847.
"""

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from gossamer.basics.arrays import LARGEST
from gossamer.basics.lazy import Array, jax, jnp
from gossamer.basics.pytrees import pytree
from gossamer.compressors.compressor import Compressor, Errors
from gossamer.core import Range, whole


@pytree
@dataclass(frozen=True)
class ScaledSign(Compressor):
    """The compressor of `scaled_sign`."""

    name: ClassVar[str] = "scaled_sign"

    @property
    def unbiased(self) -> bool:
        return False

    def compress(self, key: Array | None, a: Array) -> Array:
        size = jnp.abs(a).mean()
        return jnp.where(a < 0, -size, size)  # one bit has no third value, so zero counts as positive

    def bits(self, dim: int, itemsize: int) -> float:
        return float(dim + 8 * itemsize)

    def errors(self, dim: int) -> Errors:
        return Errors(1 - 1 / dim)


@pytree
@dataclass(frozen=True)
class QSGD(Compressor):
    """The compressor of `qsgd`."""

    name: ClassVar[str] = "qsgd"
    levels: int = field(metadata={"static": True})
    needs_key: ClassVar[bool] = True

    @property
    def unbiased(self) -> bool:
        return True

    def compress(self, key: Array | None, a: Array) -> Array:
        assert key is not None
        norm = jnp.linalg.norm(a)
        # float32 whatever the run's dtype, so that a float64 run sees the same draws
        chance = jax.random.uniform(key, a.shape, jnp.float32).astype(a.dtype)
        level = jnp.floor(self.levels * jnp.abs(a) / _positive(norm) + chance)
        return jnp.sign(a) * norm * jnp.minimum(level, self.levels) / self.levels

    def bits(self, dim: int, itemsize: int) -> float:
        return float(dim * (1 + math.ceil(math.log2(self.levels + 1))) + 8 * itemsize)

    def errors(self, dim: int) -> Errors:
        return Errors(0.0, variance=min(dim / self.levels**2, math.sqrt(dim) / self.levels))


@pytree
@dataclass(frozen=True)
class RoundLinf(Compressor):
    """The compressor of `round_linf`."""

    name: ClassVar[str] = "round_linf"
    levels: int = field(metadata={"static": True})

    @property
    def unbiased(self) -> bool:
        return False

    def compress(self, key: Array | None, a: Array) -> Array:
        largest = jnp.abs(a).max()
        return jnp.round(self.levels * (a / _positive(largest))) / self.levels * largest

    def bits(self, dim: int, itemsize: int) -> float:
        return float(dim * math.ceil(math.log2(2 * self.levels + 1)) + 8 * itemsize)

    def errors(self, dim: int) -> Errors:
        return Errors((dim - 1) / (4 * self.levels**2 + dim - 1))


@pytree
@dataclass(frozen=True)
class RoundTo(Compressor):
    """The compressor of `round_to`."""

    name: ClassVar[str] = "round_to"
    step: Any

    @property
    def unbiased(self) -> bool:
        return False

    def compress(self, key: Array | None, a: Array) -> Array:
        step = jnp.asarray(self.step, a.dtype)
        return jnp.round(a / step) * step

    def bits(self, dim: int, itemsize: int) -> float:
        return 8.0 * itemsize * dim

    def errors(self, dim: int) -> Errors:
        return Errors(0.0, absolute=dim * float(self.step) ** 2 / 4)


@pytree
@dataclass(frozen=True)
class BF16(Compressor):
    """The compressor of `bf16`."""

    name: ClassVar[str] = "bf16"

    @property
    def unbiased(self) -> bool:
        return False

    def compress(self, key: Array | None, a: Array) -> Array:
        # a plain conversion there and back may be optimised away, and then rounds nothing
        return jax.lax.reduce_precision(a.astype(jnp.float32), exponent_bits=8, mantissa_bits=7).astype(a.dtype)

    def bits(self, dim: int, itemsize: int) -> float:
        return 16.0 * dim

    def errors(self, dim: int) -> Errors:
        return Errors(2.0**-16)


def bf16() -> BF16:
    r"""Every coordinate with 8 significant bits, as bfloat16 has them.

    $$ |C(a)_j - a_j| \le 2^{-8} |a_j|, \qquad \|C(a) - a\|^2 \le 2^{-16} \|a\|^2 $$

    A message is 16 bits for each coordinate. The bound holds for numbers in the range of normal float32, about 1e-38 to
    1e38.
    """
    return BF16()


def scaled_sign() -> ScaledSign:
    r"""The sign of every coordinate, times their mean size.

    $$ C(a) = \frac{\|a\|_1}{d}\, \mathrm{sign}(a), \qquad
       \|C(a) - a\|^2 = \|a\|^2 - \|a\|_1^2 / d \le (1 - 1/d)\, \|a\|^2 $$

    A message is d bits and one number; a zero is sent as positive.
    """
    return ScaledSign()


def qsgd(levels: int) -> QSGD:
    r"""Random rounding to `levels` parts of the norm: unbiased.

    $$ C(a)_j = \|a\|\, \mathrm{sign}(a_j)\, \frac{1}{s} \Big\lfloor \frac{s |a_j|}{\|a\|} + u_j \Big\rfloor,
       \qquad u_j \sim U[0, 1) $$

    With $s$ levels its variance is at most $\min(d/s^2, \sqrt d/s)\, \|a\|^2$. A message is one number and, for
    each coordinate, a sign and a level of $\lceil \log_2(s+1) \rceil$ bits; Elias coding could be shorter.
    """
    return QSGD(whole("qsgd(levels=…)", levels))


def round_linf(levels: int) -> RoundLinf:
    r"""Rounding to the nearest of `levels` parts of the largest coordinate, on each side of zero.

    $$ C(a)_j = \frac{\|a\|_\infty}{s}\, \mathrm{round}\Big(\frac{s\, a_j}{\|a\|_\infty}\Big), \qquad
       \|C(a) - a\|^2 \le \frac{d-1}{4s^2 + d - 1}\, \|a\|^2 $$

    The largest coordinate is exact and no other errs by more than itself or half a part, which gives the bound (it is
    attained, and below $d/4s^2$). A message is one number and $\lceil \log_2(2s+1) \rceil$ bits for each coordinate.
    """
    return RoundLinf(whole("round_linf(levels=…)", levels))


def round_to(step: float) -> RoundTo:
    r"""Rounding to the nearest multiple of a fixed step.

    $$ C(a)_j = \Delta\, \mathrm{round}(a_j / \Delta), \qquad \|C(a) - a\|^2 \le d \Delta^2 / 4 $$

    The multiples have no largest, so that a code of fixed width is no shorter than the numbers: all their bits count.
    """
    allowed = Range(0, LARGEST, True, False, "It is the distance between two numbers that can be sent.")
    return RoundTo(np.asarray(allowed.check("round_to(step=…)", step)))


def _positive(size: Array) -> Array:
    # so that the zero vector stays zero: 0/1, not 0/0
    return jnp.where(size > 0, size, 1)
