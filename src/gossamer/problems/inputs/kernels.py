"""The products of sparse rows as handlers that XLA calls, compiled by Numba when they are first used.

A handler takes the address of a call frame and returns that of an error, or 0. The offsets are those of XLA's foreign
function interface in C, version 0.3 (``xla/ffi/api/c_api.h``), on machines with 64 bits. Only `native` imports this.
"""

import ctypes
from typing import Any

import jax
import numpy as np
from numba import cfunc, njit, types
from numba.extending import intrinsic

from gossamer.basics.once import once
from gossamer.problems.inputs.strips import gathered, scattered

SHORT = 4096
"""Up to this many columns x is copied and padded, so that padding of rows needs no branch: a third faster on a9a."""
_kept: list[Any] = []  # what XLA calls must not be collected


def _pointer(typing_context: Any, address: Any, like: Any) -> Any:
    """An address as a pointer to numbers of this type."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(types.CPointer(like.dtype)))

    return types.CPointer(like.dtype)(types.int64, like), generate


pointer: Any = intrinsic(_pointer)


@njit(inline="always")
def word(address, offset):
    return pointer(address + offset, np.int64)[0]


@njit(inline="always")
def asked_for_version(frame):
    """Whether XLA asks, at registration, which version of the interface this handler speaks; if so, answer."""
    extension = word(frame, 8)
    if extension == 0 or (word(extension, 8) & 0xFFFFFFFF) != 1:
        return False
    metadata = word(extension, 24)
    pointer(metadata + 24, np.int32)[0] = 0
    pointer(metadata + 28, np.int32)[0] = 3
    pointer(metadata + 32, np.int32)[0] = 0
    return True


@njit(inline="always")
def argument(frame, k):
    return word(word(frame, 72), 8 * k)


@njit(inline="always")
def result(frame):
    return word(word(frame, 112), 0)


@njit(inline="always")
def data(buffer):
    return word(buffer, 24)


@njit(inline="always")
def size(buffer, axis):
    return word(word(buffer, 40), 8 * axis)


@njit(inline="always")
def value_at(T, values, k):
    if values is None:
        return T(1)
    return T(values[k])


@njit(inline="always")
def pieces_of(more, row):
    if more is None:
        return np.uint64(1)
    return np.uint64(more[row]) + np.uint64(1)


@njit(inline="always")
def piece_at(after, row, p):
    if after is None:
        return row
    return row if p == np.uint64(0) else np.uint64(after[row]) + p - np.uint64(1)


@njit(cache=True)
def dot(T, x, at, whole, columns, values, after, more, z, agents, batch, d, h, width, rows):
    """z[i, j] = Σ_k value · x_i[column], over the entries k of the row that agent i chose as its j-th."""
    U = np.uint64  # unsigned indices spare a check for negative ones
    agents, batch, d, h, width, last = U(agents), U(batch), U(d), U(h), U(width), U(rows - 1)
    short, single = d <= U(SHORT), h == U(1)
    padded = np.zeros((d + U(1)) * h if short else U(1), T)
    table = pointer(padded.ctypes.data, T)
    for i in range(agents):
        own = i * d * h
        if short:
            for k in range(d * h):
                padded[k] = x[own + k]
        for j in range(batch):
            place = i * batch + j
            row, total = min(j if whole else U(at[place]), last), T(0)
            if not single:
                for c in range(place * h, (place + U(1)) * h):
                    z[c] = total
            for p in range(pieces_of(more, row)):
                first = piece_at(after, row, p) * width
                if short and single:
                    for k in range(first, first + width):
                        total += value_at(T, values, k) * padded[U(columns[k])]
                    continue
                if short:
                    gathered(z, place * h, table, columns, values, first, width, h)
                    continue
                for k in range(first, first + width):
                    column, value = U(columns[k]), value_at(T, values, k)
                    if column == d:
                        break
                    if single:
                        total += value * x[own + column]
                    else:
                        for c in range(h):
                            z[place * h + c] += value * x[own + column * h + c]
            if single:
                z[place] = total


@njit(cache=True)
def add(T, w, at, whole, columns, values, after, more, g, agents, batch, d, h, width, rows):
    """g_i[column] = Σ value · w[i, j], over the entries of all rows that agent i chose."""
    U = np.uint64
    agents, batch, d, h, width, last = U(agents), U(batch), U(d), U(h), U(width), U(rows - 1)
    short, single = d <= U(SHORT), h == U(1)
    padded = np.zeros((d + U(1)) * h if short else U(1), T)
    table = pointer(padded.ctypes.data, T)
    for i in range(agents):
        own = i * d * h
        if short:
            padded[:] = T(0)
        else:
            for k in range(own, own + d * h):
                g[k] = T(0)
        for j in range(batch):
            place = i * batch + j
            row, weight = min(j if whole else U(at[place]), last), w[place * h]
            for p in range(pieces_of(more, row)):
                first = piece_at(after, row, p) * width
                if short and single:
                    for k in range(first, first + width):
                        padded[U(columns[k])] += value_at(T, values, k) * weight
                    continue
                if short:
                    scattered(w, place * h, table, columns, values, first, width, h)
                    continue
                for k in range(first, first + width):
                    column, value = U(columns[k]), value_at(T, values, k)
                    if column == d:
                        break
                    if single:
                        g[own + column] += value * weight
                    else:
                        for c in range(h):
                            g[own + column * h + c] += value * w[place * h + c]
        if short:
            for k in range(d * h):
                g[own + k] = padded[k]


@njit(inline="always")
def values_of(frame, V):
    if V is None:
        return None
    return pointer(data(argument(frame, 3)), V)


@njit(inline="always")
def cuts_of(frame, V, C, k):
    if C is None:
        return None
    return pointer(data(argument(frame, k if V is None else k + 1)), C)


@njit(inline="always")
def rows_of(frame, V, C):
    """How many rows there are to choose from."""
    if C is None:
        return size(argument(frame, 2), 0)
    return size(argument(frame, 4 if V is None else 5), 0)


@njit(cache=True)
def run_dot(frame, T, K, V, C):
    x, at, columns, z = argument(frame, 0), argument(frame, 1), argument(frame, 2), result(frame)
    batch = size(z, 1)
    dot(
        *(T, pointer(data(x), T), pointer(data(at), np.int32), size(at, 1) != batch, pointer(data(columns), K)),
        *(values_of(frame, V), cuts_of(frame, V, C, 3), cuts_of(frame, V, C, 4), pointer(data(z), T)),
        *(size(x, 0), batch, size(x, 1), size(x, 2), size(columns, 1), rows_of(frame, V, C)),
    )


@njit(cache=True)
def run_add(frame, T, K, V, C):
    w, at, columns, g = argument(frame, 0), argument(frame, 1), argument(frame, 2), result(frame)
    batch = size(w, 1)
    add(
        *(T, pointer(data(w), T), pointer(data(at), np.int32), size(at, 1) != batch, pointer(data(columns), K)),
        *(values_of(frame, V), cuts_of(frame, V, C, 3), cuts_of(frame, V, C, 4), pointer(data(g), T)),
        *(size(w, 0), batch, size(g, 1), size(w, 2), size(columns, 1), rows_of(frame, V, C)),
    )


@once
def target(name: str, dtype: str, index: str, values: str | None, cut: bool) -> str:
    """The name under which XLA knows the handler for these types; it is compiled and registered at its first use."""
    T, K = np.dtype(dtype).type, np.dtype(index).type
    V, C = None if values is None else np.dtype(values).type, np.int32 if cut else None
    if name == "dot":

        @cfunc(types.int64(types.int64), cache=True)
        def handler(frame):
            if not asked_for_version(frame):
                run_dot(frame, T, K, V, C)
            return 0
    else:

        @cfunc(types.int64(types.int64), cache=True)
        def handler(frame):
            if not asked_for_version(frame):
                run_add(frame, T, K, V, C)
            return 0

    address: Any = handler.address
    called = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(address)
    registered = f"gossamer_rows_{name}_{dtype}_{index}_{values}_{cut}"
    jax.ffi.register_ffi_target(registered, jax.ffi.pycapsule(called), platform="cpu")
    _kept.extend((handler, called))
    return registered
