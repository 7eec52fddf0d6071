"""Measures of a network beside ρ: effective neighbours, disagreement as rounds go by, and the diameter."""

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float

from gossamer.basics.arrays import array_of
from gossamer.basics.lazy_scipy import csgraph
from gossamer.core import InputError, Range, whole
from gossamer.networks.mixers import MatrixName, Mean, Mixer, translations
from gossamer.networks.spectrum import EXACT_AGENTS, size

DECAY = Range(0, 1, False, True, "It is how much of the noise of a round is left a round later.")

WALKED = 1_000
"""The rounds over which a walk is averaged, and a twentieth of how many numbers walk, if there is no closed form."""


def effective_neighbors(mixer: Mixer, agents: int, decay: float) -> float | None:
    r"""Return $n_W(\gamma)$, from the variance of the walk $x \leftarrow W (\sqrt\gamma x + \xi)$ of unit noise."""
    gamma = DECAY.check("effective_neighbors(decay)", decay)
    if not mixer.doubly:
        return None
    # The mean over agents walks alike on all networks; what differs is the disagreement.
    return 1 / (1 / agents + (1 - gamma) * _walk_variance(mixer, agents, gamma))


def _walk_variance(mixer: Any, n: int, gamma: float) -> float:
    """Return the mean over agents and rounds of E(x_i − x̄)²."""
    rounds = translations(mixer)
    match mixer:
        case _ if n == 1 or isinstance(mixer, Mean):
            return 0.0
        case _ if mixer.alike:  # a round leaves q of every disagreement
            q = (1 - mixer.gap(n)) ** 2
            return (n - 1) / n * q / (1 - gamma * q)
        case _ if rounds:
            return _variance([np.abs(turn.eigenvalues())[1:] ** 2 for turn in rounds], gamma).sum() / n
        case _ if mixer.random or n > EXACT_AGENTS:
            return _simulate_walk(mixer, n, gamma)
        case _ if not mixer.changes and mixer.balanced:
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


def _solve_walk(mixer: Mixer, n: int, gamma: float) -> float:
    """Return the variance from whole covariances, X ← W (γ X + I − J) Wᵀ. Doubling finds their fixed point."""
    p, noise = mixer.period, np.eye(n) - 1 / n
    across: np.ndarray = noise
    covariance: np.ndarray = np.zeros((n, n))
    for t in range(p):
        W = mixer.sparse(t)
        across, covariance = np.asarray(math.sqrt(gamma) * (W @ across)), W @ (W @ (gamma * covariance + noise)).T
    while np.abs(across).max() > 1e-9:
        covariance = covariance + across @ covariance @ across.T
        across = across @ across
    total = 0.0
    for t in range(p):
        W = mixer.sparse(t)
        covariance = W @ (W @ (gamma * covariance + noise)).T
        total += np.trace(covariance) / n / p
    return float(total)


def _simulate_walk(mixer: Mixer, n: int, gamma: float) -> float:
    """Estimate the variance from a walk long enough to forget where it began."""
    random, mix = np.random.default_rng(0), products(mixer)
    x = np.zeros((n, -(-20 * WALKED // n)))
    forget, total = math.ceil(5 / (1 - gamma)), 0.0
    for t in range(forget + WALKED):
        x = mix(t, math.sqrt(gamma) * x + random.standard_normal(x.shape))
        x -= x.mean(axis=0)
        total += float((x**2).mean()) / WALKED if t >= forget else 0.0
    return total


def products(mixer: Mixer) -> Callable[[int, np.ndarray], np.ndarray]:
    """Return the product with W of round t, or with C if there is no W. Matrices that come again are kept."""
    over: MatrixName = "W" if mixer.doubly else "C"
    repeats = 1 if not mixer.changes else mixer.period if not mixer.random and mixer.period <= WALKED else 0
    matrix = functools.lru_cache(maxsize=repeats or 1)(lambda t: mixer.sparse(t, over))

    def product(t: int, x: np.ndarray) -> np.ndarray:
        if isinstance(mixer, Mean):
            return np.broadcast_to(x.mean(axis=0), x.shape)
        return matrix(t % repeats if repeats else t) @ x

    return product


def disagreement(
    mixer: Mixer,
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
    if first == 0:
        return np.zeros(1)
    mix, shares, left = products(mixer), np.ones((agents, 1)), [1.0]
    for t in range(t_end):
        x, shares = mix(t, x), shares if mixer.doubly else mix(t, shares)
        left.append(float(np.linalg.norm(x / shares)) / first)
        if left[-1] <= goal:
            break
        if t % 64 == 63:
            report(t + 1)
    return np.array(left)


SEARCHES = 32
"""The number of breadth-first searches, one at a time, before all agents search at once."""

BYTES = 64_000_000
"""The memory that one level of a search from all agents may take at a time."""


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
