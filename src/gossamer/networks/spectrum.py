r"""The spectral gap $\rho = 1 - \lVert W - J\rVert_2$: how much of the disagreement one gossip removes.

For an asymmetric $W$ this is a singular value, not an eigenvalue: eigenvalues say nothing about one round.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh, splu

Product = Callable[[np.ndarray], np.ndarray]

EXACT_AGENTS = 1_000
"""The most agents whose whole spectrum is computed."""


def size(matrix: sp.csr_array) -> int:
    """The number of agents of a square matrix."""
    return len(matrix.indptr) - 1


def shifts_gap(shape: tuple[int, ...], offsets: tuple[tuple[int, ...], ...], weights: np.ndarray) -> float:
    """The gap of a sum of translations: the Fourier transform diagonalises it, so this is exact for any size."""
    kernel = np.zeros(shape)
    np.add.at(kernel, tuple(np.transpose(offsets)), weights)
    sizes = np.abs(np.fft.fftn(kernel)).ravel()
    return _clip(1 - sizes[1:].max(initial=0.0))


def product_largest(factors: list[tuple[tuple[int, ...], tuple[tuple[int, ...], ...], np.ndarray]]) -> float:
    """‖P − J‖₂² of a product of sums of translations on one group, in the same way."""
    squares = np.ones(factors[0][0])
    for shape, offsets, weights in factors:
        kernel = np.zeros(shape)
        np.add.at(kernel, tuple(np.transpose(offsets)), weights)
        squares = squares * np.abs(np.fft.fftn(kernel)) ** 2
    return float(squares.ravel()[1:].max(initial=0.0))


def largest(n: int, product: Product, whole: Callable[[], sp.csr_array] | None = None) -> float:
    """λ_max(M − J) of a symmetric positive semidefinite M whose rows sum to 1, given by its product with a vector.

    Exact up to `EXACT_AGENTS` agents; beyond, Lanczos to 1e-8. Where that is slow, the whole sparse matrix is
    factorised, if there is one; else Lanczos goes on to 1e-4.
    """
    if n == 1:
        return 0.0
    if n <= EXACT_AGENTS:
        columns = np.stack([product(e) for e in np.eye(n)], axis=1)
        return float(np.linalg.eigvalsh((columns + columns.T) / 2 - 1 / n)[-1])
    centred = _operator(n, lambda x: product(x) - x.mean())
    limits: dict[str, Any] = {"which": "LA", "ncv": 64, "maxiter": 40, "tol": 1e-8}
    try:
        return float(eigsh(centred, 1, v0=_start(n), return_eigenvectors=False, **limits)[0])
    except ArpackNoConvergence:
        if whole is not None:
            return 1 - _laplacian_gap(whole())
        # A product of many thin rounds: what is slow to find is close to the largest.
        limits |= {"maxiter": 10 * n, "tol": 1e-4}
        return float(eigsh(centred, 1, v0=_start(n), return_eigenvectors=False, **limits)[0])


def shifts_lowest(shape: tuple[int, ...], offsets: tuple[tuple[int, ...], ...], weights: np.ndarray) -> float:
    """The lowest eigenvalue of a symmetric sum of translations, exactly."""
    kernel = np.zeros(shape)
    np.add.at(kernel, tuple(np.transpose(offsets)), weights)
    return float(np.fft.fftn(kernel).real.min())


def matrix_lowest(symmetric: sp.csr_array) -> float:
    """The lowest eigenvalue of a symmetric, stochastic matrix, never dense above `EXACT_AGENTS` agents."""
    n = size(symmetric)
    if n <= EXACT_AGENTS:
        return float(np.linalg.eigvalsh(symmetric.toarray())[0])
    limits: dict[str, Any] = {"which": "SA", "ncv": 64, "maxiter": 40, "tol": 1e-8}
    try:
        return float(eigsh(symmetric, 1, v0=_start(n), return_eigenvectors=False, **limits)[0])
    except ArpackNoConvergence:
        # Long thin graphs: as with the gap, a factorisation. Gershgorin's bound is the place to look from.
        bound = 2 * symmetric.diagonal().min() - 1
        return float(eigsh(symmetric, 1, sigma=bound - 1e-9, v0=_start(n), return_eigenvectors=False)[0])


def matrix_gap(matrix: sp.csr_array) -> float:
    """The gap of a doubly stochastic matrix, never dense above `EXACT_AGENTS` agents."""
    n = size(matrix)
    if n <= EXACT_AGENTS:
        return _clip(1 - float(np.linalg.norm(matrix.toarray() - 1 / n, 2)))
    if connected_components(double_cover(matrix), directed=False)[0] > 1:
        return 0.0
    if abs(matrix - matrix.T).max() <= 1e-14:
        # Trees and cycles: Lanczos needs very many steps there, and a factorisation next to none.
        tree_like = matrix.nnz - np.count_nonzero(matrix.diagonal()) <= 2 * n
        g = None if tree_like else _lanczos_gap(n, lambda x: matrix @ x)
        return _clip(_factored_gap(matrix) if g is None else g)
    # (W − J)ᵀ(W − J) = WᵀW − J, and WᵀW is doubly stochastic too; g = 1 − σ² gives ρ = 1 − σ without cancellation.
    transpose = sp.csr_array(matrix.T)
    g = _lanczos_gap(n, lambda x: transpose @ (matrix @ x))
    g = _laplacian_gap(sp.csr_array(transpose @ matrix)) if g is None else g
    return _clip(g / (1 + np.sqrt(max(0.0, 1 - g))))


def double_cover(matrix: sp.csr_array) -> sp.coo_array:
    """The bipartite graph of rows and columns. It is connected exactly when WᵀW is irreducible, that is when ρ > 0."""
    n = size(matrix)
    entries = sp.coo_array(matrix)
    return sp.coo_array((np.ones(entries.nnz), (entries.row, entries.col + n)), shape=(2 * n, 2 * n))


def _lanczos_gap(n: int, product: Product) -> float | None:
    """1 − max |λ| over the complement of the constants; None where it does not converge, as on long thin graphs."""
    centred = _operator(n, lambda x: product(x) - x.mean())
    limits: dict[str, Any] = {"ncv": 64, "maxiter": 40, "tol": 1e-12}
    try:
        return 1 - abs(float(eigsh(centred, 1, v0=_start(n), return_eigenvectors=False, **limits)[0]))
    except ArpackNoConvergence:
        return None


def _factored_gap(symmetric: sp.csr_array) -> float:
    """The same from sparse factorisations, which cost little on long thin graphs."""
    second = _laplacian_gap(symmetric)
    # Gershgorin often shows that the lower end cannot matter, and saves the second factorisation.
    if 2 * symmetric.diagonal().min() >= second:
        return second
    start = _start(size(symmetric))
    lowest = eigsh(symmetric, 1, sigma=-1 - 1e-9, v0=start, return_eigenvectors=False)
    return min(second, 1 + float(lowest[0]))


def _laplacian_gap(symmetric: sp.csr_array) -> float:
    """The smallest positive eigenvalue of I − W, from the largest of its pseudo-inverse: one agent is grounded."""
    n = size(symmetric)
    grounded = splu(sp.csc_matrix(sp.eye_array(n) - symmetric)[: n - 1, : n - 1])

    def pseudo_inverse(x: np.ndarray) -> np.ndarray:
        y = np.append(grounded.solve(x[:-1] - x.mean()), 0.0)
        return y - y.mean()

    inverse = _operator(n, pseudo_inverse)
    return 1 / float(eigsh(inverse, 1, which="LA", v0=_start(n), return_eigenvectors=False)[0])


def _start(n: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(n)


def _operator(n: int, product: Product) -> LinearOperator:
    return LinearOperator((n, n), matvec=lambda x: product(np.ravel(x)), dtype=np.float64)  # pyright: ignore


def _clip(gap: float) -> float:
    """Rounding may leave the interval [0, 1]."""
    return float(min(max(gap, 0.0), 1.0))
