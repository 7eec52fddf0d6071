"""Networks in files: lists of links, graphs and matrices. Nothing in a file is unpickled or evaluated."""

import hashlib
import io
import itertools
import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import scipy.sparse as sp

from gossamer.basics.lazy_networkx import nx
from gossamer.basics.sizes import refuse_beyond_memory, shown
from gossamer.basics.sparse import checked
from gossamer.core import InputError, brief, flag, nearest, whole
from gossamer.data.files import existing_file
from gossamer.networks import digraphs, graphs
from gossamer.networks.network import Network
from gossamer.networks.weights import WEIGHTS, WHAT, as_matrix, check_weights, worst_sum

LARGEST_FILE = 200e6
"""The most bytes of a file."""

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
        content = _read_bytes(path)
        try:
            if ending in LISTS:
                found = LISTS[ending](_decode(content), nx.DiGraph() if one_way else nx.Graph())
            else:
                found = (GRAPHS | MATRICES)[ending](content)
        except InputError:
            raise
        # Readers of damaged files raise whatever they stumble over; each is told as a mistake in the file.
        except Exception as error:
            line = f"line {error.position[0]}: " if isinstance(error, ElementTree.ParseError) else ""
            reason = " ".join(str(error).split())[:200] or type(error).__name__
            raise InputError(f"{line}this is not {FORMATS[ending]}: {reason}.") from None
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


def _read_bytes(path: Path) -> bytes:
    try:
        size = path.stat().st_size
        if size > LARGEST_FILE:
            raise InputError(f"it has {shown(size)}, but at most {shown(LARGEST_FILE)} are read.")
        refuse_beyond_memory("reading it", ROOM * size, "use a smaller network")
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"it cannot be read: {error.strerror}.") from None


def _decode(content: bytes) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise InputError(f"line {line}: this is not text in UTF-8.") from None


# --- lists of links ---


def _read_edges(text: str, graph: Any) -> Any:
    """Read one link a line, ``i j`` or ``i j weight``, between agents 0, 1, …; what follows # or % is a comment."""
    for place, words in _split_lines(text):
        if words[2:] == ["{}"]:  # networkx writes the attributes of an edge there, and this one has none
            words = words[:2]
        if len(words) not in (2, 3):
            raise InputError(f"{place}: expected `i j` or `i j weight`, but got {' '.join(words)[:40]!r}.")
        i, j = (_parse_agent(word, place) for word in words[:2])
        before = graph.edges.get((i, j), {})
        if words[2:] and before.get("weight", words[2]) != words[2]:
            raise InputError(
                f"{place}: the link {i} – {j} has weight {words[2]}, but {before['weight']} at {before['place']}."
            )
        graph.add_edge(i, j, place=place, **({"weight": words[2]} if words[2:] else {}))
    return _check_agents(graph)


def _read_neighbours(text: str, graph: Any) -> Any:
    """Read one agent a line, followed by its neighbours: ``i j k …``."""
    for place, words in _split_lines(text):
        i, *others = (_parse_agent(word, place) for word in words)
        graph.add_node(i)
        graph.add_edges_from(((i, j) for j in others), place=place)
    return _check_agents(graph)


def _split_lines(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the place and the words of every line that is more than a comment."""
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split("#", 1)[0].split("%", 1)[0].replace(",", " ").split()
        if words:
            yield f"line {number}", words


def _parse_agent(word: str, place: str) -> int:
    if not (word.isascii() and word.isdecimal() and len(word) < 10):
        raise InputError(
            f"{place}: {word[:40]!r} is not the number of an agent, 0, 1, 2, … . Nodes that have names can be read "
            "from GraphML, GEXF, GML or JSON."
        )
    return int(word)


def _check_agents(graph: Any) -> Any:
    """Return the graph; raise InputError unless its nodes are 0, 1, …, n − 1 without a gap."""
    if not len(graph):
        raise InputError("there is no link in the file. Expected lines such as `0 1`.")
    last = max(graph)
    if last + 1 != len(graph):
        missing = next(k for k in itertools.count() if k not in graph)
        place = next((f" ({at})" for *_, at in graph.edges(last, data="place")), "")
        hint = (
            " Does the file count from 1? Subtract 1 from each number." if missing == 0 and last == len(graph) else ""
        )
        raise InputError(
            f"agents are 0, 1, …, n − 1, and the largest is {last}{place}, but agent {missing} has no link.{hint}"
        )
    return graph


# --- graphs ---


def _read_xml(content: bytes, read: Callable[[Any], Any]) -> Any:
    if (start := content.find(b"<!DOCTYPE")) >= 0:
        line = content[:start].count(b"\n") + 1
        raise InputError(f"line {line}: a document type is not read, as it may define entities. Remove <!DOCTYPE …>.")
    graph = read(io.BytesIO(content))
    # networkx adds the missing end of a link, and merges nodes with the same id
    tags = ElementTree.fromstring(content).iter()
    ids = [tag.get("id", "") for tag in tags if tag.tag.rpartition("}")[2] == "node"]
    for node, count in Counter(ids).items():
        if count > 1 or not node:
            raise InputError(f"{count} nodes have the id {node!r}. Give each node an id of its own.")
    known = set(ids)
    for source, target in graph.edges():
        for end in (source, target):
            if end not in known:
                raise InputError(f"the link {source!r} – {target!r} needs a node {end!r}, but there is none.")
    if graph.graph.get("mode") == "dynamic":
        raise InputError("the graph changes in time, which is not read. Export one moment of it.")
    return graph


def _read_node_link(content: bytes) -> Any:
    """Read ``{"nodes": [{"id": …}, …], "links": [{"source": …, "target": …}, …], "directed": …}``."""
    try:
        document = json.loads(_decode(content))
    except json.JSONDecodeError as error:
        raise InputError(f"line {error.lineno}: this is not JSON: {error.msg}.") from None
    key = "edges" if isinstance(document, dict) and "edges" in document else "links"
    for name in ("nodes", key):
        if not isinstance(document, dict) or not isinstance(document.get(name), list):
            raise InputError(
                f'a graph in JSON is {{"nodes": [{{"id": 0}}, …], "links": [{{"source": 0, "target": 1}}, …]}}, but '
                f"this one has no list {name!r}."
            )
    if not isinstance(directed := document.get("directed", False), bool):
        raise InputError(f'"directed" must be true or false, but is {brief(directed)}.')
    graph: Any = nx.DiGraph() if directed else nx.Graph()

    def name_in(item: Any, field: str, place: str) -> str | int:
        name = item.get(field) if isinstance(item, dict) else None
        if isinstance(name, bool) or not isinstance(name, (str, int)):
            raise InputError(f"{place}: {field!r} must be text or a whole number, but is {brief(name)}.")
        return name

    for k, item in enumerate(document["nodes"]):
        node = name_in(item, "id", f"nodes[{k}]")
        if node in graph:
            raise InputError(f"nodes[{k}]: node {node!r} stands here again.")
        graph.add_node(node)
    for k, item in enumerate(document[key]):
        place = f"{key}[{k}]"
        source, target = (name_in(item, field, place) for field in ("source", "target"))
        for end in (source, target):
            if end not in graph:
                raise InputError(f"{place}: the link {source!r} – {target!r} needs a node {end!r}, but there is none.")
        graph.add_edge(
            source, target, place=place, **({} if item.get("weight") is None else {"weight": item["weight"]})
        )
    return graph


# --- matrices ---


def _read_csv(content: bytes) -> np.ndarray:
    """Read one row a line, numbers separated by commas; what follows # is a comment."""
    text, width = _decode(content), None
    rows = []
    for number, line in enumerate(text.splitlines(), 1):
        cells = [cell.strip() for cell in line.split("#", 1)[0].split(",")]
        if cells == [""]:
            continue
        width = width or len(cells)
        if len(cells) != width:
            raise InputError(f"line {number}: there are {len(cells)} numbers, but {width} in the lines before.")
        for cell in cells:
            try:
                float(cell)
            except ValueError:
                raise InputError(f"line {number}: {cell[:40]!r} is not a number.") from None
        rows.append(cells)
    if not rows:
        raise InputError("there are no numbers in the file.")
    return np.array(rows, np.float64)


def _read_npz(content: bytes) -> Any:
    matrix: Any = sp.load_npz(io.BytesIO(content))
    _check_rows(matrix)
    return checked(matrix, "the mixing matrix")


def _read_mtx(content: bytes) -> Any:
    from scipy.io import mmread  # only when needed

    matrix: Any = mmread(io.BytesIO(content))
    if not sp.issparse(matrix):
        return matrix
    _check_rows(matrix)
    return sp.csr_array(matrix)


def _check_rows(matrix: Any) -> None:
    """Raise InputError if there are more rows than entries, before room is made for the rows."""
    if matrix.shape[0] > matrix.nnz:
        raise InputError(
            f"{matrix.shape[0]:,} rows have {matrix.nnz:,} entries in all, so that the weights of some agents are "
            "missing."
        )


LISTS: dict[str, Callable[[str, Any], Any]] = {
    ".edges": _read_edges,
    ".edgelist": _read_edges,
    ".adjlist": _read_neighbours,
}
GRAPHS: dict[str, Callable[[bytes], Any]] = {
    ".graphml": lambda content: _read_xml(content, nx.read_graphml),
    ".gexf": lambda content: _read_xml(content, nx.read_gexf),
    # without a destringizer no value is evaluated
    ".gml": lambda content: nx.parse_gml(_decode(content).splitlines(), label="id"),
    ".json": _read_node_link,
}
MATRICES: dict[str, Callable[[bytes], Any]] = {
    ".csv": _read_csv,
    ".npy": lambda content: np.load(io.BytesIO(content), allow_pickle=False),
    ".npz": _read_npz,
    ".mtx": _read_mtx,
}
ENDINGS = (*LISTS, *GRAPHS, *MATRICES)
"""The endings of files that hold a network."""

FORMATS = dict.fromkeys(LISTS, "a list of links") | {
    ".graphml": "GraphML",
    ".gexf": "GEXF",
    ".gml": "GML",
    ".json": "JSON",
    ".csv": "a matrix",
    ".npy": "an array of NumPy",
    ".npz": "a sparse matrix of scipy.sparse.save_npz",
    ".mtx": "Matrix Market",
}


# --- from a graph or a matrix to a network ---


def _from_links(graph: Any, weights: str | None) -> Network:
    names = {str(node): node for node in graph}
    order = [str(k) for k in range(len(graph))]
    # Nodes that are called 0, 1, …, n − 1 are in that order, others in the order of the file.
    nodes = [names[k] for k in order] if names.keys() == set(order) else list(graph)
    simple: Any = nx.DiGraph() if graph.is_directed() else nx.Graph()
    simple.add_nodes_from(nodes)
    for source, target, data in graph.edges(data=True):
        place = f"{data['place']}: " if "place" in data else ""
        weight = data.get("weight")
        try:
            number = None if weight is None else float(weight)
        except (TypeError, ValueError, OverflowError):
            number = np.nan
        if number is not None and (isinstance(weight, bool) or not 0 <= number < np.inf):
            raise InputError(f"{place}the weight {str(weight)[:40]!r} is not a number of at least 0.")
        simple.add_edge(source, target, weight=number, place=place)
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
    for source, target, data in simple.edges(data=True):
        if data["weight"] is None:
            raise InputError(f"{data['place']}the link {source!r} – {target!r} has no weight, but others have one.")
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


def located(given: Mapping[str, Any], folder: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the table with absolute paths of its files; relative ones start at `folder`."""
    table = dict(given)
    if isinstance(table.get("file"), str):
        table["file"] = os.path.realpath(Path(folder) / Path(table["file"]).expanduser())
    if isinstance(table.get("of"), list):
        table["of"] = [located(inner, folder) if isinstance(inner, Mapping) else inner for inner in table["of"]]
    return table


def digests_of(given: Mapping[str, Any]) -> list[str]:
    """Return the SHA-256 of each file that a spec's table names, as hex digits: its content belongs to a run."""
    return [hashlib.sha256(existing_file(file).read_bytes()).hexdigest() for file in files_of(given)]
