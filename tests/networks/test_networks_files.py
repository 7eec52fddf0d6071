"""Networks in files: every format gives the same network."""

import networkx as nx
import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp

from gossamer import networks
from gossamer.core import InputError
from gossamer.networks.files import digests_of, files_of, resolve_files

UNDIRECTED = nx.star_graph(4)
DIRECTED = nx.DiGraph([(0, 1), (1, 2), (2, 3), (3, 0), (0, 2)])

GRAPHS = {
    "graphml": nx.write_graphml,
    "gml": nx.write_gml,
}
LISTS = {
    "edges": lambda graph, path: nx.write_edgelist(graph, path, data=False),
    "edgelist": nx.write_edgelist,
}
MATRICES = {
    "csv": lambda W, path: np.savetxt(path, W, delimiter=",", header="weights"),
    "npy": lambda W, path: np.save(path, W),
    "npz": lambda W, path: sp.save_npz(path, sp.csr_array(W)),
    "mtx": lambda W, path: scipy.io.mmwrite(path, sp.csr_array(W)),
}


def same(network, other):
    assert network.stochastic == other.stochastic
    for over in ("R", "C"):
        np.testing.assert_allclose(network.matrix(0, over).toarray(), other.matrix(0, over).toarray(), atol=1e-15)


def write(folder, name, text):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.mark.parametrize("ending", [*GRAPHS, *LISTS])
@pytest.mark.parametrize("weights", [None, "max-degree"])
def test_an_undirected_graph_is_the_same_in_every_format(ending, weights, tmp_path):
    path = tmp_path / f"star.{ending}"
    (GRAPHS | LISTS)[ending](UNDIRECTED, path)
    same(networks.from_file(path, weights=weights), networks.from_graph(UNDIRECTED, weights or "metropolis"))


@pytest.mark.parametrize("ending", [*GRAPHS, *LISTS])
def test_a_directed_graph_is_the_same_in_every_format(ending, tmp_path):
    path = tmp_path / f"oneway.{ending}"
    (GRAPHS | LISTS)[ending](DIRECTED, path)
    said = {"directed": True} if ending in LISTS else {}
    same(networks.from_file(path, **said), networks.directed(DIRECTED))


@pytest.mark.parametrize("ending", MATRICES)
def test_a_matrix_is_the_same_in_every_format(ending, tmp_path):
    doubly = np.array([[0.5, 0.5, 0], [0.25, 0.25, 0.5], [0.25, 0.25, 0.5]])
    row = np.array([[0.5, 0.5, 0], [0.2, 0.3, 0.5], [0.4, 0.4, 0.2]])
    for W, other in (
        (doubly, networks.from_matrix(doubly)),
        (row, networks.from_matrices(row=row)),
        (row.T, networks.from_matrices(column=row.T)),
    ):
        path = tmp_path / f"W.{ending}"
        MATRICES[ending](W, path)
        same(networks.from_file(path), other)


def test_a_scheme_takes_only_the_links_of_a_matrix(tmp_path):
    adjacency = nx.to_numpy_array(nx.path_graph(4))
    MATRICES["csv"](7 * adjacency, tmp_path / "A.csv")
    same(networks.from_file(tmp_path / "A.csv", weights="metropolis"), networks.path(4))


def test_a_scheme_takes_only_the_links_of_a_list_with_weights(tmp_path):
    path = write(tmp_path, "w.edges", "0 1 .4\n1 2 .3 # slow\n\n% a remark\n3,2,0.6\n2 3 0.6\n")
    same(networks.from_file(path, weights="metropolis"), networks.path(4))
    with pytest.raises(InputError, match=r"w\.edges: its links have weights. To mix with these, give their matrix"):
        networks.from_file(path)
    graph = nx.Graph()
    graph.add_weighted_edges_from([(0, 1, 0.4), (1, 2, 0.3), (2, 3, 0.6)])
    for ending, writer in GRAPHS.items():
        writer(graph, tmp_path / f"w.{ending}")
        same(networks.from_file(tmp_path / f"w.{ending}", weights="lazy"), networks.path(4, weights="lazy"))
        with pytest.raises(InputError, match="its links have weights"):
            networks.from_file(tmp_path / f"w.{ending}")


def test_nodes_that_are_numbers_are_in_their_order_and_names_in_the_file_s(tmp_path):
    for names, order in (((2, 0, 1), (0, 1, 2)), (("c", "a", "b"), ("c", "a", "b"))):
        graph = nx.Graph([(names[0], names[1]), (names[1], names[2])])
        nx.write_graphml(graph, tmp_path / "path.graphml")
        wanted = nx.Graph()
        wanted.add_nodes_from(order)
        wanted.add_edges_from(graph.edges)
        same(networks.from_file(tmp_path / "path.graphml"), networks.from_graph(wanted))


def test_a_link_that_is_listed_both_ways_is_one_link(tmp_path):
    path = write(tmp_path, "twice.edges", "0 1\n1 0\n1 2\n2 1\n0 1\n")
    same(networks.from_file(path), networks.path(3))
    path = write(tmp_path, "oneway.edges", "0 1\n0 1\n1 2\n2 0\n1 1\n")
    same(networks.from_file(path, directed=True), networks.directed_ring(3))


def test_the_name_says_which_file_and_which_weights(tmp_path):
    path = write(tmp_path, "pair.edges", "0 1\n")
    assert networks.from_file(path).name == "file('pair.edges')"
    assert networks.make("file", 2, file=str(path), weights="lazy").name == "file('pair.edges', weights='lazy')"


def test_a_table_names_its_files_and_what_is_in_them(tmp_path):
    write(tmp_path, "a.edges", "0 1\n")
    write(tmp_path, "b.edges", "1 0\n")
    table = {"name": "sequence", "of": [{"name": "file", "file": "a.edges"}, {"name": "ring"}], "every": 2}
    table["of"].append({"name": "sequence", "of": [{"name": "file", "file": "b.edges", "weights": "lazy"}]})
    assert files_of(table) == ["a.edges", "b.edges"]
    assert files_of({"name": "ring"}) == digests_of({"name": "ring"}) == []
    found = resolve_files(table, tmp_path)
    assert files_of(found) == [str(tmp_path / "a.edges"), str(tmp_path / "b.edges")]
    assert resolve_files(found, "/elsewhere") == found
    assert files_of(table) == ["a.edges", "b.edges"], "the table itself stays as it is"
    assert networks.make(found.pop("name"), 2, **found).agents == 2
    before = digests_of(resolve_files(table, tmp_path))
    write(tmp_path, "b.edges", "0 1\n")
    after = digests_of(resolve_files(table, tmp_path))
    assert before[0] == after[0] != before[1] != after[1]
    assert after[0] == after[1]
