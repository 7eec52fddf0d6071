"""Effective neighbours, diameters and measured mixing, against closed forms and plain loops."""

import math

import networkx as nx
import numpy as np
import pytest

from gossamer import networks
from gossamer.core import InputError
from gossamer.networks import measures
from tests.table import table

DECAYS = [0.0, 0.5, 0.9, 0.99]


def by_a_loop(network, decay):
    """Var of the walk x ← W (√γ x + ξ), until it has forgotten its start, in the mean over a period."""
    n, p, X, seen = network.agents, network.mixer.period, 0.0, []
    rounds = [network.matrix(t).toarray() for t in range(p)]
    for t in range(p * math.ceil(40 / (1 - decay) / p)):
        X = rounds[t % p] @ (decay * X + np.eye(n)) @ rounds[t % p].T
        seen.append(np.trace(X) / n)
    return 1 / (1 - decay) / np.mean(seen[-p:])


@pytest.mark.parametrize("decay", DECAYS)
def test_effective_neighbours_between_alone_and_complete(decay):
    assert networks.complete(7).effective_neighbors(decay) == pytest.approx(7, abs=1e-12)
    assert networks.ring(1).effective_neighbors(decay) == 1
    alone = networks.from_matrix(np.eye(5) * (1 - 1e-9) + 1e-9 / 5)
    assert alone.effective_neighbors(decay) == pytest.approx(1, abs=1e-6)
    # at γ = 0 only one round counts: n over the squares of all weights
    star = networks.star(6)
    assert star.effective_neighbors(0) == pytest.approx(6 / (star.mixing**2).sum(), abs=1e-12)


@pytest.mark.parametrize("decay", DECAYS)
def test_effective_neighbours_from_the_eigenvalues_of_a_ring(decay):
    n = 9
    square = ((1 + 2 * np.cos(2 * np.pi * np.arange(n) / n)) / 3) ** 2
    expected = 1 / (1 - decay) / np.mean(square / (1 - decay * square))
    assert networks.ring(n).effective_neighbors(decay) == pytest.approx(expected, rel=1e-12)
    assert networks.from_graph(nx.cycle_graph(n)).effective_neighbors(decay) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    "network",
    [
        networks.exponential(9),
        networks.from_matrix(networks.exponential(9).mixing),
        networks.one_peer_exponential(9),
        networks.base_graph(11, 2),
        networks.sequence([networks.ring(9), networks.star(9)]),
        networks.every(networks.ring(9), 3),
    ],
    ids=lambda network: network.name,
)
@pytest.mark.parametrize("decay", [0.0, 0.9])
def test_effective_neighbours_against_a_loop(network, decay):
    assert network.effective_neighbors(decay) == pytest.approx(by_a_loop(network, decay), rel=1e-10)


def test_effective_neighbours_of_rounds_that_are_drawn():
    # All agents are alike: n random pairs leave q = (n − 2) / (2 (n − 1)) of every disagreement, in the mean.
    n, decay = 8, 0.9
    q = (n - 2) / (2 * (n - 1))
    expected = n / (1 + (n - 1) * (1 - decay) * q / (1 - decay * q))
    assert networks.random_matching(n).effective_neighbors(decay) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("network", [networks.random_matching(8), networks.ring(8)], ids=lambda network: network.name)
def test_the_estimate_by_a_walk_agrees(network):
    # 20,000 numbers for 1,000 rounds with memories of about 10: a standard error of some 0.3 %, so 2 % never fails.
    walked = 1 / (1 / 8 + 0.1 * measures.simulate_walk(network.mixer, 8, 0.9))
    assert walked == pytest.approx(network.effective_neighbors(0.9), rel=0.02)


def test_directed_networks_have_no_effective_neighbours():
    assert networks.directed_ring(5).effective_neighbors() is None


@pytest.mark.parametrize(
    ("network", "longest"),
    [
        (networks.complete(5), 1),
        (networks.ring(9), 4),
        (networks.path(9), 8),
        (networks.star(9), 2),
        (networks.torus(4, 6), 5),
        (networks.hypercube(16), 4),
        (networks.one_peer_exponential(16), 4),
        (networks.directed_ring(7), 6),
        (networks.directed(nx.DiGraph([(0, 1), (1, 2), (2, 3), (3, 0), (0, 2)])), 3),
        (networks.tree(22, 3), 6),
        (networks.hierarchical(36, 6), 5),
        (networks.random_matching(6), 1),
        (networks.sequence([networks.ring(12), networks.torus(3, 4)]), 3),
        (networks.every(networks.ring(9), 3), 4),
        (networks.ring(10_000), 5_000),
        (networks.path(10_000), 9_999),
        (networks.hierarchical(3_000, 50), 27),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_diameters(network, longest):
    assert network.diameter == longest


@pytest.mark.parametrize("searches", [0, 2, 32])
def test_diameters_are_those_of_networkx(searches, monkeypatch):
    monkeypatch.setattr(measures, "SEARCHES", searches)
    monkeypatch.setattr(measures, "BYTES", 5_000)  # in several blocks
    for seed in range(12):
        graph = nx.connected_watts_strogatz_graph(20 + 11 * seed, 4, 0.1, seed=seed)
        assert networks.from_graph(graph).diameter == nx.diameter(graph)
        oneway = nx.random_k_out_graph(20 + 5 * seed, 3, 1.0, self_loops=False, seed=seed)
        oneway = nx.DiGraph(oneway.subgraph(max(nx.strongly_connected_components(oneway), key=len)))
        assert networks.directed(oneway).diameter == nx.diameter(oneway)


@pytest.mark.parametrize("weights", ["metropolis", "lazy"])
def test_the_slowest_vector_of_a_network_is_seen_to_shrink_by_its_gap(weights):
    network = networks.star(7, weights=weights)
    values, vectors = np.linalg.eigh(network.mixing)
    slow = vectors[:, np.argsort(abs(values))[-2]]
    left = network.disagreement(20, start=slow)
    np.testing.assert_allclose(left, (1 - network.gap) ** np.arange(21), rtol=1e-9)


@pytest.mark.parametrize("network", [networks.ring(9), networks.tree(12), networks.exponential(9)], ids=str)
def test_no_vector_shrinks_more_slowly(network):
    left = network.disagreement(50)
    assert (left[1:] <= left[:-1] * (1 - network.gap) + 1e-15).all()
    until = network.disagreement(50, until=0.1)
    assert until[-1] <= 0.1 < until[-2]
    np.testing.assert_array_equal(until, left[: len(until)])


def test_rounds_that_are_drawn_are_those_of_the_network():
    network = networks.random_matching(8, seed=2)
    x = np.arange(8.0)
    mixed = x
    for t in range(70):  # more than are drawn at once
        mixed = network.matrix(t) @ mixed
    left = np.linalg.norm(mixed - mixed.mean()) / np.linalg.norm(x - x.mean())
    assert network.disagreement(70, start=x)[-1] == pytest.approx(left, rel=1e-9, abs=1e-15)


def test_directed_networks_agree_by_push_sum():
    network = networks.directed(nx.DiGraph([(0, 1), (1, 2), (2, 3), (3, 0), (0, 2)]))
    x, C = np.arange(4.0), network.matrix(0, over="C").toarray()
    expected = [1.0]
    numerator, shares = x - x.mean(), np.ones(4)
    for _ in range(5):
        numerator, shares = C @ numerator, C @ shares
        expected.append(np.linalg.norm(numerator / shares) / np.linalg.norm(x - x.mean()))
    np.testing.assert_allclose(network.disagreement(5, start=x), expected, rtol=1e-12)
    assert network.disagreement(300)[-1] < 1e-9


def test_agents_that_agree_stay_so():
    np.testing.assert_array_equal(networks.ring(4).disagreement(5, start=np.ones(4)), [0.0])
    np.testing.assert_array_equal(networks.ring(1).disagreement(5), [0.0])


@table(
    ("ask", "message"),
    [
        (lambda n: n.effective_neighbors(1), r"effective_neighbors\(decay\) must be a number in \[0, 1\), but is 1"),
        (lambda n: n.disagreement(-1), r"disagreement\(rounds\) must be a whole number of at least 0, but is -1"),
        (lambda n: n.disagreement(1, start=np.ones(3)), r"must have 4 rows, one an agent, but has shape \(3,\)"),
        (lambda n: n.disagreement(1, seed=0.5), r"disagreement\(seed\) must be a whole number"),
        (lambda n: n.disagreement(1, until=2), r"disagreement\(until\) must be a number in \[0, 1\], but is 2"),
        (lambda n: n.disagreement(1, start="abcd"), r"start"),
    ],
)
def test_refusals(ask, message):
    with pytest.raises(InputError, match=message):
        ask(networks.ring(4))
