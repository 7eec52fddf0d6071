"""Sparse matrices drawn at random, by a way that all versions of SciPy have."""

import math

import scipy.sparse as sp


def drawn(shape, density, draw):
    """So dense a matrix of numbers in (0, 1); two that fall on one place become one."""
    count = round(math.prod(shape) * density)
    places = draw.integers(0, shape[0], count), draw.integers(0, shape[1], count)
    return sp.csr_array(sp.coo_array((1 - draw.random(count), places), shape=shape))


def write_libsvm(matrix, labels, file):
    """Write LIBSVM text in which each number is the shortest that reads back exactly."""
    rows = sp.csr_array(matrix)
    with open(file, "w") as text:
        for label, first, last in zip(labels, rows.indptr[:-1], rows.indptr[1:], strict=True):
            pairs = zip(rows.indices[first:last] + 1, rows.data[first:last], strict=True)
            text.write(" ".join([str(label), *(f"{column}:{value!s}" for column, value in pairs)]) + "\n")
