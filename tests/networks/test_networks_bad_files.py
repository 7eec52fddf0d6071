"""What is wrong in the file of a network, or with what is asked of it, is told with its place."""

import pickle
import zipfile

import numpy as np
import pytest

from gossamer import networks
from gossamer.core import InputError
from tests.networks.test_networks_files import write
from tests.table import table

GRAPHML = '<graphml>\n<graph edgedefault="undirected">\n%s\n</graph></graphml>'
MTX = "%%MatrixMarket matrix coordinate real general\n"
WRONG = [
    ("a.edges", "0 1\n0 x\n", "line 2: expected two agents as numbers, like the first one, but got '0 x'"),
    ("a.edges", "0 1\n-1 0\n", "line 2: expected two agents"),
    ("a.edges", "0 1\n1\n", "line 2: expected two agents .* but got '1'"),
    ("a.edges", "x y\n1 y\n", "line 2: expected two agents as names, like the first one, but got '1 y'"),
    ("a.edges", "New York Porto\n", "line 1: expected two agents .* `New York, Porto`, .* but got 'New York Porto'"),
    ("a.edges", "x y {'weight': 1, 'km': 2}\n", "line 1: expected two agents"),
    ("a.edges", "x y\nz w\n", r"falls into 2 components; the smallest has 2 of 4 agents: x, y\. Add .* such as x–z"),
    ("a.edges", "0 1 2 3\n", "line 1: expected two agents .* but got '0 1 2 3'"),
    ("a.edges", "0 1 {'weight': 1}\n", "line 1: expected two agents"),
    ("a.edges", "0 1 0.9\n", 'To mix with these, give their matrix, .* its links alone, give weights="metropolis"'),
    ("a.edges", "# no\n", "there is no link in the file"),
    ("a.edges", "0 1\n1 900000000\n", "the largest is 900000000, but agent 2 has no link"),
    ("a.edges", "1 2\n2 3\n", "but agent 0 has no link. Does the file count from 1"),
    ("a.edges", "0 1\n2 3\n", "must be connected, but falls into 2 components"),
    ("a.edges", b"0 1\n1 \xff\n", "this is not a list of links: 'utf-8' codec can't decode byte"),
    ("a.graphml", "<graphml>\n<graph>", "this is not GraphML: no element found: line 2"),
    ("a.graphml", "<graphml/>", "this is not GraphML: file not successfully read as graphml"),
    ("a.graphml", GRAPHML % "<hyperedge/>", "this is not GraphML: GraphML reader doesn't support hyperedges"),
    ("a.gml", "graph [ node [ id 0 ]\n edge [ source 0 target 5 ] ]", "this is not GML: .*undefined target 5"),
    ("a.gml", "graph " + "[ a " * 5000, "this is not GML"),
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
    ("a.mtx", MTX + "2000000000000 2000000000000 1\n1 1 1\n", "a matrix of 2,000,000,000,000 rows needs about"),
    ("a.mtx", MTX + "2 2 1\n1 x 1\n", "this is not Matrix Market: Line 3"),
    ("a.txt", "0 1", r"a\.txt has the ending '\.txt', but a network is read from \.edges, "),
]


@table(("name", "text", "message"), WRONG)
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


@table(
    ("text", "given", "message"),
    [
        ("0 1\n", {"weights": "metropolos"}, "'metropolos' is not a weight scheme; did you mean 'metropolis'"),
        ("0 1\n1 0\n", {"weights": "lazy", "directed": True}, "links that go one way get equal shares, and no other"),
        ("0 1 2\n1 0 2\n", {"directed": True}, "Leave the weights out, or give the matrix"),
        ("0 1\n", {"directed": True}, "must be strongly connected"),
        ("0 1\n", {"directed": 1}, "directed must be True or False, but is 1"),
        ("0 1\n", {"agents": 3}, "it holds 2 agents, but there are 3. Use as many agents as the file has"),
    ],
)
def test_options_that_do_not_fit_the_file(text, given, message, tmp_path):
    with pytest.raises(InputError, match=message):
        networks.from_file(write(tmp_path, "a.edges", text), **given)


def test_what_only_lists_and_only_undirected_links_take(tmp_path):
    path = write(tmp_path, "a.csv", "0.5,0.5\n0.5,0.5\n")
    with pytest.raises(InputError, match=r"directed is for \.edges and \.edgelist only"):
        networks.from_file(path, directed=True)
    path = write(tmp_path, "b.csv", "1,1\n0,1\n")
    with pytest.raises(InputError, match=r"of the entries \[0, 1\] and \[1, 0\] one is 0"):
        networks.from_file(path, weights="lazy")
    with pytest.raises(InputError, match=r"there is no file '.*nowhere\.csv'"):
        networks.from_file(tmp_path / "nowhere.csv")
    with pytest.raises(InputError, match="the file of a network must be a path, but is 5"):
        networks.make("file", 2, file=5)
