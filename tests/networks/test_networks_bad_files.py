"""What is wrong in the file of a network, or with what is asked of it, is told with its place."""

import pickle
import zipfile

import numpy as np
import pytest

from gossamer import networks
from gossamer.core import InputError
from tests.networks.test_networks_files import same, write

GRAPHML = '<graphml>\n<graph edgedefault="undirected">\n%s\n</graph></graphml>'
MTX = "%%MatrixMarket matrix coordinate real general\n"
WRONG = [
    ("a.edges", "0 1\n0 x\n", "line 2: expected agents as numbers 0, 1, 2, …, `i j` or `i j weight` .* but got '0 x'"),
    ("a.edges", "0 1\n-1 0\n", "line 2: expected agents as numbers"),
    ("a.edges", "0 1\n1\n", "line 2: expected agents as numbers .* but got '1'"),
    ("a.edges", "0 1 2 3\n", "line 1: expected agents as numbers .* but got '0 1 2 3'"),
    ("a.edges", "0 1 {'weight': 1}\n", "line 1: expected agents as numbers"),
    ("a.edges", "0 1 inf\n", "the weight of the link 0 – 1 must be a number of at least 0, but is inf"),
    ("a.edges", "# no\n", "there is no link in the file"),
    ("a.edges", "0 1\n1 900000000\n", "the largest is 900000000, but agent 2 has no link"),
    ("a.edges", "1 2\n2 3\n", "but agent 0 has no link. Does the file count from 1"),
    ("a.edges", "0 1\n2 3\n", "must be connected, but falls into 2 components"),
    ("a.edges", b"0 1\n1 \xff\n", "this is not a list of links: 'utf-8' codec can't decode byte"),
    ("a.adjlist", "0 1 2\n1 two\n", "line 2: expected agents .* an agent and its neighbours a line, but got '1 two'"),
    ("a.graphml", "<graphml>\n<graph>", "this is not GraphML: no element found: line 2"),
    ("a.graphml", "<graphml/>", "this is not GraphML: file not successfully read as graphml"),
    ("a.graphml", GRAPHML % "<hyperedge/>", "this is not GraphML: GraphML reader doesn't support hyperedges"),
    ("a.graphml", GRAPHML % '<node id="a"/>\n<node id="a"/>', "lists 2 nodes, but .* 1 different ids. Give each node"),
    ("a.graphml", GRAPHML % '<node id="a"/>\n<edge source="a" target="b"/>', "lists 1 nodes, but .* 2 different ids"),
    ("a.gml", "graph [ node [ id 0 ]\n edge [ source 0 target 5 ] ]", "this is not GML: .*undefined target 5"),
    ("a.gml", "graph " + "[ a " * 5000, "this is not GML"),
    ("a.json", '{"nodes": [\n}', "this is not JSON: Expecting value: line 2"),
    ("a.json", "[1]", "this one has no list 'nodes'"),
    ("a.json", '{"nodes": [{"id": 0}, 5], "links": []}', "this is not JSON"),
    ("a.json", '{"nodes": [{"id": 0}, {"id": 0}], "links": []}', "lists 2 nodes, but .* 1 different ids"),
    ("a.json", '{"nodes": [{"id": 0}], "links": [{"source": 0}]}', "this is not JSON: 'target'"),
    ("a.json", '{"nodes": [{"id": 0}], "edges": [{"source": 0, "target": 1}]}', "lists 1 nodes, but .* 2 different"),
    ("a.csv", "0.5,0.5\n0.5,0.5,0\n", "this is not a matrix: the number of columns changed from 2 to 3 at row 2"),
    ("a.csv", "# w\na,b\n0.5,0.5\n", "this is not a matrix: could not convert string 'a' to float64 at row 0"),
    ("a.csv", "\n", "this is not a matrix: loadtxt: input contained no data"),
    ("a.csv", "0.5,0.5\n0.4,0.4\n", "row 1 sums to 0.8 .* To take its links alone"),
    ("a.csv", "0.5,nan\n0.5,0.5\n", r"mixing matrix must be finite, but entry \[0, 1\] is nan"),
    ("a.csv", "0.5,0.5\n", r"mixing matrix must be square, .* but has shape \(1, 2\)"),
    ("a.npy", b"no", "this is not an array of NumPy"),
    ("a.npy", pickle.dumps([1]), "this is not an array of NumPy"),
    ("a.npz", b"no", "this is not a sparse matrix of scipy.sparse.save_npz"),
    ("a.mtx", "no", "this is not Matrix Market"),
    ("a.mtx", MTX + "2000000000 2000000000 1\n1 1 1\n", "2,000,000,000 rows have 1 entries in all"),
    ("a.mtx", MTX + "2 2 1\n1 x 1\n", "this is not Matrix Market: Line 3"),
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
        ("0 1 0.5\n1 2\n", {"weights": "file"}, "the link 1 – 2 has no weight, but others have one"),
        ("0 1 0.5\n1 0 0.4\n", {"weights": "file"}, "line 2: the link 1 – 0 has another weight in a line before"),
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
