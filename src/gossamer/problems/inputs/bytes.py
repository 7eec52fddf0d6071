"""Features that are bytes over one number, as pixels are: an eighth of float64's memory."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Array, UInt8

from gossamer.basics.pytrees import pytree


@pytree
@dataclass(frozen=True, eq=False, repr=False)
class Bytes:
    """Rows of fractions: whole numbers from 0 to 255, all divided by `divisor`.

    Any loss may use them: what it gets, by `astype`, is an ordinary array.
    """

    values: UInt8[Any, "*rows d"]
    divisor: int = field(metadata={"static": True})

    def __repr__(self) -> str:
        return f"Bytes(shape={self.shape}, divisor={self.divisor})"

    @property
    def shape(self) -> tuple[int, ...]:
        return self.values.shape

    def __getitem__(self, at: Any) -> "Bytes":
        return Bytes(self.values[at], self.divisor)

    def astype(self, dtype: Any) -> Array:
        """The rows as an array of this dtype."""
        return self.values.astype(dtype) / self.divisor

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """The rows as a NumPy array, float64 unless another dtype is asked for."""
        return (np.asarray(self.values) / self.divisor).astype(np.float64 if dtype is None else dtype, copy=False)
