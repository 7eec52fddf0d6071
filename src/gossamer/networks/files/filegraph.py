"""What a file says of a graph: who is there, and who is linked with whom."""

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from gossamer.basics.lazy_networkx import nx
from gossamer.core import InputError

Node = str | int


class Edge(NamedTuple):
    """A link, its weight if it has one, and where it stands in the file."""

    source: Node
    target: Node
    weight: float | None
    place: str


class FileGraph(NamedTuple):
    """All that is read from a file: its nodes in order, whether links go one way, and the links."""

    nodes: list[Node]
    directed: bool
    edges: list[Edge]

    @property
    def weighted(self) -> bool:
        return any(edge.weight is not None for edge in self.edges)


def edge(source: Node, target: Node, weight: Any, place: str) -> Edge:
    """A link whose weight, if there is one, is a finite number that is not negative."""
    if weight is None:
        return Edge(source, target, None, place)
    try:
        number = float(weight)
    except (TypeError, ValueError, OverflowError):
        number = np.nan
    if isinstance(weight, bool) or not 0 <= number < np.inf:
        raise InputError(f"{place}: the weight {str(weight)[:40]!r} is not a number of at least 0.")
    return Edge(source, target, number, place)


def graph_of(read: FileGraph) -> "nx.Graph":
    """The links alone, as a networkx graph. Nodes that are called 0, 1, …, n − 1 are in that order."""
    graph = nx.DiGraph() if read.directed else nx.Graph()
    graph.add_nodes_from(_ordered(read.nodes))
    for source, target, _, place in read.edges:
        for end in (source, target):
            if end not in graph:
                raise InputError(f"{place}: the link {source!r} – {target!r} needs a node {end!r}, but there is none.")
        graph.add_edge(source, target)
    return graph


def matrix_of(read: FileGraph) -> sp.csr_array:
    r"""The weights of undirected links as a symmetric matrix.

    Where no link leads from an agent to itself, it keeps what its neighbours leave, $w_{ii} = 1 - \sum_j w_{ij}$.
    """
    position = {node: k for k, node in enumerate(graph_of(read))}
    weights: dict[tuple[int, int], tuple[float, str]] = {}
    for source, target, weight, place in read.edges:
        if weight is None:
            raise InputError(f"{place}: the link {source!r} – {target!r} has no weight, but others have one.")
        ends = (min(position[source], position[target]), max(position[source], position[target]))
        before, first = weights.setdefault(ends, (weight, place))
        if before != weight:
            raise InputError(
                f"{place}: the link {source!r} – {target!r} has weight {weight:g}, but {before:g} at {first}."
            )
    rows, columns = np.array(list(weights)).T
    data = np.array([weight for weight, _ in weights.values()])
    apart = rows != columns
    entries = np.append(data, data[apart]), (np.append(rows, columns[apart]), np.append(columns, rows[apart]))
    n = len(position)
    symmetric = sp.csr_array(sp.coo_array(entries, shape=(n, n)))
    if symmetric.diagonal().any():
        return symmetric
    kept = 1 - np.asarray(symmetric.sum(axis=1)).ravel()
    if kept.min() < -1e-8:
        worst = int(kept.argmin())
        raise InputError(
            f"the weights of the links of {list(position)[worst]!r} sum to {1 - kept[worst]:.6g}, which is more than "
            '1: they cannot be mixing weights. To take the links alone, give weights="metropolis".'
        )
    return sp.csr_array(symmetric + sp.diags_array(np.maximum(kept, 0.0)))


def _ordered(nodes: list[Node]) -> list[Node]:
    numbered = {str(node): node for node in nodes}
    places = [str(k) for k in range(len(nodes))]
    return [numbered[place] for place in places] if numbered.keys() == set(places) else nodes
