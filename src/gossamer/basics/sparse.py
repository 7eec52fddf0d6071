"""SciPy's sparse matrices, checked before compiled code reads where their arrays point."""

from typing import Any

import numpy as np
import scipy.sparse as sp

from gossamer.core import InputError

WAY_OUT = "Make it anew from its entries, such as scipy.sparse.coo_array((values, (rows, columns)), shape=…)"


def checked(given: Any, what: str) -> sp.csr_array:
    """Return a sparse matrix as a CSR array; raise InputError if its arrays contradict each other or its shape.

    SciPy checks them, in part, when a matrix is made, and never when its arrays are changed or its files are.
    """
    wrong = _FAULTS.get(given.format, lambda matrix: None)(given)
    if wrong is None:
        try:
            rows = given if given.format == "csr" else given.tocsr()
        except (ValueError, IndexError, TypeError) as error:
            wrong = str(error)
        else:
            if (wrong := _of_compressed(rows)) is None:
                held = int(rows.indptr[-1])  # what stands behind it is no part of the matrix
                return sp.csr_array((rows.data[:held], rows.indices[:held], rows.indptr), shape=rows.shape)
    raise InputError(f"{what}: the sparse matrix is damaged: {wrong}. {WAY_OUT}.")


def _of_compressed(matrix: Any) -> str | None:
    """Return what is wrong with the arrays of a CSR, CSC or BSR matrix, if anything."""
    if matrix.data.ndim != (3 if matrix.format == "bsr" else 1):
        return f"its data have shape {matrix.data.shape}"
    line, sizes = ("column", matrix.shape[::-1]) if matrix.format == "csc" else ("row", matrix.shape)
    block = matrix.data.shape[1:] or (1, 1)
    lines, most = (size // part if part else 0 for size, part in zip(sizes, block, strict=True))
    indptr, indices, count = matrix.indptr, matrix.indices, len(matrix.data)
    for name, array in (("indptr", indptr), ("indices", indices)):
        if array.ndim != 1 or array.dtype.kind not in "iu":
            return f"its {name} must be a list of whole numbers, but have shape {array.shape} and type {array.dtype}"
    if len(indptr) != lines + 1:
        return f"its indptr has {len(indptr):,} numbers, but {lines:,} {line}s need {lines + 1:,}"
    if len(indices) != count:
        return f"it has {len(indices):,} indices, but {count:,} values"
    if indptr[0] != 0:
        return f"its indptr must begin at 0, but begins at {indptr[0]}"
    falls = np.flatnonzero(indptr[1:] < indptr[:-1])
    if falls.size:
        return f"its indptr falls from {indptr[falls[0]]} to {indptr[falls[0] + 1]} at {line} {falls[0]}"
    if indptr[-1] > count:
        return f"its indptr ends at {indptr[-1]:,}, but there are {count:,} values"
    at = _outside(indices[: int(indptr[-1])], most)
    if at is None:
        return None
    return f"the index {indices[at]} in {line} {np.searchsorted(indptr, at, side='right') - 1} is not in 0 … {most - 1}"


def _of_coordinates(matrix: Any) -> str | None:
    """Return what is wrong with the arrays of a COO matrix, if anything."""
    for name, places, most in (("row", matrix.row, matrix.shape[0]), ("col", matrix.col, matrix.shape[1])):
        if places.ndim != 1 or places.dtype.kind not in "iu" or len(places) != len(matrix.data):
            return f"its {name} must be {len(matrix.data):,} whole numbers, one for each value, but is {places!r:.60}"
        if (at := _outside(places, most)) is not None:
            return f"the {name} {places[at]} of entry {at} is not in 0 … {most - 1}"
    return None


def _of_lists(matrix: Any) -> str | None:
    """Return what is wrong with the lists of a LIL matrix, if anything."""
    if not len(matrix.rows) == len(matrix.data) == matrix.shape[0]:
        return f"it has {len(matrix.rows)} lists of columns and {len(matrix.data)} of values for {matrix.shape[0]} rows"
    for row, (columns, values) in enumerate(zip(matrix.rows, matrix.data, strict=True)):
        if len(columns) != len(values):
            return f"row {row} has {len(columns)} columns, but {len(values)} values"
    return None


def _of_diagonals(matrix: Any) -> str | None:
    """Return what is wrong with the arrays of a DIA matrix, if anything."""
    if matrix.data.ndim == 2 and len(matrix.data) == len(matrix.offsets):
        return None
    return f"it has {len(matrix.offsets)} offsets, but its data have shape {matrix.data.shape}"


_FAULTS = {
    **dict.fromkeys(("csr", "csc", "bsr"), _of_compressed),
    **{"coo": _of_coordinates, "lil": _of_lists, "dia": _of_diagonals},
}


def _outside(places: np.ndarray, most: int) -> int | None:
    """Return where the first number is that is below 0 or not below `most`, if any."""
    if not places.size or (places.min() >= 0 and places.max() < most):
        return None
    return int(np.argmax((places < 0) | (places >= most)))
