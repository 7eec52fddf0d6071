"""The gap of networks that change, against all outcomes and closed forms, and the lowest eigenvalue of static ones."""

import itertools
import math

import jax
import networkx as nx
import numpy as np
import pytest

from gossamer import networks
from gossamer.networks import measures

RING, STAR = networks.ring(8), networks.star(8)
MATCHING = networks.random_matching(8, seed=3)
FAILING = networks.failing(RING, 0.3, 0.2)
HALVES = networks.sequence(
    [nx.Graph([(2 * k, 2 * k + 1) for k in range(4)]), nx.Graph([(2 * k + 1, (2 * k + 2) % 8) for k in range(4)])]
)


def values(*shape):
    return np.random.default_rng(1).standard_normal(shape)


def definition(network, rounds):
    """1 − ‖P − J‖₂^(1/p) from all singular values."""
    n = network.agents
    product = np.eye(n)
    for t in range(rounds):
        product = network.matrix(t) @ product
    return 1 - np.linalg.svd(product - 1 / n, compute_uv=False)[0] ** (1 / rounds)


@pytest.mark.parametrize(
    ("network", "rounds"),
    [
        (networks.one_peer_exponential(13), 4),
        (networks.one_peer_exponential(6), 3),
        (HALVES, 2),
        (networks.every(networks.sequence([RING, STAR]), 2), 4),
        (networks.sequence([RING, STAR, networks.path(8)]), 3),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_gap_of_a_sequence_is_its_definition(network, rounds):
    assert network.gap == pytest.approx(definition(network, rounds), abs=1e-12)


def test_local_steps_take_the_root_of_the_gap():
    assert networks.every(RING, 5).gap == pytest.approx(1 - (1 - RING.gap) ** (1 / 5), abs=1e-14)
    assert networks.every(MATCHING, 2).gap == pytest.approx(1 - (1 - MATCHING.gap) ** (1 / 2), abs=1e-14)
    assert networks.every(networks.complete(4), 3).gap == 1


@pytest.mark.parametrize("n", [2, 3, 8, 9, 1_000])
def test_gap_and_traffic_of_a_matching(n):
    network = networks.random_matching(n)
    assert network.gap == pytest.approx(1 - math.sqrt(0.5 if n % 2 else (n - 2) / (2 * n - 2)), abs=1e-15)
    assert network.traffic == pytest.approx(1 - (n % 2) / n)


def every_graph(n, p):
    """All graphs on n agents with their chance."""
    pairs = list(itertools.combinations(range(n), 2))
    for chosen in itertools.product([False, True], repeat=len(pairs)):
        graph = nx.empty_graph(n)
        graph.add_edges_from(itertools.compress(pairs, chosen))
        yield networks.metropolis(graph).toarray(), math.prod(p if up else 1 - p for up in chosen)


@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_gap_of_redrawn_graphs_is_that_of_all_graphs(n):
    p = 0.3
    mean = sum(chance * W @ W for W, chance in every_graph(n, p))
    exact = 1 - math.sqrt(np.linalg.eigvalsh(mean - 1 / n)[-1])
    network = networks.redrawn(n, p)
    assert network.gap == pytest.approx(exact, abs=1e-12)
    assert network.traffic == pytest.approx(p * (n - 1))


@pytest.mark.parametrize("base", [networks.path(4), networks.complete(3), networks.star(4)], ids=lambda base: base.name)
def test_gap_of_a_network_that_fails_is_that_of_all_failures(base):
    W, n, down, asleep = base.mixing, base.agents, 0.3, 0.2
    pairs = [(i, j) for i, j in itertools.combinations(range(n), 2) if W[i, j]]
    mean = np.zeros((n, n))
    for outcome in itertools.product([0, 1], repeat=len(pairs) + n):
        up, awake = outcome[:-n], outcome[-n:]
        drawn = np.eye(n)
        for (i, j), link in zip(pairs, up, strict=True):
            gap = np.eye(n)[i] - np.eye(n)[j]
            drawn -= W[i, j] * link * awake[i] * awake[j] * np.outer(gap, gap)
        chance = math.prod(1 - down if link else down for link in up)
        mean += chance * math.prod(1 - asleep if a else asleep for a in awake) * drawn @ drawn
    exact = 1 - math.sqrt(np.linalg.eigvalsh(mean - 1 / n)[-1])
    assert networks.failing(base, down, asleep).gap == pytest.approx(exact, abs=1e-12)


def test_estimated_gaps_are_near_the_closed_forms(monkeypatch):
    monkeypatch.setattr(measures, "DRAWN_ROUNDS", 1_000)
    for network in (MATCHING, networks.redrawn(8, 0.4), FAILING):
        left = measures.estimate_contraction(network.mixer, 8)
        assert 1 - math.sqrt(left) == pytest.approx(network.gap, abs=0.03)
    # A sequence of twice the same, with faults, is the network with faults.
    same = networks.failing(networks.sequence([RING, RING]), 0.3, 0.2)
    assert same.gap == pytest.approx(FAILING.gap, abs=0.01)


def test_large_failing_ring_by_hand():
    n, down = 3_000, 0.1
    slow, m = 2 / 3 * (1 - math.cos(2 * math.pi / n)), 1 - down
    left = (1 - m * slow) ** 2 + 2 * m * (1 - m) * slow / 3
    network = networks.failing(networks.ring(n), down)
    assert network.gap == pytest.approx(1 - math.sqrt(left), rel=1e-5)
    assert sum(leaf.nbytes for leaf in jax.tree.leaves(network)) < 1e6


def test_gossip_shrinks_at_the_rate_of_the_gap():
    # The mean over 100 runs is far below the bound, because the start is not the worst one.
    network = FAILING
    x = values(8)
    x -= x.mean()
    left = []
    for run in range(100):
        y = x
        for t in range(20 * run, 20 * run + 20):
            y = network.matrix(t) @ y
        left.append((y**2).sum())
    assert np.mean(left) <= (1 - network.gap) ** 40 * (x**2).sum()


@pytest.mark.parametrize(
    ("network", "lowest"),
    [
        (networks.ring(8), -1 / 3),
        (networks.ring(8, weights="lazy"), 1 / 3),
        (networks.complete(5), 0),
        (networks.ring(1), 1),
        (networks.path(50), 1 / 3 - 2 / 3 * math.cos(math.pi / 50)),
        (networks.path(3_000), 1 / 3 - 2 / 3 * math.cos(math.pi / 3_000)),
        (networks.star(1_500), 0),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_lowest_eigenvalue(network, lowest):
    assert network.lowest == pytest.approx(lowest, abs=1e-8)
