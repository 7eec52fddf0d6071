"""Networks that take turns: sequences of matrices or graphs, and local steps between rounds of gossip."""

from collections.abc import Iterable
from typing import Any

import scipy.sparse as sp

from gossamer.basics.lazy_networkx import is_directed, is_graph
from gossamer.core import InputError, brief, whole
from gossamer.networks.digraphs import check_strongly_connected, heard_links, shares
from gossamer.networks.mixers import Cycle, Every, Mixer, choose
from gossamer.networks.network import Network, check_name, check_plain, refuse_attacked
from gossamer.networks.spectrum import size
from gossamer.networks.weights import (
    as_matrix,
    check_averages,
    check_doubly_stochastic,
    check_graph,
    check_one_part,
    clean,
    metropolis,
)

LONGEST_PERIOD = 100_000
"""The most rounds that a sequence may have before it begins again."""


def sequence(rounds: Iterable[Any], *, name: str | None = None) -> Network:
    """Take these rounds in turn, and from the start again: matrices, networkx graphs or networks, in any mixture.

    A matrix must be doubly stochastic, a `Graph` gets Metropolis weights, a `DiGraph` equal shares as in `directed`.
    Single rounds may fall apart; all their links together must connect the agents. If one round is directed, the
    whole sequence has an R and a C only. The agents are in the order of the first graph's nodes.
    """
    single = is_graph(rounds) or isinstance(rounds, (Network, str, bytes))
    several = isinstance(rounds, Iterable) and not single
    given = list(rounds) if several and getattr(rounds, "ndim", 3) == 3 else []
    if not given:
        raise InputError(
            f"sequence(rounds) must be a list of at least one matrix, graph or network, but is {brief(rounds)}."
        )
    order = next((list(graph.nodes) for graph in given if is_graph(graph)), None)
    turns = [_turn(k, matrix, order) for k, matrix in enumerate(given)]
    n = turns[0][0]
    for k, (agents, _) in enumerate(turns):
        if agents != n:
            raise InputError(
                f"sequence(rounds)[{k}] has {agents} agents, but rounds[0] has {n}: all rounds must have the same "
                "agents. A graph must list all of them; one without links stands alone."
            )
    cycle = Cycle(tuple(mixer.slower(len(turns)) for _, mixer in turns))
    _check_period("sequence(rounds)", cycle.period)
    _check_union(cycle, order)
    shown = [turn.name if isinstance(turn, Network) else type(turn).__name__ for turn in given]
    short = ", ".join(shown) if len(shown) <= 3 else f"{len(shown)} rounds of {n} agents"
    return Network(check_name(name) or f"sequence({short})", n, cycle)


def every(network: Network, rounds: int) -> Network:
    r"""Gossip once in `rounds` rounds, with local steps between: $W^t = I$ unless `rounds` divides $t$.

    A sequence inside goes on to its next matrix with each gossip, so that none is left out.
    """
    k = whole("every(rounds)", rounds)
    check_plain("every", network)
    if k == 1:
        return network
    if k >= 2**31:
        raise InputError(f"every(rounds) must be below 2³¹ = {2**31:,}, the rounds of the longest run, but is {k:,}.")
    _check_period("every(network)", network.mixer.period)
    return Network(f"every({network.name}, {k})", network.agents, Every(network.agents, network.mixer.slower(k), k))


def _check_period(where: str, rounds: int) -> None:
    """Raise InputError if the period is too long to go through for the gap and the cost of a round."""
    if rounds > LONGEST_PERIOD:
        raise InputError(
            f"{where} repeats only after {rounds:,} rounds; {LONGEST_PERIOD:,} can be. Use numbers of rounds that "
            "divide each other, or smaller ones."
        )


def _turn(k: int, given: Any, order: list | None) -> tuple[int, Mixer]:
    """Return the number of agents and the mixer of one round; graphs get their nodes in this order."""
    if isinstance(given, Network):
        refuse_attacked(f"sequence(rounds)[{k}]", given)
        return given.agents, given.mixer
    try:
        if is_graph(given):
            if odd := set(given.nodes) ^ set(order or []):
                raise InputError(
                    f"all graphs must have the same nodes, but {odd.pop()!r} is not in all. Add it, without links."
                )
            if given.is_multigraph():
                raise InputError(
                    "graph must be simple, but is a multigraph. Merge parallel edges with networkx.Graph(graph)."
                )
            graph: Any = type(given)()
            graph.add_nodes_from(order or [])
            graph.add_edges_from(given.edges)
            if is_directed(graph):
                return len(graph), shares(heard_links(graph))
            check_graph(graph)
            weights = metropolis(graph)
            weights.eliminate_zeros()
            return len(graph), choose(weights)
        matrix = as_matrix(given)
        check_doubly_stochastic(matrix)
        return matrix.shape[0], choose(clean(matrix))
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
    if cycle.random or all(mixer.sparse(t).diagonal().min() > 0 for t, mixer in enumerate(cycle.rounds)):
        return  # with a positive diagonal no round undoes what another has averaged
    product = sp.csr_array(sp.eye_array(size(union)))
    for t in range(cycle.period):
        product = sp.csr_array(cycle.sparse(t) @ product)
    check_averages(product)
