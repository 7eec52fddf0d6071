"""Networks that take turns: sequences of matrices or graphs, and local steps between rounds of gossip."""

import dataclasses
import functools
import math
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from jaxtyping import Bool

from gossamer.core import InputError, brief, whole
from gossamer.networks import measures
from gossamer.networks.digraphs import check_strongly_connected, heard_links, shares
from gossamer.networks.graphs import arrange
from gossamer.networks.mixers import Changing, MatrixName, Mixer, Shifts, choose, mixer
from gossamer.networks.network import Network, check_plain
from gossamer.networks.weights import (
    adjacency,
    as_matrix,
    check_averages,
    check_doubly_stochastic,
    check_one_part,
    clean,
    is_graph,
    metropolis,
)

LONGEST_PERIOD = 100_000
"""The most rounds that a sequence may have before it begins again."""


@mixer("rounds")
class Cycle(Changing):
    """Mixers that take turns, and begin again after the last: those of a sequence, or one between local steps."""

    kind: ClassVar[str] = "cycle"
    agents: int
    rounds: tuple[Mixer, ...]
    turns: int
    """The number of turns until the first mixer again. In the turns after the last mixer nobody gossips, W = I."""
    stride: int = 1
    """The number of rounds that each turn lasts."""

    def place(self, t: Any) -> Any:
        """Return the number of the turn of round t."""
        return t // self.stride % self.turns

    def last_turn(self, t: int) -> Mixer:
        """Return the mixer whose turn round t is; in a turn without gossip, the last one before it."""
        return self.rounds[min(self.place(t), len(self.rounds) - 1)]

    def gossips(self, t: int) -> bool:
        """Return True if there is gossip in round t."""
        return self.place(t) < len(self.rounds)

    def sparse(self, t: int = 0, over: MatrixName = "W") -> sp.csr_array:
        if self.gossips(t):
            return self.last_turn(t).sparse(t, over)
        return sp.csr_array(sp.eye_array(self.agents, format="csr"))

    def awake(self, t: Any, xp: Any = np) -> Bool[Any, " agents"] | None:
        return self.last_turn(t).awake(t, xp)

    def sends(self, t: int) -> float:
        return self.last_turn(t).sends(t) if self.gossips(t) else 0.0

    def slower(self, k: int) -> Mixer:
        return dataclasses.replace(self, rounds=tuple(one.slower(k) for one in self.rounds), stride=self.stride * k)

    def union(self, rounds: Iterable[int] | None = None) -> sp.csr_array | None:
        if self.timetabled:  # who is there when a mixer has its turn
            going = [t for t in (range(self.period) if rounds is None else rounds) if self.gossips(t)]
            unions = [one.union([t for t in going if self.last_turn(t) is one]) for one in self.rounds]
        else:
            unions = [one.union() for one in self.rounds]
        known = [union for union in unions if union is not None]
        return functools.reduce(lambda a, b: sp.csr_array(a + b), known) if len(known) == len(unions) else None

    @property
    def inner(self) -> tuple[Mixer, ...]:
        return self.rounds

    @property
    def period(self) -> int:
        return math.lcm(self.stride * self.turns, super().period)

    def active(self, t: int) -> float:
        return self.last_turn(t).active(t)

    # Without a timetable each turn counts alike, and a period of a billion rounds needs no walk through them.
    @property
    def traffic(self) -> float:
        return super().traffic if self.timetabled else sum(one.traffic for one in self.rounds) / self.turns

    @property
    def pace(self) -> float:
        return super().pace if self.timetabled else sum(one.pace for one in self.rounds) / self.turns

    @functools.cached_property
    def is_symmetric(self) -> bool:
        return all(one.is_symmetric for one in self.rounds)

    def translations(self) -> list[Shifts]:
        rounds = [one for one in self.rounds if isinstance(one, Shifts)]
        return rounds if len(rounds) == self.turns and len({one.shape for one in rounds}) == 1 else []

    def contraction(self, agents: int) -> float:
        if self.stride == 1 and (rounds := self.translations()):
            # Translations of one group share their eigenvectors, so the eigenvalues of the product are products.
            squares = [np.abs(turn.eigenvalues()) ** 2 for turn in rounds]
            return float(functools.reduce(np.multiply, squares)[1:].max(initial=0.0))
        if self.stride > 1 or len(self.rounds) != 1:
            return measures.estimate_contraction(self, agents)
        # Local steps change nothing, however many they are.
        base = self.rounds[0]
        return base.contraction(agents) if base.period == 1 else measures.estimate_contraction(self, agents, self.turns)


def sequence(rounds: Iterable[Any], *, name: str | None = None) -> Network:
    """Take these rounds in turn, and from the start again: matrices, networkx graphs or networks, in any mixture.

    A matrix must be doubly stochastic, a `Graph` gets Metropolis weights, a `DiGraph` equal shares as in `directed`.
    Single rounds may fall apart; all their links together must connect the agents. If one round is directed, the
    whole sequence has an R and a C only. The agents are in the order of the first round whose nodes have names.
    """
    single = is_graph(rounds) or isinstance(rounds, (Network, str, bytes)) or getattr(rounds, "ndim", 3) != 3
    given: list[Any] = list(rounds) if isinstance(rounds, Iterable) and not single else []
    if not given:
        raise InputError(
            f"sequence(rounds) must be a list of at least one matrix, graph or network, but is {brief(rounds)}."
        )
    names = next(filter(None, map(_names_of, given)), None)
    turns = [_read_turn(k, matrix, names) for k, matrix in enumerate(given)]
    n = turns[0][0]
    for k, (agents, _) in enumerate(turns):
        if agents != n:
            raise InputError(
                f"sequence(rounds)[{k}] has {agents} agents, but rounds[0] has {n}: all rounds must have the same "
                "agents. A graph must list all of them; one without links stands alone."
            )
    # a sequence inside steps on with each of its own turns, not with each round
    cycle = Cycle(n, tuple(turn.slower(len(turns)) for _, turn in turns), len(turns))
    _check_period("sequence(rounds)", cycle.period)
    _check_cycle(cycle, names)
    shown = [turn.name if isinstance(turn, Network) else type(turn).__name__ for turn in given]
    short = ", ".join(shown) if len(shown) <= 3 else f"{len(shown)} rounds of {n} agents"
    return Network(name or f"sequence({short})", n, cycle, names=names)


def every(network: Network, rounds: int) -> Network:
    r"""Gossip once in `rounds` rounds, with local steps between: $W^t = I$ unless `rounds` divides $t$.

    A sequence inside goes on to its next matrix with each gossip, so that none is left out.
    """
    k = whole("every(rounds)", rounds)
    check_plain("every", network)
    if k == 1:
        return network
    _check_period("every(network)", network.mixer.period)
    cycle = Cycle(network.agents, (network.mixer.slower(k),), k)
    if cycle.timetabled:  # agents may never be there when there is gossip
        _check_period("every(network)", cycle.period)
        _check_cycle(cycle, network.names)
    return Network(f"every({network.name}, {k})", network.agents, cycle, names=network.names)


def _check_period(where: str, rounds: int) -> None:
    """Raise InputError if the period is too long to go through for the gap and the cost of a round."""
    if rounds > LONGEST_PERIOD:
        raise InputError(
            f"{where} repeats only after {rounds:,} rounds; {LONGEST_PERIOD:,} can be. Use numbers of rounds that "
            "divide each other, or smaller ones."
        )


def _names_of(given: Any) -> tuple[str, ...] | None:
    """Return the names of the nodes of a graph, or of a network that was made of one."""
    return tuple(map(str, given.nodes)) if is_graph(given) else given.names if isinstance(given, Network) else None


def _read_turn(k: int, given: Any, names: tuple[str, ...] | None) -> tuple[int, Mixer]:
    """Return the number of agents and the mixer of one round; nodes that have names get this order."""
    if isinstance(given, Network):
        check_plain(f"sequence(rounds)[{k}]", given)
    try:
        if odd := set(_names_of(given) or names or ()) ^ set(names or ()):
            raise InputError(
                f"all graphs must have the same nodes, but {min(odd)} is not in all. Add it, without links."
            )
        if isinstance(given, Network):
            return given.agents, arrange(given, names).mixer
        if not is_graph(given):
            matrix = as_matrix(given)
            check_doubly_stochastic(matrix)
            return matrix.shape[0], choose(clean(matrix))
        # agents are the nodes in the order of the first round that names them
        place = {str(node): node for node in given}
        order = [place[name] for name in names or ()]
        if given.is_directed():
            return len(given), shares(heard_links(given, order))
        weights = metropolis(adjacency(given, order))
        weights.eliminate_zeros()
        return len(given), choose(weights)
    except InputError as error:
        raise InputError(f"sequence(rounds)[{k}]: {error}") from None


def check_union(mixer: Mixer, what: str, names: Sequence[str] | None) -> None:
    """Raise InputError if the links of all rounds leave agents apart."""
    union = mixer.union()
    if union is not None:
        (check_one_part if mixer.doubly else check_strongly_connected)(union, what, names)


def _check_cycle(cycle: Cycle, names: tuple[str, ...] | None) -> None:
    """Raise InputError if the rounds leave agents apart or only move values about."""
    check_union(cycle, "the union of all rounds", names)
    if not cycle.doubly or cycle.union() is None:
        return
    if cycle.random or all(turn.sparse(t).diagonal().min() > 0 for t, turn in enumerate(cycle.rounds)):
        return  # with a positive diagonal no round undoes what another has averaged
    product = sp.csr_array(sp.eye_array(cycle.agents))
    for t in range(cycle.period):
        product = sp.csr_array(cycle.sparse(t) @ product)
    check_averages(product)
