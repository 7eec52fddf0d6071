"""Networks of many agents: the gap without a dense matrix."""

import math

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp

from gossamer import networks
from gossamer.networks import measures


@pytest.mark.parametrize("scheme", networks.WEIGHTS)
def test_weights_of_an_adjacency_matrix_are_those_of_its_graph(scheme):
    if scheme == "fdla":
        pytest.importorskip("clarabel")
    graph = nx.fast_gnp_random_graph(12, 0.4, seed=1)
    matrix = sp.csr_array(nx.to_scipy_sparse_array(graph, weight=None, dtype=np.float64))
    weights = networks.WEIGHTS[scheme]
    np.testing.assert_array_equal(weights(matrix).toarray(), weights(graph).toarray())


MATRICES = {
    "random regular": lambda: networks.random_regular(150, 4).matrix(),
    "Erdős–Rényi": lambda: networks.erdos_renyi(120, 0.08).matrix(),
    "preferential": lambda: networks.from_graph(nx.barabasi_albert_graph(130, 3, seed=1)).matrix(),
    "star": lambda: networks.star(80).matrix(),
    "torus": lambda: networks.torus(8, 14).matrix(),
    "exponential, not symmetric": lambda: networks.exponential(100).matrix(),
}


@pytest.mark.parametrize("kind", MATRICES)
def test_the_gap_without_a_dense_matrix_is_that_of_one(kind, monkeypatch):
    matrix = MATRICES[kind]()
    dense = matrix.toarray()
    monkeypatch.setattr(measures, "EXACT_AGENTS", 10)
    exact = 1 - np.linalg.norm(dense - 1 / len(dense), 2)
    assert measures.matrix_gap(matrix) == pytest.approx(exact, rel=0, abs=1e-10)
    if np.array_equal(dense, dense.T):
        assert measures.matrix_lowest(matrix) == pytest.approx(np.linalg.eigvalsh(dense)[0], rel=0, abs=1e-10)
        squared = dense @ dense
        assert measures.largest(len(dense), lambda x: squared @ x) == pytest.approx((1 - exact) ** 2, rel=0, abs=1e-10)


CLOSED = {
    "torus": (lambda: networks.torus(100, 100).matrix(), 0.4 * (1 - math.cos(2 * math.pi / 100))),
    "hypercube": (lambda: networks.hypercube(2**13).matrix(), 2 / 14),
    "star": (lambda: networks.star(20_000).matrix(), 1 / 20_000),
    "path": (lambda: networks.path(5_000).matrix(), 2 / 3 * (1 - math.cos(math.pi / 5_000))),
    "exponential": (lambda: networks.exponential(2**13).matrix(), 2 / 14),
}


@pytest.mark.parametrize("kind", CLOSED)
def test_the_gap_of_a_large_sparse_matrix_is_its_closed_form(kind):
    make, exact = CLOSED[kind]
    assert measures.matrix_gap(make()) == pytest.approx(exact, rel=0, abs=1e-12)


def test_lanczos_gives_up_where_it_would_take_too_long(monkeypatch):
    found, lanczos = [], measures._lanczos
    monkeypatch.setattr(measures, "_lanczos", lambda *given: found.append(lanczos(*given)) or found[-1])
    exact = 2 / 3 * (1 - math.cos(2 * math.pi / 6_000))
    assert measures.matrix_gap(networks.ring(6_000).matrix()) == pytest.approx(exact, rel=1e-6)
    assert found[0] is None  # so the gap comes from a factorisation


def test_lanczos_finds_the_gap_of_an_expander_which_would_be_slow_to_factorise(monkeypatch):
    monkeypatch.setattr(measures, "_nearest", lambda *_: pytest.fail("it was factorised"))
    assert 0.1 < networks.random_regular(10_000, 4).gap < 0.12


def test_a_ring_that_fails_is_factorised_and_its_gap_is_the_closed_form():
    """Every link is up on its own with chance q: E[W²] = I − 2qL/3 + (q² L² + 2 (q − q²) L) / 9, L the Laplacian."""
    n, q = 4_000, 0.9
    angles = 2 * np.pi * np.arange(1, n) / n
    L = 2 - 2 * np.cos(angles)
    left = 1 - 2 * q * L / 3 + (q**2 * L**2 + (q - q**2) * 2 * L) / 9
    gap = networks.failing(networks.ring(n), links=1 - q).gap
    assert gap == pytest.approx(1 - math.sqrt(left.max()), rel=1e-6)


def test_the_gap_is_worked_out_only_when_it_is_asked_for():
    network = networks.random_regular(1_200, 4)
    assert network.links == 2_400
    assert "ρ" not in repr(network)
    assert "gap" not in vars(network)
    assert 0 < network.gap < 1
    assert "ρ" in repr(network)
