"""Networks in files: lists of links, graphs and matrices. Nothing in a file is unpickled or evaluated."""

import hashlib
import io
import itertools
import json
import os
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import networkx as nx
import numpy as np
import scipy.sparse as sp

from gossamer.basics.sizes import refuse_beyond_memory
from gossamer.basics.sparse import check_sparse
from gossamer.core import InputError, brief, flag, nearest, whole
from gossamer.data.files import existing_file
from gossamer.networks import digraphs, graphs
from gossamer.networks.network import Network
from gossamer.networks.weights import WEIGHTS, WHAT, as_matrix, check_weights, worst_sum

ROOM = 60
"""Bytes of memory for each byte of a file while it is read (measured on lists of links, which take the most)."""


def from_file(
    file: str | os.PathLike[str],
    *,
    weights: str | None = None,
    directed: bool | None = None,
    agents: int | None = None,
) -> Network:
    """Read the network in a file. Its ending says what it is:

    - ``.edges``, ``.edgelist``: a link a line, ``i j`` or ``i j weight``, between agents 0, 1, …; ``.adjlist``: an
      agent and its neighbours a line. With ``directed=True`` the first of a line sends to the others.
    - ``.graphml``, ``.gexf``, ``.gml``, ``.json`` (node-link): a graph, directed or not. Agents are in the order of the
      file, unless the nodes are called 0, 1, …, n − 1.
    - ``.csv``, ``.npy``, ``.npz`` (SciPy's sparse), ``.mtx``: a mixing matrix. One that is only row- or only
      column-stochastic makes a directed network.

    `weights` names a scheme for undirected links, by default ``"metropolis"``; a matrix has weights of its own, and a
    scheme takes its links alone. If links have weights, ``weights="file"`` mixes with these, and a scheme takes the
    links alone: one of the two must be given. Directed links get equal shares, as in `directed`; ``weights="equal"``
    says so if they have weights. `agents`, if given, is how many there must be.
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
        one_way = False if directed is None else flag("directed", directed)
        found = _read(path, ending, one_way)
        network = _from_matrix(found, weights) if ending in MATRICES else _from_links(found, weights)
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
    """Return True if this looks like the path of a file that holds a network, by its ending."""
    return isinstance(given, os.PathLike) or (isinstance(given, str) and Path(given).suffix.lower() in ENDINGS)


def _read(path: Path, ending: str, directed: bool) -> Any:
    """Return the graph or the matrix in a file; raise InputError for whatever a reader stumbles over."""
    try:
        refuse_beyond_memory("reading it", ROOM * path.stat().st_size, "use a smaller network")
        content = path.read_bytes()
        with warnings.catch_warnings(action="error"):  # a reader's doubts are the user's mistakes
            return _read_list(content, ending, directed) if ending in LISTS else FORMATS[ending][1](content)
    except InputError:
        raise
    except OSError as error:
        raise InputError(f"it cannot be read: {error.strerror or error}.") from None
    # Readers of damaged files raise whatever they stumble over; each is told as a mistake in the file.
    except Exception as error:
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        kind = "a list of links" if ending in LISTS else FORMATS[ending][0]
        raise InputError(f"this is not {kind}: {reason}.") from None


# --- lists of links ---


def _read_list(content: bytes, ending: str, directed: bool) -> nx.Graph:
    """Read a list of links between agents 0, 1, …, or of agents with their neighbours; # and % begin a comment."""
    graph: Any = nx.DiGraph() if directed else nx.Graph()
    for number, line in enumerate(content.decode("utf-8-sig").splitlines(), 1):
        # networkx writes the attributes of a link as a dictionary, and {} where there are none
        words = line.split("#", 1)[0].split("%", 1)[0].replace("{}", "").replace(",", " ").split()
        if not words:
            continue
        links = ending != ".adjlist"
        try:
            first, *others = map(int, words[:2] if links else words)
            weight = {"weight": float(words[2])} if links and words[2:] else {}
            if min(first, *others, 0) < 0 or (links and len(words) not in (2, 3)):
                raise ValueError
        except ValueError:
            raise InputError(
                f"line {number}: expected agents as numbers 0, 1, 2, …, {LISTS[ending]}, but got "
                f"{line.strip()[:40]!r}. Nodes that have names can be read from GraphML, GEXF, GML or JSON."
            ) from None
        graph.add_node(first)
        for other in others:
            if weight and graph.has_edge(first, other) and graph.edges[first, other] != weight:
                raise InputError(f"line {number}: the link {first} – {other} has another weight in a line before.")
            graph.add_edge(first, other, **weight)
    if not len(graph):
        raise InputError("there is no link in the file. Expected lines such as `0 1`.")
    last = max(graph)
    if last + 1 != len(graph):
        missing = next(k for k in itertools.count() if k not in graph)
        hint = " Does the file count from 1? Subtract 1 from each number." if missing == 0 else ""
        raise InputError(
            f"agents are 0, 1, …, n − 1, and the largest is {last}, but agent {missing} has no link.{hint}"
        )
    return graph


# --- graphs ---


def _read_xml(content: bytes, read: Callable[[Any], Any]) -> nx.Graph:
    tags = (element.tag.rpartition("}")[2] for element in ElementTree.fromstring(content).iter())
    return _check_nodes(read(io.BytesIO(content)), sum(tag == "node" for tag in tags))


def _read_node_link(content: bytes) -> nx.Graph:
    """Read ``{"nodes": [{"id": …}, …], "links": [{"source": …, "target": …}, …], "directed": …}``."""
    document = json.loads(content.decode("utf-8-sig"))
    key = "edges" if isinstance(document, dict) and "edges" in document else "links"
    for name in ("nodes", key):
        if not isinstance(document, dict) or not isinstance(document.get(name), list):
            raise InputError(
                f'a graph in JSON is {{"nodes": [{{"id": 0}}, …], "links": [{{"source": 0, "target": 1}}, …]}}, but '
                f"this one has no list {name!r}."
            )
    return _check_nodes(nx.node_link_graph(document, edges=key), len(document["nodes"]))


def _check_nodes(graph: nx.Graph, listed: int) -> nx.Graph:
    """Return the graph; raise InputError if networkx added a missing end of a link, or merged nodes with one id."""
    if len(graph) != listed:
        raise InputError(
            f"it lists {listed} nodes, but its nodes and links have {len(graph)} different ids. Give each node an id "
            "of its own, and each link two of these."
        )
    return graph


LISTS = {
    ".edges": "`i j` or `i j weight` a line",
    ".edgelist": "`i j` or `i j weight` a line",
    ".adjlist": "an agent and its neighbours a line",
}
"""The endings of lists of links, and what each of their lines holds."""

GRAPHS: dict[str, tuple[str, Callable[[bytes], nx.Graph]]] = {
    ".graphml": ("GraphML", lambda content: _read_xml(content, nx.read_graphml)),
    ".gexf": ("GEXF", lambda content: _read_xml(content, nx.read_gexf)),
    # without a destringizer no value is evaluated
    ".gml": ("GML", lambda content: nx.parse_gml(content.decode("utf-8-sig").splitlines(), label="id")),
    ".json": ("JSON", _read_node_link),
}
"""The formats of graphs by ending: their names and their readers."""


def _read_mtx(content: bytes) -> Any:
    from scipy.io import mmread  # a tenth of a second to import

    return mmread(io.BytesIO(content))


MATRICES: dict[str, tuple[str, Callable[[bytes], Any]]] = {
    ".csv": ("a matrix", lambda content: np.loadtxt(io.BytesIO(content), delimiter=",", ndmin=2, encoding="utf-8-sig")),
    ".npy": ("an array of NumPy", lambda content: np.load(io.BytesIO(content), allow_pickle=False)),
    ".npz": ("a sparse matrix of scipy.sparse.save_npz", lambda content: sp.load_npz(io.BytesIO(content))),
    ".mtx": ("Matrix Market", _read_mtx),
}
"""The formats of matrices by ending: their names and their readers."""

FORMATS: dict[str, tuple[str, Callable[[bytes], Any]]] = GRAPHS | MATRICES
ENDINGS = (*LISTS, *FORMATS)
"""The endings of files that hold a network."""


# --- from a graph or a matrix to a network ---


def _from_links(graph: nx.Graph, weights: str | None) -> Network:
    names = {str(node): node for node in graph}
    order = [str(k) for k in range(len(graph))]
    # Nodes that are called 0, 1, …, n − 1 are in that order, others in the order of the file.
    nodes = [names[k] for k in order] if names.keys() == set(order) else list(graph)
    simple: Any = nx.DiGraph() if graph.is_directed() else nx.Graph()
    simple.add_nodes_from(nodes)
    for source, target, weight in graph.edges(data="weight"):
        try:
            number = None if weight is None else float(weight)
        except (TypeError, ValueError):
            number = np.nan
        if number is not None and not 0 <= number < np.inf:
            raise InputError(
                f"the weight of the link {source!r} – {target!r} must be a number of at least 0, but is "
                f"{brief(weight)}."
            )
        simple.add_edge(source, target, weight=number)
    weighted = any(weight is not None for *_, weight in simple.edges(data="weight"))
    if simple.is_directed():
        if weights not in (None, "equal"):
            raise InputError(
                f"links that go one way have no weights={brief(weights)}: they get equal shares. Leave weights out, or "
                "give the matrix of your weights, such as W.csv."
            )
        if weights is None and weighted:
            raise InputError(
                'its links have weights. To take the links alone, with equal shares, give weights="equal"; to mix with '
                "weights of your own give their matrix, such as W.csv."
            )
        return digraphs.directed(simple)
    if weights is None and weighted:
        raise InputError(
            'its links have weights. To mix with these give weights="file"; to take the links alone, a scheme, such as '
            'weights="metropolis".'
        )
    if weights != "file":
        return graphs.from_graph(simple, "metropolis" if weights is None else weights)
    if not weighted:
        raise InputError('weights="file" asks for weights of the links, but they have none. Use weights="metropolis".')
    for source, target, weight in simple.edges(data="weight"):
        if weight is None:
            raise InputError(f"the link {source!r} – {target!r} has no weight, but others have one.")
    matrix = sp.csr_array(nx.to_scipy_sparse_array(simple, nodes, dtype=np.float64))
    if matrix.diagonal().any():
        return graphs.from_matrix(matrix)
    # If no link leads from an agent to itself, the agent keeps what its neighbours leave, w_ii = 1 − Σ_j w_ij.
    kept = 1 - np.asarray(matrix.sum(axis=1)).ravel()
    if kept.min() < -1e-8:
        worst = int(kept.argmin())
        raise InputError(
            f"the weights of the links of {nodes[worst]!r} sum to {1 - kept[worst]:.6g}, which is more than 1: they "
            'cannot be mixing weights. To take the links alone, give weights="metropolis".'
        )
    return graphs.from_matrix(sp.csr_array(matrix + sp.diags_array(np.maximum(kept, 0.0))))


def _from_matrix(matrix: Any, weights: str | None) -> Network:
    way_out = 'To take its links alone, give weights="metropolis".'
    if sp.issparse(matrix):
        if matrix.shape[0] > matrix.nnz:  # before room is made for so many rows
            raise InputError(
                f"{matrix.shape[0]:,} rows have {matrix.nnz:,} entries in all, so that the weights of some agents are "
                "missing."
            )
        matrix = check_sparse(matrix, "the mixing matrix")
    entries = check_weights(as_matrix(matrix), WHAT, way_out)
    if weights not in (None, "file"):
        pattern = sp.csr_array(entries).astype(bool).astype(np.int8)
        odd = sp.coo_array(abs(pattern - pattern.T))
        odd.eliminate_zeros()
        if odd.nnz:
            i, j = int(odd.row[0]), int(odd.col[0])
            raise InputError(
                f"a weight scheme needs links that go both ways, but of the entries [{i}, {j}] and [{j}, {i}] one is "
                "0. For a directed graph give its list of links, with directed=True."
            )
        return graphs.from_graph(nx.from_scipy_sparse_array(pattern), weights)
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


# --- the files that a spec names ---


def files_of(given: Mapping[str, Any]) -> list[str]:
    """Return the files that a spec's table names, those of the networks of a sequence included."""
    own = [given["file"]] if isinstance(given.get("file"), str) else []
    inner = given.get("of")
    tables = [table for table in inner if isinstance(table, Mapping)] if isinstance(inner, list) else []
    return own + [file for table in tables for file in files_of(table)]


def resolve_files(given: Mapping[str, Any], folder: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the table with absolute paths of its files; relative ones start at `folder`."""
    table = dict(given)
    if isinstance(table.get("file"), str):
        table["file"] = os.path.realpath(Path(folder) / Path(table["file"]).expanduser())
    if isinstance(table.get("of"), list):
        table["of"] = [resolve_files(inner, folder) if isinstance(inner, Mapping) else inner for inner in table["of"]]
    return table


def digests_of(given: Mapping[str, Any]) -> list[str]:
    """Return the SHA-256 of each file that a spec's table names, as hex digits: its content belongs to a run."""
    return [hashlib.sha256(existing_file(file).read_bytes()).hexdigest() for file in files_of(given)]
