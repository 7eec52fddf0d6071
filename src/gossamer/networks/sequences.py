"""Networks that change: sequences, rounds drawn at random, local steps, links that fail and agents that sleep."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import scipy.sparse as sp

from gossamer.basics.lazy_networkx import is_directed, is_graph, nx
from gossamer.core import InputError, Range, brief, whole
from gossamer.networks.digraphs import check_strongly_connected, heard_links, shares
from gossamer.networks.graphs import call_name, name_of
from gossamer.networks.mixing.cycles import Cycle, Every
from gossamer.networks.mixing.drawn import Matching, Redrawn
from gossamer.networks.mixing.faults import fail
from gossamer.networks.mixing.mixer import Mixer
from gossamer.networks.mixing.static import DENSE_LIMIT, Shifts, choose
from gossamer.networks.network import Network
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
"""How many rounds a sequence may have before it begins again."""

RATE = Range(0, 1, False, True, "It is the chance of a failure in one round; at 1 nobody would ever meet.")


def one_peer_exponential(agents: int) -> Network:
    r"""In round t each agent hears one other, at distance 1, 2, 4, 8 and so on in turn.

    $$ x_i \leftarrow \tfrac12 (x_i + x_{i - 2^k}), \qquad k = t \bmod \lceil \log_2 n \rceil $$

    One message a round. For $n = 2^p$ any $p$ rounds in a row average exactly: their product is $J$.

    Reference: B. Ying et al., "Exponential graph is provably efficient for decentralized deep training", 2021,
    arXiv 2110.13363.
    """
    n = whole("one_peer_exponential(agents)", agents)
    half = np.array([0.5, 0.5])
    rounds = [Shifts((n,), ((0,), (2**k,)), half) for k in range((n - 1).bit_length())]
    alone = Shifts((1,), ((0,),), np.ones(1))
    return Network(call_name("one_peer_exponential", n), n, Cycle(tuple(rounds)) if rounds else alone)


def random_matching(agents: int, seed: int = 0) -> Network:
    r"""Each round the agents are paired at random, and pairs average. If their number is odd, one rests.

    $\rho = 1 - \sqrt{\tfrac{n - 2}{2 (n - 1)}}$ for even $n$, and $1 - \sqrt{\tfrac12}$ for odd $n \ge 3$.

    Reference: S. Boyd, A. Ghosh, B. Prabhakar and D. Shah, "Randomized gossip algorithms", 2006.
    """
    n, key = whole("random_matching(agents)", agents), draw_seed("random_matching(seed)", seed)
    return Network(call_name("random_matching", n, seed=int(key)), n, Matching(n, key))


def redrawn(agents: int, probability: float, seed: int = 0) -> Network:
    """A new Erdős–Rényi graph each round, with Metropolis weights. A single round need not be connected."""
    n, key = whole("redrawn(agents)", agents), draw_seed("redrawn(seed)", seed)
    allowed = Range(0, 1, True, False, "It is the chance that a pair is linked in a round.")
    p = allowed.check("redrawn(probability)", probability)
    if n > DENSE_LIMIT:
        raise InputError(
            f"redrawn({n}, {p:g}) would draw {n * (n - 1) // 2:,} pairs each round; up to {DENSE_LIMIT:,} agents can. "
            "Use networks.random_matching, which takes any number."
        )
    return Network(call_name("redrawn", n, p, seed=int(key)), n, Redrawn(n, np.asarray(p), key))


def sequence(rounds: Iterable[Any], *, name: str | None = None) -> Network:
    """These rounds in turn, and from the start again: matrices, networkx graphs or networks, in any mixture.

    A matrix must be doubly stochastic, a `Graph` gets Metropolis weights, a `DiGraph` equal shares as in `directed`.
    Single rounds may fall apart; all their links together must connect the agents. Where one round is directed the
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
    return Network(name_of(name) or f"sequence({short})", n, cycle)


def every(network: Network, rounds: int) -> Network:
    r"""Local steps: gossip once in `rounds` rounds, $W^t = I$ unless `rounds` divides $t$.

    A sequence inside goes on to its next matrix with each gossip, so that none is left out.
    """
    k = whole("every(rounds)", rounds)
    _check_network("every", network)
    if k == 1:
        return network
    if k >= 2**31:
        raise InputError(f"every(rounds) must be below 2³¹ = {2**31:,}, the rounds of the longest run, but is {k:,}.")
    _check_period("every(network)", network.mixer.period)
    return Network(f"every({network.name}, {k})", network.agents, Every(network.agents, network.mixer.slower(k), k))


def failing(network: Network, links: float = 0.0, agents: float = 0.0, seed: int = 0) -> Network:
    r"""Faults, drawn anew each round: a link is down with chance `links`, an agent sleeps with chance `agents`.

    A link fails in both directions at once, and both ends know. An agent that sleeps has all its links down and does
    nothing in that round. On a symmetric W both ends add the lost weight to their own, so that every $W^t$ is doubly
    stochastic. On a directed network the sender keeps what it could not push (C) and the receiver relies on itself for
    what it could not pull (R). A W that is doubly stochastic but not symmetric (`exponential`, `one_peer_exponential`)
    cannot be mended both ways: it is then directed, with an R and a C, and needs an algorithm for directed graphs.
    """
    _check_network("failing", network)
    down, asleep = RATE.check("failing(links)", links), RATE.check("failing(agents)", agents)
    key = draw_seed("failing(seed)", seed)
    if not down and not asleep:
        return network
    rates = "".join(f", {what}={rate:g}" for what, rate in (("links", down), ("agents", asleep)) if rate)
    name = f"failing({network.name}{rates}, seed={key})"
    return Network(name, network.agents, fail(network.mixer, network.agents, down, asleep, int(key)))


def draw_seed(where: str, seed: Any) -> np.ndarray:
    """The seed as the leaf of a mixer."""
    return np.asarray(whole(where, seed, least=0, most=2**32 - 1), np.uint32)


def _check_period(where: str, rounds: int) -> None:
    """Refuse what repeats so late that its rounds could not be gone through, for the gap and the cost of a round."""
    if rounds > LONGEST_PERIOD:
        raise InputError(
            f"{where} repeats only after {rounds:,} rounds; {LONGEST_PERIOD:,} can be. Use numbers of rounds that "
            "divide each other, or smaller ones."
        )


def _check_network(where: str, network: Any) -> None:
    if not isinstance(network, Network):
        raise InputError(
            f"{where}(network) must be a network, but is {type(network).__name__}. Make one first, such as "
            "networks.ring(20)."
        )
    _refuse_attacked(where, network)


def _refuse_attacked(where: str, network: Network) -> None:
    if network.attack is not None:
        raise InputError(f"{where} is given {network.name}: let networks.attacked stand around all the others.")


def _turn(k: int, given: Any, order: list | None) -> tuple[int, Mixer]:
    """The number of agents and the mixer of one round."""
    if isinstance(given, Network):
        _refuse_attacked(f"sequence(rounds)[{k}]", given)
        return given.agents, given.mixer
    try:
        if is_graph(given):
            graph = _ordered(given, order or [])
            mixer = shares(heard_links(graph)) if is_directed(graph) else choose(_without_zeros(graph))
            return graph.number_of_nodes(), mixer
        matrix = as_matrix(given)
        check_doubly_stochastic(matrix)
        return matrix.shape[0], choose(clean(matrix))
    except InputError as error:
        raise InputError(f"sequence(rounds)[{k}]: {error}") from None


def _ordered(graph: Any, order: list) -> Any:
    """The graph with its nodes in this order."""
    if set(graph.nodes) != set(order):
        odd = next(iter(set(graph.nodes) ^ set(order)))
        raise InputError(f"all graphs must have the same nodes, but {odd!r} is not in all. Add it, without links.")
    if graph.is_multigraph():
        raise InputError("graph must be simple, but is a multigraph. Merge parallel edges with networkx.Graph(graph).")
    same = type(graph)()
    same.add_nodes_from(order)
    same.add_edges_from(graph.edges)
    return same


def _without_zeros(graph: "nx.Graph") -> sp.csr_array:
    check_graph(graph)
    matrix = metropolis(graph)
    matrix.eliminate_zeros()
    return matrix


def _check_union(cycle: Cycle, names: list | None) -> None:
    """Refuse rounds that leave agents apart or only move values about."""
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
