"""Networks in files: lists of links, graphs and matrices. Nothing in a file is unpickled or evaluated."""

import hashlib
import io
import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from gossamer.basics.arrays import check_sparse
from gossamer.basics.sizes import refuse_beyond_memory
from gossamer.core import InputError, brief, flag, whole
from gossamer.data.files import existing_file
from gossamer.networks import digraphs, graphs
from gossamer.networks.network import Network
from gossamer.networks.weights import (
    WHAT,
    as_matrix,
    check_one_part,
    check_weights,
    find_links,
    join_both_ways,
    join_links,
    scheme,
    worst_sum,
)

ROOM = 60
"""Bytes of memory for each byte of a file while it is read (measured on lists of links, which take the most)."""

LINKS = {".edges": "a list of links", ".edgelist": "a list of links", ".graphml": "GraphML", ".gml": "GML"}
"""The formats of links by ending."""

MATRICES = {
    ".csv": "a matrix",
    ".npy": "an array of NumPy",
    ".npz": "a sparse matrix of scipy.sparse.save_npz",
    ".mtx": "Matrix Market",
}
"""The formats of matrices by ending."""

FORMATS = LINKS | MATRICES

ALONE = 'To take its links alone, give weights="metropolis".'


def from_file(
    file: str | os.PathLike[str],
    *,
    weights: str | None = None,
    directed: bool | None = None,
    agents: int | None = None,
    nodes: Sequence[str] | None = None,
) -> Network:
    """Read the network in a file. Its ending says what it is:

    - ``.edges``, ``.edgelist``: a link a line, ``i j``, between agents 0, 1, … or between names; names with spaces
      stand with a comma between them. With ``directed=True`` the first of a line sends to the second.
    - ``.graphml``, ``.gml``: a graph, directed or not. A node's name is its attribute ``label`` or ``name``, if all
      nodes have one and all differ, or else its id.
    - ``.csv``, ``.npy``, ``.npz`` (SciPy's sparse), ``.mtx``: a mixing matrix. One that is only row- or only
      column-stochastic makes a directed network.

    `weights` names a scheme for undirected links, by default ``"metropolis"``. If links have weights, or if the file
    is a matrix, a scheme takes the links alone. Directed links get equal shares, as in `directed`. `agents`, if given,
    is how many there must be. Agents are in the order of `nodes`, names such as `problem.agent_names`, or else in that
    of the file, unless its nodes are called 0, 1, …, n − 1.
    """
    if not isinstance(file, (str, os.PathLike)):
        raise InputError(f"the file of a network must be a path, but is {brief(file)}.")
    if weights is not None:
        scheme(weights)
    n = None if agents is None else whole("from_file(agents)", agents)
    path = existing_file(file)
    ending = path.suffix.lower()
    if ending not in FORMATS:
        raise InputError(
            f"{path} has the ending {ending!r}, but a network is read from {', '.join(FORMATS)}. Rename the file after "
            "what it holds."
        )
    own = "" if weights is None else f", weights={weights!r}"
    name = f"file({path.name!r}{own})"
    try:
        if directed is not None and ending not in (".edges", ".edgelist"):
            raise InputError("directed is for .edges and .edgelist only, as this file says so itself. Leave it out.")
        found = _read(path, ending, directed is not None and flag("directed", directed), nodes)
        network = _from_matrix(found, weights, name) if ending in MATRICES else _from_links(found, weights, name)
        network = graphs.arrange(network, nodes)
        if n is not None and network.agents != n:
            raise InputError(
                f"it holds {network.agents} agents, but there are {n}. Use as many agents as the file has, or "
                "another file."
            )
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    return network


def is_network_file(given: Any) -> bool:
    """Return True if this looks like the path of a file that holds a network, by its ending."""
    return isinstance(given, os.PathLike) or (isinstance(given, str) and Path(given).suffix.lower() in FORMATS)


def _read(path: Path, ending: str, directed: bool, nodes: Sequence[str] | None) -> Any:
    """Return the links or the matrix in a file; raise InputError for whatever a reader stumbles over."""
    try:
        refuse_beyond_memory("reading it", ROOM * path.stat().st_size, "use a smaller network")
        content = path.read_bytes()
        with warnings.catch_warnings(action="error"):  # a reader's doubts are the user's mistakes
            match ending:
                case ".edges" | ".edgelist":
                    return _read_list(content.decode("utf-8-sig"), directed, nodes)
                case ".graphml" | ".gml":
                    return _read_graph(content, ending)
                case ".csv":
                    return np.loadtxt(io.BytesIO(content), delimiter=",", ndmin=2, encoding="utf-8-sig")
                case ".npy":
                    return np.load(io.BytesIO(content), allow_pickle=False)
                case ".npz":
                    return sp.load_npz(io.BytesIO(content))
                case _:
                    from scipy.io import mmread  # a tenth of a second to import

                    return mmread(io.BytesIO(content), spmatrix=False)
    except InputError:
        raise
    except OSError as error:
        raise InputError(f"it cannot be read: {error.strerror or error}.") from None
    # Readers of damaged files raise whatever they stumble over; each is told as a mistake in the file.
    except Exception as error:
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise InputError(f"this is not {FORMATS[ending]}: {reason}.") from None


class LinkList(NamedTuple):
    """The links of a file, and the names of its agents."""

    source: np.ndarray
    target: np.ndarray
    names: tuple[str, ...]
    directed: bool
    weighted: bool


def _read_list(text: str, directed: bool, nodes: Sequence[str] | None) -> LinkList:
    """Read the links between agents 0, 1, … or between names, one a line; # and % begin a comment.

    Numbers are taken as names where `nodes` has numbers among its names.
    """
    pairs: dict[int, tuple[str, str]] = {}
    weighted = False
    for number, line in enumerate(text.splitlines(), 1):
        # networkx writes the attributes of a link as a dictionary, and {} where there are none
        bare = line.split("#")[0].split("%")[0].replace("{}", "")
        words = bare.replace(",", " ").split()
        if not words:
            continue
        counted = all(word.isdecimal() for word in words[:2])
        if not counted and "," in bare:
            words = [word.strip() for word in bare.split(",")]
        if len(words) not in (2, 3) or not (counted or _are_names(words)):
            raise InputError(
                f"line {number}: expected two agents such as `0 1`, `Aarhus Bergen` or `New York, Porto`, and perhaps "
                f"a weight, but got {' '.join(bare.split())[:40]!r}. All are numbers 0, 1, 2, …, or all are names."
            )
        pairs[number] = words[0], words[1]
        weighted |= len(words) == 3
    if not pairs:
        raise InputError("there is no link in the file. Expected lines such as `0 1`.")
    names = tuple(dict.fromkeys(word for pair in pairs.values() for word in pair))
    if nodes is None or not any(map(str.isdecimal, nodes)):
        counted = names[0].isdecimal()
        for number, pair in pairs.items():
            if any(word.isdecimal() != counted for word in pair):
                raise InputError(
                    f"line {number}: expected two agents as {'numbers' if counted else 'names'}, like the first one, "
                    f"but got {' '.join(pair)[:40]!r}. All are numbers 0, 1, 2, …, or all are names."
                )
        if counted:
            return _count_agents(np.array([(int(a), int(b)) for a, b in pairs.values()]), directed, weighted)
    place = {name: k for k, name in enumerate(names)}
    ends = np.array([(place[a], place[b]) for a, b in pairs.values()])
    return LinkList(ends[:, 0], ends[:, 1], names, directed, weighted)


def _are_names(words: list[str]) -> bool:
    """Return True if these words of a line may be two names, and perhaps a weight."""
    try:
        return all(words[:2]) and "{" not in "".join(words) and all(float(word) >= 0 for word in words[2:])
    except ValueError:
        return False


def _count_agents(ends: np.ndarray, directed: bool, weighted: bool) -> LinkList:
    """Return the links between numbers; raise InputError unless these are 0, 1, …, n − 1."""
    agents = np.unique(ends)
    n, last = len(agents), agents[-1]
    if last >= n:
        missing = int(np.flatnonzero(agents != np.arange(n))[0])
        hint = " Does the file count from 1? Subtract 1 from each number." if missing == 0 else ""
        raise InputError(
            f"agents are 0, 1, …, n − 1, and the largest is {last}, but agent {missing} has no link.{hint}"
        )
    return LinkList(ends[:, 0], ends[:, 1], tuple(map(str, range(n))), directed, weighted)


def _read_graph(content: bytes, ending: str) -> LinkList:
    """Read the links of a graph. Nodes that are called 0, 1, …, n − 1 are in that order, others in the file's."""
    import networkx as nx

    if ending == ".graphml":
        graph: Any = nx.read_graphml(io.BytesIO(content))
    else:  # without a destringizer no value is evaluated
        graph = nx.parse_gml(content.decode("utf-8-sig").splitlines(), label="id")
    numbers = [str(k) for k in range(len(graph))]
    ids = {str(node): node for node in graph}
    nodes = [ids[k] for k in numbers] if ids.keys() == set(numbers) else list(graph)
    place = {node: k for k, node in enumerate(nodes)}
    ends = np.array([(place[a], place[b]) for a, b in graph.edges()], int).reshape(-1, 2)
    weighted = any(weight is not None for *_, weight in graph.edges(data="weight"))
    names = tuple(map(str, nodes))
    # Gephi and igraph call nodes n0, n1, … and write the names that people gave as attributes
    for key in ("name", "label"):
        given = [graph.nodes[node].get(key) for node in nodes]
        if None not in given and len(set(map(str, given))) == len(given):
            names = tuple(map(str, given))
    return LinkList(ends[:, 0], ends[:, 1], names, graph.is_directed(), weighted)


def _from_links(found: LinkList, weights: str | None, name: str) -> Network:
    n, names = len(found.names), found.names
    if found.directed and (found.weighted or weights is not None):
        raise InputError(
            "links that go one way get equal shares, and no other weights. Leave the weights out, or give the matrix "
            "of your weights, such as W.csv."
        )
    if found.directed:
        heard = join_links(n, found.target, found.source)
        # joined again, because a link that is listed twice is one link
        return digraphs.from_heard(join_links(n, *find_links(heard)), name, names)
    if found.weighted and weights is None:
        raise InputError(f"its links have weights. To mix with these, give their matrix, such as W.csv. {ALONE}")
    links = join_both_ways(n, found.source, found.target)
    check_one_part(links, "network", names)
    return graphs.from_links(links, weights or "metropolis", name, names)


def _from_matrix(matrix: Any, weights: str | None, name: str) -> Network:
    if sp.issparse(matrix):
        refuse_beyond_memory(f"a matrix of {matrix.shape[0]:,} rows", 8 * matrix.shape[0], "use a smaller network")
        matrix = check_sparse(matrix, "the mixing matrix")
    entries = check_weights(as_matrix(matrix), WHAT, ALONE)
    if weights is not None:
        links: Any = sp.csr_array(entries).astype(bool)
        i, j = find_links(links != links.T)
        if len(i):
            raise InputError(
                f"a weight scheme needs links that go both ways, but of the entries [{i[0]}, {j[0]}] and "
                f"[{j[0]}, {i[0]}] one is 0. For a directed graph give its list of links, with directed=True."
            )
        check_one_part(links, "network")
        return graphs.from_links(join_links(matrix.shape[0], *find_links(links)), weights, name)
    # the sums say whether the weights are for a directed network
    straight = [line for line in ("row", "column") if abs(worst_sum(entries, line)[1] - 1) <= 1e-8]
    if len(straight) == 1:
        return digraphs.from_matrices(**{straight[0]: matrix}, name=name)
    if not straight:
        worst, total = worst_sum(entries, "row")
        raise InputError(
            f"{WHAT} doubly stochastic, or its rows or its columns must sum to 1, but row {worst} sums to {total:.10g} "
            f"(tolerance 1e-08). {ALONE}"
        )
    return graphs.from_matrix(matrix, name=name)


# --- the files that a spec names ---

FILES = ("file", "availability")
"""The keys of a network's table that are files."""


def files_of(given: Mapping[str, Any]) -> list[str]:
    """Return the files that a spec's table names, those of the networks of a sequence included."""
    own = [given[key] for key in FILES if isinstance(given.get(key), str)]
    inner = given.get("of")
    tables = [table for table in inner if isinstance(table, Mapping)] if isinstance(inner, list) else []
    return own + [file for table in tables for file in files_of(table)]


def resolve_files(given: Mapping[str, Any], folder: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the table with absolute paths of its files; relative ones start at `folder`."""
    table = dict(given)
    for key in FILES:
        if isinstance(table.get(key), str):
            table[key] = os.path.realpath(Path(folder) / Path(table[key]).expanduser())
    if isinstance(table.get("of"), list):
        table["of"] = [resolve_files(inner, folder) if isinstance(inner, Mapping) else inner for inner in table["of"]]
    return table


def digests_of(given: Mapping[str, Any]) -> list[str]:
    """Return the SHA-256 of each file that a spec's table names, as hex digits: its content belongs to a run."""
    return [hashlib.sha256(existing_file(file).read_bytes()).hexdigest() for file in files_of(given)]
