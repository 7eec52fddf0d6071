"""Static networks, connected and doubly stochastic: known graphs, random graphs, and graphs or matrices of your own."""

import dataclasses
import difflib
import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import scipy.sparse as sp

from gossamer.basics.sizes import refuse_beyond_memory
from gossamer.basics.text import some
from gossamer.core import InputError, Range, brief, whole
from gossamer.networks.mixers import Directed, Mean, Mixer, Shifts, choose
from gossamer.networks.network import Network, call_name
from gossamer.networks.weights import (
    LARGEST,
    WEIGHTS,
    adjacency,
    as_matrix,
    check_connected,
    check_doubly_stochastic,
    check_one_part,
    clean,
    find_links,
    join_both_ways,
    join_links,
    scheme,
    size,
)

if TYPE_CHECKING:
    import networkx as nx

G = TypeVar("G")

SHOWN = 8
"""The most names that an error lists."""

DRAWS = 100
"""The number of random graphs that are drawn before giving up on a connected one."""


def ring(agents: int, *, weights: str = "metropolis") -> Network:
    r"""Link each agent to the next and the one before. $\rho = \tfrac23 (1 - \cos \tfrac{2\pi}{n})$ for $n \ge 4$."""
    n = whole("ring(agents)", agents)
    return _translations(call_name("ring", n, weights=weights), (n,), [(1,), (-1,)], weights)


def path(agents: int, *, weights: str = "metropolis") -> Network:
    r"""Cut a ring once. $\rho = \tfrac23 (1 - \cos \tfrac{\pi}{n})$ for $n \ge 3$."""
    n = whole("path(agents)", agents)
    refuse_large_graph(f"path({n:,})", n, n)
    return from_links(
        join_both_ways(n, np.arange(1, n), np.arange(n - 1)), weights, call_name("path", n, weights=weights)
    )


def star(agents: int, *, weights: str = "metropolis") -> Network:
    r"""Link agent 0 to all others. $\rho = \tfrac1n$ for $n \ge 3$."""
    n = whole("star(agents)", agents)
    refuse_large_graph(f"star({n:,})", n, n)
    others = np.arange(1, n)
    return from_links(join_both_ways(n, others, 0 * others), weights, call_name("star", n, weights=weights))


def complete(agents: int) -> Network:
    r"""Link everyone to everyone. $W = J$ and $\rho = 1$."""
    n = whole("complete(agents)", agents)
    return Network(call_name("complete", n), n, Mean(n))


def torus(rows: int, columns: int, *, weights: str = "metropolis") -> Network:
    r"""Close a grid both ways. $\rho = \tfrac25 (1 - \cos \tfrac{2\pi}{s})$ for $s \times s$, $s \ge 4$."""
    r, c = whole("torus(rows)", rows), whole("torus(columns)", columns)
    return _translations(call_name("torus", r, c, weights=weights), (r, c), [(1, 0), (-1, 0), (0, 1), (0, -1)], weights)


def torus_of_agents(agents: int, rows: int | None = None, *, weights: str = "metropolis") -> Network:
    """Close a grid both ways. Without the number of rows it is as square as can be."""
    if rows is None:
        r = next(r for r in range(math.isqrt(agents), 0, -1) if agents % r == 0)
        if r == 1 and agents > 3:
            raise InputError(
                f"a torus of {agents} agents would be a ring, because {agents} is prime. Use the ring, or "
                f"{agents - 1} or {agents + 1} agents."
            )
    else:
        r = whole("torus(rows)", rows)
        if agents % r:
            raise InputError(
                f"a torus of {agents} agents cannot have {r} rows, which do not divide them evenly. Leave rows out for "
                "the most nearly square one."
            )
    return torus(r, agents // r, weights=weights)


def hypercube(agents: int, *, weights: str = "metropolis") -> Network:
    r"""Link the corners of a cube of p dimensions along its edges. $n = 2^p$ and $\rho = \tfrac{2}{p + 1}$."""
    n = whole("hypercube(agents)", agents)
    p = n.bit_length() - 1
    if n != 2**p:
        raise InputError(
            f"hypercube(agents) must be a power of two, but is {n}. The nearest are {2**p} and {2 ** (p + 1)}; "
            "networks.exponential takes any number of agents."
        )
    steps = [tuple(int(k == axis) for k in range(p)) for axis in range(p)]
    return _translations(call_name("hypercube", n, weights=weights), (2,) * p or (1,), steps, weights)


def exponential(agents: int) -> Network:
    r"""Let each agent send to those at distance 1, 2, 4, 8 and so on.

    The static exponential graph: $i$ sends to $i + 2^k \bmod n$, $k < \lceil \log_2 n \rceil$, all weights alike.
    Directed, yet doubly stochastic. $\rho = \tfrac{2}{p + 1}$ for $n = 2^p$.

    Reference: B. Ying et al., "Exponential graph is provably efficient for decentralized deep training", 2021,
    arXiv 2110.13363.
    """
    n = whole("exponential(agents)", agents)
    return _translations(call_name("exponential", n), (n,), [(2**k,) for k in range((n - 1).bit_length())])


def erdos_renyi(agents: int, probability: float, seed: int = 0, *, weights: str = "metropolis") -> Network:
    """Link each pair with this probability, independently. Redrawn until it is connected."""
    n, p, seed, links = draw_pairs("erdos_renyi", agents, probability, seed)
    return from_links(links, weights, call_name("erdos_renyi", n, p, weights=weights, seed=seed))


def random_regular(agents: int, degree: int, seed: int = 0, *, weights: str = "metropolis") -> Network:
    """Draw a graph at random from those in which every agent has this degree. Redrawn until it is connected."""
    n, seed = whole("random_regular(agents)", agents), whole("random_regular(seed)", seed, least=0)
    d = check_degree("random_regular", degree, n, least=0)
    if n * d % 2:
        raise InputError(
            f"random_regular({n}, {d}) cannot be: agents times degree must be even, but is {n * d}. Use degree "
            f"{d - 1} or {d + 1}, or {n + 1} agents."
        )
    # Pairing is slow for high degrees; the complement is drawn from the same distribution.
    dense = 2 * d > n - 1
    refuse_large_graph(f"random_regular({n:,}, {d:,})", n, n * (n if dense else d) / 2)

    def draw(key: int) -> sp.csr_array:
        import networkx as nx

        drawn = adjacency(nx.random_regular_graph(n - 1 - d if dense else d, n, seed=key), list(range(n)))
        return sp.csr_array(1 - np.eye(n) - drawn.toarray()) if dense else drawn

    way_out = "Use degree 3, which almost always is, or networks.ring for degree 2."
    links = draw_until(is_connected, draw, seed, f"random_regular({n}, {d}) gave no connected graph", way_out)
    return from_links(links, weights, call_name("random_regular", n, d, weights=weights, seed=seed))


def random_geometric(agents: int, radius: float, seed: int = 0, *, weights: str = "metropolis") -> Network:
    """Put agents at random places of a unit square and link those this near. Redrawn until it is connected."""
    import networkx as nx

    n, seed = whole("random_geometric(agents)", agents), whole("random_geometric(seed)", seed, least=0)
    r = Range(0, math.inf, True, True, "It is how far apart linked agents may be in a unit square.").check(
        "random_geometric(radius)", radius
    )
    refuse_large_graph(f"random_geometric({n:,}, {r:g})", n, min(1.0, math.pi * min(r, 1.0) ** 2) * n * (n - 1) / 2)
    least = math.sqrt(math.log(n) / (math.pi * n))
    links = draw_until(
        is_connected,
        lambda key: adjacency(nx.random_geometric_graph(n, r, seed=key)),
        seed,
        f"random_geometric({n}, {r:g}) gave no connected graph",
        f"The radius should be above √(ln(n)/(πn)) = {least:.4g}; twice that, {2 * least:.4g}, is safe.",
    )
    return from_links(links, weights, call_name("random_geometric", n, r, weights=weights, seed=seed))


def tree(agents: int, degree: int = 3, *, weights: str = "metropolis") -> Network:
    """Build a balanced tree, level by level, in which no agent has more neighbours than `degree`."""
    n, d = whole("tree(agents)", agents), whole("tree(degree)", degree, least=2, advice="With 2 it is a path.")
    refuse_large_graph(f"tree({n:,})", n, n)
    child = np.arange(1, n)
    # agent 0 has d children, and the others d − 1
    parent = np.where(child <= d, 0, 1 + (child - 1 - d) // (d - 1))
    return from_links(join_both_ways(n, child, parent), weights, call_name("tree", n, d, weights=weights))


def from_graph(
    graph: "nx.Graph", weights: str = "metropolis", *, nodes: Sequence[str] | None = None, name: str | None = None
) -> Network:
    """Take any connected undirected graph; self-loops are ignored.

    Agents are in the order of `nodes`, names such as `problem.agent_names`, or else of ``graph.nodes``.
    """
    scheme(weights)
    links = adjacency(graph)
    names = tuple(map(str, graph.nodes))
    check_one_part(links, "network", names)
    shown = name or call_name(graph.name or "graph", len(graph), weights=weights)
    return arrange(from_links(links, weights, shown, names), nodes)


def from_links(links: sp.csr_array, weights: str, name: str, names: tuple[str, ...] | None = None) -> Network:
    """Return the network of links that are known to connect everyone, each in both directions."""
    matrix = scheme(weights)(links)
    matrix.eliminate_zeros()
    return Network(name, size(matrix), choose(matrix), names=names)


def arrange(network: Network, names: Sequence[str] | None) -> Network:
    """Return the network with its agents in the order of these names; as it is, if either has no names.

    Nodes that are called 0, 1, …, n − 1 stand for the positions in `names`, unless one of these is a whole number.
    Raise InputError if the names differ, or if a network that changes or is attacked is in another order.
    """
    if names is None or network.names is None:
        return network
    own, wanted = network.names, tuple(names)
    numbers = tuple(map(str, range(network.agents)))
    if set(own) == set(numbers) and not any(one.removeprefix("-").isdecimal() for one in wanted):
        wanted = numbers
    if set(own) != set(wanted):
        in_graph, in_data = sorted(set(own) - set(wanted)), sorted(set(wanted) - set(own))
        folded = {name.casefold(): name for name in own}
        meant = []
        for name in in_data:
            if close := difflib.get_close_matches(name.casefold(), folded, n=1, cutoff=0.75):
                meant.append(f"{name!r} in the data: did you mean {folded[close[0]]!r}? ")
        raise InputError(
            "the nodes of the network and the agents of the data have other names. In the graph but not in the data: "
            f"{some(in_graph, SHOWN) or 'none'}; in the data but not in the graph: {some(in_data, SHOWN) or 'none'}. "
            f"{''.join(meant[:SHOWN])}Use one name for each: mend the data, or the graph, in its file or with "
            "networkx.relabel_nodes."
        )
    if own == wanted or len(own) != len(wanted):  # two nodes of one name: the number of agents is refused later
        return network
    if network.changes or network.attack is not None:
        raise InputError(
            f"{network.name} has its agents in the order {brief(list(own))}, but the data have {brief(list(wanted))}, "
            "and rounds that change, faults and attackers cannot be put in another order. Put the graph in that of the "
            "problem before: from_graph(graph, nodes=problem.agent_names)."
        )
    place = {name: k for k, name in enumerate(own)}
    order = [place[name] for name in wanted]
    return dataclasses.replace(network, mixer=_permute(network, order), names=wanted)


def _permute(network: Network, order: list[int]) -> Mixer:
    """Return the mixer of a static network with its agents in this order, as if its links had been read in it."""
    match network.mixer:
        case Mean() as mean:
            return mean
        case Directed(row, column):
            return Directed(*(choose(_reorder(one.sparse(), order)) for one in (row, column)))
    matrix = network.sparse
    links = join_links(network.agents, *find_links(matrix))
    for weights, make in WEIGHTS.items():
        if weights == "fdla":  # a solver's result, which no order of sums gives again to the bit
            continue
        # A diagonal is a sum in the order of the agents: computed again, it has the same bits in whichever order the
        # links were read.
        if (abs(make(links) - matrix) > 0).nnz == 0:
            again = make(_reorder(links, order))
            again.eliminate_zeros()
            return choose(again)
    return choose(_reorder(matrix, order))


def _reorder(matrix: Any, order: list[int]) -> sp.csr_array:
    moved = sp.csr_array(sp.csr_array(matrix)[order, :][:, order])
    moved.sort_indices()
    return moved


def from_matrix(matrix: Any, *, name: str | None = None) -> Network:
    """Take a doubly stochastic matrix of your own, dense or sparse, symmetric or not. It is checked and copied.

    Entries of at most 1e-12 are taken for rounding errors and dropped.
    """
    matrix = as_matrix(matrix)
    check_doubly_stochastic(matrix)
    copy = clean(matrix)
    check_connected(copy)
    n = size(copy)
    return Network(name or call_name("matrix", n), n, choose(copy))


def check_degree(where: str, degree: Any, agents: int, least: int = 1) -> int:
    """Return the number of others that each agent hears; raise InputError if there are not so many."""
    d = whole(f"{where}(degree)", degree, least=least)
    if d >= max(agents, 2):
        raise InputError(
            f"{where}(degree) must be below the number of agents, {agents}, but is {d}. With all others "
            "networks.complete averages in one round."
        )
    return d


def refuse_large_graph(what: str, agents: int, links: float) -> None:
    """Raise InputError if memory cannot hold this graph; bytes of an agent and a link were measured with networkx."""
    refuse_beyond_memory(what, 400 * agents + 250 * links, "use fewer agents or links")


def _translations(
    name: str, shape: tuple[int, ...], steps: Iterable[tuple[int, ...]], weights: str = "metropolis"
) -> Network:
    """Let everyone send along the same steps. Steps that coincide on a short side, such as ±1 of 2, are one link."""
    scheme(weights)
    still = (0,) * len(shape)
    wrapped = (tuple(s % side for s, side in zip(step, shape, strict=True)) for step in steps)
    offsets = (still, *dict.fromkeys(step for step in wrapped if step != still))
    share = np.full(len(offsets), 1 / len(offsets))  # all degrees are alike, so metropolis and max-degree agree
    if len(offsets) > 1 and weights == "fdla":
        share = _fastest_translations(shape, offsets)
    elif len(offsets) > 1 and weights.endswith("best-constant"):
        laplacian = len(offsets) * (1 - np.real(Shifts(shape, offsets, share).eigenvalues())[1:])
        share[:] = 2 / (laplacian.min() + laplacian.max())
        share[0] = 1 - share[1:].sum()
    if weights.startswith("lazy"):
        share = (share + np.eye(len(offsets))[0]) / 2
    return Network(name, math.prod(shape), Shifts(shape, offsets, share))


def _fastest_translations(shape: tuple[int, ...], offsets: tuple[tuple[int, ...], ...]) -> np.ndarray:
    r"""Return the weight of each offset that minimises $\lVert W - J \rVert_2$.

    The norm is convex, so its mean over all translations of a W is no worse: a step and its inverse have one weight for
    all agents. The eigenvalues of W are then linear in the weights, and a linear program finds the best.
    """
    from scipy.optimize import linprog

    agents = math.prod(shape)
    if agents > LARGEST:
        raise InputError(
            f"fdla weights need all eigenvalues, and {agents:,} agents are more than {LARGEST:,}: take "
            'weights="metropolis".'
        )
    steps = offsets[1:]
    inverse = [tuple(-o % side for o, side in zip(step, shape, strict=True)) for step in steps]
    pairs, number = np.unique([min(k, steps.index(back)) for k, back in enumerate(inverse)], return_inverse=True)
    fall = np.zeros((agents - 1, len(pairs)))  # by how much a weight of 1 lowers each eigenvalue
    for step, k in zip(steps, number, strict=True):
        fall[:, k] += 1 - np.real(Shifts(shape, (step,), np.ones(1)).eigenvalues())[1:]
    least, ones = np.full((agents - 1, 1), -1.0), np.ones(agents - 1)
    program, right = np.block([[least, -fall], [least, fall]]), np.append(-ones, ones)
    weights = linprog(np.eye(1 + len(pairs))[0], program, right, bounds=(None, None)).x[1:][number]
    return np.append(1 - weights.sum(), weights)


def draw_pairs(
    where: str, agents: Any, probability: Any, seed: Any, directed: bool = False
) -> tuple[int, float, int, sp.csr_array]:
    """Link each pair with this probability until all are connected; return what was given, checked, and the links."""
    import networkx as nx

    n, seed = whole(f"{where}(agents)", agents), whole(f"{where}(seed)", seed, least=0)
    p = Range(0, 1, True, False, "It is the chance that a pair is linked.").check(f"{where}(probability)", probability)
    refuse_large_graph(f"{where}({n:,}, {p:g})", n, p * n * (n - 1) / (1 if directed else 2))
    least = math.log(n) / n

    def draw(key: int) -> sp.csr_array:
        # below 1e-15 networkx cannot draw, and no graph would be connected anyhow
        graph = nx.fast_gnp_random_graph(n, max(p, 1e-15), seed=key, directed=directed)
        return adjacency(graph, directed=directed)

    links = draw_until(
        is_connected,
        draw,
        seed,
        f"{where}({n}, {p:g}) gave no {'strongly ' * directed}connected graph",
        f"The probability should be above ln(n)/n = {least:.4g}; twice that, {min(1.0, 2 * least):.4g}, is safe.",
    )
    return n, p, seed, links


def draw_until(accept: Callable[[G], bool], make: Callable[[int], G], seed: int, problem: str, way_out: str) -> G:
    """Return the first graph that is accepted, each drawn with a seed of its own that is derived from `seed`.

    Raise InputError with the problem and the way out after `DRAWS` draws.
    """
    for draw in range(DRAWS):
        # a sequence of seeds, so that the draws of seed 0 are not those of seed 1, one later
        graph = make(int(np.random.SeedSequence([seed, draw]).generate_state(1)[0]))
        if accept(graph):
            return graph
    raise InputError(f"{problem} in {DRAWS} draws. {way_out}")


def is_connected(links: sp.csr_array) -> bool:
    """Return True if every agent can reach every other over these links."""
    from scipy.sparse import csgraph

    return csgraph.connected_components(links, connection="strong", return_labels=False) == 1
