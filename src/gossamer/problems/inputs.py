"""Features in the form that is fastest and smallest for a problem: bits, bytes, sparse rows, or an array.

Every form has ``shape``, rows by ``inputs[at]`` and real numbers by ``inputs.astype(dtype)``, as an array has. Outside
of compiled programs ``np.asarray(inputs)`` is the dense matrix.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, UInt8, UInt32

from gossamer.basics.arrays import check_sparse
from gossamer.basics.pytrees import pytree
from gossamer.data.dataset import Sparse
from gossamer.problems import native
from gossamer.problems.sparse_rows import Rows, compress

WORD = 32
BITS_BLOCK = 2**12  # rows that are packed at once, so that no second matrix is made

FEW, FEW_ONES, FEW_VALUES = 0.15, 0.1, 0.05
"""The largest share of non-zeros at which sparse rows are faster than a matrix: by native kernels, and by XLA for ones
and for other values.

Microseconds of a gradient of a linear model, 20 agents, batch 64, float32, one core of a busy machine; rows first by
XLA and then, in a run of their own, by kernels:

| columns | non-zeros a row | ones: matrix, bits, rows | values: matrix, rows |
| ---: | ---: | ---: | ---: |
| 123 | 14 | 57, 36, 64 | 63, 150 |
| 1,000 | 10 | 770, 720, 86 | 880, 75 |
| 1,000 | 30 | 1160, 850, 270 | 890, 360 |
| 1,000 | 100 | 690, 660, 280 | 890, 970 |
| 5,000 | 150 | | 7590, 2510 |
| 123 | 14 | 76, 45, 37 | 82, 57 |
| 123 | 25 | 47, 35, 45 | 78, 101 |
| 1,000 | 100 | 780, 760, 190 | 1020, 370 |
| 1,000 | 200 | 790, 710, 340 | 980, 680 |
"""

DENSE_BYTES = 2**30
"""The largest dense matrix that is made of sparse features for a model that needs arrays. Beyond, only the rows of a
batch become dense."""


@pytree
@dataclass(frozen=True, eq=False, repr=False)
class Bits:
    """Features that are 0 or 1, 32 to a word; column k of a row is bit ``k % 32`` of its word ``k // 32``.

    They take an eighth of int8's memory, so that random rows come from the cache.
    """

    words: UInt32[Any, "*rows words"]
    dim: int = field(metadata={"static": True})

    @staticmethod
    def of(matrix: Any) -> "Bits":
        """Pack the rows of a matrix, sparse or dense, that holds nothing but 0 and 1."""
        rows, dim = matrix.shape
        words = np.zeros((rows, -(-dim // WORD)), "<u4")
        for first in range(0, rows, BITS_BLOCK):
            block = matrix[first : first + BITS_BLOCK]
            dense = np.asarray(block if isinstance(block, np.ndarray) else block.toarray(), bool)
            padded = np.pad(dense, ((0, 0), (0, -dim % WORD)))
            words[first : first + BITS_BLOCK] = np.packbits(padded, axis=1, bitorder="little").view("<u4")
        return Bits(words.astype(np.uint32, copy=False), dim)

    def __repr__(self) -> str:
        return f"Bits(shape={self.shape})"

    @property
    def shape(self) -> tuple[int, ...]:
        return (*self.words.shape[:-1], self.dim)

    def __getitem__(self, at: Any) -> "Bits":
        return Bits(self.words[at], self.dim)

    def astype(self, dtype: Any) -> Array:
        """Return the rows as an array of this dtype."""
        return self._unpack(dtype)[..., : self.dim]

    def __matmul__(self, x: Array) -> Array:
        """Return the product with a vector or a matrix, in its dtype."""
        # padding x is cheaper than cutting off the bits beyond the last column
        padded = jnp.pad(x, [(0, -self.dim % WORD)] + [(0, 0)] * (x.ndim - 1))
        return self._unpack(x.dtype) @ padded

    def _unpack(self, dtype: Any) -> Array:
        bits = (self.words[..., None] >> jnp.arange(WORD, dtype=jnp.uint32)) & jnp.uint32(1)
        return bits.reshape(*self.words.shape[:-1], -1).astype(dtype)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """Return the rows as a NumPy array, int8 unless another dtype is asked for."""
        words = np.ascontiguousarray(self.words, dtype="<u4")
        bits = np.unpackbits(words.view(np.uint8), axis=-1, count=self.dim, bitorder="little")
        return bits.astype(np.int8 if dtype is None else dtype)


@pytree
@dataclass(frozen=True, eq=False, repr=False)
class Bytes:
    """Features that are whole numbers from 0 to 255 over one divisor, as pixels are: an eighth of float64's memory."""

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
        """Return the rows as an array of this dtype."""
        return self.values.astype(dtype) / self.divisor

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """Return the rows as a NumPy array, float64 unless another dtype is asked for."""
        return (np.asarray(self.values) / self.divisor).astype(np.float64 if dtype is None else dtype, copy=False)


def hold(features: Any, linear: bool, order: Int[np.ndarray, " held"] | None = None, divisor: int = 1) -> Any:
    """Return features, or the rows `order` of them, in the form that is fastest for a model.

    A model that is `linear` needs no array of them. Bytes with a divisor stay bytes.
    """
    if divisor != 1:
        return Bytes(features if order is None else features[order], divisor)
    sparse = isinstance(features, Sparse)
    if sparse:  # the caller may have changed its arrays since, and kernels read without a check
        features = check_sparse(features, "features")
    rows, dim = features.shape
    values = features.data if sparse else features
    # for whole numbers the least and the largest decide, which takes no memory
    if values.dtype.kind in "iu" and values.size:
        zero_or_one = bool(values.min() >= 0 and values.max() <= 1)
    else:
        zero_or_one = bool(((values == 0) | (values == 1)).all())
    share = np.count_nonzero(values) / (rows * dim)
    most = FEW if share > FEW_VALUES and native.likely() else FEW_ONES if zero_or_one else FEW_VALUES
    few = linear and share <= most
    large = sparse and rows * dim * (1 / 8 if zero_or_one else values.dtype.itemsize) > DENSE_BYTES
    if zero_or_one and not few and not large:
        bits = Bits.of(features)  # before they are put in order, for then there is no second matrix
        return bits if order is None else bits[order]
    features = compress(features) if few else features  # again before they are put in order
    features = features if order is None else features[order]
    if few or large:
        return Rows.of(features)
    return features.toarray() if sparse else features


take = jax.lax.dynamic_slice_in_dim
"""Return `length` rows of an array, from `first` on, in a compiled program."""


def rows_from(inputs: Any, first: Any, length: int) -> Any:
    """Return `length` rows of features, from `first` on, in a compiled program."""
    if isinstance(inputs, Rows):
        return inputs[first + jnp.arange(length, dtype=jnp.int32)]
    return jax.tree.map(lambda a: take(a, first, length), inputs)


def in_runs(function: Callable[..., Any], runs: int, inputs: Any, *arrays: Any) -> Any:
    """Apply a function to each of `runs` runs of equally many chosen rows, in a compiled program."""
    sparse = isinstance(inputs, Rows)
    leaves, structure = jax.tree.flatten((inputs.at if sparse else inputs, *arrays))
    chosen, *others = jax.tree.unflatten(structure, [leaf.reshape(runs, -1, *leaf.shape[1:]) for leaf in leaves])
    if sparse:
        return jax.vmap(lambda at, *own: function(replace(inputs, at=at), *own))(chosen, *others)
    return jax.vmap(function)(chosen, *others)


def in_blocks(inputs: Any, order: np.ndarray, blocks: int) -> Any:
    """Return the rows in this order as blocks of equal size, outside of compiled programs."""
    if isinstance(inputs, Rows):
        return Rows.of(inputs.sparse()[order], blocks)
    return jax.tree.map(lambda a: np.asarray(a)[order], inputs)
