r"""The spectral gap $\rho = 1 - \lVert W - J\rVert_2$: how much of the disagreement one gossip removes.

For an asymmetric $W$ this is a singular value, not an eigenvalue: eigenvalues say nothing about one round.
"""

import math
from collections.abc import Callable
from typing import Literal

import numpy as np
import scipy.sparse as sp

from gossamer.basics.lazy_scipy import csgraph, linalg, sparse_linalg

Product = Callable[[np.ndarray], np.ndarray]

EXACT_AGENTS = 1_000
"""The most agents whose whole spectrum is computed."""

RESIDUAL, STEPS, LOOKED = 1e-9, 2_500, 20
"""Of Lanczos: where it ends, how many steps it takes at most, and how many between two looks."""


def size(matrix: sp.csr_array) -> int:
    """Return the number of agents of a square matrix."""
    return len(matrix.indptr) - 1


def largest(n: int, product: Product, whole: Callable[[], sp.csr_array] | None = None, thin: bool = False) -> float:
    """Return λ_max(M − J) of a symmetric positive semidefinite M with rows that sum to 1, given by its product.

    Exact up to `EXACT_AGENTS` agents; beyond, as `ends` says. Where that is slow, and at once where
    the graph is `thin`, the whole sparse matrix is factorised, if there is one; else Lanczos goes on to 1e-4.
    """
    if n == 1:
        return 0.0
    if n <= EXACT_AGENTS:
        columns = np.stack([product(e) for e in np.eye(n)], axis=1)
        return float(np.linalg.eigvalsh((columns + columns.T) / 2 - 1 / n)[-1])
    extremes = None if thin else ends(n, lambda x: product(x) - x.mean(), "high")
    if extremes is not None:
        return extremes[1]
    if whole is not None:
        return 1 - _laplacian_gap(whole())
    # A product of many thin rounds: what is slow to find is close to the largest.
    centred, limits = _operator(n, lambda x: product(x) - x.mean()), {"ncv": 64, "maxiter": 10 * n, "tol": 1e-4}
    return float(sparse_linalg.eigsh(centred, 1, which="LA", v0=_start(n), return_eigenvectors=False, **limits)[0])


def ends(n: int, product: Product, wanted: Literal["low", "high", "largest"]) -> tuple[float, float] | None:
    """Return the lowest and the highest eigenvalue of a symmetric matrix of size about 1, given by its product.

    Lanczos without restarts: the vectors lose their orthogonality, which brings copies of eigenvalues that have been
    found but no false ones, and so a step costs one product and a few sums, and no vector is kept. It ends when the
    residual ‖Av − θv‖ of the wanted end, or of the one that is larger in size, is below `RESIDUAL`: an eigenvalue is as
    near as that to θ, and, since the matrix is symmetric, as near as its square over the distance to the next. None
    where that takes too many steps, as on long thin graphs.
    """
    v = _start(n)
    v, before = v / math.sqrt(_dot(v, v)), np.zeros(n)
    diagonal, beside = [], []
    for step in range(1, STEPS + 1):
        w = product(v) - (beside[-1] if beside else 0.0) * before
        diagonal.append(_dot(w, v))
        w -= diagonal[-1] * v
        beside.append(math.sqrt(_dot(w, w)))
        closed = beside[-1] < 1e-14 or step == n  # the vectors so far span a space that the matrix does not leave
        if closed or step % LOOKED == 0:
            low, high = _ritz(diagonal, beside, 0), _ritz(diagonal, beside, step - 1)
            below = wanted == "low" or (wanted == "largest" and -low[0] > high[0])
            larger, other = (low, high) if below else (high, low)
            surpassed = wanted != "largest" or other[1] < RESIDUAL or abs(other[0]) + other[1] < abs(larger[0])
            if closed or (larger[1] < RESIDUAL and surpassed):
                return low[0], high[0]
        before, v = v, w / beside[-1]
    return None


def _dot(a: np.ndarray, b: np.ndarray) -> float:
    # not BLAS, whose threads wait for each other longer than this takes: on a busy machine ten times as long
    return float(np.einsum("i,i", a, b))


def _ritz(diagonal: list[float], beside: list[float], k: int) -> tuple[float, float]:
    """Return the k-th eigenvalue that Lanczos sees, and its residual."""
    values, vectors = linalg.eigh_tridiagonal(diagonal, beside[:-1], select="i", select_range=(k, k))
    return float(values[0]), float(beside[-1] * abs(vectors[-1, 0]))


def matrix_lowest(symmetric: sp.csr_array) -> float:
    """Return the lowest eigenvalue of a symmetric, stochastic matrix, never dense above `EXACT_AGENTS` agents."""
    n = size(symmetric)
    if n <= EXACT_AGENTS:
        return float(np.linalg.eigvalsh(symmetric.toarray())[0])
    extremes = ends(n, lambda x: symmetric @ x, "low")
    if extremes is not None:
        return extremes[0]
    # Long thin graphs: as with the gap, a factorisation. Gershgorin's bound is the place to look from.
    bound = 2 * symmetric.diagonal().min() - 1
    return float(sparse_linalg.eigsh(symmetric, 1, sigma=bound - 1e-9, v0=_start(n), return_eigenvectors=False)[0])


def matrix_gap(matrix: sp.csr_array) -> float:
    """Return the gap of a doubly stochastic matrix, never dense above `EXACT_AGENTS` agents."""
    n = size(matrix)
    if n <= EXACT_AGENTS:
        return clip(1 - float(np.linalg.norm(matrix.toarray() - 1 / n, 2)))
    if csgraph.connected_components(double_cover(matrix), directed=False)[0] > 1:
        return 0.0
    if abs(matrix - matrix.T).max() <= 1e-14:
        g = None if is_thin(matrix) else _lanczos_gap(n, lambda x: matrix @ x)
        return clip(_factored_gap(matrix) if g is None else g)
    # (W − J)ᵀ(W − J) = WᵀW − J, and WᵀW is doubly stochastic too; g = 1 − σ² gives ρ = 1 − σ without cancellation.
    transpose = sp.csr_array(matrix.T)
    g = _lanczos_gap(n, lambda x: transpose @ (matrix @ x))
    g = _laplacian_gap(sp.csr_array(transpose @ matrix)) if g is None else g
    return clip(g / (1 + np.sqrt(max(0.0, 1 - g))))


def is_thin(matrix: sp.csr_array) -> bool:
    """Return True for a tree or a cycle, about: Lanczos needs very many steps there, a factorisation next to none."""
    return bool(matrix.nnz - np.count_nonzero(matrix.diagonal()) <= 2 * size(matrix))


def double_cover(matrix: sp.csr_array) -> sp.coo_array:
    """Return the bipartite graph of rows and columns. It is connected exactly if WᵀW is irreducible, that is ρ > 0."""
    n = size(matrix)
    entries = sp.coo_array(matrix)
    return sp.coo_array((np.ones(entries.nnz), (entries.row, entries.col + n)), shape=(2 * n, 2 * n))


def _lanczos_gap(n: int, product: Product) -> float | None:
    """Return 1 − max |λ| over the complement of the constants; None if Lanczos does not converge."""
    extremes = ends(n, lambda x: product(x) - x.mean(), "largest")
    return None if extremes is None else 1 - max(map(abs, extremes))


def _factored_gap(symmetric: sp.csr_array) -> float:
    """Return 1 − max |λ| from sparse factorisations, which cost little on long thin graphs."""
    second = _laplacian_gap(symmetric)
    # Gershgorin often shows that the lower end cannot matter, and saves the second factorisation.
    if 2 * symmetric.diagonal().min() >= second:
        return second
    start = _start(size(symmetric))
    lowest = sparse_linalg.eigsh(symmetric, 1, sigma=-1 - 1e-9, v0=start, return_eigenvectors=False)
    return min(second, 1 + float(lowest[0]))


def _laplacian_gap(symmetric: sp.csr_array) -> float:
    """Return the smallest positive eigenvalue of I − W, from the largest of its pseudo-inverse."""
    n = size(symmetric)
    # Ground the agent with the most neighbours: on a star, what is left is diagonal, where another would lose digits
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


def clip(gap: float) -> float:
    """Return the gap, which rounding may have moved out of [0, 1], inside."""
    return float(min(max(gap, 0.0), 1.0))
