"""Checks of arrays that a user gives: numbers of any shape, and sparse matrices."""

from typing import TYPE_CHECKING, Any

import numpy as np

from gossamer.core import InputError, brief

if TYPE_CHECKING:
    import scipy.sparse as sp

LARGEST = 1e100
"""The largest size of a given number: its square, and sums of such squares, are still finite."""


def array_of(where: str, values: Any) -> np.ndarray:
    """Return values as an array of whole or floating numbers. Raise InputError, which names `where` they stood."""
    try:
        array = np.asarray(values)
    except (TypeError, ValueError):  # rows of different lengths, or lists too deep for an array
        array = np.asarray(None)
    listed = np.asarray(values, object).ravel() if isinstance(values, (list, tuple)) and array.ndim else ()
    if array.dtype.kind not in "iuf" or any(isinstance(value, bool) for value in listed):  # NumPy takes true for 1
        raise InputError(f"{where} must be numbers, but is {brief(values)}. All rows must have the same length.")
    return array


def numbers(where: str, values: Any, *, finite: bool = True) -> np.ndarray:
    """Return values as a new float64 array of their shape. Raise InputError, which names `where` they stood.

    With ``finite=False`` values may also be infinite or NaN, as the point of a run that diverged is.
    """
    array = array_of(where, values).astype(np.float64)
    wrong = ~(np.abs(array) <= LARGEST)
    if finite and wrong.any():
        at = tuple(int(place) for place in np.argwhere(wrong)[0])
        place = f" at index {at}" if at else ""
        bound = f"of size {LARGEST:g} at most" if np.isfinite(array[at]) else "finite"
        raise InputError(f"{where} must be {bound}, but is {array[at]:g}{place}.")
    return array


def check_sparse(given: Any, what: str) -> "sp.csr_array":
    """Return a sparse matrix as a CSR array; raise InputError if its arrays contradict each other or its shape.

    SciPy checks a matrix in part when it is made, and not at all when its arrays are changed later.
    """
    import scipy.sparse as sp  # not every array is sparse

    try:
        if hasattr(given, "check_format"):  # CSR, CSC and BSR; before a conversion reads where their indices point
            given.check_format(full_check=True)
        matrix = sp.csr_array(given)
        matrix.check_format(full_check=True)
    except (ValueError, IndexError, TypeError) as error:
        raise InputError(
            f"{what}: the sparse matrix is damaged: {error}. Make it anew from its entries, such as "
            "scipy.sparse.coo_array((values, (rows, columns)), shape=…)."
        ) from None
    return matrix
