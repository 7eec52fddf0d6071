"""One way to any file: its ending says what it is."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from gossamer.basics.lazy_networkx import is_directed, nx
from gossamer.basics.sizes import refuse_beyond_memory, shown
from gossamer.core import InputError, brief, flag, nearest, whole
from gossamer.data.files import existing_file
from gossamer.networks import digraphs, graphs
from gossamer.networks.files.filegraph import FileGraph, graph_of, matrix_of
from gossamer.networks.files.graphs import read_gml, read_node_link
from gossamer.networks.files.lists import read_edges, read_neighbours
from gossamer.networks.files.markup import read_markup
from gossamer.networks.files.matrices import READERS as MATRICES
from gossamer.networks.files.text import decoded
from gossamer.networks.network import Network
from gossamer.networks.weights import WEIGHTS, WHAT, as_matrix, check_weights, worst_sum

LARGEST_FILE = 200e6
"""Bytes that a file may have."""

ROOM = {"lists": 60, "graphs": 20, "matrices": 7}
"""Bytes of memory for each byte of a file while it is read (measured)."""

LISTS: dict[str, Callable[[str, bool], FileGraph]] = {
    ".edges": read_edges,
    ".edgelist": read_edges,
    ".adjlist": read_neighbours,
}
GRAPHS: dict[str, Callable[[bytes], FileGraph]] = {
    ".graphml": lambda content: read_markup(content, "graphml"),
    ".gexf": lambda content: read_markup(content, "gexf"),
    ".gml": lambda content: read_gml(decoded(content)),
    ".json": lambda content: read_node_link(decoded(content)),
}
ENDINGS = (*LISTS, *GRAPHS, *MATRICES)
"""The endings of files that hold a network."""


def from_file(
    file: str | os.PathLike[str],
    *,
    weights: str | None = None,
    directed: bool | None = None,
    agents: int | None = None,
) -> Network:
    """The network in a file. Its ending says what it is:

    - ``.edges``, ``.edgelist``: a link a line, ``i j`` or ``i j weight``, between agents 0, 1, …; ``.adjlist``: an
      agent and its neighbours a line. With ``directed=True`` the first of a line sends to the others.
    - ``.graphml``, ``.gexf``, ``.gml``, ``.json`` (node-link): a graph, directed or not. Agents are in the order of the
      file, unless the nodes are called 0, 1, …, n − 1.
    - ``.csv``, ``.npy``, ``.npz`` (SciPy's sparse), ``.mtx``: a mixing matrix. One that is only row- or only
      column-stochastic makes a directed network.

    `weights` names a scheme for undirected links, by default ``"metropolis"``; a matrix has weights of its own, and a
    scheme takes its links alone. Where links have weights, ``weights="file"`` mixes with these, and a scheme takes the
    links alone: one of the two must be given. Directed links get equal shares, as in `directed`; ``weights="equal"``
    says so where they have weights. `agents`, if given, is how many there must be.
    """
    if not isinstance(file, (str, os.PathLike)):
        raise InputError(f"the file of a network must be a path, but is {brief(file)}.")
    if weights is not None and (not isinstance(weights, str) or weights not in (*WEIGHTS, "file", "equal")):
        raise InputError(f"weights={brief(weights)} is not known; {nearest(weights, (*WEIGHTS, 'file', 'equal'))}")
    n = None if agents is None else whole("from_file(agents)", agents)
    path = existing_file(file)
    ending = path.suffix.lower()
    if ending not in ENDINGS:
        raise InputError(
            f"{path} has the ending {ending!r}, but a network is read from {', '.join(ENDINGS)}. Rename the file after "
            "what it holds."
        )
    try:
        if directed is not None and ending not in LISTS:
            raise InputError(f"directed is for {', '.join(LISTS)} only, as this file says so itself. Leave it out.")
        content = _content(path, ROOM["lists" if ending in LISTS else "graphs" if ending in GRAPHS else "matrices"])
        one_way = False if directed is None else flag("directed", directed)
        if ending in MATRICES:
            network = _from_matrix(MATRICES[ending](content), weights)
        else:
            read = LISTS[ending](decoded(content), one_way) if ending in LISTS else GRAPHS[ending](content)
            network = _from_links(read, weights)
        if n is not None and network.agents != n:
            raise InputError(
                f"it holds {network.agents} agents, but there are {n}. Use as many agents as the file has, or "
                "another file."
            )
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    own = "" if weights is None else f", weights={weights!r}"
    return Network(f"file({path.name!r}{own})", network.agents, network.mixer)


def is_network_file(given: Any) -> bool:
    """Whether this is the path of a file by the look of it: it ends as one that holds a network."""
    return isinstance(given, os.PathLike) or (isinstance(given, str) and Path(given).suffix.lower() in ENDINGS)


def _content(path: Path, room: int) -> bytes:
    try:
        size = path.stat().st_size
        if size > LARGEST_FILE:
            raise InputError(f"it has {shown(size)}, but at most {shown(LARGEST_FILE)} are read.")
        refuse_beyond_memory("reading it", room * size, "use a smaller network")
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"it cannot be read: {error.strerror}.") from None


def _from_links(read: FileGraph, weights: str | None) -> Network:
    graph = graph_of(read)
    if is_directed(graph):
        if weights not in (None, "equal"):
            raise InputError(
                f"links that go one way have no weights={brief(weights)}: they get equal shares. Leave weights out, or "
                "give the matrix of your weights, such as W.csv."
            )
        if weights is None and read.weighted:
            raise InputError(
                'its links have weights. To take the links alone, with equal shares, give weights="equal"; to mix with '
                "weights of your own give their matrix, such as W.csv."
            )
        return digraphs.directed(graph)
    if weights is None and read.weighted:
        raise InputError(
            'its links have weights. To mix with these give weights="file"; to take the links alone, a scheme, such as '
            'weights="metropolis".'
        )
    if weights != "file":
        return graphs.from_graph(graph, "metropolis" if weights is None else weights)
    if not read.weighted:
        raise InputError('weights="file" asks for weights of the links, but they have none. Use weights="metropolis".')
    return graphs.from_matrix(matrix_of(read))


def _from_matrix(matrix: Any, weights: str | None) -> Network:
    way_out = 'To take its links alone, give weights="metropolis".'
    entries = check_weights(as_matrix(matrix), WHAT, way_out)
    if weights not in (None, "file"):
        return graphs.from_graph(_graph_of_pattern(entries), weights)
    straight = [line for line in ("row", "column") if abs(worst_sum(entries, line)[1] - 1) <= 1e-8]
    if len(straight) == 1:
        return digraphs.from_matrices(**{straight[0]: matrix})
    if not straight:
        worst, total = worst_sum(entries, "row")
        raise InputError(
            f"{WHAT} doubly stochastic, or its rows or its columns must sum to 1, but row {worst} sums to {total:.10g} "
            f"(tolerance 1e-08). {way_out}"
        )
    return graphs.from_matrix(matrix)


def _graph_of_pattern(entries: sp.coo_array) -> "nx.Graph":
    """The graph whose links are the entries that are not 0."""
    pattern = sp.csr_array(entries).astype(bool).astype(np.int8)
    odd = sp.coo_array(abs(pattern - pattern.T))
    odd.eliminate_zeros()
    if odd.nnz:
        i, j = int(odd.row[0]), int(odd.col[0])
        raise InputError(
            f"a weight scheme needs links that go both ways, but of the entries [{i}, {j}] and [{j}, {i}] one is 0. "
            "For a directed graph give its list of links, with directed=True."
        )
    return nx.from_scipy_sparse_array(pattern)
