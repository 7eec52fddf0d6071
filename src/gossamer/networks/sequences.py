"""Networks that take turns: sequences of matrices or graphs, and local steps between rounds of gossip."""

import abc
import functools
import math
from collections.abc import Iterable
from typing import Any, ClassVar

import networkx as nx
import numpy as np
import scipy.sparse as sp
from jaxtyping import Bool

from gossamer.core import InputError, brief, whole
from gossamer.networks import measures
from gossamer.networks.digraphs import check_strongly_connected, heard_links, shares
from gossamer.networks.mixers import Changing, MatrixName, Mixer, Shifts, choose, mixer
from gossamer.networks.network import Network, check_plain
from gossamer.networks.weights import (
    as_matrix,
    check_averages,
    check_doubly_stochastic,
    check_graph,
    check_one_part,
    clean,
    metropolis,
    size,
)

LONGEST_PERIOD = 100_000
"""The most rounds that a sequence may have before it begins again."""


class Timetable(Changing):
    """A mixer whose rounds are those of other mixers, in turn."""

    stride: int
    """The number of rounds that each turn lasts."""

    @property
    @abc.abstractmethod
    def parts(self) -> tuple[Mixer, ...]:
        """The mixers of the turns with gossip."""

    @property
    @abc.abstractmethod
    def turns(self) -> int:
        """The number of turns until the timetable repeats."""

    def union(self) -> sp.csr_array | None:
        unions = [part.union() for part in self.parts]
        known = [union for union in unions if union is not None]
        return functools.reduce(lambda a, b: sp.csr_array(a + b), known) if len(known) == len(unions) else None

    @property
    def doubly(self) -> bool:
        return all(part.doubly for part in self.parts)

    @property
    def random(self) -> bool:
        return any(part.random for part in self.parts)

    @property
    def period(self) -> int:
        return math.lcm(self.stride * self.turns, *(part.period for part in self.parts))

    @property
    def sleeps(self) -> bool:
        return any(part.sleeps for part in self.parts)

    @property
    def activity(self) -> float:
        return sum(part.activity for part in self.parts) / len(self.parts)

    @property
    def traffic(self) -> float:
        return sum(part.traffic for part in self.parts) / self.turns

    @property
    def pace(self) -> float:
        return sum(part.pace for part in self.parts) / self.turns

    @functools.cached_property
    def is_symmetric(self) -> bool:
        return all(part.is_symmetric for part in self.parts)


@mixer("rounds")
class Cycle(Timetable):
    """A sequence of mixers that begins again after the last; each stays for `stride` rounds."""

    kind: ClassVar[str] = "cycle"
    rounds: tuple[Mixer, ...]
    stride: int = 1

    @property
    def parts(self) -> tuple[Mixer, ...]:
        return self.rounds

    @property
    def turns(self) -> int:
        return len(self.rounds)

    def turn(self, t: int) -> Mixer:
        """Return the mixer of round t."""
        return self.rounds[t // self.stride % len(self.rounds)]

    def sparse(self, t: int = 0, over: MatrixName = "W") -> sp.csr_array:
        return self.turn(t).sparse(t, over)

    def awake(self, t: Any, xp: Any = np) -> Bool[Any, " agents"] | None:
        return self.turn(t).awake(t, xp)

    def slower(self, k: int) -> Mixer:
        return Cycle(tuple(part.slower(k) for part in self.rounds), self.stride * k)

    def sends(self, t: int) -> float:
        return self.turn(t).sends(t)

    def translations(self) -> list[Shifts]:
        rounds = [part for part in self.rounds if isinstance(part, Shifts)]
        return rounds if len(rounds) == len(self.rounds) and len({part.shape for part in rounds}) == 1 else []

    def contraction(self, agents: int) -> float:
        rounds = self.translations()
        if not rounds or self.stride > 1:
            return measures.estimate_contraction(self, agents)
        # Translations of one group share their eigenvectors, so the eigenvalues of the product are products.
        squares = [np.abs(turn.eigenvalues()) ** 2 for turn in rounds]
        return float(functools.reduce(np.multiply, squares)[1:].max(initial=0.0))


@mixer("base")
class Every(Timetable):
    r"""Local steps: $W^t = I$ unless `rounds` divides $t$, or the number of strides before $t$."""

    kind: ClassVar[str] = "every"
    agents: int
    base: Mixer
    rounds: int
    stride: int = 1

    @property
    def parts(self) -> tuple[Mixer, ...]:
        return (self.base,)

    @property
    def turns(self) -> int:
        return self.rounds

    def gossips(self, t: Any) -> Any:
        """Return True if there is gossip in round t."""
        return (t // self.stride) % self.rounds == 0

    def sparse(self, t: int = 0, over: MatrixName = "W") -> sp.csr_array:
        return self.base.sparse(t, over) if self.gossips(t) else sp.csr_array(sp.eye_array(self.agents, format="csr"))

    def awake(self, t: Any, xp: Any = np) -> Bool[Any, " agents"] | None:
        return self.base.awake(t, xp)

    def slower(self, k: int) -> Mixer:
        return Every(self.agents, self.base.slower(k), self.rounds, self.stride * k)

    def sends(self, t: int) -> float:
        return self.base.sends(t) if self.gossips(t) else 0.0

    def contraction(self, agents: int) -> float:
        if self.stride > 1:
            return measures.estimate_contraction(self, agents)
        once = self.base.period == 1
        return self.base.contraction(agents) if once else measures.estimate_contraction(self, agents, self.rounds)


def sequence(rounds: Iterable[Any], *, name: str | None = None) -> Network:
    """Take these rounds in turn, and from the start again: matrices, networkx graphs or networks, in any mixture.

    A matrix must be doubly stochastic, a `Graph` gets Metropolis weights, a `DiGraph` equal shares as in `directed`.
    Single rounds may fall apart; all their links together must connect the agents. If one round is directed, the
    whole sequence has an R and a C only. The agents are in the order of the first graph's nodes.
    """
    single = isinstance(rounds, (nx.Graph, Network, str, bytes))
    several = isinstance(rounds, Iterable) and not single
    given = list(rounds) if several and getattr(rounds, "ndim", 3) == 3 else []
    if not given:
        raise InputError(
            f"sequence(rounds) must be a list of at least one matrix, graph or network, but is {brief(rounds)}."
        )
    order = next((list(graph.nodes) for graph in given if isinstance(graph, nx.Graph)), None)
    turns = [_read_turn(k, matrix, order) for k, matrix in enumerate(given)]
    n = turns[0][0]
    for k, (agents, _) in enumerate(turns):
        if agents != n:
            raise InputError(
                f"sequence(rounds)[{k}] has {agents} agents, but rounds[0] has {n}: all rounds must have the same "
                "agents. A graph must list all of them; one without links stands alone."
            )
    cycle = Cycle(tuple(turn.slower(len(turns)) for _, turn in turns))
    _check_period("sequence(rounds)", cycle.period)
    _check_union(cycle, order)
    shown = [turn.name if isinstance(turn, Network) else type(turn).__name__ for turn in given]
    short = ", ".join(shown) if len(shown) <= 3 else f"{len(shown)} rounds of {n} agents"
    return Network(name or f"sequence({short})", n, cycle)


def every(network: Network, rounds: int) -> Network:
    r"""Gossip once in `rounds` rounds, with local steps between: $W^t = I$ unless `rounds` divides $t$.

    A sequence inside goes on to its next matrix with each gossip, so that none is left out.
    """
    k = whole("every(rounds)", rounds)
    check_plain("every", network)
    if k == 1:
        return network
    _check_period("every(network)", network.mixer.period)
    return Network(f"every({network.name}, {k})", network.agents, Every(network.agents, network.mixer.slower(k), k))


def _check_period(where: str, rounds: int) -> None:
    """Raise InputError if the period is too long to go through for the gap and the cost of a round."""
    if rounds > LONGEST_PERIOD:
        raise InputError(
            f"{where} repeats only after {rounds:,} rounds; {LONGEST_PERIOD:,} can be. Use numbers of rounds that "
            "divide each other, or smaller ones."
        )


def _read_turn(k: int, given: Any, order: list | None) -> tuple[int, Mixer]:
    """Return the number of agents and the mixer of one round; graphs get their nodes in this order."""
    if isinstance(given, Network):
        check_plain(f"sequence(rounds)[{k}]", given)
        return given.agents, given.mixer
    try:
        if not isinstance(given, nx.Graph):
            matrix = as_matrix(given)
            check_doubly_stochastic(matrix)
            return matrix.shape[0], choose(clean(matrix))
        if odd := set(given.nodes) ^ set(order or []):
            raise InputError(
                f"all graphs must have the same nodes, but {odd.pop()!r} is not in all. Add it, without links."
            )
        check_graph(given, directed=given.is_directed())
        graph: Any = type(given)()
        graph.add_nodes_from(order or [])
        graph.add_edges_from(given.edges)
        if graph.is_directed():
            return len(graph), shares(heard_links(graph))
        weights = metropolis(graph)
        weights.eliminate_zeros()
        return len(graph), choose(weights)
    except InputError as error:
        raise InputError(f"sequence(rounds)[{k}]: {error}") from None


def _check_union(cycle: Cycle, names: list | None) -> None:
    """Raise InputError if the rounds leave agents apart or only move values about."""
    union = cycle.union()
    what = "the union of all rounds"
    if union is None:
        return
    if not cycle.doubly:
        check_strongly_connected(union, what, names)
        return
    check_one_part(union, what, names)
    if cycle.random or all(turn.sparse(t).diagonal().min() > 0 for t, turn in enumerate(cycle.rounds)):
        return  # with a positive diagonal no round undoes what another has averaged
    product = sp.csr_array(sp.eye_array(size(union)))
    for t in range(cycle.period):
        product = sp.csr_array(cycle.sparse(t) @ product)
    check_averages(product)
