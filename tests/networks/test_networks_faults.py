"""Failing networks: how often, at both ends alike, and what survives the mending."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gossamer import networks
from gossamer.core import InputError
from gossamer.engines.mixing import awake_mask, mix
from tests.table import table

RING = networks.ring(10)
STAR = networks.star(100)
DIRECTED = networks.directed(nx.DiGraph([*((i, (i + 1) % 10) for i in range(10)), (0, 5), (7, 3)]))
ASYMMETRIC = networks.exponential(10)
BASES = {
    "ring": RING,
    "hubs": STAR,
    "redrawn": networks.redrawn(10, 0.4),
    "directed": DIRECTED,
    "asymmetric": ASYMMETRIC,
}
RATES = st.floats(0, 0.99)


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(sorted(BASES)), RATES, RATES.filter(bool), st.integers(0, 2**32 - 1), st.integers(0, 10_000))
def test_every_round_is_mended(name, links, agents, seed, t):
    network = networks.failing(BASES[name], links, agents, seed)
    if network.stochastic == "doubly":
        W = network.matrix(t)
        networks.check_doubly_stochastic(W, tolerance=1e-12)
        assert abs(W - W.T).max() == 0
    R, C = network.matrix(t, "R"), network.matrix(t, "C")
    np.testing.assert_allclose(R.sum(axis=1), 1, atol=1e-12)
    np.testing.assert_allclose(C.sum(axis=0), 1, atol=1e-12)
    np.testing.assert_array_equal(R.toarray() > 0, C.toarray() > 0)
    asleep = ~np.asarray(network.awake(t))
    apart = R.toarray() * ~np.eye(network.agents, dtype=bool)
    assert not apart[asleep].any()
    assert not apart[:, asleep].any()


@pytest.mark.parametrize("base", [DIRECTED, ASYMMETRIC], ids=["directed", "asymmetric"])
def test_both_directions_fail_together_and_weights_go_back(base):
    network = networks.failing(base, 0.4, seed=1)
    R0, C0 = (base.matrix(0, over).toarray() for over in "RC")
    for t in range(10):
        R, C = (network.matrix(t, over).toarray() for over in "RC")
        lost = (R0 > 0) & (R == 0)
        both = (R0 > 0) & (R0 > 0).T
        np.testing.assert_array_equal((lost & both).T, lost & both)
        off = ~np.eye(10, dtype=bool)
        np.testing.assert_allclose(R.diagonal() - R0.diagonal(), (R0 * lost).sum(axis=1), atol=1e-15)
        np.testing.assert_allclose(C.diagonal() - C0.diagonal(), (C0 * lost).sum(axis=0), atol=1e-15)
        np.testing.assert_array_equal(R[off & ~lost], R0[off & ~lost])
        np.testing.assert_array_equal(C[off & ~lost], C0[off & ~lost])


def test_every_form_of_the_same_matrix_draws_the_same_failures():
    complete = networks.complete(10)
    slightly = np.full((10, 10), 0.1)
    slightly[:2, :2] += [[0.01, -0.01], [-0.01, 0.01]]
    forms = [RING, complete, networks.star(10), networks.from_matrix(slightly)]
    assert len({form.kind for form in forms}) > 2
    patterns = [networks.failing(form, 0.5, seed=9).matrix(3).toarray() > 0 for form in forms]
    for form, pattern in zip(forms, patterns, strict=True):
        np.testing.assert_array_equal(pattern, patterns[1] & (form.matrix().toarray() > 0))


def test_links_fail_as_often_as_said():
    rounds, links = 400, 0.3
    mixer: Any = networks.failing(networks.ring(50), links, seed=2).mixer
    weights = jax.jit(jax.vmap(lambda t: mixer.at(t, "W", jnp).weights[:, :3]))(jnp.arange(rounds))
    up = np.asarray(weights > 0).sum(axis=2) - 1  # of two links, each seen from both ends
    # 20,000 links that are independent: five standard deviations err with a chance of 6e-7.
    assert up.mean() / 2 == pytest.approx(1 - links, abs=5 * math.sqrt(links * (1 - links) / (50 * rounds)))


def test_agents_sleep_as_often_as_said_and_links_with_them():
    rounds, asleep = 400, 0.2
    network = networks.failing(networks.ring(50), 0.1, asleep, seed=2)
    awake = np.asarray(jax.jit(jax.vmap(lambda t: awake_mask(network, t)))(jnp.arange(rounds)))
    # 20,000 independent draws, as above.
    assert awake.mean() == pytest.approx(network.activity, abs=5 * math.sqrt(asleep * (1 - asleep) / awake.size))
    assert network.activity == pytest.approx(0.8)
    assert network.traffic == pytest.approx(2 * 0.9 * 0.8**2)
    assert networks.failing(RING, 0.1).awake(0) is None
    # No memory: being awake in a round says nothing about the next one.
    assert abs(np.corrcoef(awake[:-1].ravel(), awake[1:].ravel())[0, 1]) < 5 / math.sqrt(awake[1:].size)


def test_faults_of_faults_are_independent():
    twice = networks.failing(networks.failing(networks.complete(60), 0.5, seed=1), 0.5, seed=1)
    up = (twice.matrix(0).toarray() > 0)[np.triu_indices(60, 1)]
    # 1,770 links that are up with chance ¼: five standard deviations err with a chance of 6e-7.
    assert up.mean() == pytest.approx(0.25, abs=5 * math.sqrt(0.1875 / up.size))


def test_failures_follow_the_seed_and_the_round():
    one, same, other = (networks.failing(RING, 0.5, seed=seed) for seed in (1, 1, 2))
    assert abs(one.matrix(3) - same.matrix(3)).max() == 0
    assert abs(one.matrix(3) - other.matrix(3)).max() > 0
    assert abs(one.matrix(3) - one.matrix(4)).max() > 0


def test_local_steps_and_faults_commute():
    before, after = networks.every(networks.failing(RING, 0.4), 2), networks.failing(networks.every(RING, 2), 0.4)
    for t in range(6):
        assert abs(before.matrix(t) - after.matrix(t)).max() == 0


def test_no_faults_is_the_network_itself():
    assert networks.failing(RING) is RING
    assert networks.every(RING, 1) is RING


@pytest.mark.parametrize(
    "network",
    [
        networks.failing(RING, 0.4, 0.3),
        networks.failing(DIRECTED, 0.4, 0.3),
        networks.failing(networks.random_matching(10), 0.4),
        networks.failing(networks.one_peer_exponential(10), 0.4),
    ],
    ids=lambda network: network.name,
)
def test_a_common_value_is_kept(network):
    over = "W" if network.stochastic == "doubly" else "R"
    with jax.enable_x64(True):
        x = np.full(10, math.pi)
        y = jax.jit(lambda network, x: jax.lax.fori_loop(0, 50, lambda t, x: mix(network, x, t, over), x))(network, x)
    np.testing.assert_allclose(y, x, rtol=1e-14)


@pytest.mark.parametrize(
    "network",
    [
        networks.failing(DIRECTED, 0.3, 0.2),
        networks.failing(networks.one_peer_exponential(10), 0.3),
        networks.every(networks.failing(networks.directed_ring(10), 0.3), 2),
        networks.sequence([DIRECTED, networks.failing(ASYMMETRIC, 0.5)]),
    ],
    ids=lambda network: network.name,
)
def test_push_sum_finds_the_mean_despite_failures(network):
    x = np.random.default_rng(0).standard_normal(10)

    def push(network, both):
        return jax.lax.fori_loop(0, 2_000, lambda t, both: mix(network, both, t, "C"), both)

    with jax.enable_x64(True):
        y, w = np.asarray(jax.jit(push)(network, np.stack([x, np.ones(10)], axis=1))).T
    np.testing.assert_allclose(y / w, x.mean(), atol=1e-12)
    assert w.sum() == pytest.approx(10, abs=1e-11)


def test_large_failing_networks_stay_sparse():
    for base in (networks.ring(10_000), networks.star(10_000)):
        network = networks.failing(base, 0.1, 0.1)
        assert sum(leaf.nbytes for leaf in jax.tree.leaves(network)) < 3e6
        x = np.random.default_rng(0).standard_normal((10_000, 2))
        with jax.enable_x64(True):
            compiled = jax.jit(lambda network, x: mix(network, x, 5)).lower(network, x).compile()
            mixed = compiled(network, x)
        assert compiled.memory_analysis().temp_size_in_bytes < 50e6  # a dense matrix takes 800e6
        np.testing.assert_allclose(mixed, network.matrix(5) @ x, atol=1e-12)


@table(
    ("values", "message"),
    [
        ({"links": 1.0}, r"failing\(links\) must be a number in \[0, 1\), but is 1.0. It is the chance of a failure"),
        ({"agents": -0.5}, r"failing\(agents\) must be a number in \[0, 1\), but is -0.5"),
        ({"links": "often"}, r"failing\(links\) must be a number in \[0, 1\), but is 'often'"),
        ({"links": 0.1, "seed": 2**32}, r"failing\(seed\) must be .* of at most 4,294,967,295, but is 4294967296"),
        ({"links": 0.1, "seed": 1.5}, r"failing\(seed\) must be a whole number of at least 0, but is 1.5"),
    ],
)
def test_senseless_faults(values, message):
    with pytest.raises(InputError, match=message):
        networks.failing(RING, **values)


def test_what_else_is_refused():
    with pytest.raises(InputError, match=r"failing\(network\) must be a network, but is ndarray"):
        networks.failing(RING.mixing, 0.1)
    with pytest.raises(InputError, match="would draw 12,502,500 links each round; up to 5,000 agents can"):
        networks.failing(networks.complete(5_001), 0.1)
    network = networks.failing(ASYMMETRIC, 0.1)
    with pytest.raises(InputError, match="has no doubly stochastic W, only a row-stochastic R"):
        jax.jit(mix)(network, np.ones(10))
    assert network.gap is None
