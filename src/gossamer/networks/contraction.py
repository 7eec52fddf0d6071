r"""The gap of networks that change.

With $P = W^{p-1} \cdots W^0$ over one period of $p$ rounds,

$$ \rho = 1 - \lambda_{\max}(\mathbb E[P^\top P] - J)^{1/(2p)}, $$

so that $p$ rounds shrink the expected squared disagreement by $(1 - \rho)^{2p}$ at least. For one static $W$ this is
$1 - \lVert W - J \rVert_2$, for a periodic sequence $1 - \lVert P - J \rVert_2^{1/p}$ and for rounds that are drawn
alike $1 - \lambda_{\max}(\mathbb E[W^\top W] - J)^{1/2}$.

Reference: S. Boyd, A. Ghosh, B. Prabhakar and D. Shah, "Randomized gossip algorithms", 2006.
"""

from typing import Any

import numpy as np
import scipy.sparse as sp

from gossamer.networks.mixing.cycles import Cycle, Every
from gossamer.networks.mixing.drawn import Matching, Redrawn
from gossamer.networks.mixing.faults import Faults
from gossamer.networks.mixing.mixer import Mixer
from gossamer.networks.mixing.peers import Ahead, Paired
from gossamer.networks.mixing.static import Full, Hubs, Mean, Neighbours, Shifts
from gossamer.networks.spectrum import EXACT_AGENTS, is_thin, largest, matrix_gap, product_largest, shifts_gap

DRAWN_ROUNDS = 256
"""How many rounds are drawn to estimate a gap that has no closed form."""


def gap_of(mixer: Mixer, agents: int) -> float:
    """The gap of a mixer all of whose rounds are doubly stochastic."""
    match mixer:
        case Mean():
            return 1.0
        case Shifts(shape, offsets, weights):
            return shifts_gap(shape, offsets, np.asarray(weights, np.float64))
        case _ if not mixer.changes:
            return matrix_gap(mixer.sparse())
    left = _left(mixer, agents)
    # What is below rounding is nothing: its p-th root would not be.
    return 1.0 if left < 1e-26 else float(1 - min(left, 1.0) ** (1 / (2 * mixer.period)))


def _left(mixer: Any, n: int) -> float:
    """λ_max(E[PᵀP] − J): what one period leaves of the squared disagreement, at most."""
    match mixer:
        case Every(base=base, stride=1) if base.period == 1:
            return _left(base, n)
        case _ if not mixer.changes:
            return (1 - gap_of(mixer, n)) ** 2
        case _ if n == 1:
            return 0.0
        case Matching():
            return _matching(n)
        case Redrawn(_, probability):
            return _redrawn(n, float(probability))
        case Ahead() | Paired():
            return mixer.left()
        case Faults(base=Matching()):
            # Pairs that average twice are as after once, so E[WᵀW] = E[W], which is linear in the links.
            return 1 - mixer.chance_up * (1 - _matching(n))
        case Faults(base=Neighbours() | Full() | Hubs()):
            return _faults(mixer, n)
        case Cycle(rounds, stride=1):
            shifts = [mixer for mixer in rounds if isinstance(mixer, Shifts)]
            if len(shifts) == len(rounds) and len({turn.shape for turn in shifts}) == 1:
                return product_largest([(turn.shape, turn.offsets, np.asarray(turn.weights)) for turn in shifts])
    return _measured(mixer, n)


def _matching(n: int) -> float:
    r"""$\tfrac{n-2}{2(n-1)}$, or ½ where one rests: $W^2 = W$, and any two agents are matched equally often."""
    return 0.5 if n % 2 else (n - 2) / (2 * (n - 1))


def _redrawn(n: int, p: float) -> float:
    r"""$(\mathbb E \lVert W \rVert_F^2 - 1) / (n - 1)$, because all agents are alike. The degrees are binomial.

    $w_{ij} = 1 / (1 + \max(d_i, d_j))$ on a link. Two links $ij$ and $ik$ depend on each other through $d_i$ and, as
    $jk$ counts in both degrees, through whether $j$ and $k$ are linked.
    """
    if n == 2:
        return 1 - p
    from scipy.stats import binom  # a second to import, so only when needed

    counts = np.arange(n)
    degrees = binom.pmf(counts - 1, n - 2, p)  # of an agent that has one link for certain
    weight = p * (degrees * _expected(degrees, 1)).sum()
    square = p * (degrees * _expected(degrees, 2)).sum()
    centre, unlinked, linked = (binom.pmf(counts - k, n - 3, p) for k in (2, 1, 2))
    both = p**2 * ((1 - p) * (centre * _expected(unlinked, 1) ** 2) + p * (centre * _expected(linked, 1) ** 2)).sum()
    own = 1 - 2 * (n - 1) * weight + (n - 1) * square + (n - 1) * (n - 2) * both
    return float((n * own + n * (n - 1) * square - 1) / (n - 1))


def _expected(chances: np.ndarray, power: int) -> np.ndarray:
    """E[(1 + max(d, D))^−power] for d = 0, 1, …, where D has these chances."""
    values = (1.0 + np.arange(len(chances))) ** -power
    above = np.append(np.cumsum((chances * values)[::-1])[::-1][1:], 0.0)
    return np.cumsum(chances) * values + above


def _faults(mixer: Faults, n: int) -> float:
    r"""Exact: with $L = I - W = \sum_e w_e L_e$ over the links, a link up with chance $m$ and two that share an agent
    with covariance $c$,

    $$ \mathbb E[(W^t)^2] = (I - mL)^2 + cL^2 + (m - m^2 - c)\, 2 \sum_e w_e^2 L_e. $$
    """
    matrix = mixer.base.sparse()
    laplacian = sp.csr_array(sp.eye_array(n) - matrix)
    apart = sp.csr_array(matrix - sp.diags_array(matrix.diagonal()))
    squares = sp.csr_array(apart.multiply(apart))
    shared = sp.csr_array(2 * (sp.diags_array(np.asarray(squares.sum(axis=1)).ravel()) - squares))
    m, awake = mixer.chance_up, 1 - float(mixer.asleep)
    c = (1 - float(mixer.links)) ** 2 * awake**3 * (1 - awake)

    def whole() -> sp.csr_array:
        square = sp.csr_array(laplacian @ laplacian)
        return sp.csr_array(sp.eye_array(n) - 2 * m * laplacian + (m**2 + c) * square + (m - m**2 - c) * shared)

    def product(x: np.ndarray) -> np.ndarray:
        once = laplacian @ x
        return x - 2 * m * once + (m**2 + c) * (laplacian @ once) + (m - m**2 - c) * (shared @ x)

    return largest(n, product, whole, is_thin(matrix))


def _alike(mixer: Any) -> bool:
    """Whether all agents are alike, so that E[WᵀW] − J is a multiple of I − J and its trace says all."""
    return isinstance(mixer, Redrawn) or (isinstance(mixer, Faults) and _alike(mixer.base))


def _agrees(period: list[sp.csr_array], n: int) -> bool:
    """Whether these rounds average exactly: PᵀP would hide that behind its rounding."""
    x = np.random.default_rng(0).standard_normal((n, 4))
    x = start = x - x.mean(axis=0)
    for W in period:
        x = W @ x
    return bool(np.abs(x).max() < 1e-13 * np.abs(start).max())


def _measured(mixer: Mixer, n: int) -> float:
    """From the mean of PᵀP over `DRAWN_ROUNDS` drawn rounds, or exactly from one period where nothing is drawn."""
    p = mixer.period
    if _alike(mixer):
        squares = [(mixer.sparse(t).data ** 2).sum() for t in range(DRAWN_ROUNDS)]
        return float((np.mean(squares) - 1) / (n - 1))
    periods = -(-DRAWN_ROUNDS // p) if mixer.random else 1
    if p == 1:
        drawn = [mixer.sparse(t) for t in range(periods)]
        if n <= EXACT_AGENTS:
            mean = sum((W.T @ W for W in drawn), sp.csr_array((n, n))) / periods
            return largest(n, lambda x: mean @ x)
        return largest(n, lambda x: sum((W.T @ (W @ x) for W in drawn), np.zeros(n)) / periods)
    step = mixer.rounds if isinstance(mixer, Every) and mixer.stride == 1 else 1  # between them nothing is mixed
    rounds = [[mixer.sparse(s * p + t) for t in range(0, p, step)] for s in range(periods)]
    if not mixer.random and _agrees(rounds[0], n):
        return 0.0
    if n <= EXACT_AGENTS:
        mean = np.zeros((n, n))
        for period in rounds:
            P = np.eye(n)
            for W in period:
                P = W @ P
            mean += P.T @ P / periods
        return largest(n, lambda x: mean @ x)

    def product(x: np.ndarray) -> np.ndarray:
        total = np.zeros(n)
        for period in rounds:
            y = x
            for W in period:
                y = W @ y
            for W in reversed(period):
                y = W.T @ y
            total += y / periods
        return total

    return largest(n, product)
