r"""The contract of a compressor: a vector as its receiver sees it, and what was sent for it.

$$ \|\mathbb E\, C(a) - a\|^2 \le M \|a\|^2 + D, \qquad \mathbb E \|C(a) - \mathbb E\, C(a)\|^2 \le v \|a\|^2 $$
"""

import abc
import dataclasses
from typing import ClassVar, NamedTuple

from jaxtyping import Float, Key

from gossamer.basics.lazy import Array


class Errors(NamedTuple):
    """How far C(a) is from a, for every vector of a dimension."""

    relative: float
    """M: the squared bias is at most M‖a‖² + D."""
    absolute: float = 0.0
    """D."""
    variance: float = 0.0
    """v: the variance is at most v‖a‖²."""


class Compressor(abc.ABC):
    """Shrinks one agent's vector.

    A compressor of your own is a frozen dataclass under `gossamer.pytree`; what decides its bits and shapes is
    static.
    """

    name: ClassVar[str]
    """The name of the function that makes it."""
    needs_key: ClassVar[bool] = False
    """True if it draws at random; if not, the key may be None."""

    @property
    @abc.abstractmethod
    def unbiased(self) -> bool:
        """True if E C(a) = a for every a."""

    @property
    def linear(self) -> bool:
        """True if E C(a) is linear in a: noise in a then adds no bias."""
        return self.unbiased

    def check(self, dim: int) -> None:  # noqa: B027
        """Refuse, before any work, a dimension that it cannot serve; most compressors serve all."""

    @abc.abstractmethod
    def compress(self, key: Key[Array, ""] | None, a: Float[Array, " d"]) -> Float[Array, " d"]:
        """C(a), in the dtype of a: the vector that the receiver rebuilds."""

    @abc.abstractmethod
    def bits(self, dim: int, itemsize: int) -> float:
        """Return what is sent for a vector whose numbers have `itemsize` bytes, in bits."""

    @abc.abstractmethod
    def errors(self, dim: int) -> Errors:
        """The bounds on its bias and its variance."""

    def __init_subclass__(cls) -> None:
        if "__repr__" not in vars(cls):
            cls.__repr__ = Compressor.__repr__  # so that no dataclass writes another

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        """The call that makes it."""
        options = ((f.name, getattr(self, f.name)) for f in dataclasses.fields(self))  # pyright: ignore
        shown = ", ".join(f"{name}={value}" for name, value in options if value is not None)
        return f"{self.name}({shown})"

    def contraction(self, dim: int) -> float | None:
        """ω with E‖C(a) − a‖² ≤ ω‖a‖²; None where the error is bounded otherwise. Above 1 it does not contract."""
        errors = self.errors(dim)
        return None if errors.absolute else errors.relative + errors.variance
