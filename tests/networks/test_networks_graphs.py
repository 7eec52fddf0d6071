"""The makers: what they build, what large ones cost, and what they refuse."""

import sys
import tracemalloc

import jax
import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp

from gossamer import networks
from gossamer.core import InputError, MissingPackage
from gossamer.engines.mixing import mix
from tests.table import table

LARGE = 10_000


@pytest.mark.parametrize(
    "make",
    [
        lambda: networks.ring(LARGE),
        lambda: networks.torus(100, 100),
        lambda: networks.star(LARGE),
        lambda: networks.path(LARGE),
        lambda: networks.random_regular(LARGE, 4),
        lambda: networks.exponential(LARGE),
        lambda: networks.complete(LARGE),
    ],
    ids=["ring", "torus", "star", "path", "random_regular", "exponential", "complete"],
)
def test_large_networks_stay_sparse(make):
    tracemalloc.start()
    try:
        network = make()
        gap, degrees = network.gap, network.degrees
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 100e6  # a dense matrix takes 800e6
    held = sum(leaf.nbytes for leaf in jax.tree.leaves(network))
    assert held < 3e6
    assert 0 < gap <= 1
    x = np.random.default_rng(0).standard_normal((LARGE, 2))
    with jax.enable_x64(True):
        mixed = np.asarray(jax.jit(mix)(network, x))
    if network.kind == "mean":
        np.testing.assert_allclose(mixed, np.broadcast_to(x.mean(0), x.shape), atol=1e-12)
        assert (degrees == LARGE - 1).all()
    else:
        np.testing.assert_allclose(mixed, network.sparse @ x, atol=1e-12)
        assert degrees.sum() == network.sparse.nnz - LARGE


def test_random_regular_is_an_expander():
    # The Alon-Boppana bound: λ₂ of the adjacency is near 2√(d−1), so ρ is near 1 − (1 + 2√3)/5 at degree 4.
    assert networks.random_regular(LARGE, 4).gap == pytest.approx(1 - (1 + 2 * np.sqrt(3)) / 5, abs=0.01)


def test_large_dense_matrix_is_refused():
    with pytest.raises(InputError, match=r"ring\(10000\) has 10,000 agents, above the limit of 5,000.*use `sparse`"):
        _ = networks.ring(LARGE).mixing
    with pytest.raises(InputError, match="use `mix`, `gap` and `degrees`"):
        _ = networks.complete(LARGE).sparse


@pytest.mark.parametrize(
    ("network", "degrees"),
    [
        (networks.ring(5), [2] * 5),
        (networks.ring(2), [1, 1]),
        (networks.path(4), [1, 2, 2, 1]),
        (networks.star(4), [3, 1, 1, 1]),
        (networks.complete(4), [3] * 4),
        (networks.torus(3, 3), [4] * 9),
        (networks.torus(2, 3), [3] * 6),
        (networks.hypercube(8), [3] * 8),
        (networks.exponential(9), [4] * 9),
        (networks.random_regular(10, 3), [3] * 10),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_degrees(network, degrees):
    np.testing.assert_array_equal(network.degrees, degrees)
    for i in range(network.agents):
        sent = np.flatnonzero(network.mixing[:, i])
        np.testing.assert_array_equal(network.neighbors(i), sent[sent != i])


def test_exponential_sends_ahead():
    np.testing.assert_array_equal(networks.exponential(9).neighbors(2), [1, 3, 4, 6])  # 2+1, 2+2, 2+4, 2+8


def test_neighbors_of_nobody():
    for agent in (-1, 5, 1.5, "a"):
        with pytest.raises(InputError, match="agent must be a whole number of at"):
            networks.ring(5).neighbors(agent)


def test_repr():
    assert repr(networks.ring(20)) == "ring(20): 20 agents, 20 links, ρ = 0.0326"
    assert repr(networks.path(1)) == "path(1): 1 agent, 0 links, ρ = 1"
    assert repr(networks.path(LARGE)) == "path(10000): 10,000 agents, 9,999 links"  # its gap is not cheap
    assert repr(networks.torus(2, 3, weights="lazy")).startswith("torus(2, 3, weights='lazy'): 6 agents, 9 links")
    shown = []
    jax.jit(lambda network: shown.append(repr(network)) or network)(networks.ring(5))
    assert shown == ["ring(5): 5 agents"]


def test_random_networks_follow_their_seed():
    for make in (lambda s: networks.erdos_renyi(20, 0.3, s), lambda s: networks.random_regular(20, 3, s)):
        np.testing.assert_array_equal(make(1).mixing, make(1).mixing)
        assert (make(1).mixing != make(2).mixing).any()


def test_sparse_random_graphs_are_redrawn_until_connected():
    p = np.log(30) / 30
    for seed in range(10):
        assert networks.erdos_renyi(30, p, seed).gap > 0


def test_dense_random_regular_is_a_complement():
    np.testing.assert_array_equal(networks.random_regular(50, 45).degrees, [45] * 50)
    assert networks.random_regular(8, 7).kind == "mean"


def test_graph_order_and_self_loops():
    graph = nx.Graph([("c", "a"), ("a", "b"), ("a", "a")])
    third = [[2, 1, 0], [1, 1, 1], [0, 1, 2]]
    np.testing.assert_allclose(networks.from_graph(graph).mixing, np.array(third) / 3, atol=1e-15)


@pytest.mark.parametrize("form", [np.array, lambda W: W.tolist(), sp.csr_array, sp.csr_matrix, sp.coo_array])
def test_own_matrix_in_any_form(form):
    W = networks.exponential(6).mixing
    np.testing.assert_array_equal(networks.from_matrix(form(W)).mixing, W)


def test_own_matrix_is_copied():
    W = networks.erdos_renyi(10, 0.5).mixing
    given, network = W.copy(), networks.from_matrix(W)
    W[:] = 0
    np.testing.assert_array_equal(network.mixing, given)
    held = sp.csr_array(given)
    network = networks.from_matrix(held)
    held.data[:] = 0
    np.testing.assert_array_equal(network.mixing, given)


def test_rounding_errors_are_no_links():
    W = networks.ring(5).mixing
    W[0, 2], W[2, 0], W[1, 3] = 1e-17, 1e-17, -1e-17
    np.testing.assert_array_equal(networks.from_matrix(W).degrees, [2] * 5)


@table("name", ["ring", "path", "star", "complete", "hypercube", "exponential"])
def test_senseless_sizes(name):
    for size in (0, -3, 2.0, "5", None, True):
        message = rf"{name}\(agents\) must be a whole number of at least 1, but is {size!r}"
        with pytest.raises(InputError, match=message):
            getattr(networks, name)(size)


REFUSED = [
    (lambda: networks.torus(3, 0), r"torus\(columns\) must be a whole number of at least 1, but is 0"),
    (lambda: networks.torus(2.5, 2), r"torus\(rows\) must be a whole number of at least 1, but is 2.5"),
    (lambda: networks.hypercube(12), "power of two, but is 12. The nearest are 8 and 16; networks.exponential"),
    (lambda: networks.ring(5, weights="metropols"), "'metropols' is not a weight scheme; did you mean 'metropolis'?"),
    (lambda: networks.ring(5, weights=3), "weights=3 is not a weight scheme; choose from best-constant, fdla"),
    (lambda: networks.erdos_renyi(20, 1.5), r"erdos_renyi\(probability\) must be a number in \(0, 1\], but is 1.5"),
    (lambda: networks.erdos_renyi(20, 0.3, seed=-1), r"erdos_renyi\(seed\) must be a whole number of at least 0"),
    (lambda: networks.erdos_renyi(100, 0.005), r"no connected graph in 100 draws.*above ln\(n\)/n = 0.04605"),
    (
        lambda: networks.random_regular(5, 3),
        "agents times degree must be even, but is 15. Use degree 2 or 4, or 6 agents",
    ),
    (lambda: networks.random_regular(5, 5), "must be below the number of agents, 5, but is 5"),
    (lambda: networks.random_regular(6, 1), "in 100 draws. Use degree 3, .* networks.ring for degree 2"),
    (lambda: networks.random_regular(6, 2.0), r"random_regular\(degree\) must be a whole number of at least 0"),
    (lambda: networks.from_graph(nx.DiGraph([(0, 1)])), "must be undirected, but is directed.*graph.to_undirected"),
    (lambda: networks.from_graph(nx.MultiGraph([(0, 1)])), r"but is a multigraph. Merge.*networkx.Graph\(graph\)"),
    (lambda: networks.from_graph(nx.Graph()), "at least one node, but has none"),
    (lambda: networks.from_graph(np.eye(3)), r"must be a networkx.Graph, but is ndarray.*from_matrix\(W\)"),
    (
        lambda: networks.from_graph(nx.Graph([("a", "b"), ("c", "d"), ("d", "e")])),
        "falls into 2 components; the smallest has 2 of 5 agents: a, b. Add a link between components, such as a–c",
    ),
    (lambda: networks.from_graph(nx.empty_graph(3)), "falls into 3 components; the smallest has 1 of 3 agents: 0. Add"),
]


@table(("make", "message"), REFUSED)
def test_refusals(make, message):
    with pytest.raises(InputError, match=message):
        make()


def test_drawing_ends(monkeypatch):
    monkeypatch.setattr("gossamer.networks.graphs.DRAWS", 1)
    with pytest.raises(InputError, match=r"no connected graph in 1 draws. Use degree 3, .* networks.ring for degree 2"):
        networks.random_regular(20, 2, seed=0)


RING = networks.ring(4).mixing


def changed(place, value):
    W = RING.copy()
    W[place] = value
    return W


WAY_OUT = r"For an undirected graph use networks.from_graph\(graph, weights=\"metropolis\"\)."
MATRICES = [
    (changed((2, 2), 0.30333333), rf"doubly stochastic, but row 2 sums to 0.96999\d+ \(tolerance 1e-08\). {WAY_OUT}"),
    (np.array([[1.0, 0.0], [1.0, 0.0]]), "doubly stochastic, but column 0 sums to 2 "),
    (np.ones((2, 3)), rf"must be square.*but has shape \(2, 3\). {WAY_OUT}"),
    (np.ones(3), r"must be square.*but has shape \(3,\)"),
    (np.ones((0, 0)), r"must be square.*but has shape \(0, 0\)"),
    ([[1.0, 0.0], [1.0]], "rows differ in length"),
    (changed((1, 2), np.nan), r"must be finite, but entry \[1, 2\] is nan"),
    (changed((3, 0), np.inf), r"must be finite, but entry \[3, 0\] is inf"),
    (changed((1, 3), -0.25), r"must be non-negative, but entry \[1, 3\] is -0.25"),
    (RING.astype(complex), "must be real numbers, but has dtype complex128"),
    (np.array([["a"]]), "must be real numbers, but has dtype <U1"),
    (np.eye(3), "falls into 3 components; the smallest has 1 of 3 agents: 0. Add a link between components"),
    (np.kron(np.eye(2), np.full((7, 7), 1 / 7)), "has 7 of 14 agents: 0, 1, 2, 3, 4, …. Add .* such as 0–7"),
    ([[0, 1], [1, 0]], r"must average, but its spectral gap is ρ = 0.*lazy matrix ½\(I \+ W\)"),
    (np.roll(np.eye(5), 1, axis=0), "must average, but its spectral gap is ρ = 0"),
]


@table(("matrix", "message"), MATRICES)
def test_matrices_that_are_refused(matrix, message):
    with pytest.raises(InputError, match=message):
        networks.from_matrix(matrix)


def test_sparse_matrices_are_checked_too():
    with pytest.raises(InputError, match=r"entry \[1, 3\] is -0.25"):
        networks.from_matrix(sp.csr_array(changed((1, 3), -0.25)))


def test_the_best_constant_weight_is_the_fastest_of_one_weight_for_all_links():
    for graph in (nx.cycle_graph(10), nx.star_graph(7), nx.hypercube_graph(3), nx.barbell_graph(4, 1)):
        laplacian = nx.laplacian_matrix(graph).toarray().astype(float)
        eye, away = np.eye(len(graph)), np.full((len(graph),) * 2, 1 / len(graph))

        def slowest(alpha, laplacian=laplacian, eye=eye, away=away):
            return np.linalg.norm(eye - alpha * laplacian - away, 2)

        network = networks.from_graph(graph, weights="best-constant")
        alpha = -network.matrix(0).toarray()[laplacian < 0] / laplacian[laplacian < 0]
        assert np.ptp(alpha) == pytest.approx(0, abs=1e-12)
        tried = np.linspace(0.01, 1, 400)
        assert slowest(alpha[0]) <= min(map(slowest, tried)) + 1e-12
        assert network.gap == pytest.approx(1 - slowest(alpha[0]))
    for ring in (networks.ring(10, weights="best-constant"), networks.torus(4, 3, weights="best-constant")):
        apart = networks.from_matrix(ring.matrix(0).toarray())
        assert apart.gap == pytest.approx(ring.gap)
    same = networks.from_graph(nx.cycle_graph(10), weights="lazy-best-constant").matrix(0).toarray()
    np.testing.assert_allclose(networks.ring(10, weights="lazy-best-constant").matrix(0).toarray(), same, atol=1e-15)


def slowest(network):
    W = network.matrix(0).toarray()
    return np.linalg.norm(W - 1 / len(W), 2)


def test_fdla_is_the_best_constant_weight_where_an_automorphism_takes_every_link_to_every_other():
    for graph in (nx.cycle_graph(9), nx.star_graph(7), nx.hypercube_graph(3), nx.complete_bipartite_graph(2, 5)):
        fastest, constant = (networks.from_graph(graph, weights=one) for one in ("fdla", "best-constant"))
        np.testing.assert_array_equal(fastest.matrix(0).toarray(), constant.matrix(0).toarray())
    n = 10
    alone = slowest(networks.ring(n, weights="fdla"))
    low, high = (2 - 2 * np.cos(2 * np.pi * k / n) for k in (1, n // 2))
    assert alone == pytest.approx((high - low) / (high + low), abs=1e-12)
    assert slowest(networks.star(n, weights="fdla")) == pytest.approx((n - 1) / (n + 1), abs=1e-12)


def test_fdla_on_a_torus_is_found_by_a_linear_program_and_agrees_with_the_semidefinite_one():
    pytest.importorskip("clarabel")
    torus = networks.torus(3, 5, weights="fdla")
    graph = nx.from_numpy_array(networks.torus(3, 5).matrix(0).toarray() - np.eye(15) / 5)
    assert slowest(torus) == pytest.approx(slowest(networks.from_graph(graph, weights="fdla")), abs=1e-7)
    assert slowest(torus) < slowest(networks.torus(3, 5, weights="best-constant")) - 0.01


def test_fdla_is_faster_than_all_other_weights_and_cannot_be_made_faster_by_moving_one():
    pytest.importorskip("clarabel")
    rng = np.random.default_rng(0)
    for graph in (nx.barbell_graph(4, 1), nx.gnp_random_graph(12, 0.3, seed=3), nx.path_graph(6)):
        best = slowest(networks.from_graph(graph, weights="fdla"))
        others = [slowest(networks.from_graph(graph, weights=one)) for one in ("metropolis", "best-constant")]
        assert best <= min(others) + 1e-8
        W = networks.from_graph(graph, weights="fdla").matrix(0).toarray()
        for _ in range(50):
            move = np.zeros_like(W)
            for i, j in nx.convert_node_labels_to_integers(graph).edges:  # rows are in the order of graph.nodes
                move[i, j] = move[j, i] = rng.normal() * 1e-3
            move -= np.diag(move.sum(1))
            assert np.linalg.norm(W + move - 1 / len(W), 2) > best - 1e-7


def test_fdla_is_refused_where_it_would_take_too_long_or_the_solver_is_missing(monkeypatch):
    with pytest.raises(InputError, match=r"61 agents are more than 60: take weights=\"best-constant\""):
        networks.path(61, weights="fdla")
    with pytest.raises(InputError, match=r"3,001 agents are more than 3,000"):
        networks.ring(3001, weights="fdla")
    monkeypatch.setitem(sys.modules, "clarabel", None)
    with pytest.raises(
        MissingPackage, match="needs the package clarabel, which is not installed: pip install clarabel"
    ):
        networks.path(6, weights="fdla")
