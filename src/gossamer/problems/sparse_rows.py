"""Sparse features as tables of pieces of rows, and their products as JAX primitives: A x (`dot`) and Aᵀ w (`add`).

The products are linear, and each is the transpose of the other. So gradients, Hessians and maps over agents, seeds and
settings all end in one call of one of them: agents and seeds are rows of the call, settings are columns of its matrix.
The order of sums is fixed: XLA's scatter-add is serial on a CPU. (On a GPU it is not, unless XLA_FLAGS has
--xla_gpu_deterministic_ops.)
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir
from jaxtyping import Array, Float, Int, Integer, Num

from gossamer.basics.pytrees import pytree
from gossamer.basics.sizes import refuse_beyond_memory
from gossamer.core import InputError
from gossamer.problems import native

ROWS_BLOCK = 2**16  # rows that are converted at once, so that no second matrix is made

SPARE = 1.25
"""The largest ratio of the size of a table to that of the smallest, for the sake of longer pieces."""

dot_p, add_p = Primitive("rows_dot"), Primitive("rows_add")


@pytree
@dataclass(frozen=True, eq=False, repr=False)
class Rows:
    """Rows of a sparse matrix, for losses that only multiply by them: ``rows @ x``.

    A row is cut into pieces as long as the table is wide, so that few long rows do not make the table large. The first
    piece of row r is row r of the table; the others stand together behind, from ``after[r]``. The column `dim` is
    padding: short pieces end with it, and the last row of the table holds nothing else.
    """

    columns: Integer[Any, "pieces width"]
    values: Num[Any, "pieces width"] | None
    """None where every non-zero is 1."""
    after: Int[Any, " rows"] | None
    """The second piece of each row; None where each row has one piece."""
    more: Int[Any, " rows"] | None
    """The number of pieces that a row has after its first."""
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
        cuts = (after.astype(np.int32), more.ravel().astype(np.int32)) if others else (None, None)
        return Rows(columns, values, *cuts, None, count, sparse.shape[1])

    def __repr__(self) -> str:
        return f"Rows(shape={self.shape}, width={self.columns.shape[1]})"

    @property
    def shape(self) -> tuple[int, int]:
        return (self.count if self.at is None else self.at.shape[0]), self.dim

    def _chosen(self) -> Any:
        return np.arange(self.count, dtype=np.int32) if self.at is None else self.at

    def __getitem__(self, at: Any) -> "Rows":
        return replace(self, at=at if self.at is None and not isinstance(at, slice) else self._chosen()[at])

    def __matmul__(self, x: Array) -> Array:
        """Return the product with a vector or a matrix, in its dtype."""
        z = self.bind(dot_p, x[None, :, None] if x.ndim == 1 else x[None], self._chosen()[None])[0]
        return z[:, 0] if x.ndim == 1 else z

    def astype(self, dtype: Any) -> Float[Array, "rows d"]:
        """Return the rows as an ordinary array of this dtype."""
        at = self._chosen()
        return self.bind(add_p, jnp.ones((*at.shape, 1, 1), dtype), at[:, None])[:, :, 0]

    def bind(self, product: Primitive, given: Float[Array, "agents _ h"], at: Int[Any, "agents batch"]) -> Array:
        """Call a product with the rows `at` of each agent.

        `dot_p` multiplies these rows by each agent's own x, [agents, d, h], to [agents, batch, h]. `add_p` sums them,
        each times its own w, [agents, batch, h], to [agents, d, h].
        """
        if given.shape[0] * (self.dim + 1) >= 2**31:
            raise InputError(
                f"{given.shape[0]:,} agents and seeds together with {self.dim:,} columns are 2³¹ numbers or more, too "
                "many for one product: run fewer seeds together."
            )
        arrays, table = jax.tree.flatten(replace(self, at=None))
        return product.bind(given, jnp.asarray(at, jnp.int32), *arrays, table=table)

    def sparse(self, first: int = 0, length: int | None = None) -> scipy.sparse.csr_array:
        """Return `length` rows, from `first` on, as a CSR array."""
        assert self.at is None
        length = self.count - first if length is None else length
        firsts = np.arange(self.count)
        owners = firsts if self.more is None else np.r_[firsts, np.repeat(firsts, np.asarray(self.more))]
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
    """Return a matrix as a CSR array."""
    if isinstance(matrix, np.ndarray):  # in parts, because the places of its non-zeros take more memory than it does
        parts = [scipy.sparse.csr_array(matrix[at : at + ROWS_BLOCK]) for at in range(0, len(matrix), ROWS_BLOCK)]
        return scipy.sparse.vstack(parts, format="csr") if parts else scipy.sparse.csr_array(matrix)
    sparse: Any = scipy.sparse.csr_array(matrix)
    sparse.sum_duplicates()
    return sparse


def best_width(lengths: np.ndarray) -> int:
    """Return the length of pieces: the largest even number whose table is not far larger than the smallest."""
    widths = 2 * np.unique(np.geomspace(1, max(1, -(-int(lengths.max()) // 2)), 60).round().astype(int))
    sizes = np.array([width * (np.maximum(1, -(-lengths // width)).sum() + 1) for width in widths])
    return int(widths[sizes <= SPARE * sizes.min()].max())


@dot_p.def_abstract_eval
def _(x: Any, at: Any, *arrays: Any, table: Any) -> Any:
    return ShapedArray((x.shape[0], at.shape[1], x.shape[2]), x.dtype)


@add_p.def_abstract_eval
def _(w: Any, at: Any, *arrays: Any, table: Any) -> Any:
    return ShapedArray((w.shape[0], table.unflatten(arrays).dim, w.shape[2]), w.dtype)


def plain_dot(x: Float[Array, "agents d h"], at: Array, *arrays: Any, table: Any) -> Float[Array, "agents batch h"]:
    """Multiply the rows `at` of each agent by its own x, in plain XLA."""
    rows, (agents, d, h) = table.unflatten(arrays), x.shape
    padded = jnp.pad(x, ((0, 0), (0, 1), (0, 0))).reshape(agents * (d + 1), h)

    def multiply(pieces: Array) -> Array:
        places, values = _entries(rows, pieces, x.dtype)

        def every_other(first: int) -> Array:
            numbers = padded.at[places[..., first::2]].get(mode="promise_in_bounds")
            return numbers if values is None else numbers * values[..., first::2, :]

        # In pairs XLA takes half the time. The sum comes last, or XLA would compute it anew for every entry of the
        # other product.
        return (every_other(0) + every_other(1)).sum(2)

    return _fold_pieces(rows, at, multiply(at), lambda total, pieces: total + multiply(pieces))


def plain_add(w: Float[Array, "agents batch h"], at: Array, *arrays: Any, table: Any) -> Float[Array, "agents d h"]:
    """Sum the rows `at` of each agent, each times its own w, in plain XLA."""
    rows, (agents, _, h) = table.unflatten(arrays), w.shape

    def add(total: Array, pieces: Array) -> Array:
        places, values = _entries(rows, pieces, w.dtype)
        updates = jnp.broadcast_to(w[:, :, None], (*places.shape, h))
        updates = updates if values is None else updates * values
        return total.at[places.reshape(-1)].add(updates.reshape(-1, h), mode="promise_in_bounds")

    total = _fold_pieces(rows, at, add(jnp.zeros((agents * (rows.dim + 1), h), w.dtype), at), add)
    return total.reshape(agents, rows.dim + 1, h)[:, : rows.dim]


def _entries(rows: Rows, pieces: Int[Array, "agents batch"], dtype: Any) -> tuple[Array, Array | None]:
    """Return the flat indices of entries among all agents' numbers, `dim` + 1 for each agent, and their values."""
    columns = rows.columns.at[pieces].get(mode="promise_in_bounds").astype(jnp.int32)
    places = columns + (rows.dim + 1) * jnp.arange(pieces.shape[0], dtype=jnp.int32)[:, None, None]
    if rows.values is None:
        return places, None
    return places, rows.values.at[pieces].get(mode="promise_in_bounds").astype(dtype)[..., None]


def _fold_pieces(rows: Rows, at: Array, first: Array, step: Callable[[Array, Array], Array]) -> Array:
    """Fold `step` over the second pieces of the chosen rows, then the third, as long as a row has one."""
    if rows.more is None or rows.after is None:
        return first
    # a row that has no k-th piece takes the last one of the table, which is empty
    more, after, empty = rows.more[at], rows.after[at], rows.columns.shape[0] - 1

    def with_next(k: Array, total: Array) -> Array:
        return step(total, jnp.where(k < more, after + k, empty))

    return jax.lax.fori_loop(0, more.max(initial=0), with_next, first)


def _batch(primitive: Primitive, given: tuple[Array, ...], axes: tuple[int | None, ...], **static: Any) -> Any:
    """Map a product over an axis: over x alone as more columns, else as more agents."""
    (x, at, *arrays), (of_x, of_at, *of_arrays) = given, axes
    if of_arrays.count(None) < len(of_arrays):
        raise InputError("sparse features cannot be mapped over: choose rows of one matrix instead.")
    if of_at is None:  # other points on the same rows: more columns of the matrix
        assert of_x is not None
        x = jnp.moveaxis(x, of_x, -1)
        made = primitive.bind(x.reshape(*x.shape[:2], -1), at, *arrays, **static)
        return made.reshape(*made.shape[:2], *x.shape[2:]), 3
    at = jnp.moveaxis(at, of_at, 0)
    x = jnp.broadcast_to(x, (len(at), *x.shape)) if of_x is None else jnp.moveaxis(x, of_x, 0)
    made = primitive.bind(x.reshape(-1, *x.shape[2:]), at.reshape(-1, *at.shape[2:]), *arrays, **static)
    return made.reshape(*at.shape[:2], *made.shape[1:]), 0


def _define(name: str, primitive: Primitive, transpose: Primitive, plain: Callable[..., Array]) -> None:
    """Register the rules by which JAX computes, maps and differentiates a product."""
    primitive.def_impl(jax.jit(primitive.bind, static_argnames="table"))
    by_xla = mlir.lower_fun(plain, multiple_results=False)

    def on_cpu(context: Any, *given: Any, **static: Any) -> Any:
        x, _, *arrays = context.avals_in
        rows = static["table"].unflatten(arrays)
        value = None if rows.values is None else rows.values.dtype.name
        rule = native.lowering(name, x.dtype.name, rows.columns.dtype.name, value)
        return by_xla(context, *given, **static) if rule is None else rule(context, *given)

    # XLA computes the product everywhere, but for CPUs with a kernel
    mlir.register_lowering(primitive, by_xla)
    mlir.register_lowering(primitive, on_cpu, platform="cpu")
    batching.primitive_batchers[primitive] = partial(_batch, primitive)

    def differentiate(primals: Any, tangents: Any, **static: Any) -> Any:
        (x, *fixed), (tangent, *others) = primals, tangents
        if {*map(type, others)} != {ad.Zero}:
            raise InputError("there is no derivative by sparse features, only by what they are multiplied with.")
        return primitive.bind(x, *fixed, **static), primitive.bind(tangent, *fixed, **static)

    def bind_transpose(cotangent: Any, x: Any, *fixed: Any, **static: Any) -> Any:
        return transpose.bind(cotangent, *fixed, **static), *[None] * len(fixed)

    ad.primitive_jvps[primitive] = differentiate
    ad.primitive_transposes[primitive] = bind_transpose


_define("dot", dot_p, add_p, plain_dot)
_define("add", add_p, dot_p, plain_add)
