"""The two products of sparse rows: with x, and of a number a row with the rows. Each is the transpose of the other.

They are linear primitives, so that gradients, Hessians and maps over agents, seeds and settings all end in one call of
one of them: agents and seeds are rows of the call, settings are columns of its matrix. The sums are made in one order,
always: XLA's scatter-add is serial on a CPU. (On a GPU it is not, unless XLA_FLAGS has --xla_gpu_deterministic_ops.)
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir
from jaxtyping import Array, Float, Int

from gossamer.core import InputError
from gossamer.problems.inputs import native

TOGETHER = 2**18
"""Entries of the table that are used at once; more are taken in blocks, one after the other."""


class Table(NamedTuple):
    """The arrays of `Rows`."""

    columns: Any
    values: Any | None
    after: Any | None
    more: Any | None
    owners: Any | None
    rows: int
    dim: int


Agents = Int[Any, "agents batch"]


def dot(x: Float[Array, "agents d h"], at: Agents | None, table: Table) -> Float[Array, "agents batch h"]:
    """For every agent the products of its chosen rows with its own x; without `at`, of all rows, for one agent."""
    return _bound(dot_p, x, at, table)


def add(w: Float[Array, "agents batch h"], at: Agents | None, table: Table) -> Float[Array, "agents d h"]:
    """For every agent the sum of its chosen rows, each times its own w; without `at`, of all rows, for one agent."""
    return _bound(add_p, w, at, table)


def _bound(primitive: Primitive, given: Array, at: Agents | None, table: Table) -> Array:
    arrays = [table.columns, table.values, table.after, table.more, table.owners]
    form = Form(table.values is not None, table.after is not None, at is None, table.rows, table.dim)
    if given.shape[0] * (table.dim + 1) >= 2**31:
        raise InputError(
            f"{given.shape[0]:,} agents and seeds together with {table.dim:,} columns are 2³¹ numbers or more, too "
            "many for one product: run fewer seeds together."
        )
    chosen = jnp.zeros((1, 0), jnp.int32) if at is None else at.astype(jnp.int32)
    return primitive.bind(given, chosen, *[array for array in arrays if array is not None], form=form)


class Form(NamedTuple):
    """What of a call is static."""

    valued: bool
    cut: bool
    whole: bool
    rows: int
    dim: int

    def table(self, arrays: tuple[Any, ...]) -> Table:
        rest = iter(arrays[1:])
        values = next(rest) if self.valued else None
        after, more, owners = rest if self.cut else (None, None, None)
        return Table(arrays[0], values, after, more, owners, self.rows, self.dim)


dot_p, add_p = Primitive("rows_dot"), Primitive("rows_add")


@dot_p.def_abstract_eval
def _(x: Any, at: Any, *arrays: Any, form: Form) -> Any:
    assert arrays[0].shape[0] > form.rows
    batch = form.rows if form.whole else at.shape[1]
    return ShapedArray((x.shape[0], batch, x.shape[2]), x.dtype)


@add_p.def_abstract_eval
def _(w: Any, at: Any, *arrays: Any, form: Form) -> Any:
    assert arrays[0].shape[0] > form.rows
    assert w.shape[1] == (form.rows if form.whole else at.shape[1])
    return ShapedArray((w.shape[0], form.dim, w.shape[2]), w.dtype)


def plain_dot(x: Array, at: Array, *arrays: Any, form: Form) -> Array:
    """What `dot` is, in XLA."""
    table, (agents, d, h) = form.table(arrays), x.shape
    padded = jnp.pad(x, ((0, 0), (0, 1), (0, 0))).reshape(agents * (d + 1), h)

    def of_pieces(pieces: Array) -> Array:
        def of_block(piece: Array, agent: Array) -> Array:
            places = _places(table, piece, agent)
            values = None if table.values is None else _values(table, piece, x.dtype)

            def every_other(first: int) -> Array:
                entries = padded.at[places[:, first::2]].get(mode="promise_in_bounds")
                return entries if values is None else entries * values[:, first::2]

            # In pairs: XLA so takes half the time. And a sum comes last, or it would be made anew for every entry of
            # the other product.
            return (every_other(0) + every_other(1)).sum(1)

        return _in_blocks(of_block, table, pieces.reshape(-1), _agent_of(pieces)).reshape(*pieces.shape, h)

    if form.whole:
        z = of_pieces(jnp.arange(table.columns.shape[0] - 1, dtype=jnp.int32)[None])
        return z if table.owners is None else z[:, : form.rows].at[:, table.owners].add(z[:, form.rows :])
    return _summed_over_pieces(table, at, of_pieces(at), lambda total, pieces: total + of_pieces(pieces))


def plain_add(w: Array, at: Array, *arrays: Any, form: Form) -> Array:
    """What `add` is, in XLA."""
    table, (agents, _, h) = form.table(arrays), w.shape
    zero = jnp.zeros((agents * (form.dim + 1), h), w.dtype)

    def with_pieces(total: Array, pieces: Array, w: Array) -> Array:
        def with_block(total: Array, piece: Array, agent: Array, own: Array) -> Array:
            places = _places(table, piece, agent)
            updates = jnp.broadcast_to(own[:, None, :], (*places.shape, h))
            updates = updates if table.values is None else updates * _values(table, piece, w.dtype)
            return total.at[places.reshape(-1)].add(updates.reshape(-1, h), mode="promise_in_bounds")

        return _through_blocks(with_block, table, total, pieces.reshape(-1), _agent_of(pieces), w.reshape(-1, h))

    if form.whole:
        pieces = jnp.arange(table.columns.shape[0] - 1, dtype=jnp.int32)[None]
        every = w if table.owners is None else jnp.concatenate([w, w[:, table.owners]], axis=1)
        total = with_pieces(zero, pieces, every)
    else:
        first = with_pieces(zero, at, w)
        total = _summed_over_pieces(table, at, first, lambda total, pieces: with_pieces(total, pieces, w))
    return total.reshape(agents, form.dim + 1, h)[:, : form.dim]


def _summed_over_pieces(table: Table, at: Array, first: Array, step: Callable[[Array, Array], Array]) -> Array:
    """What comes of the first pieces, and then of the second, the third … for as long as a chosen row has one."""
    if table.more is None or table.after is None:
        return first
    more, after, empty = table.more[at], table.after[at], table.columns.shape[0] - 1

    def with_next(k: Array, total: Array) -> Array:
        return step(total, jnp.where(k < more, after + k, empty))

    return jax.lax.fori_loop(0, more.max(initial=0), with_next, first)


def _agent_of(pieces: Array) -> Array:
    return jnp.broadcast_to(jnp.arange(pieces.shape[0], dtype=jnp.int32)[:, None], pieces.shape).reshape(-1)


def _places(table: Table, piece: Array, agent: Array) -> Array:
    """Where the entries of each piece stand among all agents' numbers, of which each has one more than `dim`."""
    columns = table.columns.at[piece].get(mode="promise_in_bounds").astype(jnp.int32)
    return columns + agent[:, None] * (table.dim + 1)


def _values(table: Table, piece: Array, dtype: Any) -> Array:
    assert table.values is not None
    return table.values.at[piece].get(mode="promise_in_bounds").astype(dtype)[..., None]


def _in_blocks(function: Callable[..., Array], table: Table, *arrays: Array) -> Array:
    """The function of the arrays' rows, which gives a row for each: block after block."""
    blocks, rest = _cut(table, arrays)
    last = function(*rest)
    if not len(blocks[0]):
        return last
    made = jax.lax.map(lambda block: function(*block), blocks)
    return jnp.concatenate([made.reshape(-1, *made.shape[2:]), last])


def _through_blocks(function: Callable[..., Array], table: Table, total: Array, *arrays: Array) -> Array:
    """The total with the arrays' rows added by the function: block after block."""
    blocks, rest = _cut(table, arrays)
    if len(blocks[0]):
        total = jax.lax.scan(lambda total, block: (function(total, *block), None), total, blocks)[0]
    return function(total, *rest)


def _cut(table: Table, arrays: tuple[Array, ...]) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
    """The arrays in blocks of rows, and the rest, which is all if they are few."""
    block = max(1, TOGETHER // table.columns.shape[1])
    end = (arrays[0].shape[0] - 1) // block * block
    return tuple(a[:end].reshape(-1, block, *a.shape[1:]) for a in arrays), tuple(a[end:] for a in arrays)


def _batched(primitive: Primitive, given: tuple[Array, ...], axes: tuple[int | None, ...], form: Form) -> Any:
    (x, at, *arrays), (of_x, of_at, *of_arrays) = given, axes
    if any(axis is not None for axis in of_arrays):
        raise InputError("sparse features cannot be mapped over: choose rows of one matrix instead.")
    if of_at is None:  # other points on the same rows: more columns of the matrix
        assert of_x is not None
        x = jnp.moveaxis(x, of_x, -1)
        made = primitive.bind(x.reshape(*x.shape[:2], -1), at, *arrays, form=form)
        return made.reshape(*made.shape[:2], *x.shape[2:]), 3
    at = jnp.moveaxis(at, of_at, 0)
    x = jnp.broadcast_to(x, (len(at), *x.shape)) if of_x is None else jnp.moveaxis(x, of_x, 0)
    made = primitive.bind(x.reshape(-1, *x.shape[2:]), at.reshape(-1, *at.shape[2:]), *arrays, form=form)
    return made.reshape(*at.shape[:2], *made.shape[1:]), 0


def _known(name: str, primitive: Primitive, transpose: Primitive, plain: Callable[..., Array]) -> None:
    """Tell JAX all about a product: how it is computed, mapped and differentiated."""
    primitive.def_impl(jax.jit(primitive.bind, static_argnames="form"))
    by_xla = mlir.lower_fun(plain, multiple_results=False)

    def on_cpu(context: Any, *given: Any, form: Form) -> Any:
        rule = native.lowering(name, *context.avals_in, valued=form.valued) if native.ready() else None
        return by_xla(context, *given, form=form) if rule is None else rule(context, *given)

    mlir.register_lowering(primitive, by_xla)
    mlir.register_lowering(primitive, on_cpu, platform="cpu")
    batching.primitive_batchers[primitive] = partial(_batched, primitive)

    def tangents(primals: Any, tangents: Any, form: Form) -> Any:
        (x, *fixed), (tangent, *others) = primals, tangents
        if any(type(other) is not ad.Zero for other in others):
            raise InputError("there is no derivative by sparse features, only by what they are multiplied with.")
        made = primitive.bind(x, *fixed, form=form)
        zero: Any = ad.Zero
        moved = type(tangent) is not zero
        return made, primitive.bind(tangent, *fixed, form=form) if moved else zero.from_primal_value(made)

    def transposed(cotangent: Any, x: Any, at: Any, *arrays: Any, form: Form) -> Any:
        return transpose.bind(cotangent, at, *arrays, form=form), None, *(None for _ in arrays)

    ad.primitive_jvps[primitive] = tangents
    ad.primitive_transposes[primitive] = transposed


_known("dot", dot_p, add_p, plain_dot)
_known("add", add_p, dot_p, plain_add)
