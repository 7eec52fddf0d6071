"""Features in the form that is fastest and smallest for a problem: bits, bytes, lists of non-zeros, or an array.

Every form has ``shape``, rows by ``inputs[at]`` and real numbers by ``inputs.astype(dtype)``, as an array has; outside
of compiled programs ``np.asarray(inputs)`` is the dense matrix.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse
from jaxtyping import Array, Float, Int, Integer, Num, UInt8, UInt32

from gossamer.basics.pytrees import pytree
from gossamer.basics.sizes import refuse_beyond_memory
from gossamer.basics.sparse import check_sparse
from gossamer.data.dataset import Sparse
from gossamer.problems import native, products

WORD = 32
BITS_BLOCK, ROWS_BLOCK = 2**12, 2**16  # rows that are converted at once, so that no second matrix is made

SPARE = 1.25
"""How much larger than the smallest a table may be for the sake of longer pieces."""

FEW, FEW_ONES, FEW_VALUES = 0.15, 0.1, 0.05
"""The largest share of non-zeros at which lists of columns are faster than a matrix: by native kernels, and by XLA for
ones and for other values.

Microseconds of a gradient of a linear model, 20 agents, batch 64, float32, one core of a busy machine; lists first by
XLA and then, in a run of their own, by kernels:

| columns | non-zeros a row | ones: matrix, bits, lists | values: matrix, lists |
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
        # x is padded, for that is cheaper than to cut off what a row has beyond its last column
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


@pytree
@dataclass(frozen=True, eq=False, repr=False)
class Rows:
    """Rows of a sparse matrix, for losses that only multiply by them: ``rows @ x``.

    A row is cut into pieces that are as long as the table is wide, so that few long rows do not make it large. The
    first piece of row r is row r of the table; the others stand together behind, from ``after[r]``. Short pieces are
    filled with the column `dim`, and the last row of the table with nothing else.
    """

    columns: Integer[Any, "pieces width"]
    values: Num[Any, "pieces width"] | None
    """None where every non-zero is 1."""
    after: Int[Any, " rows"] | None
    """The second piece of each row; None where each row has one piece."""
    more: Int[Any, " rows"] | None
    """The number of pieces that a row has after its first."""
    owners: Int[Any, " others"] | None
    """The row of each piece that is not a first."""
    at: Int[Any, " chosen"] | None
    """The rows that were chosen; None for all."""
    count: int = field(metadata={"static": True})
    dim: int = field(metadata={"static": True})

    @staticmethod
    def of(matrix: Any, blocks: int = 1) -> "Rows":
        """Build the table of a matrix, sparse or dense.

        With several blocks of equally many rows their tables stand one behind the other, each with the pieces of its
        own rows alone, so that every device may hold one; `count` is then that of a block.
        """
        sparse = compress(matrix)
        lengths = np.diff(sparse.indptr).astype(np.int64)
        width, count = best_width(lengths), lengths.size // blocks
        more = np.maximum(-(-lengths // width) - 1, 0).reshape(blocks, count)
        others = int(more.sum(1).max())
        shape = (blocks * (count + others + 1), width)
        kind = np.dtype(np.uint8 if sparse.shape[1] < 2**8 else np.uint16 if sparse.shape[1] < 2**16 else np.int32)
        valued = not (sparse.data == 1).all()
        size = (kind.itemsize + valued * sparse.dtype.itemsize) * math.prod(shape)
        refuse_beyond_memory(f"a table of {sparse.nnz:,} non-zeros in {lengths.size:,} rows", size, "use fewer rows")
        columns, values = np.full(shape, sparse.shape[1], kind), np.zeros(shape, sparse.dtype) if valued else None
        after = (count + np.cumsum(more, 1) - more).ravel()
        for first in range(0, lengths.size, ROWS_BLOCK):
            block = slice(first, first + ROWS_BLOCK)
            entries = slice(sparse.indptr[first], sparse.indptr[min(first + ROWS_BLOCK, lengths.size)])
            row = first + np.repeat(np.arange(lengths[block].size), lengths[block])
            place = np.arange(row.size) - np.repeat(sparse.indptr[:-1][block] - entries.start, lengths[block])
            piece = np.where(place < width, row % count, after[row] + place // width - 1)
            piece += row // count * (count + others + 1)
            columns[piece, place % width] = sparse.indices[entries]
            if values is not None:
                values[piece, place % width] = sparse.data[entries]
        owners = np.zeros((blocks, others), np.int32)
        for block, times in enumerate(more):
            owners[block, : times.sum()] = np.repeat(np.arange(count), times)
        cuts = (after.astype(np.int32), more.ravel().astype(np.int32), owners.ravel()) if others else (None, None, None)
        return Rows(columns, values, *cuts, None, count, sparse.shape[1])

    def __repr__(self) -> str:
        return f"Rows(shape={self.shape}, width={self.columns.shape[1]})"

    @property
    def shape(self) -> tuple[int, int]:
        return (self.count if self.at is None else self.at.shape[0]), self.dim

    def __getitem__(self, at: Any) -> "Rows":
        if self.at is None and not isinstance(at, slice):
            return replace(self, at=at)
        return replace(self, at=(np.arange(self.count, dtype=np.int32) if self.at is None else self.at)[at])

    def __matmul__(self, x: Array) -> Array:
        """Return the product with a vector or a matrix, in its dtype."""
        at = None if self.at is None else self.at[None]
        z = products.dot(x[None, :, None] if x.ndim == 1 else x[None], at, self._table())[0]
        return z[:, 0] if x.ndim == 1 else z

    def astype(self, dtype: Any) -> Float[Array, "rows d"]:
        """Return the rows as an ordinary array of this dtype."""
        at = jnp.arange(self.count, dtype=jnp.int32) if self.at is None else self.at
        return products.add(jnp.ones((*at.shape, 1, 1), dtype), at[:, None], self._table())[:, :, 0]

    def _table(self) -> products.Table:
        return products.Table(self.columns, self.values, self.after, self.more, self.owners, self.count, self.dim)

    def sparse(self, first: int = 0, length: int | None = None) -> scipy.sparse.csr_array:
        """Return `length` rows, from `first` on, as a CSR array."""
        assert self.at is None
        length = self.count - first if length is None else length
        owners = np.arange(self.count) if self.owners is None else np.r_[np.arange(self.count), self.owners]
        (pieces,) = np.nonzero((owners >= first) & (owners < first + length))
        columns = np.asarray(self.columns)[pieces]
        piece, place = np.nonzero(columns != self.dim)
        values = np.ones(piece.size, np.int8) if self.values is None else np.asarray(self.values)[pieces][piece, place]
        where = owners[pieces][piece] - first, columns[piece, place].astype(np.int64)
        return scipy.sparse.csr_array((values, where), shape=(length, self.dim))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """Return the rows as a NumPy array."""
        dense = self.sparse().toarray()
        return dense if dtype is None else dense.astype(dtype)


def compress(matrix: Any) -> Any:
    """Return a matrix as a CSR array. A dense one is converted in parts: the places of its non-zeros take more memory
    than it does."""
    if isinstance(matrix, np.ndarray):
        parts = [scipy.sparse.csr_array(matrix[at : at + ROWS_BLOCK]) for at in range(0, len(matrix), ROWS_BLOCK)]
        return scipy.sparse.vstack(parts, format="csr") if parts else scipy.sparse.csr_array(matrix)
    sparse: Any = scipy.sparse.csr_array(matrix)
    sparse.sum_duplicates()
    return sparse


def best_width(lengths: np.ndarray) -> int:
    """Return how long the pieces of rows should be: an even number, and as large as it can be without a table that is
    far larger than the smallest."""
    widths = 2 * np.unique(np.geomspace(1, max(1, -(-int(lengths.max()) // 2)), 60).round().astype(int))
    sizes = np.array([width * (np.maximum(1, -(-lengths // width)).sum() + 1) for width in widths])
    return int(widths[sizes <= SPARE * sizes.min()].max())


def hold(features: Any, linear: bool, order: Int[np.ndarray, " held"] | None = None, divisor: int = 1) -> Any:
    """Return features, or the rows `order` of them, in the form that is fastest for a model.

    A model that is `linear` needs no array of them. Bytes with a divisor stay bytes.
    """
    if divisor != 1:
        return Bytes(features if order is None else features[order], divisor)
    sparse = isinstance(features, Sparse)
    if sparse:  # whoever gave their arrays may have changed these since, and kernels read without a check
        features = check_sparse(features, "features")
    rows, dim = features.shape
    values = features.data if sparse else features
    # the least and the largest of whole numbers say it, and take no memory
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


def rows_from(inputs: Any, first: Any, length: int) -> Any:
    """Return `length` rows, from `first` on, in a compiled program."""
    if isinstance(inputs, Rows):
        return inputs[first + jnp.arange(length, dtype=jnp.int32)]
    return jax.tree.map(lambda a: jax.lax.dynamic_slice_in_dim(a, first, length), inputs)


def in_runs(function: Callable[..., Any], runs: int, inputs: Any, *arrays: Any) -> Any:
    """Apply a function to each of `runs` runs of equally many chosen rows, in a compiled program."""

    def cut(array: Any) -> Any:
        return array.reshape(runs, -1, *array.shape[1:])

    if isinstance(inputs, Rows):
        return jax.vmap(lambda at, *own: function(replace(inputs, at=at), *own))(*map(cut, (inputs.at, *arrays)))
    return jax.vmap(function)(jax.tree.map(cut, inputs), *map(cut, arrays))


def in_blocks(inputs: Any, order: np.ndarray, blocks: int) -> Any:
    """Return the rows in this order as blocks of equal size, outside of compiled programs."""
    if isinstance(inputs, Rows):
        return Rows.of(inputs.sparse()[order], blocks)
    return jax.tree.map(lambda a: np.asarray(a)[order], inputs)
