r"""Sparse compressors: some coordinates are sent and the others are taken for zero.

$$ C(a) = \sum_{j \in S} a_j e_j, \qquad |S| = k $$

Reference: S. Stich, J.-B. Cordonnier and M. Jaggi, "Sparsified SGD with memory", 2018, arXiv 1809.07599.
"""

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar

from gossamer.basics.lazy import Array, jax, jnp
from gossamer.basics.pytrees import pytree
from gossamer.compressors.compressor import Compressor, Errors
from gossamer.core import InputError, Range, brief, flag, whole

SMALLEST_NORMAL = 1 << 23
"""The bits of the smallest float32 that a processor does not take for zero."""

SEED_BITS = 32
"""The length of the seed from which a receiver draws the coordinates again."""


@pytree
@dataclass(frozen=True)
class Identity(Compressor):
    """The compressor of `identity`."""

    name: ClassVar[str] = "identity"

    @property
    def unbiased(self) -> bool:
        return True

    def compress(self, key: Array | None, a: Array) -> Array:
        return a

    def bits(self, dim: int, itemsize: int) -> float:
        return 8.0 * itemsize * dim

    def errors(self, dim: int) -> Errors:
        return Errors(0.0)


@pytree
@dataclass(frozen=True)
class TopK(Compressor):
    """The compressor of `top_k`."""

    name: ClassVar[str] = "top_k"
    k: int | None = field(metadata={"static": True})
    share: float | None = field(metadata={"static": True})

    @property
    def unbiased(self) -> bool:
        return False

    def check(self, dim: int) -> None:
        _check_fits("top_k", self.k, dim)

    def compress(self, key: Array | None, a: Array) -> Array:
        return _keep(a, jax.lax.top_k(jnp.abs(a), count_kept(self.k, self.share, a.shape[0]))[1])

    def bits(self, dim: int, itemsize: int) -> float:
        return float(count_kept(self.k, self.share, dim) * (8 * itemsize + math.ceil(math.log2(dim))))

    def errors(self, dim: int) -> Errors:
        return Errors(1 - count_kept(self.k, self.share, dim) / dim)


@pytree
@dataclass(frozen=True)
class RandK(Compressor):
    """The compressor of `rand_k`."""

    name: ClassVar[str] = "rand_k"
    k: int | None = field(metadata={"static": True})
    share: float | None = field(metadata={"static": True})
    scaled: bool = field(metadata={"static": True})
    needs_key: ClassVar[bool] = True

    @property
    def unbiased(self) -> bool:
        return self.scaled

    @property
    def linear(self) -> bool:
        return True

    def check(self, dim: int) -> None:
        _check_fits("rand_k", self.k, dim)

    def compress(self, key: Array | None, a: Array) -> Array:
        assert key is not None
        dim = a.shape[0]
        k = count_kept(self.k, self.share, dim)
        # The k largest of d random words are a random subset, whatever the dtype of the run. The words are read as
        # floats, which are in the order of their bits, because XLA has a fast top-k kernel for floats alone.
        words = (jax.random.bits(key, (dim,), jnp.uint32) >> 2) + SMALLEST_NORMAL
        chosen = jax.lax.top_k(jax.lax.bitcast_convert_type(words, jnp.float32), k)[1]
        return _keep(a, chosen) * (dim / k if self.scaled else 1.0)

    def bits(self, dim: int, itemsize: int) -> float:
        return float(count_kept(self.k, self.share, dim) * 8 * itemsize + SEED_BITS)

    def errors(self, dim: int) -> Errors:
        kept = count_kept(self.k, self.share, dim) / dim
        return (
            Errors(0.0, variance=1 / kept - 1) if self.scaled else Errors((1 - kept) ** 2, variance=kept * (1 - kept))
        )


def identity() -> Identity:
    """The whole vector: nothing is lost."""
    return Identity()


def top_k(k: int | None = None, *, share: float | None = None) -> TopK:
    r"""The k coordinates of largest size, exactly k even where some are equal.

    $$ \|C(a) - a\|^2 \le (1 - k/d)\, \|a\|^2 $$

    with equality where all sizes are equal. Give `k`, or the `share` of the coordinates (at least one is kept). A
    message is k numbers and the place of each, $\lceil \log_2 d \rceil$ bits.
    """
    return TopK(*_amount("top_k", k, share))


def rand_k(k: int | None = None, *, share: float | None = None, scaled: bool = True) -> RandK:
    r"""k coordinates drawn at random, times d/k unless ``scaled=False``.

    Scaled, it is unbiased and its variance is $(d/k - 1)\|a\|^2$; unscaled, $\mathbb E\, C(a) = (k/d)\, a$ and
    the whole error is $\mathbb E\|C(a) - a\|^2 = (1 - k/d)\|a\|^2$. Give `k`, or the `share` of the coordinates (at
    least one is kept). A message is k numbers and a seed of 32 bits, from which the receiver draws the places again.
    """
    return RandK(*_amount("rand_k", k, share), flag("rand_k(scaled=…)", scaled))


def _amount(name: str, k: Any, share: Any) -> tuple[int | None, float | None]:
    if (k is None) == (share is None):
        choice = "neither" if k is None else f"k = {brief(k)} and share = {brief(share)}"
        raise InputError(f"{name} takes k, a number of coordinates, or share, a part of them, but was given {choice}.")
    if share is None:
        return whole(f"{name}(k=…)", k, advice="Or give share=…, a part of all coordinates."), None
    return None, Range(0, 1, True, False, "It is the part of the coordinates that is kept.").check(
        f"{name}(share=…)", share
    )


def count_kept(k: int | None, share: float | None, dim: int) -> int:
    """Return how many of `dim` coordinates are kept."""
    if k is not None:
        return k
    assert share is not None
    return max(1, round(share * dim))


def _check_fits(name: str, k: int | None, dim: int) -> None:
    if k is not None and k > dim:
        raise InputError(
            f"{name}(k={k}) keeps more coordinates than the {dim} that a vector has here: take k of at most {dim}, or "
            "share=…, a part of them."
        )


def _keep(a: Array, chosen: Array) -> Array:
    return jnp.zeros_like(a).at[chosen].set(a[chosen])
