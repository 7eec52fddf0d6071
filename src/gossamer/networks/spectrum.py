r"""The spectral gap $\rho = 1 - \lVert W - J\rVert_2$: the share of the disagreement that one gossip removes.

For an asymmetric $W$ this is a singular value, not an eigenvalue: eigenvalues say nothing about one round. Up to
`EXACT_AGENTS` agents all comes from dense matrices. Beyond, Lanczos' method needs products with sparse matrices only;
it is slow on long thin graphs, whose sparse factorisation costs next to nothing.
"""

from collections.abc import Callable
from typing import Literal

import numpy as np
import scipy.sparse as sp

from gossamer.basics.lazy_scipy import csgraph, sparse_linalg

Product = Callable[[np.ndarray], np.ndarray]

EXACT_AGENTS = 1_000
"""The most agents whose whole spectrum is computed."""

RESTARTS = 200
"""The restarts, of about 20 products each, after which Lanczos gives up."""


def size(matrix: sp.csr_array) -> int:
    """Return the number of agents of a square matrix."""
    return len(matrix.indptr) - 1


def matrix_gap(matrix: sp.csr_array) -> float:
    """Return the gap of a doubly stochastic matrix, never dense above `EXACT_AGENTS` agents."""
    n = size(matrix)
    if n <= EXACT_AGENTS:
        return clip(1 - float(np.linalg.norm(matrix.toarray() - 1 / n, 2)))
    if csgraph.connected_components(double_cover(matrix), directed=False)[0] > 1:
        return 0.0
    if abs(matrix - matrix.T).max() <= 1e-14:
        largest = None if is_thin(matrix) else _lanczos(n, lambda x: matrix @ x - x.mean(), "LM")
        if largest is not None:
            return clip(1 - abs(largest))
        second = _laplacian_gap(matrix)
        # Gershgorin often shows that the lower end cannot matter, and saves the second factorisation.
        if 2 * matrix.diagonal().min() >= second:
            return clip(second)
        lowest = sparse_linalg.eigsh(matrix, 1, sigma=-1 - 1e-9, v0=_start(n), return_eigenvectors=False)
        return clip(min(second, 1 + float(lowest[0])))
    # (W − J)ᵀ(W − J) = WᵀW − J, and WᵀW is doubly stochastic too; g = 1 − σ² gives ρ = 1 − σ without cancellation.
    transpose = sp.csr_array(matrix.T)
    square = _lanczos(n, lambda x: transpose @ (matrix @ x) - x.mean(), "LA")
    g = _laplacian_gap(sp.csr_array(transpose @ matrix)) if square is None else 1 - square
    return clip(g / (1 + np.sqrt(max(0.0, 1 - g))))


def matrix_lowest(symmetric: sp.csr_array) -> float:
    """Return the lowest eigenvalue of a symmetric, stochastic matrix, never dense above `EXACT_AGENTS` agents."""
    n = size(symmetric)
    if n <= EXACT_AGENTS:
        return float(np.linalg.eigvalsh(symmetric.toarray())[0])
    lowest = _lanczos(n, lambda x: symmetric @ x, "SA")
    if lowest is not None:
        return lowest
    bound = 2 * symmetric.diagonal().min() - 1  # Gershgorin's: the place to look from
    return float(sparse_linalg.eigsh(symmetric, 1, sigma=bound - 1e-9, v0=_start(n), return_eigenvectors=False)[0])


def largest(n: int, product: Product, whole: Callable[[], sp.csr_array] | None = None, thin: bool = False) -> float:
    """Return λ_max(M − J) of a symmetric positive semidefinite M with rows that sum to 1, given by its product.

    If the graph is `thin`, and if Lanczos is slow, the whole sparse matrix is factorised. Without one, as for a product
    of many rounds, Lanczos goes on to an error of 1e-4: an eigenvalue that is slow to find is close to the largest.
    """
    if n == 1:
        return 0.0
    if n <= EXACT_AGENTS:
        columns = np.stack([product(e) for e in np.eye(n)], axis=1)
        return float(np.linalg.eigvalsh((columns + columns.T) / 2 - 1 / n)[-1])
    found = None if thin else _lanczos(n, lambda x: product(x) - x.mean(), "LA")
    if found is not None:
        return found
    if whole is not None:
        return 1 - _laplacian_gap(whole())
    centred, limits = _operator(n, lambda x: product(x) - x.mean()), {"ncv": 64, "maxiter": 10 * n, "tol": 1e-4}
    return float(sparse_linalg.eigsh(centred, 1, which="LA", v0=_start(n), return_eigenvectors=False, **limits)[0])


def is_thin(matrix: sp.csr_array) -> bool:
    """Return True for a tree or a cycle, about."""
    return bool(matrix.nnz - np.count_nonzero(matrix.diagonal()) <= 2 * size(matrix))


def double_cover(matrix: sp.csr_array) -> sp.coo_array:
    """Return the bipartite graph of rows and columns. It is connected exactly if WᵀW is irreducible, that is ρ > 0."""
    n = size(matrix)
    entries = sp.coo_array(matrix)
    return sp.coo_array((np.ones(entries.nnz), (entries.row, entries.col + n)), shape=(2 * n, 2 * n))


def clip(gap: float) -> float:
    """Return the gap, which rounding may have moved out of [0, 1], inside."""
    return float(min(max(gap, 0.0), 1.0))


def _lanczos(n: int, product: Product, end: Literal["LA", "SA", "LM"]) -> float | None:
    """Return the highest, the lowest or the largest eigenvalue of a symmetric matrix; None if Lanczos gives up."""
    limits = {"maxiter": RESTARTS, "tol": 1e-10}
    try:
        found = sparse_linalg.eigsh(
            _operator(n, product), 1, which=end, v0=_start(n), return_eigenvectors=False, **limits
        )
    except sparse_linalg.ArpackNoConvergence:
        return None
    return float(found[0])


def _laplacian_gap(symmetric: sp.csr_array) -> float:
    """Return the smallest positive eigenvalue of I − W, from the largest of its pseudo-inverse."""
    n = size(symmetric)
    # Ground the agent with the most neighbours: on a star, what is left is diagonal, where another would lose digits.
    others = np.delete(np.arange(n), np.diff(symmetric.indptr).argmax())
    grounded = sparse_linalg.splu(sp.csc_matrix(sp.eye_array(n) - symmetric)[others][:, others])

    def pseudo_inverse(x: np.ndarray) -> np.ndarray:
        y = np.zeros(n)
        y[others] = grounded.solve(x[others] - x.mean())
        return y - y.mean()

    inverse = _operator(n, pseudo_inverse)
    return 1 / float(sparse_linalg.eigsh(inverse, 1, which="LA", v0=_start(n), return_eigenvectors=False)[0])


def _start(n: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(n)


def _operator(n: int, product: Product) -> "sparse_linalg.LinearOperator":
    return sparse_linalg.LinearOperator((n, n), matvec=lambda x: product(np.ravel(x)), dtype=np.float64)  # pyright: ignore
