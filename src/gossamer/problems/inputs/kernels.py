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


@njit(inline="always")
def four_dots(T, table, at, whole, columns, values, z, first, batch, width, last):
    """The rows of one agent four at a time, so that no sum waits for itself; the last four may overlap others."""
    U = np.uint64
    for k in range(U(0), batch, U(4)):
        j = min(k, batch - U(4))
        p = first + j
        a = min(j if whole else U(at[p]), last) * width
        b = min(j + U(1) if whole else U(at[p + U(1)]), last) * width
        c = min(j + U(2) if whole else U(at[p + U(2)]), last) * width
        e = min(j + U(3) if whole else U(at[p + U(3)]), last) * width
        of_a, of_b, of_c, of_e = T(0), T(0), T(0), T(0)
        for k in range(width):
            of_a += value_at(T, values, a + k) * table[U(columns[a + k])]
            of_b += value_at(T, values, b + k) * table[U(columns[b + k])]
            of_c += value_at(T, values, c + k) * table[U(columns[c + k])]
            of_e += value_at(T, values, e + k) * table[U(columns[e + k])]
        z[p], z[p + U(1)], z[p + U(2)], z[p + U(3)] = of_a, of_b, of_c, of_e


@njit(inline="always")
def four_sums(T, padded, w, at, columns, values, g, first, batch, d, width, last):
    """The sums of four agents together: a row often has columns of the row before it, and would wait for these."""
    U = np.uint64
    own, table = d + U(1), pointer(padded.ctypes.data, T)
    padded[:] = T(0)
    for j in range(batch):
        p = first * batch + j
        q, r, s = p + batch, p + U(2) * batch, p + U(3) * batch
        a, b = min(U(at[p]), last) * width, min(U(at[q]), last) * width
        c, e = min(U(at[r]), last) * width, min(U(at[s]), last) * width
        of_a, of_b, of_c, of_e = w[p], w[q], w[r], w[s]
        for k in range(width):
            table[U(columns[a + k])] += value_at(T, values, a + k) * of_a
            table[own + U(columns[b + k])] += value_at(T, values, b + k) * of_b
            table[U(2) * own + U(columns[c + k])] += value_at(T, values, c + k) * of_c
            table[U(3) * own + U(columns[e + k])] += value_at(T, values, e + k) * of_e
    for i in range(U(4)):
        for k in range(d):
            g[(first + i) * d + k] = table[i * own + k]


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
        if short and single and more is None and batch >= U(4):
            four_dots(T, table, at, whole, columns, values, z, i * batch, batch, width, last)
            continue
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
    if short and single and more is None and agents >= U(4) and not whole:
        four = np.empty(U(4) * (d + U(1)), T)
        for k in range(U(0), agents, U(4)):
            four_sums(T, four, w, at, columns, values, g, min(k, agents - U(4)), batch, d, width, last)
        return
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
                    for k in range(first, first + width, U(2)):  # columns of a piece differ, but for padding
                        a, b = U(columns[k]), U(columns[k + U(1)])
                        of_a = table[a] + value_at(T, values, k) * weight
                        of_b = table[b] + value_at(T, values, k + U(1)) * weight
                        table[a], table[b] = of_a, of_b
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
