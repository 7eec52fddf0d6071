"""What is wrong in the file of a network, or with what is asked of it, is told with its place."""

import pickle
import zipfile

import numpy as np
import pytest

from gossamer import networks
from gossamer.core import InputError
from gossamer.networks import files
from tests.networks.test_networks_files import same, write

DOCTYPE = b'<!DOCTYPE graphml [<!ENTITY a "x"><!ENTITY b "&a;&a;">]>\n'
GRAPHML = '<graphml>\n<graph edgedefault="undirected">\n%s\n</graph></graphml>'
GEXF = (
    '<gexf xmlns="http://www.gexf.net/1.2draft" version="1.2">\n<graph defaultedgetype="directed"%s>\n'
    "<nodes/><edges>%s</edges></graph></gexf>"
)
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
    ("a.graphml", "<graphml>\n<graph>", "line 2: this is not GraphML: no element found"),
    ("a.graphml", "<gexf/>", "this is not GraphML"),
    ("a.graphml", "<graphml/>", "this is not GraphML: file not successfully read as graphml"),
    ("a.graphml", GRAPHML % "<hyperedge/>", "this is not GraphML: GraphML reader doesn't support hyperedges"),
    (
        "a.graphml",
        GRAPHML % '<edge directed="true" source="a" target="b"/>',
        "this is not GraphML: directed=true edge found in undirected graph",
    ),
    ("a.graphml", GRAPHML % "<node/>", "1 nodes have the id ''. Give each"),
    ("a.graphml", GRAPHML % '<node id="a"/>\n<node id="a"/>', "2 nodes have the id 'a'"),
    (
        "a.graphml",
        GRAPHML % '<node id="a"/>\n<edge source="a" target="b"/>',
        "the link 'a' – 'b' needs a node 'b', but there is none",
    ),
    ("a.gexf", GEXF % (' mode="dynamic"', ""), "the graph changes in time"),
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
        "this is not Matrix Market",
    ),
    (
        "a.mtx",
        "%%MatrixMarket matrix coordinate real general\n2000000000 2000000000 1\n1 1 1\n",
        "2,000,000,000 rows have 1 entries in all",
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


def test_an_array_that_declares_more_than_it_has_is_refused(tmp_path):
    np.save(tmp_path / "W.npy", np.eye(2))
    content = (tmp_path / "W.npy").read_bytes()
    (tmp_path / "W.npy").write_bytes(content.replace(b"(2, 2), }      ", b"(2, 9000000), }"))
    with pytest.raises(InputError, match="this is not an array of NumPy"):
        networks.from_file(tmp_path / "W.npy")


def test_a_file_that_is_too_large_is_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "LARGEST_FILE", 3)
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
