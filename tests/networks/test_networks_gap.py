"""The spectral gap against its closed forms and against the definition."""

import math

import networkx as nx
import numpy as np
import pytest

from gossamer import networks
from gossamer.networks import measures
from gossamer.networks.mixers import Shifts, choose

SIZES = [4, 5, 8, 20, 33, 64, 101, 500]


def ring_gap(n):
    return 2 / 3 * (1 - math.cos(2 * math.pi / n))


def path_gap(n):
    return 2 / 3 * (1 - math.cos(math.pi / n))


def definition(network):
    """1 − ‖W − J‖₂ from all singular values."""
    return 1 - np.linalg.svd(network.mixing - 1 / network.agents, compute_uv=False)[0]


@pytest.mark.parametrize("n", [*SIZES, 10_000])
def test_ring(n):
    assert networks.ring(n).gap == pytest.approx(ring_gap(n), abs=1e-10)


def test_ring_of_the_paper():
    assert networks.ring(20).gap == pytest.approx(0.032629, abs=5e-7)


@pytest.mark.parametrize("side", [4, 5, 8, 13, 40, 100])
def test_torus(side):
    assert networks.torus(side, side).gap == pytest.approx(2 / 5 * (1 - math.cos(2 * math.pi / side)), abs=1e-10)


@pytest.mark.parametrize("p", [1, 2, 3, 6, 10, 14])
def test_hypercube_and_exponential(p):
    assert networks.hypercube(2**p).gap == pytest.approx(2 / (p + 1), abs=1e-10)
    assert networks.exponential(2**p).gap == pytest.approx(2 / (p + 1), abs=1e-10)


@pytest.mark.parametrize("n", [1, 2, 7, 10_000])
def test_complete(n):
    assert networks.complete(n).gap == 1


@pytest.mark.parametrize("n", [3, *SIZES, 1_001, 10_000])
def test_star(n):
    assert networks.star(n).gap == pytest.approx(1 / n, abs=1e-10)


@pytest.mark.parametrize("n", [3, *SIZES, 1_001, 10_000])
def test_path(n):
    # At 10,000 agents the gap is 3e-8 and Lanczos fails.
    assert networks.path(n).gap == pytest.approx(path_gap(n), abs=1e-12, rel=1e-6)


def test_thin_graph_is_factorised():
    # A ladder has too many links for a tree and too small a gap for Lanczos. Its slow mode is that of the path.
    n = 3_000
    ladder = networks.from_graph(nx.circular_ladder_graph(n))
    assert ladder.gap == pytest.approx((1 - math.cos(2 * math.pi / n)) / 2, rel=1e-6)


@pytest.mark.parametrize("make", [networks.ring, networks.path, networks.star, networks.complete, networks.exponential])
def test_one_agent_is_always_agreed(make):
    network = make(1)
    assert network.gap == 1
    np.testing.assert_array_equal(network.mixing, [[1.0]])
    np.testing.assert_array_equal(network.degrees, [0])


@pytest.mark.parametrize("weights", ["metropolis", "lazy"])
@pytest.mark.parametrize(
    "sides", [(1, 1), (1, 2), (2, 1), (1, 3), (2, 2), (2, 3), (3, 2), (2, 5), (3, 3), (5, 1), (3, 4)]
)
def test_torus_with_short_sides_is_the_simple_graph(sides, weights):
    graph = nx.Graph(nx.cartesian_product(nx.cycle_graph(sides[0]), nx.cycle_graph(sides[1])))
    same = networks.from_graph(nx.Graph(graph), weights)
    network = networks.torus(*sides, weights=weights)
    np.testing.assert_allclose(network.mixing, same.mixing, atol=1e-15)
    assert network.gap == pytest.approx(same.gap, abs=1e-12)


@pytest.mark.parametrize("n", [2, 3])
def test_smallest_rings_average_at_once(n):
    np.testing.assert_allclose(networks.ring(n).mixing, np.full((n, n), 1 / n), atol=1e-15)


def test_asymmetric_matrix_takes_singular_values():
    W = np.array([[1 / 2, 1 / 2, 0], [1 / 6, 1 / 6, 2 / 3], [1 / 3, 1 / 3, 1 / 3]])
    np.testing.assert_allclose(np.sort(np.abs(np.linalg.eigvals(W))), [0, 0, 1], atol=1e-7)
    assert networks.from_matrix(W).gap == pytest.approx(1 - 1 / math.sqrt(3), abs=1e-10)


@pytest.mark.parametrize(
    "network",
    [
        networks.ring(9, weights="lazy"),
        networks.torus(3, 7),
        networks.torus(2, 6),
        networks.exponential(13),
        networks.hypercube(8, weights="lazy"),
        networks.erdos_renyi(40, 0.2),
        networks.random_regular(30, 3),
    ],
    ids=lambda network: network.name,
)
def test_gap_is_its_definition(network):
    assert network.gap == pytest.approx(definition(network), abs=1e-12)


def big(offsets, weights, n=1_501):
    return Shifts((n,), tuple((k % n,) for k in offsets), np.array(weights))


@pytest.mark.parametrize(
    "shifts",
    [
        big([0, 1, -1], [1 / 3, 1 / 3, 1 / 3]),
        big([0, 1, -1], [0.0, 0.5, 0.5]),  # the lower end of the spectrum decides
        big([0, 1], [0.5, 0.5]),  # asymmetric, and a tiny gap
        big([0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024], [1 / 12] * 12),  # asymmetric, and a large gap
    ],
    ids=["ring", "ring without self-weight", "directed ring", "exponential"],
)
def test_sparse_solvers_agree_with_fourier(shifts):
    exact = shifts.gap(1_501)
    assert measures.matrix_gap(shifts.sparse()) == pytest.approx(exact, abs=1e-12, rel=1e-6)


def test_sparse_solver_agrees_with_dense(monkeypatch):
    network = networks.erdos_renyi(300, 0.03, weights="max-degree")
    exact = network.gap
    monkeypatch.setattr(measures, "EXACT_AGENTS", 10)
    assert measures.matrix_gap(network.sparse) == pytest.approx(exact, abs=1e-11)


def test_swapping_groups_has_no_gap():
    swap = big([1, -1], [0.5, 0.5], n=1_500).sparse()
    assert measures.matrix_gap(swap) == 0
    assert measures.matrix_gap(big([1], [1.0]).sparse()) == 0


def test_gap_is_computed_once(monkeypatch):
    network = networks.path(30)
    first = network.gap
    monkeypatch.setattr(type(network.mixer), "gap", lambda *given: pytest.fail("computed again"))
    assert network.gap == first


def test_choice_keeps_the_matrix():
    matrix = networks.star(100).sparse
    np.testing.assert_array_equal(choose(matrix).sparse().toarray(), matrix.toarray())
