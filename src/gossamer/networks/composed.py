"""Graphs network of other graphs: cliques that a sparse graph joins, and the tree of shortest paths."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from gossamer.core import InputError, whole
from gossamer.networks import registry
from gossamer.networks.graphs import from_links, refuse_large_graph
from gossamer.networks.network import Network, call_name
from gossamer.networks.weights import find_links, join_both_ways, join_links


def hierarchical(
    agents: int, cliques: int | None = None, *, between: Any = "ring", weights: str = "metropolis"
) -> Network:
    """Join cliques, in which everyone talks to everyone, by a sparse graph between the first agents of each.

    Agents in a row are a clique; sizes differ by one at most. There are about as many cliques as each has agents,
    unless `cliques` is given. `between` is an undirected network of the cliques: a name, a table as in a spec, a
    networkx graph or a `Network`. With one clique all is complete, with as many as agents only `between` is left.
    """
    n = whole("hierarchical(agents)", agents)
    most = "There cannot be more cliques than agents."
    count = whole("hierarchical(cliques)", round(math.sqrt(n)) if cliques is None else cliques, most=n, advice=most)
    sizes = n // count + (np.arange(count) < n % count)
    refuse_large_graph(f"hierarchical({n:,}, {count:,})", n, float((sizes**2).sum()) / 2)
    network = _make_undirected("hierarchical(between)", between, count, "cliques")
    inside = sp.coo_array(sp.block_diag([sp.coo_array(1 - np.eye(members)) for members in sizes]))
    heads, (first, second) = np.cumsum(sizes) - sizes, find_links(_adjacency(network))
    links = join_links(n, np.append(inside.row, heads[first]), np.append(inside.col, heads[second]))
    shown = call_name("hierarchical", n, count, weights=weights)
    name = shown if isinstance(between, str) and between == "ring" else f"{shown[:-1]}, between={network.name})"
    return from_links(links, weights, name)


def spanning_tree(
    agents: int, of: Any, root: int = 0, *, weights: str = "metropolis", nodes: Sequence[str] | None = None
) -> Network:
    """Take the shortest paths from one agent, the root, to all others on an undirected network: a tree of its links.

    `of` is a name, a table as in a spec, a networkx graph or a `Network`. If it has names, `nodes` puts them in order.
    """
    from scipy.sparse import csgraph

    n = whole("spanning_tree(agents)", agents)
    first = whole("spanning_tree(root)", root, least=0, most=n - 1, advice=f"The agents are 0 … {n - 1}.")
    network = _make_undirected("spanning_tree(of)", of, n, "agents", nodes)
    # breadth first: a path from the root to an agent is as short as in the network
    order, before = csgraph.breadth_first_order(_adjacency(network), first, directed=False)
    child = order[1:]
    shown = call_name("spanning_tree", n, weights=weights)
    name = f"spanning_tree({network.name}{f', root={first}' if first else ''}{shown[len(f'spanning_tree({n}') :]}"
    return from_links(join_both_ways(n, child, before[child]), weights, name, network.names)


def _make_undirected(
    where: str, network: Any, agents: int, counted: str, names: Sequence[str] | None = None
) -> Network:
    try:
        network = registry.of(network, agents, counted=counted, names=names)
    except InputError as error:
        raise InputError(f"{where}: {error}") from None
    if not network.symmetric:
        raise InputError(
            f"{where} must be an undirected network that never changes, but {network.name} is not. Use one such as "
            "ring, torus or erdos-renyi."
        )
    return network


def _adjacency(network: Network) -> sp.csr_array:
    union = network.mixer.union()
    if union is None:
        refuse_large_graph(network.name, network.agents, network.links)
        return sp.csr_array(1 - np.eye(network.agents))
    return join_links(network.agents, *find_links(union))
