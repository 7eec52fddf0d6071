r"""Measures of a network: the spectral gap, effective neighbours, disagreement as rounds go by, and the diameter.

The gap $\rho = 1 - \lVert W - J\rVert_2$ is the share of the disagreement that one gossip removes. For an asymmetric
$W$ this is a singular value, not an eigenvalue: eigenvalues say nothing about one round. Up to `EXACT_AGENTS` agents
all comes from dense matrices. Beyond, Lanczos' method needs products with sparse matrices only; it is slow on long thin
graphs, whose sparse factorisation costs next to nothing.
"""

import functools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float

from gossamer.basics.arrays import array_of
from gossamer.core import InputError, Range, whole
from gossamer.networks.weights import only_moves, size

if TYPE_CHECKING:
    from gossamer.networks.mixers import MatrixName, Mixer

Product = Callable[[np.ndarray], np.ndarray]

EXACT_AGENTS = 1_000
"""The most agents whose whole spectrum is computed."""

RESTARTS = 200
"""The restarts, of about 20 products each, after which Lanczos gives up: a factorisation is then faster."""
# Long thin graphs are not found in time, and are fast to factorise. An expander of 10,000 agents takes about 90
# restarts, a tenth of a second; its factors are nearly dense and take half a minute.

DRAWN_ROUNDS = 256
"""The number of rounds drawn to estimate a gap that has no closed form."""

DECAY = Range(0, 1, False, True, "It is how much of the noise of a round is left a round later.")

WALKED = 1_000
"""The rounds over which a walk is averaged, and a twentieth of how many numbers walk, if there is no closed form."""

SEARCHES = 32
"""The number of breadth-first searches, one at a time, before all agents search at once."""

BYTES = 64_000_000
"""The memory that one level of a search from all agents may take at a time."""


# --- the spectrum ---


def matrix_gap(matrix: sp.csr_array) -> float:
    """Return the gap of a doubly stochastic matrix, never dense above `EXACT_AGENTS` agents."""
    n = size(matrix)
    if n <= EXACT_AGENTS:
        return clip(1 - float(np.linalg.norm(matrix.toarray() - 1 / n, 2)))
    if only_moves(matrix):
        return 0.0
    if abs(matrix - matrix.T).max() <= 1e-14:  # not by WᵀW, which is dense on a star
        second = 1 - largest(n, lambda x: matrix @ x, lambda: matrix)
        # Gershgorin often shows that the lower end cannot matter, and saves the search for it.
        return clip(second if 2 * matrix.diagonal().min() >= second else min(second, 1 + matrix_lowest(matrix)))
    # (W − J)ᵀ(W − J) = WᵀW − J, and WᵀW is doubly stochastic too; g = 1 − σ² gives ρ = 1 − σ without cancellation.
    transpose = sp.csr_array(matrix.T)
    g = 1 - largest(n, lambda x: transpose @ (matrix @ x), lambda: sp.csr_array(transpose @ matrix))
    return clip(g / (1 + math.sqrt(max(0.0, 1 - g))))


def matrix_lowest(symmetric: sp.csr_array) -> float:
    """Return the lowest eigenvalue of a symmetric, stochastic matrix, never dense above `EXACT_AGENTS` agents."""
    n = size(symmetric)
    if n <= EXACT_AGENTS:
        return float(np.linalg.eigvalsh(symmetric.toarray())[0])
    lowest = _lanczos(n, lambda x: symmetric @ x, "SA")
    # Gershgorin's bound is the place to look from.
    return _nearest(symmetric, 2 * symmetric.diagonal().min() - 1 - 1e-9, 1)[0] if lowest is None else lowest


def largest(n: int, product: Product, whole: Callable[[], sp.csr_array] | None = None) -> float:
    """Return λ_max(M − J) of a symmetric M with rows that sum to 1, given by its product.

    If Lanczos is slow, as on long thin graphs, the whole sparse matrix is factorised. Without one, as for a product of
    many rounds, Lanczos goes on to an error of 1e-4: an eigenvalue that is slow to find is close to the largest.
    """
    if n == 1:
        return 0.0
    if n <= EXACT_AGENTS:
        columns = np.stack([product(e) for e in np.eye(n)], axis=1)
        return float(np.linalg.eigvalsh((columns + columns.T) / 2 - 1 / n)[-1])
    found = _lanczos(n, lambda x: product(x) - x.mean(), "LA")
    if found is not None:
        return found
    if whole is not None:
        return float(min(_nearest(whole(), 1 + 1e-8, 2)))  # the largest is 1, of the vector of ones
    return _eigenvalue(n, lambda x: product(x) - x.mean(), "LA", ncv=64, maxiter=10 * n, tol=1e-4)


def clip(gap: float) -> float:
    """Return the gap, which rounding may have moved out of [0, 1], inside."""
    return float(min(max(gap, 0.0), 1.0))


def _nearest(symmetric: sp.csr_array, place: float, count: int) -> np.ndarray:
    """Return the eigenvalues nearest to a number that is none, by factorising the matrix."""
    from scipy.sparse import linalg

    matrix, start = sp.csc_array(symmetric), _start(size(symmetric))
    return np.asarray(linalg.eigsh(matrix, count, sigma=place, v0=start, return_eigenvectors=False))


def _lanczos(n: int, product: Product, end: Literal["LA", "SA"]) -> float | None:
    """Return the highest or the lowest eigenvalue of a symmetric matrix; None if Lanczos is slow to find it."""
    from scipy.sparse import linalg

    try:
        return _eigenvalue(n, product, end, maxiter=RESTARTS, tol=1e-10)
    except linalg.ArpackNoConvergence:
        return None


def _eigenvalue(n: int, product: Product, end: Literal["LA", "SA"], **limits: Any) -> float:
    from scipy.sparse import linalg

    operator: Any = linalg.LinearOperator((n, n), matvec=lambda x: product(np.ravel(x)), dtype=np.float64)  # pyright: ignore
    return float(linalg.eigsh(operator, 1, which=end, v0=_start(n), return_eigenvectors=False, **limits)[0])


def _start(n: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(n)  # so that a gap is the same twice


def estimate_contraction(mixer: "Mixer", n: int, step: int = 1) -> float:
    """Return the mean of PᵀP's λ_max over `DRAWN_ROUNDS` drawn rounds, or the exact one if nothing is drawn.

    W is I in all rounds of a period but every `step`-th.
    """
    p = mixer.period
    periods = -(-DRAWN_ROUNDS // p) if mixer.random else 1
    rounds = [[mixer.sparse(s * p + t) for t in range(0, p, step)] for s in range(periods)]
    if not mixer.random and _averages_exactly(rounds[0], n):
        return 0.0
    if n <= EXACT_AGENTS:
        if p == 1:
            mean: Any = sum((W.T @ W for (W,) in rounds), sp.csr_array((n, n))) / periods
        else:
            mean = np.zeros((n, n))
            for period in rounds:
                P = functools.reduce(lambda P, W: W @ P, period, np.eye(n))
                mean += P.T @ P / periods
        return largest(n, lambda x: mean @ x)

    def product(x: np.ndarray) -> np.ndarray:
        total = np.zeros(n)
        for period in rounds:
            y = functools.reduce(lambda y, W: W @ y, period, x)
            total += functools.reduce(lambda y, W: W.T @ y, reversed(period), y) / periods
        return total

    return largest(n, product)


def _averages_exactly(period: list[sp.csr_array], n: int) -> bool:
    """Return True if the product of these rounds is J. PᵀP would hide that behind its rounding."""
    x = np.random.default_rng(0).standard_normal((n, 4))  # a random vector has a part along every eigenvector
    x = start = x - x.mean(axis=0)
    for W in period:
        x = W @ x
    return bool(np.abs(x).max() < 1e-13 * np.abs(start).max())


# --- walks and disagreement ---


def effective_neighbors(mixer: "Mixer", agents: int, decay: float) -> float | None:
    r"""Return $n_W(\gamma)$, from the variance of the walk $x \leftarrow W (\sqrt\gamma x + \xi)$ of unit noise."""
    gamma = DECAY.check("effective_neighbors(decay)", decay)
    if not mixer.doubly:
        return None
    # The mean over agents walks alike on all networks; what differs is the disagreement.
    return 1 / (1 / agents + (1 - gamma) * _walk_variance(mixer, agents, gamma))


def _walk_variance(mixer: "Mixer", n: int, gamma: float) -> float:
    """Return the mean over agents and rounds of E(x_i − x̄)²."""
    if n == 1:
        return 0.0
    if mixer.alike:  # a round leaves q of every disagreement
        q = (1 - mixer.gap(n)) ** 2
        return (n - 1) / n * q / (1 - gamma * q)
    if rounds := mixer.translations():
        return _variance([np.abs(turn.eigenvalues())[1:] ** 2 for turn in rounds], gamma).sum() / n
    if mixer.random or n > EXACT_AGENTS:
        return simulate_walk(mixer, n, gamma)
    if not mixer.changes and mixer.is_symmetric:
        return _variance([np.linalg.eigvalsh(mixer.sparse().toarray())[:-1] ** 2], gamma).sum() / n
    return _solve_walk(mixer, n, gamma)


def _variance(squares: list[np.ndarray], gamma: float) -> np.ndarray:
    """Return the mean variance over a period along each eigenvector that all rounds share, v ← |λ|² (γ v + 1)."""
    kept, added = np.ones_like(squares[0]), np.zeros_like(squares[0])
    for square in squares:
        kept, added = gamma * square * kept, square * (gamma * added + 1)
    now, total = added / (1 - kept), np.zeros_like(added)
    for square in squares:
        now = square * (gamma * now + 1)
        total += now / len(squares)
    return total


def _solve_walk(mixer: "Mixer", n: int, gamma: float) -> float:
    """Return the variance from whole covariances, X ← W (γ X + I − J) Wᵀ. Doubling finds their fixed point."""
    p, noise = mixer.period, np.eye(n) - 1 / n
    across: np.ndarray = noise
    covariance: np.ndarray = np.zeros((n, n))
    for t in range(p):
        W = mixer.sparse(t)
        across, covariance = np.asarray(math.sqrt(gamma) * (W @ across)), W @ (W @ (gamma * covariance + noise)).T
    while np.abs(across).max() > 1e-9:  # what is left out is its square
        covariance = covariance + across @ covariance @ across.T
        across = across @ across
    total = 0.0
    for t in range(p):
        W = mixer.sparse(t)
        covariance = W @ (W @ (gamma * covariance + noise)).T
        total += np.trace(covariance) / n / p
    return float(total)


def simulate_walk(mixer: "Mixer", n: int, gamma: float) -> float:
    """Estimate the variance from a walk long enough to forget where it began."""
    random, mix = np.random.default_rng(0), products(mixer)
    x = np.zeros((n, -(-20 * WALKED // n)))
    forget, total = math.ceil(5 / (1 - gamma)), 0.0  # e⁻⁵ of the start is left by then
    for t in range(forget + WALKED):
        x = mix(t, math.sqrt(gamma) * x + random.standard_normal(x.shape))
        x -= x.mean(axis=0)
        total += float((x**2).mean()) / WALKED if t >= forget else 0.0
    return total


def products(mixer: "Mixer") -> Callable[[int, np.ndarray], np.ndarray]:
    """Return the product with W of round t, or with C if there is no W. Matrices that come again are kept."""
    over: MatrixName = "W" if mixer.doubly else "C"
    if mixer.kind == "mean":  # which needs no matrix
        return lambda t, x: mixer.mix(x)
    repeats = 1 if not mixer.changes else mixer.period if not mixer.random and mixer.period <= WALKED else 0
    matrix = functools.lru_cache(maxsize=repeats or 1)(lambda t: mixer.sparse(t, over))
    return lambda t, x: matrix(t % repeats if repeats else t) @ x


def disagreement(
    mixer: "Mixer",
    agents: int,
    rounds: int,
    until: float,
    start: Any,
    seed: int,
    report: Callable[[int], None] = lambda t: None,
) -> Float[np.ndarray, " marks"]:
    """Return ‖x − x̄‖ after 0, 1, 2, … rounds relative to the start; that of push-sum if W is not doubly stochastic.

    `report` is called every 64 rounds.
    """
    t_end, key = whole("disagreement(rounds)", rounds, least=0), whole("disagreement(seed)", seed, least=0)
    goal = Range(0, 1, advice="It is the share that is left.").check("disagreement(until)", until)
    if start is None:
        x = np.random.default_rng(key).standard_normal((agents, 8))
    else:
        x = np.asarray(array_of("disagreement(start)", start), np.float64)
        if x.shape[:1] != (agents,):
            raise InputError(f"disagreement(start) must have {agents} rows, one an agent, but has shape {x.shape}.")
        x = x.reshape(agents, -1)
    x = x - x.mean(axis=0)
    first = float(np.linalg.norm(x))
    # agents that agree at the start go on agreeing
    if first == 0:
        return np.zeros(1)
    mix, shares, left = products(mixer), np.ones((agents, 1)), [1.0]
    for t in range(t_end):
        # push-sum divides by what C makes of the ones
        x, shares = mix(t, x), shares if mixer.doubly else mix(t, shares)
        left.append(float(np.linalg.norm(x / shares)) / first)
        if left[-1] <= goal:
            break
        if t % 64 == 63:  # rounds take microseconds, a report more
            report(t + 1)
    return np.array(left)


# --- distances ---


def diameter(links: sp.csr_array, alike: bool) -> int:
    """Return the length of the longest shortest path. Row i holds whom i sends to; all agents reach each other.

    If agents are `alike`, one search suffices. If links go both ways, a path from an agent to its furthest bounds the
    paths of all others, so that few searches suffice on long thin graphs. Otherwise all agents search at once, which
    takes few levels.

    Reference: F. Takes and W. Kosters, "Determining the diameter of small world networks", 2011.
    """
    n = size(links)
    if alike or n == 1:
        return int(_distances(links, 0).max())
    if (links != links.T).nnz:
        return _search_from_all(links)
    low, high, longest = np.zeros(n), np.full(n, np.inf), 0.0
    for search in range(SEARCHES):
        may = np.flatnonzero(high > longest)  # who may have a longer path than any so far
        if not len(may):
            return int(longest)
        agent = may[low[may].argmin() if search % 2 else high[may].argmax()]
        distance = _distances(links, int(agent))
        furthest = distance.max()
        low, high = np.maximum(low, np.maximum(furthest - distance, distance)), np.minimum(high, furthest + distance)
        longest = max(longest, furthest)
    return _search_from_all(links)


def _distances(links: sp.csr_array, agent: int) -> np.ndarray:
    from scipy.sparse import csgraph

    return np.asarray(csgraph.dijkstra(links, indices=agent, unweighted=True))


def _search_from_all(links: sp.csr_array) -> int:
    """Return the diameter by a search from all agents, level by level: a bit says who is reached."""
    n = size(links)
    hears = sp.csr_array(links + sp.eye_array(n))
    block = 64 * max(1, BYTES // (8 * hears.nnz))
    longest = 0
    for first in range(0, n, block):
        mark = np.zeros((n, -(-min(block, n - first) // 64) * 64), bool)
        mark[range(first, min(first + block, n)), range(min(block, n - first))] = True
        reached, level = np.packbits(mark, axis=1).view(np.uint64), 0
        whole = np.packbits(mark.any(axis=0)).view(np.uint64)
        while (reached != whole).any():
            reached, level = np.bitwise_or.reduceat(reached[hears.indices], hears.indptr[:-1], axis=0), level + 1
        longest = max(longest, level)
    return longest
