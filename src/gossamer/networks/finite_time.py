"""Sequences of sparse rounds that average exactly: after finitely many their product is $J$."""

import itertools
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from gossamer.core import flag, whole
from gossamer.networks.graphs import check_degree
from gossamer.networks.mixers import Shifts, assemble, choose
from gossamer.networks.network import Network, call_name
from gossamer.networks.sequences import Cycle


class Round(NamedTuple):
    """The agents that each agent hears in one round, itself among them, and their weights; padding has weight 0."""

    heard: np.ndarray
    weights: np.ndarray

    def sparse(self) -> sp.csr_array:
        n, width = self.heard.shape
        return assemble(n, np.arange(n).repeat(width), self.heard.ravel(), self.weights.ravel())


def base_graph(agents: int, degree: int = 1, *, simple: bool = False) -> Network:
    r"""Build the Base-(k+1) graph, which averages exactly with k = `degree` neighbours a round at most, for any n.

    The simple form writes $n$ in base $k + 1$, $n = \sum_l a_l (k+1)^{p_l}$, and gives each digit a group. Every group
    averages; then the groups hand on their means, from the largest to the smallest, in one round each; then what they
    were handed is averaged within. The other form does so in equal parts of the agents, then across the parts, and is
    taken where that is not longer. At most $2 \log_{k+1} n + 2$ rounds.

    Reference: Y. Takezawa, R. Sato, H. Bao, K. Niwa and M. Yamada, "Beyond exponential graph: communication-efficient
    topologies for decentralized learning via finite-time convergence", 2023, arXiv 2305.11420.
    """
    n, k = whole("base_graph(agents)", agents), check_degree("base_graph", degree, agents)
    short = _simple_base(n, k)
    made = short if flag("base_graph(simple)", simple) else min(_base(n, k), short, key=len)
    name = call_name("base_graph", n, k)
    rounds = Cycle(tuple(choose(turn.sparse()) for turn in made))
    return Network(f"{name[:-1]}, simple=True)" if simple else name, n, rounds)


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
    return Cycle(tuple(rounds)) if rounds else Shifts((1,), ((0,),), np.ones(1))


def _base(n: int, k: int) -> list[Round]:
    """Let equal parts of the agents each do the simple form, then average agents with the same place in their parts."""
    part = _strip_factors(n, k)
    within = [_copies(turn, n // part) for turn in _simple_base(part, k) if part > 1]
    places = np.tile(np.arange(part), n // part)[:, None]
    across = [
        Round(turn.heard.repeat(part, 0) * part + places, turn.weights.repeat(part, 0))
        for turn in _cube(n // part, k)
        if part < n
    ]
    return [*within, *across] or _cube(n, k)


def _strip_factors(n: int, k: int) -> int:
    """Return n without its prime factors up to k + 1."""
    for factor in range(2, k + 2):
        while n % factor == 0:
            n //= factor
    return n


def _simple_base(n: int, k: int) -> list[Round]:
    if _strip_factors(n, k) == 1:
        return _cube(n, k)
    digits = list(_digits(n, k + 1))
    ends = np.cumsum([0, *(a * power for a, power in digits)])
    groups = [np.arange(*pair) for pair in itertools.pairwise(ends)]
    cubes = [_cube(len(group), k) for group in groups]
    made = [
        _join(n, k, [(group, cube[t % len(cube)]) for group, cube in zip(groups, cubes, strict=True)])
        for t in range(len(cubes[0]))
    ]
    handed = [[_copies(turn, a) for turn in _cube(power, k)] for a, power in digits]
    for t in range(1 + len(handed[0])):
        # those that have handed on average what they were handed; one group does so now, to all after it
        parts = [(groups[j], handed[j][(t - j - 1) % len(handed[j])]) for j in range(min(t, len(groups)))]
        if t < len(groups) - 1:
            parts += _hand_on(groups[t], digits[t][0], np.concatenate(groups[t + 1 :]), k)
        made.append(_join(n, k, parts))
    return made


def _digits(n: int, base: int) -> Iterator[tuple[int, int]]:
    """Yield the digits of n that are not 0, each with its power of the base, from the largest."""
    power = 1
    while power * base <= n:
        power *= base
    while power:
        if n >= power:
            yield n // power, power
        n, power = n % power, power // base


def _hand_on(group: np.ndarray, a: int, others: np.ndarray, k: int) -> list[tuple[np.ndarray, Round]]:
    """Let each of the others meet one agent of each of the a parts of the group; the rest averages in cliques."""
    m, parts = len(others), group.reshape(a, -1)
    met, idle = parts[:, :m].ravel(), parts[:, m:].ravel()
    share = len(group) / (len(group) + m) / a
    theirs = Round(
        np.arange(m * (a + 1)).reshape(a + 1, m).T, np.array([1 - a * share, *[share] * a])[None].repeat(m, 0)
    )
    own = np.stack([m + np.arange(a * m), np.tile(np.arange(m), a)], axis=1)
    heard = np.concatenate([theirs.heard, np.pad(own, ((0, 0), (0, a - 1)), mode="edge")])
    mine = np.array([1 - share, share, *[0.0] * (a - 1)])[None].repeat(a * m, 0)
    meeting = Round(heard, np.concatenate([theirs.weights, mine]))
    return [(np.concatenate([others, met]), meeting), (idle, _cliques(len(idle), k + 1))]


def _cliques(n: int, most: int) -> Round:
    """Average agents in a row in cliques of at most this size; only the last one may be smaller."""
    first = np.arange(n) // most * most
    heard = first[:, None] + np.arange(most)
    there = heard < n
    return Round(np.where(there, heard, first[:, None]), there / there.sum(axis=1, keepdims=True))


def _cube(n: int, k: int) -> list[Round]:
    """Return the k-peer hyper-hypercube: agents are numbers with digits up to k; a round averages over one digit."""
    factors, rest = [], n
    for factor in range(k + 1, 1, -1):
        while rest % factor == 0:
            factors.append(factor)
            rest //= factor
    everyone, made, stride = np.arange(n), [], 1
    for factor in reversed(factors):
        lowest = everyone - everyone // stride % factor * stride
        made.append(Round(lowest[:, None] + stride * np.arange(factor), np.full((n, factor), 1 / factor)))
        stride *= factor
    return made or [Round(everyone[:, None], np.ones((n, 1)))]


def _copies(turn: Round, copies: int) -> Round:
    """Repeat a round in several parts of the agents, one after the other."""
    n = len(turn.heard)
    return Round(
        np.tile(turn.heard, (copies, 1)) + np.arange(copies).repeat(n)[:, None] * n, np.tile(turn.weights, (copies, 1))
    )


def _join(n: int, k: int, parts: list[tuple[np.ndarray, Round]]) -> Round:
    """Join rounds of some agents into one of all; the others rest."""
    heard = np.arange(n)[:, None].repeat(k + 1, 1)
    weights = np.eye(1, k + 1).repeat(n, 0)
    for who, turn in parts:
        width = turn.heard.shape[1]
        heard[who, :width], weights[who] = who[turn.heard], 0
        weights[who, :width] = turn.weights
    return Round(heard, weights)
