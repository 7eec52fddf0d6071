"""Features with few non-zeros: the columns of each row's, and its values where these are not all one."""

import math
from dataclasses import dataclass, field
from typing import Any

import jax.numpy as jnp
import numpy as np
import scipy.sparse
from jaxtyping import Array, Float, Int, Integer, Num

from gossamer.basics.pytrees import pytree
from gossamer.basics.sizes import refuse_beyond_memory
from gossamer.problems.inputs import products

BLOCK = 2**16  # rows that are put into the table at once

SPARE = 1.25
"""How much larger than the smallest a table may be for the sake of longer pieces."""


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
    """Where a row goes on; None where each has one piece."""
    more: Int[Any, " rows"] | None
    """How many pieces a row has after its first."""
    owners: Int[Any, " others"] | None
    """The row of each piece that is not a first."""
    at: Int[Any, " chosen"] | None
    """The rows that were chosen; None for all."""
    count: int = field(metadata={"static": True})
    dim: int = field(metadata={"static": True})

    @staticmethod
    def of(matrix: Any, blocks: int = 1) -> "Rows":
        """The rows of a matrix, sparse or dense.

        With several blocks of equally many rows their tables stand one behind the other, each with the pieces of its
        own rows alone, so that every device may hold one; `count` is then that of a block.
        """
        sparse = compressed(matrix)
        lengths = np.diff(sparse.indptr).astype(np.int64)
        width, count = best_width(lengths), lengths.size // blocks
        more = np.maximum(-(-lengths // width) - 1, 0)
        others = int(more.reshape(blocks, count).sum(1).max())
        shape = (blocks * (count + others + 1), width)
        kind = np.dtype(np.uint8 if sparse.shape[1] < 2**8 else np.uint16 if sparse.shape[1] < 2**16 else np.int32)
        valued = not (sparse.data == 1).all()
        size = (kind.itemsize + valued * sparse.dtype.itemsize) * math.prod(shape)
        refuse_beyond_memory(f"a table of {sparse.nnz:,} non-zeros in {lengths.size:,} rows", size, "use fewer rows")
        columns, values = np.full(shape, sparse.shape[1], kind), np.zeros(shape, sparse.dtype) if valued else None
        own = more.reshape(blocks, count)
        after = (count + np.cumsum(own, 1) - own).ravel()
        for first in range(0, lengths.size, BLOCK):
            block = slice(first, first + BLOCK)
            held = slice(sparse.indptr[first], sparse.indptr[min(first + BLOCK, lengths.size)])
            row = first + np.repeat(np.arange(lengths[block].size), lengths[block])
            place = np.arange(row.size) - np.repeat(sparse.indptr[:-1][block] - held.start, lengths[block])
            piece = np.where(place < width, row % count, after[row] + place // width - 1)
            piece += row // count * (count + others + 1)
            columns[piece, place % width] = sparse.indices[held]
            if values is not None:
                values[piece, place % width] = sparse.data[held]
        owners = np.zeros((blocks, others), np.int32)
        for block, times in enumerate(own):
            owners[block, : times.sum()] = np.repeat(np.arange(count), times)
        cuts = (after.astype(np.int32), more.astype(np.int32), owners.ravel()) if others else (None, None, None)
        return Rows(columns, values, *cuts, None, count, sparse.shape[1])

    def __repr__(self) -> str:
        return f"Rows(shape={self.shape}, width={self.columns.shape[1]})"

    @property
    def shape(self) -> tuple[int, int]:
        return (self.count if self.at is None else self.at.shape[0]), self.dim

    def __getitem__(self, at: Any) -> "Rows":
        if self.at is None and not isinstance(at, slice):
            return self._chosen(at)
        return self._chosen((np.arange(self.count, dtype=np.int32) if self.at is None else self.at)[at])

    def from_row(self, first: Any, length: int) -> "Rows":
        """So many rows, from this one on."""
        return self._chosen(first + jnp.arange(length, dtype=jnp.int32))

    def _chosen(self, at: Any) -> "Rows":
        return Rows(self.columns, self.values, self.after, self.more, self.owners, at, self.count, self.dim)

    def __matmul__(self, x: Array) -> Array:
        """The product with a vector or a matrix, in its dtype."""
        z = products.dot(x[None, :, None] if x.ndim == 1 else x[None], self._at(), self._table())[0]
        return z[:, 0] if x.ndim == 1 else z

    def astype(self, dtype: Any) -> Float[Array, "rows d"]:
        """The rows as an ordinary array of this dtype."""
        at = jnp.arange(self.count, dtype=jnp.int32) if self.at is None else self.at
        return products.add(jnp.ones((*at.shape, 1, 1), dtype), at[:, None], self._table())[:, :, 0]

    def _at(self) -> Array | None:
        return None if self.at is None else self.at[None]

    def _table(self) -> products.Table:
        return products.Table(self.columns, self.values, self.after, self.more, self.owners, self.count, self.dim)

    def sparse(self, first: int = 0, length: int | None = None) -> scipy.sparse.csr_array:
        """So many rows, from this one on, as SciPy has them."""
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
        """The rows as a NumPy array."""
        dense = self.sparse().toarray()
        return dense if dtype is None else dense.astype(dtype)


def compressed(matrix: Any) -> Any:
    """A matrix in compressed rows. A dense one is taken in parts: where its non-zeros are takes more room than it."""
    if isinstance(matrix, np.ndarray):
        parts = [scipy.sparse.csr_array(matrix[first : first + BLOCK]) for first in range(0, len(matrix), BLOCK)]
        return scipy.sparse.vstack(parts, format="csr") if parts else scipy.sparse.csr_array(matrix)
    sparse: Any = scipy.sparse.csr_array(matrix)
    sparse.sum_duplicates()
    return sparse


def best_width(lengths: np.ndarray) -> int:
    """How long the pieces of rows should be: as long as they can without a table far larger than the smallest, and an
    even number."""
    widths = 2 * np.unique(np.geomspace(1, max(1, -(-int(lengths.max()) // 2)), 60).round().astype(int))
    sizes = np.array([width * (np.maximum(1, -(-lengths // width)).sum() + 1) for width in widths])
    return int(widths[sizes <= SPARE * sizes.min()].max())
