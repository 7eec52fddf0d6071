"""Graphs made of other graphs: cliques that a sparse graph joins, and the tree of shortest paths."""

import math
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse import csgraph

from gossamer.core import InputError, whole
from gossamer.networks import registry
from gossamer.networks.graphs import from_links, refuse_large_links, undirected_links
from gossamer.networks.network import Network, call_name
from gossamer.networks.weights import scheme


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
    scheme(weights)
    sizes = n // count + (np.arange(count) < n % count)
    refuse_large_links(f"hierarchical({n:,}, {count:,})", n, float((sizes**2).sum()) / 2)
    network = _undirected("hierarchical(between)", between, count, "cliques")
    heads, joined = np.cumsum(sizes) - sizes, sp.coo_array(_links(network))
    counts = sizes.repeat(sizes)  # how large each agent's clique is
    rows = np.arange(n).repeat(counts)
    columns = heads.repeat(sizes).repeat(counts) + np.arange(len(rows)) - (np.cumsum(counts) - counts).repeat(counts)
    apart = rows != columns
    ends = np.append(rows[apart], heads[joined.row]), np.append(columns[apart], heads[joined.col])
    shown = call_name("hierarchical", n, count, weights=weights)
    name = shown if isinstance(between, str) and between == "ring" else f"{shown[:-1]}, between={network.name})"
    links = sp.csr_array(sp.coo_array((np.ones(len(ends[0])), ends), shape=(n, n)))
    return from_links(links, weights, name)


def spanning_tree(agents: int, of: Any, root: int = 0, *, weights: str = "metropolis") -> Network:
    """Take the shortest paths from one agent, the root, to all others on an undirected network: a tree of its links.

    `of` is a name, a table as in a spec, a networkx graph or a `Network`.
    """
    n = whole("spanning_tree(agents)", agents)
    first = whole("spanning_tree(root)", root, least=0, most=n - 1, advice=f"The agents are 0 … {n - 1}.")
    scheme(weights)
    network = _undirected("spanning_tree(of)", of, n, "agents")
    order, before = csgraph.breadth_first_order(_links(network), first, directed=False)
    child = order[1:]
    shown = call_name("spanning_tree", n, weights=weights)
    name = f"spanning_tree({network.name}{f', root={first}' if first else ''}{shown[len(f'spanning_tree({n}') :]}"
    return from_links(undirected_links(n, child, before[child]), weights, name)


def _undirected(where: str, network: Any, agents: int, counted: str) -> Network:
    try:
        made = registry.of(network, agents, counted=counted)
    except InputError as error:
        raise InputError(f"{where}: {error}") from None
    if not made.symmetric:
        raise InputError(
            f"{where} must be an undirected network that never changes, but {made.name} is not. Use one such as ring, "
            "torus or erdos-renyi."
        )
    return made


def _links(network: Network) -> sp.csr_array:
    """Return the adjacency matrix of a network."""
    union = network.mixer.union()
    if union is None:
        refuse_large_links(network.name, network.agents, network.links)
        return sp.csr_array(1 - np.eye(network.agents))
    entries = sp.coo_array(union)
    apart = entries.row != entries.col
    ones = np.ones(np.count_nonzero(apart))
    return sp.csr_array(sp.coo_array((ones, (entries.row[apart], entries.col[apart])), shape=entries.shape))
