"""A check of sparse matrices before compiled code follows the indices in their arrays."""

from typing import Any

import scipy.sparse as sp

from gossamer.core import InputError


def check_sparse(given: Any, what: str) -> sp.csr_array:
    """Return a sparse matrix as a CSR array; raise InputError if its arrays contradict each other or its shape.

    SciPy checks a matrix in part when it is made, and not at all when its arrays are changed later.
    """
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
