"""Features with few non-zeros: a SciPy CSR array in one form, which is never made dense."""

from typing import Any

import numpy as np
import scipy.sparse

from gossamer.basics.sparse import checked
from gossamer.core import InputError

Sparse = scipy.sparse.csr_array


def canonical(given: Any, what: str) -> Sparse:
    """A finite, non-empty sparse matrix: columns in order, each once, no zero stored, in the smallest type."""
    if given.ndim != 2:
        raise InputError(f"{what} must be a matrix [rows, d], but has shape {given.shape}.")
    if 0 in given.shape:
        raise InputError(f"{what} needs at least one row and one column, but has shape {given.shape}.")
    if given.dtype.kind not in "biuf":
        raise InputError(f"{what} must be a matrix of numbers [rows, d], but its type is {given.dtype}.")
    matrix = checked(given, what)
    if not matrix.has_canonical_format or not matrix.data.all():
        matrix = matrix.copy()  # the caller's matrix stays as it is
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
    finite = np.isfinite(matrix.data)
    if not finite.all():
        at = int(np.argmin(finite))
        row, column = int(np.searchsorted(matrix.indptr, at, side="right")) - 1, matrix.indices[at]
        raise InputError(
            f"{what}: row {row}, column {column} (from 0) is {matrix.data[at]}. Drop the row or fill in a number."
        )
    return matrix


def widened(matrix: Any, columns: int) -> Sparse:
    """The same with columns of zeros behind it."""
    return Sparse((matrix.data, matrix.indices, matrix.indptr), shape=(matrix.shape[0], columns))


def read_only(matrix: Sparse) -> Sparse:
    """The same over arrays that nobody can write to."""
    parts = [part.view() for part in (matrix.data, matrix.indices, matrix.indptr)]
    for part in parts:
        part.flags.writeable = False
    sealed = Sparse(tuple(parts), shape=matrix.shape)
    sealed.has_canonical_format = True
    return sealed
