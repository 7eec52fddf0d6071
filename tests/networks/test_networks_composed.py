"""Trees, hierarchies and random geometric graphs."""

import math

import networkx as nx
import numpy as np
import pytest

from gossamer import networks
from gossamer.core import InputError
from tests.table import table


def graph_of(network):
    return nx.Graph([(i, int(j)) for i in range(network.agents) for j in network.neighbors(i)])


def test_geometric_graphs_are_redrawn_until_connected():
    for seed in range(5):
        assert networks.random_geometric(30, 0.3, seed).gap > 0
    assert networks.random_geometric(9, 1.5).kind == "mean"


@pytest.mark.parametrize("n", [4, 9, 24])
def test_a_tree_is_a_star_or_a_path_at_its_ends(n):
    np.testing.assert_array_equal(networks.tree(n, n - 1).mixing, networks.star(n).mixing)
    assert nx.is_isomorphic(graph_of(networks.tree(n, 2)), nx.path_graph(n))
    assert networks.tree(n, 2).gap == pytest.approx(networks.path(n).gap, abs=1e-12)


@pytest.mark.parametrize(("n", "degree"), [(2, 3), (10, 3), (22, 3), (24, 3), (26, 4)])
def test_a_tree_is_balanced(n, degree):
    network = networks.tree(n, degree)
    assert nx.is_tree(graph_of(network))
    assert network.degrees.max() <= degree
    # a level has d, d (d − 1), d (d − 1)², … agents
    levels, seen = [1], 1
    while seen < n:
        levels.append(degree * (degree - 1) ** (len(levels) - 1))
        seen += levels[-1]
    assert max(nx.single_source_shortest_path_length(graph_of(network), 0).values()) == len(levels) - 1


@pytest.mark.parametrize("of", ["torus", {"name": "erdos-renyi", "probability": 0.3}, "complete", nx.petersen_graph()])
def test_a_spanning_tree_keeps_the_distances_from_its_root(of):
    n = 10 if isinstance(of, nx.Graph) else 12
    whole, tree = networks.of(of, n), networks.spanning_tree(n, of, root=3)
    assert nx.is_tree(graph_of(tree))
    near = nx.single_source_shortest_path_length(graph_of(whole), 3)
    assert nx.single_source_shortest_path_length(graph_of(tree), 3) == near
    assert tree.name == f"spanning_tree({whole.name}, root=3)"


@pytest.mark.parametrize("n", [6, 13])
def test_a_hierarchy_is_complete_or_its_sparse_graph_at_its_ends(n):
    assert networks.hierarchical(n, 1).kind == "mean"
    for between in ("ring", "star", "complete"):
        alone = networks.hierarchical(n, n, between=between)
        np.testing.assert_allclose(alone.mixing, networks.make(between, n).mixing, atol=1e-15)


def test_cliques_are_joined_by_their_first_agents():
    network = networks.hierarchical(11, 3, between="path")
    cliques = [range(4), range(4, 8), range(8, 11)]
    links = {(i, j) for clique in cliques for i in clique for j in clique if i < j} | {(0, 4), (4, 8)}
    assert {tuple(sorted(edge)) for edge in graph_of(network).edges} == links
    assert network.name == "hierarchical(11, 3, between=path(3))"
    assert networks.hierarchical(25).name == "hierarchical(25, 5)"


def test_two_cliques_have_a_closed_form():
    # By symmetry the slow mode is (x, y, …, y) and its negative: a matrix of 2 × 2. A head has m neighbours.
    m = 6
    kept, w = 1 - m / (m + 1), 1 / (m + 1)
    slow = np.array([[kept - w, (m - 1) * w], [w, 1 - w]])
    gap = 1 - max(np.linalg.eigvals(slow).real)
    assert networks.hierarchical(2 * m, 2).gap == pytest.approx(gap, abs=1e-12)


@pytest.mark.parametrize(
    "make",
    [
        lambda n: networks.tree(n),
        lambda n: networks.hierarchical(n, 500),
        lambda n: networks.random_geometric(n, 0.03),
        lambda n: networks.spanning_tree(n, "torus"),
        lambda n: networks.u_equistatic(n, 20),
        lambda n: networks.k_peer_exponential(n, 3),
    ],
    ids=["tree", "hierarchical", "geometric", "spanning", "equistatic", "k-peer"],
)
def test_ten_thousand_agents(make):
    network = make(10_000)
    assert 0 < network.gap < 1
    assert network.kind != "dense"
    assert network.disagreement(2)[-1] < 1


@table(
    ("make", "message"),
    [
        (
            lambda: networks.tree(5, 1),
            r"tree\(degree\) must be a whole number of at least 2, but is 1. With 2 it is a p",
        ),
        (lambda: networks.random_geometric(9, -1), r"radius\) must be a number in \(0, ∞\), but is -1. It is how far"),
        (
            lambda: networks.random_geometric(50, 0.05),
            rf"in 100 draws.*above √\(ln\(n\)/\(πn\)\) = {math.sqrt(math.log(50) / 50 / math.pi):.4g}; twice that",
        ),
        (lambda: networks.hierarchical(5, 6), r"cliques\) must be a whole number of at most 5, but is 6. There cannot"),
        (lambda: networks.hierarchical(25, between="torus"), r"hierarchical\(between\): a torus of 5 agents would be"),
        (
            lambda: networks.hierarchical(25, between="exponential"),
            r"hierarchical\(between\) must be an undirected network that never changes, but exponential\(5\) is not",
        ),
        (
            lambda: networks.hierarchical(9, 3, between=networks.ring(4)),
            r"the network ring\(4\) has 4 agents, but there are 3 cliques",
        ),
        (lambda: networks.spanning_tree(5, "ring", 5), r"root\) must be .* at most 4, but is 5. The agents are 0 … 4"),
        (
            lambda: networks.spanning_tree(5, "rign"),
            r"spanning_tree\(of\): 'rign' is not a network; did you mean 'ring'",
        ),
        (lambda: networks.spanning_tree(5, "directed-ring"), r"spanning_tree\(of\) must be an undirected network"),
    ],
)
def test_refusals(make, message):
    with pytest.raises(InputError, match=message):
        make()
