"""Networks in files: every format gives the same network, and what is wrong is told with its place."""

import json
import pickle
import zipfile

import networkx as nx
import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp

from gossamer import networks
from gossamer.core import InputError
from gossamer.networks.files import digests_of, files_of, located, reading

UNDIRECTED = nx.star_graph(4)
DIRECTED = nx.DiGraph([(0, 1), (1, 2), (2, 3), (3, 0), (0, 2)])

GRAPHS = {
    "graphml": nx.write_graphml,
    "gexf": nx.write_gexf,
    "gml": nx.write_gml,
    "json": lambda graph, path: path.write_text(json.dumps(nx.node_link_data(graph, edges="links"))),
}
LISTS = {
    "edges": lambda graph, path: nx.write_edgelist(graph, path, data=False),
    "edgelist": nx.write_edgelist,
    "adjlist": nx.write_adjlist,
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


def test_weights_of_links_are_mixed_with_when_asked_for(tmp_path):
    wanted = np.array([[0.6, 0.4, 0, 0], [0.4, 0.3, 0.3, 0], [0, 0.3, 0.1, 0.6], [0, 0, 0.6, 0.4]])
    path = write(tmp_path, "w.edges", "0 1 .4\n1 2 .3 # slow\n\n% a remark\n3,2,0.6\n2 3 0.6\n")
    np.testing.assert_allclose(networks.from_file(path, weights="file").mixing, wanted, atol=1e-15)
    same(networks.from_file(path, weights="metropolis"), networks.path(4))
    with pytest.raises(InputError, match=r'w\.edges: its links have weights. To mix with these give weights="file"'):
        networks.from_file(path)
    graph = nx.Graph()
    graph.add_weighted_edges_from([(0, 1, 0.4), (1, 2, 0.3), (2, 3, 0.6)])
    for ending, writer in GRAPHS.items():
        writer(graph, tmp_path / f"w.{ending}")
        network = networks.from_file(tmp_path / f"w.{ending}", weights="file")
        np.testing.assert_allclose(network.mixing, wanted, atol=1e-15)


def test_own_weights_may_be_given_as_links_to_oneself(tmp_path):
    path = write(tmp_path, "w.edges", "0 0 .5\n0 1 .5\n1 1 0.5\n")
    np.testing.assert_array_equal(networks.from_file(path, weights="file").mixing, np.full((2, 2), 0.5))


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


def test_the_name_says_which_file_and_which_weights(tmp_path):
    path = write(tmp_path, "pair.edges", "0 1\n")
    assert networks.from_file(path).name == "file('pair.edges')"
    assert networks.make("file", 2, file=str(path), weights="lazy").name == "file('pair.edges', weights='lazy')"


DOCTYPE = b'<!DOCTYPE graphml [<!ENTITY a "x"><!ENTITY b "&a;&a;">]>\n'
GRAPHML = '<graphml>\n<graph edgedefault="undirected">\n%s\n</graph></graphml>'
GEXF = '<gexf>\n<graph defaultedgetype="directed"%s>\n<nodes/><edges>%s</edges></graph></gexf>'
WRONG = [
    ("a.edges", "0 1\n0 x\n", "line 2: 'x' is not the number of an agent"),
    ("a.edges", "0 1\n-1 0\n", "line 2: '-1' is not the number of an agent"),
    ("a.edges", "# no\n", "there is no link in the file"),
    ("a.edges", "0 1\n1\n", "line 2: expected `i j` or `i j weight`, but got '1'"),
    ("a.edges", "0 1 2 3\n", "line 1: expected `i j` or `i j weight`, but got '0 1 2 3'"),
    ("a.edges", "0 1 {'weight': 1}\n", "line 1: expected `i j`"),
    ("a.edges", "0 1 inf\n", "line 1: the weight 'inf' is not a number of at least 0"),
    ("a.edges", "0 1\n1 900000000\n", r"the largest is 900000000 \(line 2\), but agent 2 has no link"),
    ("a.edges", "1 2\n2 3\n", "but agent 0 has no link. Does the file count from 1"),
    ("a.edges", "0 1\n2 3\n", "must be connected, but falls into 2 components"),
    ("a.edges", b"0 1\n1 \xff\n", "line 2: this is not text in UTF-8"),
    ("a.adjlist", "0 1 2\n1 two\n", "line 2: 'two' is not the number of an agent"),
    ("a.graphml", DOCTYPE + b"<graphml/>", "line 1: a document type is not read, as it may define entities"),
    ("a.gexf", DOCTYPE + b"<gexf/>", "line 1: a document type is not read"),
    ("a.graphml", "<graphml>\n<graph>", "line 2: this is not XML: no element found"),
    ("a.graphml", "<gexf/>", "line 1: expected <graphml>, but got <gexf>"),
    ("a.graphml", "<graphml/>", "there is no graph in the file"),
    ("a.graphml", GRAPHML % "<graph/>", "line 3: a second graph begins here"),
    ("a.graphml", GRAPHML % "<hyperedge/>", "line 3: links of more than two nodes are not read"),
    ("a.graphml", GRAPHML % "<node/>", "line 3: <node> has no id"),
    ("a.graphml", GRAPHML % '<node id="a"/>\n<node id="a"/>', "line 4: node 'a' stands here again; it was at line 3"),
    (
        "a.graphml",
        GRAPHML % '<node id="a"/>\n<edge source="a" target="b"/>',
        "line 4: the link 'a' – 'b' needs a node 'b', but there is none",
    ),
    (
        "a.graphml",
        GRAPHML % '<edge directed="true" source="a" target="b"/>',
        "line 3: this edge is 'true', unlike the graph",
    ),
    ("a.gexf", GEXF % (' mode="dynamic"', ""), "line 2: the graph changes in time"),
    ("a.gexf", GEXF % ("", '<edge source="a"/>'), "line 3: <edge> has no target"),
    ("a.gml", "graph [ node [ id 0 ]\n edge [ source 0 target 5 ] ]", "this is not GML: .*undefined target 5"),
    ("a.gml", "graph " + "[ a " * 5000, "this is not GML"),
    ("a.json", '{"nodes": [\n}', "line 2: this is not JSON"),
    ("a.json", "[1]", "this one has no list 'nodes'"),
    ("a.json", '{"nodes": [{"id": 0}, 5], "links": []}', r"nodes\[1\]: 'id' must be text or a whole number"),
    ("a.json", '{"nodes": [{"id": 0}, {"id": 0}], "links": []}', r"nodes\[1\]: node 0 stands here again"),
    ("a.json", '{"nodes": [{"id": 0}], "links": [{"source": 0}]}', r"links\[0\]: 'target' must be text"),
    (
        "a.json",
        '{"nodes": [{"id": 0}], "edges": [{"source": 0, "target": 1}]}',
        r"edges\[0\]: the link 0 – 1 needs a node 1",
    ),
    ("a.csv", "0.5,0.5\n0.5,0.5,0\n", "line 2: there are 3 numbers, but 2 in the lines before"),
    ("a.csv", "# w\na,b\n0.5,0.5\n", "line 2: 'a' is not a number"),
    ("a.csv", "\n", "there are no numbers in the file"),
    ("a.csv", "0.5,0.5\n0.4,0.4\n", "row 1 sums to 0.8 .* To take its links alone"),
    ("a.csv", "0.5,nan\n0.5,0.5\n", r"mixing matrix must be finite, but entry \[0, 1\] is nan"),
    ("a.csv", "0.5,0.5\n", r"mixing matrix must be square, .* but has shape \(1, 2\)"),
    ("a.npy", b"no", "this is not an array of NumPy"),
    ("a.npy", pickle.dumps([1]), "this is not an array of NumPy"),
    ("a.npz", b"no", "this is not a sparse matrix of scipy.sparse.save_npz"),
    ("a.mtx", "no", "this is not Matrix Market"),
    (
        "a.mtx",
        "%%MatrixMarket matrix array real general\n9000000 9000000\n1\n",
        "the header declares 81,000,000,000,000 entries",
    ),
    (
        "a.mtx",
        "%%MatrixMarket matrix coordinate real general\n2000000000 2000000000 1\n1 1 1\n",
        "2,000,000,000 rows have 2 entries in all",
    ),
    ("a.mtx", "%%MatrixMarket matrix coordinate real general\n2 2 1\n1 x 1\n", "this is not Matrix Market: Line 3"),
    ("a.txt", "0 1", r"a\.txt has the ending '\.txt', but a network is read from \.edges, "),
]


@pytest.mark.parametrize(("name", "text", "message"), WRONG, ids=[f"{name} {why[:30]}" for name, _, why in WRONG])
def test_what_is_wrong_in_a_file_is_told_with_its_place(name, text, message, tmp_path):
    path = write(tmp_path, name, text)
    with pytest.raises(InputError, match=message) as told:
        networks.from_file(path)
    assert str(told.value).startswith(str(path))


def test_objects_are_never_unpickled(tmp_path):
    class Trap:
        def __reduce__(self):
            return (pytest.fail, ("it was unpickled",))

    np.save(tmp_path / "W.npy", np.array([[Trap()]], object))
    with pytest.raises(InputError, match=r"W\.npy: this is not an array of NumPy: Object arrays cannot be loaded"):
        networks.from_file(tmp_path / "W.npy")
    with zipfile.ZipFile(tmp_path / "W.npz", "w") as archive:
        archive.write(tmp_path / "W.npy", "data.npy")
    with pytest.raises(InputError, match=r"W\.npz: this is not a sparse matrix"):
        networks.from_file(tmp_path / "W.npz")


def test_an_array_that_declares_more_than_it_has_is_refused_before_room_is_made(tmp_path):
    np.save(tmp_path / "W.npy", np.eye(2))
    content = (tmp_path / "W.npy").read_bytes()
    (tmp_path / "W.npy").write_bytes(content.replace(b"(2, 2), }      ", b"(2, 9000000), }"))
    with pytest.raises(InputError, match="it declares 144,000,000 bytes, but has 32"):
        networks.from_file(tmp_path / "W.npy")


def test_a_file_that_is_too_large_is_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "LARGEST_FILE", 3)
    with pytest.raises(InputError, match="it has 4 bytes, but at most 3 bytes are read"):
        networks.from_file(write(tmp_path, "a.edges", "0 1\n"))


@pytest.mark.parametrize(
    ("text", "given", "message"),
    [
        ("0 1\n", {"weights": "file"}, "asks for weights of the links, but they have none"),
        ("0 1\n", {"weights": "metropolos"}, "weights='metropolos' is not known; did you mean 'metropolis'"),
        ("0 1\n1 0\n", {"weights": "lazy", "directed": True}, "links that go one way have no weights='lazy'"),
        ("0 1 2\n1 0 2\n", {"directed": True}, 'with equal shares, give weights="equal"'),
        ("0 1\n", {"directed": True}, "must be strongly connected"),
        ("0 1\n", {"directed": 1}, "directed must be True or False, but is 1"),
        ("0 1 0.9\n1 2 0.8\n", {"weights": "file"}, "links of 1 sum to 1.7, which is more than 1"),
        ("0 1 0.5\n1 2\n", {"weights": "file"}, "line 2: the link 1 – 2 has no weight, but others have one"),
        ("0 1 0.5\n1 0 0.4\n", {"weights": "file"}, "line 2: the link 1 – 0 has weight 0.4, but 0.5 at line 1"),
        ("0 1\n", {"agents": 3}, "it holds 2 agents, but there are 3. Use as many agents as the file has"),
    ],
)
def test_options_that_do_not_fit_the_file(text, given, message, tmp_path):
    with pytest.raises(InputError, match=message):
        networks.from_file(write(tmp_path, "a.edges", text), **given)


def test_what_only_lists_and_only_undirected_links_take(tmp_path):
    path = write(tmp_path, "a.csv", "0.5,0.5\n0.5,0.5\n")
    with pytest.raises(InputError, match=r"directed is for \.edges, \.edgelist, \.adjlist only"):
        networks.from_file(path, directed=True)
    path = write(tmp_path, "b.csv", "1,1\n0,1\n")
    with pytest.raises(InputError, match=r"of the entries \[0, 1\] and \[1, 0\] one is 0"):
        networks.from_file(path, weights="lazy")
    path = write(tmp_path, "w.edges", "0 1 3\n1 0 2\n")
    same(networks.from_file(path, weights="equal", directed=True), networks.directed_ring(2))
    with pytest.raises(InputError, match=r"there is no file '.*nowhere\.csv'"):
        networks.from_file(tmp_path / "nowhere.csv")
    with pytest.raises(InputError, match="the file of a network must be a path, but is 5"):
        networks.make("file", 2, file=5)


def test_a_table_names_its_files_and_what_is_in_them(tmp_path):
    write(tmp_path, "a.edges", "0 1\n")
    write(tmp_path, "b.edges", "1 0\n")
    table = {"name": "sequence", "of": [{"name": "file", "file": "a.edges"}, {"name": "ring"}], "every": 2}
    table["of"].append({"name": "sequence", "of": [{"name": "file", "file": "b.edges", "weights": "lazy"}]})
    assert files_of(table) == ["a.edges", "b.edges"]
    assert files_of({"name": "ring"}) == digests_of({"name": "ring"}) == []
    found = located(table, tmp_path)
    assert files_of(found) == [str(tmp_path / "a.edges"), str(tmp_path / "b.edges")]
    assert located(found, "/elsewhere") == found
    assert files_of(table) == ["a.edges", "b.edges"], "the table itself stays as it is"
    assert networks.make(found.pop("name"), 2, **found).agents == 2
    before = digests_of(located(table, tmp_path))
    write(tmp_path, "b.edges", "0 1\n")
    after = digests_of(located(table, tmp_path))
    assert before[0] == after[0] != before[1] != after[1]
    assert after[0] == after[1]


def test_any_way_to_say_which_network_gives_it(tmp_path):
    graph, ring = nx.cycle_graph(5), networks.ring(5)
    path = write(tmp_path, "ring.edges", "0 1\n1 2\n2 3\n3 4\n4 0\n")
    W = ring.matrix()
    for given in ("ring", ring, graph, W, W.toarray(), W.toarray().tolist(), path, str(path), {"name": "ring"}):
        same(networks.of(given, 5), ring)
    assert networks.of(ring, 5) is ring
    same(networks.of(DIRECTED, 4), networks.directed(DIRECTED))
    assert networks.of({"name": "ring", "every": 3}, 5).pace == 1 / 3
    assert networks.of("erdos-renyi", 1).agents == 1


@pytest.mark.parametrize(
    ("given", "agents", "message"),
    [
        (networks.ring(5), 4, r"the network ring\(5\) has 5 agents, but there are 4 agents: take 5 agents"),
        (nx.path_graph(3), 4, "has 3 agents, but there are 4 agents"),
        (np.eye(3), 3, "network must be connected"),
        (None, 3, "network must be a name, such as 'ring', a Network, .* but is None"),
        (3.5, 3, "but is 3.5"),
        ("rign", 3, "did you mean 'ring'"),
        ("rign", 1, "did you mean 'ring'"),
        ("gone.graphml", 3, "there is no file 'gone.graphml'"),
        ("ring", 0, "the number of agents must be a whole number of at least 1"),
        ([[1, 2], [3]], 2, "its rows differ in length"),
    ],
)
def test_what_is_no_network(given, agents, message):
    with pytest.raises(InputError, match=message):
        networks.of(given, agents)
