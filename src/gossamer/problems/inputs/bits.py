"""Features that are 0 or 1, 32 to a word: an eighth of int8's memory, so that random rows come from the cache."""

from dataclasses import dataclass, field
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, UInt32

from gossamer.basics.pytrees import pytree

WORD = 32
BLOCK = 4096  # rows that are packed at once


@pytree
@dataclass(frozen=True, eq=False, repr=False)
class Bits:
    """Rows of zeros and ones; column k of a row is bit ``k % 32`` of its word ``k // 32``.

    Any loss may use them: what it gets, by `astype`, is an ordinary array.
    """

    words: UInt32[Any, "*rows words"]
    dim: int = field(metadata={"static": True})

    @staticmethod
    def of(matrix: Any) -> "Bits":
        """The rows of a matrix, sparse or dense, that holds nothing but 0 and 1."""
        rows, dim = matrix.shape
        words = np.zeros((rows, -(-dim // WORD)), "<u4")
        for first in range(0, rows, BLOCK):
            block = matrix[first : first + BLOCK]
            dense = np.asarray(block if isinstance(block, np.ndarray) else block.toarray(), bool)
            padded = np.pad(dense, ((0, 0), (0, -dim % WORD)))
            words[first : first + BLOCK] = np.packbits(padded, axis=1, bitorder="little").view("<u4")
        return Bits(words.astype(np.uint32, copy=False), dim)

    def __repr__(self) -> str:
        return f"Bits(shape={self.shape})"

    @property
    def shape(self) -> tuple[int, ...]:
        return (*self.words.shape[:-1], self.dim)

    def __getitem__(self, at: Any) -> "Bits":
        return Bits(self.words[at], self.dim)

    def astype(self, dtype: Any) -> Array:
        """The rows as an array of this dtype."""
        return self._unpacked(dtype)[..., : self.dim]

    def __matmul__(self, x: Array) -> Array:
        """The product with a vector or a matrix, in its dtype."""
        # x is padded, for that is cheaper than to cut off what a row has beyond its last column
        padded = jnp.pad(x, [(0, -self.dim % WORD)] + [(0, 0)] * (x.ndim - 1))
        return self._unpacked(x.dtype) @ padded

    def _unpacked(self, dtype: Any) -> Array:
        bits = (self.words[..., None] >> jnp.arange(WORD, dtype=jnp.uint32)) & jnp.uint32(1)
        return bits.reshape(*self.words.shape[:-1], -1).astype(dtype)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """The rows as a NumPy array, int8 unless another dtype is asked for."""
        words = np.ascontiguousarray(self.words, dtype="<u4")
        bits = np.unpackbits(words.view(np.uint8), axis=-1, count=self.dim, bitorder="little")
        return bits.astype(np.int8 if dtype is None else dtype)
