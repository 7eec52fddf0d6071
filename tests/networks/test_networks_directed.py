"""Directed networks: two matrices on the same links, and what is refused."""

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp

from gossamer import networks
from gossamer.core import InputError
from tests.table import table

GRAPH = nx.DiGraph([("a", "b"), ("b", "c"), ("c", "a"), ("a", "c"), ("b", "b")])


def test_weights_are_shares_of_degrees():
    network = networks.directed(GRAPH)
    # a hears c; b hears a; c hears a and b. a sends to b and c; b to c; c to a.
    R = [[1 / 2, 0, 1 / 2], [1 / 2, 1 / 2, 0], [1 / 3, 1 / 3, 1 / 3]]
    C = [[1 / 3, 0, 1 / 2], [1 / 3, 1 / 2, 0], [1 / 3, 1 / 2, 1 / 2]]
    np.testing.assert_allclose(network.matrix(0, "R").toarray(), R, atol=1e-15)
    np.testing.assert_allclose(network.matrix(0, "C").toarray(), C, atol=1e-15)
    np.testing.assert_array_equal(network.degrees, [2, 1, 1])
    np.testing.assert_array_equal(network.neighbors(0), [1, 2])
    assert (network.stochastic, network.changes, network.symmetric, network.gap) == ("row+column", False, False, None)
    assert network.links == 3
    assert network.traffic == pytest.approx(4 / 3)
    assert repr(network) == "directed(3): 3 agents, 3 links, row- and column-stochastic"


@pytest.mark.parametrize("n", [1, 2, 7])
def test_directed_ring_sends_to_the_next(n):
    network = networks.directed_ring(n)
    expected = (np.eye(n) + np.roll(np.eye(n), 1, axis=0)) / 2
    for over in ("R", "C"):
        np.testing.assert_array_equal(network.matrix(0, over).toarray(), expected)
    np.testing.assert_array_equal(network.neighbors(0), [1 % n] if n > 1 else [])


def test_random_graphs_follow_their_seed_and_are_strongly_connected():
    p = 2 * np.log(20) / 20
    one, same, other = (networks.directed_erdos_renyi(20, p, seed) for seed in (1, 1, 2))
    assert abs(one.matrix(0, "R") - same.matrix(0, "R")).max() == 0
    assert abs(one.matrix(0, "R") - other.matrix(0, "R")).max() > 0
    for seed in range(5):
        links = networks.directed_erdos_renyi(20, p / 2, seed).matrix(0, "C")
        assert nx.is_strongly_connected(nx.from_scipy_sparse_array(links, create_using=nx.DiGraph))


def test_own_matrices_and_equal_shares_for_the_one_left_out():
    R, C = (networks.directed(GRAPH).matrix(0, over).toarray() for over in "RC")
    mine = 0.7 * np.eye(3) + 0.3 * R
    both = networks.from_matrices(row=sp.csr_array(mine), column=C.tolist())
    np.testing.assert_array_equal(both.matrix(0, "R").toarray(), mine)
    np.testing.assert_array_equal(both.matrix(0, "C").toarray(), C)
    np.testing.assert_allclose(networks.from_matrices(row=mine).matrix(0, "C").toarray(), C, atol=1e-15)
    np.testing.assert_allclose(networks.from_matrices(column=C).matrix(0, "R").toarray(), R, atol=1e-15)


R = networks.directed(GRAPH).matrix(0, "R").toarray()
C = networks.directed(GRAPH).matrix(0, "C").toarray()
SHIFT = np.roll(np.eye(3), 1, axis=0)
REFUSED = [
    (
        lambda: networks.directed(nx.DiGraph([("a", "b"), ("b", "c")])),
        "must be strongly connected, but agent a cannot be reached from agent b; 2 of 3 agents .* Add .* b → a",
    ),
    (
        lambda: networks.directed(nx.DiGraph([(1, 0), (0, 2), (2, 0)])),
        "agent 1 cannot be reached from agent 0; 2 of 3 agents cannot reach 1",
    ),
    (lambda: networks.directed(nx.path_graph(3)), r"must be a networkx.DiGraph, but is Graph.*from_graph\(graph\)"),
    (lambda: networks.directed(nx.MultiDiGraph([(0, 1)])), "must be simple, but is a multigraph"),
    (lambda: networks.directed(nx.DiGraph()), "at least one node, but has none"),
    (lambda: networks.directed_ring(0), r"directed_ring\(agents\) must be a whole number of at least 1, but is 0"),
    (lambda: networks.directed_erdos_renyi(50, 0.01), "no strongly connected graph in 100 draws.* = 0.07824"),
    (lambda: networks.directed_erdos_renyi(5, 2), r"directed_erdos_renyi\(probability\) must be a number in \(0, 1\]"),
    (lambda: networks.from_matrices(), "needs row=R, column=C or both, but got neither"),
    (
        lambda: networks.from_matrices(row=C),
        "row-stochastic, but row 2 sums to 1.33.* Its columns sum to 1: give it",
    ),
    (lambda: networks.from_matrices(column=2 * C), "column-stochastic, but column 0 sums to 2 .* Divide each column"),
    (
        lambda: networks.from_matrices(row=-R),
        r"\(row=…\) must be non-negative, but entry \[0, 0\] is -0.5",
    ),
    (lambda: networks.from_matrices(row=[[1.0], [1.0, 2.0]]), "rows differ in length"),
    (
        lambda: networks.from_matrices(row=SHIFT),
        r"positive on the diagonal, but entry \[0, 0\] is 0: .* ½\(I \+ W\)",
    ),
    (
        lambda: networks.from_matrices(row=R, column=(np.eye(3) + SHIFT) / 2),
        r"must have the same links, but only one of row\[2, 0\] and column\[2, 0\] is 0",
    ),
    (lambda: networks.from_matrices(row=R, column=np.eye(2)), r"same shape, but have \(3, 3\) and \(2, 2\)"),
    (lambda: networks.from_matrices(row=np.eye(3)), "must be strongly connected, but agent 1 cannot be reached from"),
    (
        lambda: networks.from_matrix(C),
        r"row 2 sums to 1.33.* column-stochastic: .*from_matrices\(column=W\).*push-pull-dmt",
    ),
    (
        lambda: networks.from_matrix(R),
        r"column 0 sums to 1.33.* row-stochastic: .*from_matrices\(row=W\).*push-pull-dmt",
    ),
    (
        lambda: networks.directed(GRAPH).mix(np.ones(3)),
        r"directed\(3\) has no doubly stochastic W, .* Mix over \"R\"",
    ),
    (lambda: networks.directed(GRAPH).mixing, r"directed\(3\) has no doubly stochastic W"),
]


@table(("make", "message"), REFUSED)
def test_refusals(make, message):
    with pytest.raises(InputError, match=message):
        make()
