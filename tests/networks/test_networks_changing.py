"""Networks that change: every round is what `matrix` says, averages as it should, and costs what it should."""

import itertools
import math
from collections import Counter
from typing import Any

import jax
import jax.numpy as jnp
import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

from gossamer import networks
from gossamer.core import InputError
from gossamer.engines.mixing import mix
from tests.table import table

RING, STAR = networks.ring(8), networks.star(8)
MATCHING = networks.random_matching(8, seed=3)
DIGRAPH = nx.DiGraph([(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 6), (6, 7), (7, 0), (0, 4), (2, 6)])
HALVES = [nx.Graph([(2 * k, 2 * k + 1) for k in range(4)]), nx.Graph([(2 * k + 1, (2 * k + 2) % 8) for k in range(4)])]
CHANGING = {
    "one-peer": networks.one_peer_exponential(8),
    "matching": MATCHING,
    "redrawn": networks.redrawn(8, 0.4, seed=1),
    "sequence": networks.sequence([RING, STAR, networks.complete(8)]),
    "halves": networks.sequence(HALVES),
    "nested": networks.sequence([networks.one_peer_exponential(8), MATCHING]),
    "every": networks.every(RING, 3),
    "every sequence": networks.every(networks.sequence([RING, STAR]), 2),
    "failing": networks.failing(RING, 0.3, 0.2),
    "failing hubs": networks.failing(networks.star(100), 0.3),
    "failing complete": networks.failing(networks.complete(8), 0.5, 0.1),
    "failing matching": networks.failing(MATCHING, 0.3),
    "failing redrawn": networks.failing(networks.redrawn(8, 0.4), 0.3, 0.1),
    "failing sequence": networks.failing(networks.sequence([RING, STAR]), agents=0.3),
    "every failing": networks.every(networks.failing(RING, 0.3), 2),
    "bursts": networks.gilbert_elliott(RING, 0.3, 0.4, 0.1, 0.9),
    "bursts matching": networks.gilbert_elliott(MATCHING, 0.3, 0.4),
}
DIRECTED = {
    "directed": networks.directed(DIGRAPH),
    "directed sequence": networks.sequence([DIGRAPH, nx.DiGraph(nx.cycle_graph(8)), RING]),
    "failing directed": networks.failing(networks.directed(DIGRAPH), 0.3, 0.1),
    "failing exponential": networks.failing(networks.exponential(8), 0.3),
    "failing one-peer": networks.failing(networks.one_peer_exponential(8), 0.3, 0.2),
    "failing directed hubs": networks.failing(
        networks.from_matrices(row=np.eye(100) / 2 + networks.star(100).mixing / 2), 0.3
    ),
    "bursts directed": networks.gilbert_elliott(networks.directed(DIGRAPH), 0.3, 0.4),
    "every failing directed": networks.every(networks.failing(networks.directed_ring(8), 0.3), 2),
}
ALL = [(network, "W") for network in CHANGING.values()] + [(n, over) for n in DIRECTED.values() for over in "RC"]
NAMES = [*CHANGING, *(f"{name} {over}" for name in DIRECTED for over in "RC")]
ROUNDS = range(7)


def values(*shape):
    return np.random.default_rng(1).standard_normal(shape)


@pytest.mark.parametrize(("network", "over"), ALL, ids=NAMES)
def test_mix_is_the_product_with_a_stochastic_matrix(network, over):
    x = values(network.agents, 3)
    with jax.enable_x64(True):
        mixed = jax.jit(lambda network, x, t: mix(network, x, t, over))
        for t in ROUNDS:
            y = mixed(network, x, t)
            assert y.dtype == np.float64
            W = network.matrix(t, over)
            np.testing.assert_allclose(y, W @ x, atol=1e-14, rtol=0)
            assert W.data.min() > 0
            if over != "C":
                np.testing.assert_allclose(W.sum(axis=1), 1, atol=1e-14)
            if over != "R":
                np.testing.assert_allclose(W.sum(axis=0), 1, atol=1e-14)


@pytest.mark.parametrize("network", CHANGING.values(), ids=CHANGING)
def test_doubly_stochastic_pulls_and_pushes_alike(network):
    assert network.stochastic == "doubly"
    for over in ("R", "C"):
        assert abs(network.matrix(1, over) - network.matrix(1)).max() == 0


@pytest.mark.parametrize("name", ["every sequence", "nested", "failing redrawn"])
def test_float32_sees_the_same_rounds(name):
    network, x = CHANGING[name], values(8, 2).astype(np.float32)
    seen = []
    for x64 in (False, True):
        with jax.enable_x64(x64):
            y = jax.jit(lambda network, t: mix(network, x, t))(network, 4)
            assert y.dtype == np.float32
            seen.append(np.asarray(y))
    np.testing.assert_allclose(seen[0], seen[1], atol=1e-6)
    np.testing.assert_allclose(seen[0], network.matrix(4) @ x, atol=1e-6)


def primitives(jaxpr):
    """All equations, also those inside other equations."""
    for equation in jaxpr.eqns:
        yield equation
        for inner in jax.tree.leaves(equation.params, is_leaf=lambda value: hasattr(value, "eqns")):
            if hasattr(inner, "jaxpr"):
                inner = inner.jaxpr
            if hasattr(inner, "eqns"):
                yield from primitives(inner)


@pytest.mark.parametrize("name", ["every", "every sequence", "matching", "redrawn", "failing"])
def test_a_round_is_drawn_once_for_all_settings(name):
    network, batch = CHANGING[name], 13
    x = values(batch, 8, 3)

    def mix_all(network, x, t):
        return jax.vmap(lambda x: mix(network, x, t))(x)

    found = list(primitives(jax.make_jaxpr(mix_all)(network, x, 4).jaxpr))
    if name.startswith("every"):  # a condition that is mapped would compute both branches
        assert any(e.primitive.name == "cond" for e in found)
    else:
        drawing = [e for e in found if e.primitive.name == "xor"]  # of the cipher
        assert drawing
        assert all(batch not in v.aval.shape for e in drawing for v in e.outvars)
    with jax.enable_x64(True):
        mixed = jax.jit(mix_all)(network, x, 4)
    np.testing.assert_allclose(mixed, np.stack([network.matrix(4) @ one for one in x]), atol=1e-14, rtol=0)


@pytest.mark.parametrize("p", [1, 2, 3, 5])
def test_one_peer_rounds_average_exactly(p):
    network = networks.one_peer_exponential(2**p)
    for start in range(3):
        product = np.eye(2**p)
        for t in range(start, start + p):
            product = network.matrix(t) @ product
        np.testing.assert_allclose(product, np.full_like(product, 2.0**-p), atol=1e-15, rtol=0)
    assert network.gap == 1
    assert network.traffic == 1


@pytest.mark.parametrize("n", [1, 3, 6, 13])
def test_one_peer_hears_one_at_distance_of_a_power(n):
    network = networks.one_peer_exponential(n)
    for t in range(6):
        expected = (np.eye(n) + np.roll(np.eye(n), 2 ** (t % max(1, (n - 1).bit_length())), axis=0)) / 2
        np.testing.assert_array_equal(network.matrix(t).toarray(), expected)


@pytest.mark.parametrize("n", [1, 2, 5, 8])
def test_a_matching_pairs_everyone_but_at_most_one(n):
    network = networks.random_matching(n)
    for t in range(5):
        W = network.matrix(t).toarray()
        np.testing.assert_array_equal(W, W.T)
        np.testing.assert_array_equal(W @ W, W)
        assert (W.diagonal() == 1).sum() == n % 2


def test_matchings_are_uniform():
    draws = 3_000
    mixer: Any = networks.random_matching(6, seed=7).mixer
    partners = jax.jit(jax.vmap(lambda t: mixer.at(t, "W", jnp).indices[:, 1]))(jnp.arange(draws))
    counts = Counter(tuple(row) for row in np.asarray(partners).tolist())
    assert len(counts) == 15
    statistic = sum((count - draws / 15) ** 2 for count in counts.values()) / (draws / 15)
    assert statistic < chi2.isf(1e-6, 14)  # errs with a chance of 1e-6


def test_redrawn_graphs_have_the_links_of_their_probability():
    n, p, draws = 20, 0.3, 300
    network = networks.redrawn(n, p, seed=2)
    linked = np.array([network.matrix(t).toarray()[np.triu_indices(n, 1)] > 0 for t in range(draws)])
    # 57,000 independent pairs: five standard deviations err with a chance of 6e-7.
    assert linked.mean() == pytest.approx(p, abs=5 * math.sqrt(p * (1 - p) / linked.size))
    W = network.matrix(0).toarray()
    graph = nx.from_numpy_array(W - np.diag(W.diagonal()))
    np.testing.assert_allclose(W, networks.metropolis(graph).toarray(), atol=1e-15)


def test_sequences_are_cycled():
    network = networks.sequence([RING, STAR.sparse, nx.path_graph(8)])
    for t, expected in zip(range(6), itertools.cycle([RING, STAR, networks.path(8)])):
        np.testing.assert_allclose(network.matrix(t).toarray(), expected.mixing, atol=1e-15)


def test_graphs_of_a_sequence_keep_the_order_of_the_first():
    first, second = nx.Graph([("a", "b"), ("b", "c")]), nx.Graph([("c", "b"), ("b", "a")])
    network = networks.sequence([first, second])
    np.testing.assert_array_equal(network.matrix(0).toarray(), network.matrix(1).toarray())


def test_a_sequence_inside_another_or_inside_local_steps_leaves_nothing_out():
    inner = networks.one_peer_exponential(4)
    both = networks.sequence([inner, networks.complete(4)])
    slow = networks.every(inner, 2)
    for t in range(8):
        expected = networks.complete(4).mixing if t % 2 else inner.matrix(t // 2).toarray()
        np.testing.assert_array_equal(both.matrix(t).toarray(), expected)
        np.testing.assert_array_equal(slow.matrix(t).toarray(), np.eye(4) if t % 2 else inner.matrix(t // 2).toarray())
    twice = networks.every(networks.every(inner, 2), 3)
    assert [t for t in range(12) if twice.matrix(t).nnz > 4] == [0, 6]
    assert twice.pace == 1 / 6


def test_links_of_all_rounds():
    union = networks.sequence(HALVES)
    np.testing.assert_array_equal(union.degrees, [2] * 8)
    np.testing.assert_array_equal(union.neighbors(0), [1, 7])
    assert union.links == 8
    assert union.traffic == 1
    np.testing.assert_array_equal(networks.random_matching(5).degrees, [4] * 5)
    np.testing.assert_array_equal(networks.random_matching(5).neighbors(2), [0, 1, 3, 4])
    assert networks.sequence([RING, MATCHING]).links == 28
    np.testing.assert_array_equal(networks.one_peer_exponential(9).neighbors(2), networks.exponential(9).neighbors(2))
    assert networks.failing(networks.every(RING, 2), 0.1).links == 8


def test_facts():
    assert RING.symmetric
    assert not networks.exponential(8).symmetric
    assert not any(network.symmetric for network in (*CHANGING.values(), *DIRECTED.values()))
    assert not RING.changes
    assert all(network.changes for network in CHANGING.values())
    assert (RING.pace, RING.activity, RING.traffic, RING.awake(0)) == (1, 1, 2, None)
    assert CHANGING["every"].pace == pytest.approx(1 / 3)
    assert CHANGING["every"].traffic == pytest.approx(2 / 3)
    assert networks.sequence([RING, STAR]).traffic == pytest.approx((2 + 14 / 8) / 2)
    assert networks.sequence([RING, np.eye(8)]).pace == 0.5
    assert networks.complete(8).traffic == 7
    assert networks.ring(1).pace == 1


def test_repr():
    assert repr(networks.random_matching(8)) == "random_matching(8, seed=0): 8 agents, 28 links, ρ = 0.345"
    assert repr(networks.every(RING, 2)) == "every(ring(8), 2): 8 agents, 8 links, ρ = 0.103"
    assert repr(networks.sequence(HALVES)).startswith("sequence(Graph, Graph): 8 agents, 8 links, ρ = ")
    assert repr(networks.sequence([RING] * 4)).startswith("sequence(4 rounds of 8 agents): ")
    shown = "failing(exponential(8), links=0.3, seed=0): 8 agents, 20 links, row- and column-stochastic"
    assert repr(DIRECTED["failing exponential"]) == shown
    assert repr(
        networks.failing(networks.ring(1_000), 0.1)
    ) == "failing(ring(1000), links=0.1, seed=0): 1,000 agents, " + ("1,000 links")


PARTS = "union of all rounds must be connected, but falls into 4 components; the smallest has 2 of 8 agents: 0, 1. Add"
REFUSED = [
    (lambda: networks.sequence([]), r"must be a list of at least one matrix, graph or network, but is \[\]"),
    (lambda: networks.sequence(RING), "must be a list of at least one matrix, graph or network, but is ring"),
    (lambda: networks.sequence([HALVES[0]]), PARTS),
    (lambda: networks.sequence([RING, networks.ring(5)]), r"rounds\)\[1\] has 5 agents, but rounds\[0\] has 8"),
    (
        lambda: networks.sequence([RING, np.ones((8, 8))]),
        r"rounds\)\[1\]: mixing matrix must be doubly",
    ),
    (
        lambda: networks.sequence([nx.path_graph(3), nx.Graph([(0, 1)])]),
        r"rounds\)\[1\]: all graphs must have the same nodes, but 2 is not in all",
    ),
    (lambda: networks.sequence([nx.MultiGraph([(0, 1)])]), r"rounds\)\[0\]: graph must be simple, but is a multigraph"),
    (lambda: networks.sequence([[[0, 1], [1, 0]]]), "must average, but its spectral gap is ρ = 0"),
    (
        lambda: networks.sequence([nx.DiGraph([(0, 1), (1, 2)])]),
        "union of all rounds must be strongly connected, but agent 0 cannot be reached from agent 1",
    ),
    (lambda: networks.redrawn(5_001, 0.1), "would draw 12,502,500 pairs each round; up to 5,000 agents can"),
    (lambda: networks.redrawn(5, 0), r"redrawn\(probability\) must be a number in \(0, 1\], but is 0"),
    (lambda: networks.random_matching(5, seed=-1), r"random_matching\(seed\) must be a whole number of at least 0"),
    (lambda: networks.every(RING, 1.5), r"every\(rounds\) must be a whole number of at least 1, but is 1.5"),
    (lambda: networks.every(RING.mixing, 2), r"every\(network\) must be a network, but is ndarray"),
    (lambda: networks.every(RING, 2).sparse, r"every\(ring\(8\), 2\) has another matrix each round: use `matrix\(t\)`"),
    (lambda: networks.every(RING, 2).lowest, "has no lowest eigenvalue: .* change from round to round"),
    (lambda: networks.exponential(8).lowest, "has no lowest eigenvalue: .* are not symmetric"),
    (lambda: RING.mix(np.ones(8), over="V"), 'over must be "W", "R" or "C", but is \'V\''),
]


@table(("make", "message"), REFUSED)
def test_refusals(make, message):
    with pytest.raises(InputError, match=message):
        make()


def test_a_swap_is_fine_where_another_round_averages():
    network = networks.sequence([[[0, 1], [1, 0]], [[0.5, 0.5], [0.5, 0.5]]])
    assert network.gap == 1


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(0, 10_000), min_size=1, max_size=4), st.integers(0, 50))
def test_any_sequence_of_permutations_and_rings_is_doubly_stochastic(seeds, t):
    shuffles = [sp.csr_array(np.eye(8)[np.random.default_rng(seed).permutation(8)]) for seed in seeds]
    networks.check_doubly_stochastic(networks.sequence([RING, *shuffles]).matrix(t), tolerance=1e-12)
