"""What a network is worth beside ρ: its effective number of neighbours, and how fast it is seen to mix."""

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float

from gossamer.basics.arrays import array_of
from gossamer.basics.lazy_jax import jax
from gossamer.core import InputError, Range, whole
from gossamer.networks.contraction import gap_of
from gossamer.networks.mixing.cycles import Cycle
from gossamer.networks.mixing.directed import Directed
from gossamer.networks.mixing.drawn import Drawn, Matching, Redrawn
from gossamer.networks.mixing.mixer import MatrixName, Mixer
from gossamer.networks.mixing.peers import Ahead
from gossamer.networks.mixing.static import Mean, Shifts
from gossamer.networks.spectrum import EXACT_AGENTS

DECAY = Range(0, 1, False, True, "It is how much of the noise of a round is left a round later.")

WALKED = 1_000
"""Rounds over which a walk is averaged, and a twentieth of how many numbers walk, where there is no closed form."""


def effective_neighbors(mixer: Mixer, agents: int, decay: float) -> float | None:
    r"""$n_W(\gamma)$, from the mean variance of the walk $x \leftarrow W (\sqrt\gamma x + \xi)$ of unit noise."""
    gamma = DECAY.check("effective_neighbors(decay)", decay)
    if not mixer.doubly:
        return None
    # The mean over agents walks alike on all networks; what differs is the disagreement.
    return 1 / (1 / agents + (1 - gamma) * _disagreement_of_walk(mixer, agents, gamma))


def _disagreement_of_walk(mixer: Any, n: int, gamma: float) -> float:
    """The mean over agents and rounds of E(x_i − x̄)²."""
    rounds = translations(mixer)
    match mixer:
        case _ if n == 1 or isinstance(mixer, Mean):
            return 0.0
        case Matching() | Redrawn() | Ahead():  # all agents are alike: a round leaves q of every disagreement
            q = (1 - gap_of(mixer, n)) ** 2
            return (n - 1) / n * q / (1 - gamma * q)
        case _ if rounds:
            return _along([_squares(turn).ravel()[1:] for turn in rounds], gamma).sum() / n
        case _ if mixer.random or n > EXACT_AGENTS:
            return _walked(mixer, n, gamma)
        case _ if not mixer.changes and mixer.balanced:
            return _along([np.linalg.eigvalsh(mixer.sparse().toarray())[:-1] ** 2], gamma).sum() / n
    return _solved(mixer, n, gamma)


def translations(mixer: Mixer) -> list[Shifts]:
    """The rounds of a mixer if all are sums of translations of one group, so that agents are alike; else none."""
    several = mixer.rounds if isinstance(mixer, Cycle) else (mixer.row,) if isinstance(mixer, Directed) else (mixer,)
    rounds = [turn for turn in several if isinstance(turn, Shifts)]
    return rounds if len(rounds) == len(several) and len({turn.shape for turn in rounds}) == 1 else []


def _squares(turn: Shifts) -> np.ndarray:
    """The squared sizes of all eigenvalues of a sum of translations."""
    kernel = np.zeros(turn.shape)
    np.add.at(kernel, tuple(np.transpose(turn.offsets)), np.asarray(turn.weights))
    return np.abs(np.fft.fftn(kernel)) ** 2


def _along(squares: list[np.ndarray], gamma: float) -> np.ndarray:
    """The mean variance over a period along each eigenvector that all rounds share, v ← |λ|² (γ v + 1)."""
    kept, added = np.ones_like(squares[0]), np.zeros_like(squares[0])
    for square in squares:
        kept, added = gamma * square * kept, square * (gamma * added + 1)
    now, total = added / (1 - kept), np.zeros_like(added)
    for square in squares:
        now = square * (gamma * now + 1)
        total += now / len(squares)
    return total


def _solved(mixer: Mixer, n: int, gamma: float) -> float:
    """The same for whole covariances, X ← W (γ X + I − J) Wᵀ, whose fixed point over a period is found by doubling."""
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


def _walked(mixer: Mixer, n: int, gamma: float) -> float:
    """An estimate, from a walk long enough to forget where it began."""
    random, mix = np.random.default_rng(0), products(mixer, n)
    x = np.zeros((n, -(-20 * WALKED // n)))
    forget, total = math.ceil(5 / (1 - gamma)), 0.0
    for t in range(forget + WALKED):
        x = mix(t, math.sqrt(gamma) * x + random.standard_normal(x.shape))
        x -= x.mean(axis=0)
        total += float((x**2).mean()) / WALKED if t >= forget else 0.0
    return total


def products(mixer: Mixer, agents: int) -> Callable[[int, np.ndarray], np.ndarray]:
    """The product with W of round t, or with C where there is none, on the host; matrices that come again are kept."""
    over: MatrixName = "W" if mixer.doubly else "C"
    repeats = 1 if not mixer.changes else mixer.period if not mixer.random and mixer.period <= WALKED else 0
    window = max(1, min(64, 10_000_000 // agents**2)) if isinstance(mixer, Drawn) else 1
    kept: dict[int, sp.csr_array] = {}

    def product(t: int, x: np.ndarray) -> np.ndarray:
        if isinstance(mixer, Mean):
            return np.broadcast_to(x.mean(axis=0), x.shape)
        place = t % repeats if repeats else t
        if place not in kept:
            if not repeats:
                kept.clear()
            several = _drawn(mixer, t, window, over) if isinstance(mixer, Drawn) else [mixer.sparse(place, over)]
            kept.update({place + k: matrix for k, matrix in enumerate(several)})
        return kept[place] @ x

    return product


def _drawn(mixer: Drawn, first: int, count: int, over: MatrixName) -> list[sp.csr_array]:
    """The matrices of the given number of rounds, drawn all at once."""
    with jax.enable_x64(True):
        rounds = np.arange(first, first + count, dtype=np.int32)
        held = jax.tree.map(np.asarray, _drawing()(jax.tree.map(np.array, mixer), rounds, over))
    return [jax.tree.map(lambda leaf, k=k: leaf[k], held).sparse() for k in range(count)]


@functools.cache
def _drawing() -> Any:
    def draw(mixer: Drawn, rounds: Any, over: MatrixName) -> Any:
        return jax.vmap(lambda t: mixer.at(t, over))(rounds)

    # it runs for less time than it would take to optimise it
    return jax.jit(draw, static_argnames="over", compiler_options={"xla_backend_optimization_level": 0})


def disagreement(
    mixer: Mixer,
    agents: int,
    rounds: int,
    until: float,
    start: Any,
    seed: int,
    seen: Callable[[int], None] = lambda t: None,
) -> Float[np.ndarray, " marks"]:
    """‖x − x̄‖ after 0, 1, 2, … rounds, relative to that at the start; of push-sum where W is not doubly stochastic."""
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
    mix, shares, left = products(mixer, agents), np.ones((agents, 1)), [1.0]
    for t in range(t_end):
        x, shares = mix(t, x), shares if mixer.doubly else mix(t, shares)
        left.append(float(np.linalg.norm(x / shares)) / first)
        if left[-1] <= goal:
            break
        if t % 64 == 63:
            seen(t + 1)
    return np.array(left)
