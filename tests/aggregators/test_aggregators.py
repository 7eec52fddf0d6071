"""Aggregators against plain loops, in what they leave as it is, and in what attackers can do to them."""

from dataclasses import replace

import jax
import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import gossamer as gs
from gossamer.aggregators import clipped, median, trimmed_mean
from gossamer.aggregators.trimmed import ascending, comparisons
from gossamer.engines.agents import StackedAgents, World
from gossamer.engines.costs import trace
from gossamer.engines.mixing import with_tables
from gossamer.networks.mixers import Neighbours
from tests import further_reference as reference
from tests import plain
from tests.table import table

N, D = 8, 5
SOME = (clipped(0.5), clipped(), trimmed_mean(1), median())
numbers = hnp.arrays(np.float64, (N, D), elements=st.floats(-10, 10, width=32))


@st.composite
def graphs(draw):
    """Connected graphs of eight agents: a tree and some links more."""
    order = draw(st.permutations(range(N)))
    tree = [(order[k], order[draw(st.integers(0, k - 1))]) for k in range(1, N)]
    pairs = [(i, j) for i in range(N) for j in range(i)]
    return gs.networks.from_graph(nx.Graph(tree + draw(st.lists(st.sampled_from(pairs), max_size=12))))


@jax.jit
def _combined(by, world, t, x):
    return StackedAgents(world, gs.oracles.exact(), jax.numpy.zeros(N), t, None).gossip_robust(x, by=by)


def combined(by, x, network, t=0):
    """What the simulator's agents make of their rows."""
    problem = gs.problems.quadratic(np.eye(D), np.zeros((N, D)))
    tables = with_tables(gs.RobustDSGD(eta=0.1, lam=1, aggregator=by), network)
    if isinstance(tables.mixer, Neighbours):  # of one width, so that one program serves all graphs
        wide = Neighbours(np.tile(np.arange(N, dtype=np.int32), (N, 1)), network.mixing)
        tables = gs.networks.Network("any", N, wide)
    with jax.enable_x64(True):
        return np.asarray(_combined(by, World(problem, tables), np.int32(t), jax.numpy.asarray(x)))


@given(graphs(), numbers)
@settings(max_examples=15, deadline=None)
def test_clipping_nothing_is_gossip(network, x):
    np.testing.assert_allclose(combined(clipped(float("inf")), x, network), network.mixing @ x, rtol=0, atol=1e-12)


@given(graphs(), numbers, st.sampled_from((clipped(0.5), clipped(), median())))
@settings(max_examples=15, deadline=None)
def test_agrees_with_a_plain_loop(network, x, by):
    np.testing.assert_allclose(combined(by, x, network), reference.combined(x, network.mixing, by), rtol=0, atol=1e-12)


@given(numbers, st.permutations(range(N)), st.sampled_from(SOME))
@settings(max_examples=15, deadline=None)
def test_agents_that_change_places_change_their_results(x, order, by):
    network = gs.networks.from_graph(nx.circulant_graph(N, [1, 2]))
    moved = gs.networks.from_matrix(network.mixing[np.ix_(order, order)])
    np.testing.assert_allclose(combined(by, x[order], moved), combined(by, x, network)[order], rtol=0, atol=1e-12)


@given(
    numbers,
    st.integers(0, N - 1),
    st.sampled_from((trimmed_mean(1), median())),
    st.sampled_from((1e9, -np.inf, np.nan)),
)
@settings(max_examples=20, deadline=None)
def test_one_attacker_moves_no_coordinate_beyond_those_of_honest_agents(x, attacker, by, lie):
    network = gs.networks.ring(N)
    honest, x = x.copy(), x.copy()
    x[attacker] = lie
    found = combined(by, x, network)
    for agent in set(range(N)) - {attacker}:
        heard = [honest[j] for j in (agent - 1, agent, (agent + 1) % N) if j % N != attacker]
        assert (found[agent] >= np.min(heard, axis=0) - 1e-12).all()
        assert (found[agent] <= np.max(heard, axis=0) + 1e-12).all()


@given(numbers, st.sampled_from((1e9, np.inf, np.nan)))
@settings(max_examples=10, deadline=None)
def test_a_clipped_message_moves_an_agent_no_further_than_its_weight_times_the_radius(x, lie):
    network, lies = gs.networks.ring(N), x.copy()
    lies[0] = lie
    without = network.mixing.copy()
    without[1, 0] = 0
    quiet = reference.combined(x, without, clipped(0.5))[1]
    assert np.linalg.norm(combined(clipped(0.5), lies, network)[1] - quiet) <= network.mixing[1, 0] * 0.5 + 1e-9


def test_trimming_nothing_with_uniform_weights_is_gossip():
    x, network = np.random.default_rng(0).normal(size=(N, D)), gs.networks.ring(N)
    np.testing.assert_allclose(combined(trimmed_mean(0), x, network), network.mixing @ x, rtol=0, atol=1e-12)


def test_own_message_counts_where_it_has_no_weight():
    swap = gs.networks.sequence([np.eye(N)[np.arange(N) ^ 1], gs.networks.ring(N)])
    x = np.arange(float(N))[:, None] * np.ones(D)
    np.testing.assert_allclose(combined(trimmed_mean(0), x, swap)[0], np.full(D, 0.5))


@pytest.mark.parametrize("t", [0, 1, 2, 3])
def test_networks_that_change_by_a_timetable(t):
    network = gs.networks.every(gs.networks.sequence([gs.networks.ring(N), plain.irregular()]), 2)
    x, by = np.random.default_rng(1).normal(size=(N, D)), clipped(0.5)
    expected = reference.combined(x, network.matrix(t).toarray(), by)
    np.testing.assert_allclose(combined(by, x, network, t), expected, rtol=0, atol=1e-12)
    assert np.array_equal(expected, x) == (t % 2 == 1)


@pytest.mark.parametrize("by", [clipped(), trimmed_mean(1)], ids=str)
def test_a_whole_run_agrees_with_a_plain_loop(by):
    problem, E = plain.heterogeneous()
    rule, network = gs.RobustDSGD(eta=0.05, lam=0.3, aggregator=by), gs.networks.ring(N)
    oracle = gs.oracles.exact() | gs.oracles.additive_bias(vectors=E)
    result = gs.simulate(rule, problem, network, oracle, steps=30, dtype="float64", start=np.ones(5))
    expected = reference.robust_dsgd(np.ones((8, 5)), network.mixing, plain.gradient_of(problem, E), 30, 0.05, 0.3, by)
    np.testing.assert_allclose(result.iterates["robust-dsgd"][0], expected, rtol=1e-12, atol=1e-12)


def test_costs_what_gossip_costs():
    problem, _ = plain.heterogeneous()
    rules = gs.RobustDSGD(eta=0.05, lam=0.3, aggregator=median()), gs.DPSGDATC(eta=0.05)
    network, oracle = gs.networks.ring(N), gs.oracles.exact()
    robust, gossip = (trace(rule, problem, network, oracle, "float32").each_round for rule in rules)
    assert set(robust.order) == set(gossip.order)
    assert replace(robust, order=gossip.order) == gossip


def simulated(by, network):
    problem, _ = plain.heterogeneous()
    gs.simulate(gs.RobustDSGD(eta=0.1, lam=1, aggregator=by), problem, network, steps=1)


@table(
    ("make", "told"),
    [
        (lambda: clipped(0), r"clipped\(radius=…\) must be a number in \(0, ∞\), but is 0"),
        (lambda: clipped("1"), "clipped"),
        (lambda: trimmed_mean(-1), r"trimmed_mean\(trim=…\) must be a whole number of at least 0"),
        (lambda: gs.RobustDSGD(eta=0.1, lam=1, aggregator=median), "made by gossamer.aggregators, such as aggregators"),
        (lambda: gs.RobustDSGD(eta=0.1, lam=1, aggregator=gs.compressors.identity()), "made by gossamer.aggregators"),
        (lambda: simulated(trimmed_mean(2), gs.networks.ring(8)), "needs 5 messages, .* agent 0 has 3. Trim less"),
        (lambda: simulated(median(), gs.networks.random_matching(8)), "are drawn. Use a static network or a periodic"),
        (lambda: simulated(median(), gs.networks.directed_ring(8)), "needs doubly stochastic weights"),
    ],
)
def test_refuses(make, told):
    with pytest.raises(gs.InputError, match=told):
        make()


def test_a_table_too_wide_for_memory_is_refused(monkeypatch):
    star = gs.networks.star(8)
    monkeypatch.setattr("gossamer.basics.sizes.free_memory", lambda: 100.0)
    with pytest.raises(gs.InputError, match="the neighbours of 8 agents, of whom one has 7, needs about 768 bytes"):
        with_tables(gs.RobustDSGD(eta=0.1, lam=1, aggregator=median()), star)


@pytest.mark.parametrize("count", [1, 2, 3, 7, 9, 16, 32])
def test_comparing_pairs_puts_numbers_in_order(count):
    """A list of comparisons that orders all sequences of zeros and ones orders all; here, a thousand of them."""
    rows = np.random.default_rng(count).integers(0, 2, size=(count, 1000))
    ordered = list(rows)
    for i, j in comparisons(count):
        ordered[i], ordered[j] = np.minimum(ordered[i], ordered[j]), np.maximum(ordered[i], ordered[j])
    np.testing.assert_array_equal(ordered, np.sort(rows, axis=0))
    with jax.enable_x64(True):
        np.testing.assert_array_equal(ascending(jax.numpy.asarray(rows, float)), np.sort(rows, axis=0))


def test_names_are_the_calls_that_make_them():
    assert [str(by) for by in SOME] == ["clipped(radius=0.5)", "clipped()", "trimmed_mean(trim=1)", "median()"]
