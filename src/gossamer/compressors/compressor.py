r"""The contract of a compressor: a vector as its receiver sees it, and what was sent for it.

$$ \|\mathbb E\, C(a) - a\|^2 \le M \|a\|^2 + D, \qquad \mathbb E \|C(a) - \mathbb E\, C(a)\|^2 \le v \|a\|^2 $$
"""

import abc
from typing import ClassVar, NamedTuple

from jaxtyping import Float, Key

from gossamer.basics.lazy import Array
from gossamer.basics.text import fields_of, format_call


class Errors(NamedTuple):
    """Bounds on the error of C(a), for every vector of a dimension."""

    relative: float
    """M: the squared bias is at most M‖a‖² + D."""
    absolute: float = 0.0
    """D."""
    variance: float = 0.0
    """v: the variance is at most v‖a‖²."""


class Compressor(abc.ABC):
    """A lossy code for one agent's vector.

    A compressor of your own is a frozen dataclass under `gossamer.pytree`; what decides its bits and shapes is
    static.
    """

    name: ClassVar[str]
    """The name of the function that makes the compressor."""
    needs_key: ClassVar[bool] = False
    """True if the compressor draws at random; if not, the key may be None."""

    @property
    @abc.abstractmethod
    def unbiased(self) -> bool:
        """True if E C(a) = a for every a."""

    @property
    def linear(self) -> bool:
        """True if E C(a) is linear in a: noise in a then adds no bias."""
        return self.unbiased

    def check(self, dim: int) -> None:  # noqa: B027
        """Raise InputError, before any work, for a dimension that the compressor cannot serve; most serve all."""

    @abc.abstractmethod
    def compress(self, key: Key[Array, ""] | None, a: Float[Array, " d"]) -> Float[Array, " d"]:
        """Return C(a), the vector that the receiver rebuilds, in the dtype of a."""

    @abc.abstractmethod
    def bits(self, dim: int, itemsize: int) -> float:
        """Return the size in bits of the message for a vector whose numbers have `itemsize` bytes."""

    @abc.abstractmethod
    def errors(self, dim: int) -> Errors:
        """Return the bounds on the bias and the variance."""

    def __init_subclass__(cls) -> None:
        if "__repr__" not in vars(cls):
            cls.__repr__ = Compressor.__repr__  # or @dataclass would write another

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        """Return the call that makes the compressor."""
        return format_call(self.name, fields_of(self))

    def contraction(self, dim: int) -> float | None:
        """Return ω with E‖C(a) − a‖² ≤ ω‖a‖²; None if there is none. Above 1 the compressor does not contract."""
        errors = self.errors(dim)
        return None if errors.absolute else errors.relative + errors.variance
