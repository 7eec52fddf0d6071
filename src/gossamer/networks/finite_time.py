"""Sequences of sparse rounds that average exactly: after finitely many their product is $J$."""

import functools
import itertools
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from gossamer.core import whole
from gossamer.networks.graphs import check_degree
from gossamer.networks.mixers import Shifts, assemble, choose
from gossamer.networks.network import Network, call_name
from gossamer.networks.sequences import Cycle


def base_graph(agents: int, degree: int = 1) -> Network:
    r"""Build the Base-(k+1) graph, which averages exactly with k = `degree` neighbours a round at most, for any n.

    The simple form writes $n$ in base $k + 1$, $n = \sum_l a_l (k+1)^{p_l}$, and gives each digit a group. Every group
    averages; then the groups hand on their means, from the largest to the smallest, in one round each; then what they
    were handed is averaged within. The other form does so in equal parts of the agents, then across the parts, and is
    taken where that is not longer. At most $2 \log_{k+1} n + 2$ rounds.

    Reference: Y. Takezawa, R. Sato, H. Bao, K. Niwa and M. Yamada, "Beyond exponential graph: communication-efficient
    topologies for decentralized learning via finite-time convergence", 2023, arXiv 2305.11420.
    """
    n, k = whole("base_graph(agents)", agents), check_degree("base_graph", degree, agents)
    rounds = min(_base(n, k), _simple_base(n, k), key=len)
    return Network(call_name("base_graph", n, k), n, Cycle(n, tuple(choose(W) for W in rounds), len(rounds)))


def one_peer_exponential(agents: int) -> Network:
    r"""Let each agent hear one other in a round, at distance 1, 2, 4, 8 and so on in turn.

    $$ x_i \leftarrow \tfrac12 (x_i + x_{i - 2^k}), \qquad k = t \bmod \lceil \log_2 n \rceil $$

    One message a round. For $n = 2^p$ any $p$ rounds in a row average exactly: their product is $J$.

    Reference: B. Ying et al., "Exponential graph is provably efficient for decentralized deep training", 2021,
    arXiv 2110.13363.
    """
    n = whole("one_peer_exponential(agents)", agents)
    return Network(call_name("one_peer_exponential", n), n, _exponential_rounds(n, 1))


def k_peer_exponential(agents: int, degree: int = 1) -> Network:
    r"""Build the one-peer exponential graph in base k + 1: in a round an agent hears k = `degree` others at most.

    $$ x_i \leftarrow \frac{1}{1 + |S_t|} \Big( x_i + \sum_{s \in S_t} x_{i - s} \Big), \qquad
    S_t = \{ j (k+1)^p < n : 1 \le j \le k \}, \quad p = t \bmod \lceil \log_{k+1} n \rceil $$

    With $k = 1$ it is `one_peer_exponential`, with $k = n - 1$ the complete graph. It averages exactly in one period if
    $n = a (k+1)^p$ with $a \le k + 1$.

    Reference: for $k = 1$, B. Ying et al., "Exponential graph is provably efficient for decentralized deep training",
    2021, arXiv 2110.13363.
    """
    n, k = whole("k_peer_exponential(agents)", agents), check_degree("k_peer_exponential", degree, agents)
    return Network(call_name("k_peer_exponential", n, k), n, _exponential_rounds(n, k))


def _exponential_rounds(n: int, k: int) -> Cycle | Shifts:
    rounds, stride = [], 1
    while stride < n:
        steps = (0, *range(stride, min(n, (k + 1) * stride), stride))
        rounds.append(Shifts((n,), tuple((step,) for step in steps), np.full(len(steps), 1 / len(steps))))
        stride *= k + 1
    return Cycle(n, tuple(rounds), len(rounds)) if rounds else Shifts((1,), ((0,),), np.ones(1))


# Below, a round is the sparse matrix of some of the agents.


def _base(n: int, k: int) -> list[sp.csr_array]:
    """Let equal parts of the agents each do the simple form, then average agents with the same place in their parts."""
    part = _strip_factors(n, k)
    within = [_kron(sp.eye_array(n // part), W) for W in _simple_base(part, k) if part > 1]
    return within + [_kron(W, sp.eye_array(part)) for W in _cube(n // part, k) if part < n] or _cube(n, k)


def _strip_factors(n: int, k: int) -> int:
    """Return n without its prime factors up to k + 1."""
    for factor in range(2, k + 2):
        while n % factor == 0:
            n //= factor
    return n


def _simple_base(n: int, k: int) -> list[sp.csr_array]:
    if _strip_factors(n, k) == 1:
        return _cube(n, k)
    # the largest group comes first, because the others wait for its mean
    digits = list(_digits(n, k + 1))
    ends = np.cumsum([0, *(a * power for a, power in digits)])
    groups = [np.arange(*pair) for pair in itertools.pairwise(ends)]
    cubes = [_cube(len(group), k) for group in groups]
    rounds = [
        _join(n, [(group, cube[t % len(cube)]) for group, cube in zip(groups, cubes, strict=True)])
        for t in range(len(cubes[0]))
    ]
    handed = [[_kron(sp.eye_array(a), W) for W in _cube(power, k)] for a, power in digits]
    for t in range(1 + len(handed[0])):
        # those that have handed on average what they were handed; one group does so now, to all after it
        parts = [(groups[j], handed[j][(t - j - 1) % len(handed[j])]) for j in range(min(t, len(groups)))]
        if t < len(groups) - 1:
            parts += _hand_on(groups[t], digits[t][0], np.concatenate(groups[t + 1 :]), k)
        rounds.append(_join(n, parts))
    return rounds


def _digits(n: int, base: int) -> Iterator[tuple[int, int]]:
    """Yield the digits of n that are not 0, each with its power of the base, from the largest."""
    power = 1
    while power * base <= n:
        power *= base
    while power:
        if n >= power:
            yield n // power, power
        n, power = n % power, power // base


def _hand_on(group: np.ndarray, a: int, others: np.ndarray, k: int) -> list[tuple[np.ndarray, sp.csr_array]]:
    """Let each of the others meet one agent of each of the a parts of the group; the rest averages in cliques."""
    m, parts = len(others), group.reshape(a, -1)
    met, idle = parts[:, :m].ravel(), parts[:, m:].ravel()
    share = len(group) / (len(group) + m) / a
    meet = sp.csr_array(share * sp.kron(np.ones((1, a)), sp.eye_array(m)))
    kept = sp.diags_array(np.append(np.full(m, 1 - a * share), np.full(a * m, 1 - share)))
    meeting = sp.csr_array(sp.block_array([[None, meet], [meet.T, None]]) + kept)
    cliques = []
    for first in range(0, len(idle), k + 1):
        members = min(k + 1, len(idle) - first)
        cliques.append(sp.coo_array(np.full((members, members), 1 / members)))
    return [(np.append(others, met), meeting), *([(idle, sp.csr_array(sp.block_diag(cliques)))] if cliques else [])]


def _cube(n: int, k: int) -> list[sp.csr_array]:
    """Return the k-peer hyper-hypercube: agents are numbers with digits up to k; a round averages over one digit."""
    factors, rest = [], n
    for factor in range(k + 1, 1, -1):
        while rest % factor == 0:
            factors.append(factor)
            rest //= factor
    rounds, stride = [], 1
    for factor in reversed(factors):
        mean = np.full((factor, factor), 1 / factor)
        rounds.append(_kron(sp.eye_array(n // stride // factor), mean, sp.eye_array(stride)))
        stride *= factor
    return rounds or [sp.csr_array(sp.eye_array(n))]


def _kron(*factors: Any) -> sp.csr_array:
    # "csr", because the default may be blocks, which hold explicit zeros
    return functools.reduce(lambda a, b: sp.csr_array(sp.kron(a, b, "csr")), factors)


def _join(n: int, parts: Iterable[tuple[np.ndarray, sp.csr_array]]) -> sp.csr_array:
    """Join rounds of some agents into one of all; the others rest."""
    rest = np.ones(n)
    entries = []
    for who, matrix in parts:
        found = sp.coo_array(matrix)
        entries.append((who[found.row], who[found.col], found.data))
        rest[who] = 0
    rows, columns, weights = (np.concatenate(one) for one in zip(*entries, strict=True))
    everyone = np.arange(n)
    return assemble(n, np.append(rows, everyone), np.append(columns, everyone), np.append(weights, rest))
