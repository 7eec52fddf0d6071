"""Links that fail in bursts: the law of the states, the losses that follow from it, and what survives the mending.

Statistical tests allow five standard deviations of what the law says, which errs with a chance of 6e-7 each; seeds are
fixed, so that a test that passes once passes always.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gossamer import networks
from gossamer.core import InputError
from gossamer.engines.mixing import mix
from tests.table import table

LINKS, ROUNDS = 200, 2_000
LAWS = [(0.05, 0.2), (0.3, 0.1), (0.9, 0.8), (0.5, 0.5), (0.002, 0.01)]
"""Chances to turn bad and good; the third law has a negative autocorrelation, the fourth none."""


def states(p, q, first=0, rounds=ROUNDS, seed=1):
    """Return whether each link of a ring is bad, [rounds, links]."""
    mixer: Any = networks.gilbert_elliott(networks.ring(LINKS), p, q, seed=seed).mixer
    agents = jnp.arange(LINKS)
    draw = jax.jit(jax.vmap(lambda t: mixer.bad(t, jnp, agents, (agents + 1) % LINKS)))
    return np.asarray(draw(jnp.arange(first, first + rounds)))


def chance(found, count, expected):
    """Assert that so many of `count` independent trials have this chance."""
    assert found / count == pytest.approx(expected, abs=5 * math.sqrt(expected * (1 - expected) / count))


@pytest.mark.parametrize(("p", "q"), LAWS)
@pytest.mark.parametrize("first", [0, 2**30 - 1_000])
def test_states_are_the_two_state_chain_in_any_stretch_of_rounds(p, q, first):
    bad = states(p, q, first)
    lam, stationary = 1 - p - q, p / (p + q)
    # a mean over a chain has the variance of independent draws, times (1 + λ) / (1 − λ)
    spread = math.sqrt(stationary * (1 - stationary) * (1 + lam) / (1 - lam) / bad.size)
    assert bad.mean() == pytest.approx(stationary, abs=5 * spread)
    now, then = bad[:-1], bad[1:]
    chance((then & ~now).sum(), (~now).sum(), p)
    chance((~then & now).sum(), now.sum(), q)
    # the mean length of a burst: rounds that are bad for each way out
    assert now.sum() / (~then & now).sum() == pytest.approx(1 / q, rel=5 * math.sqrt((1 - q) / (q * now.sum())))


@pytest.mark.parametrize(("p", "q"), LAWS[:3])
def test_the_past_says_nothing_more_than_the_last_round_also_where_blocks_of_draws_meet(p, q):
    bad = states(p, q)
    long = bad[:-2] & bad[1:-1]
    chance((~bad[2:] & long).sum(), long.sum(), q)
    mixer: Any = networks.gilbert_elliott(networks.ring(4), p, q).mixer
    block = 2 ** len(mixer.bridges)
    ends = np.arange(block, ROUNDS, block)
    assert len(ends) > 5
    before, after = bad[ends - 1], bad[ends]
    chance((after & ~before).sum(), (~before).sum(), p)
    chance((~after & before).sum(), before.sum(), q)


@pytest.mark.parametrize(("p", "q"), LAWS[:4])
def test_the_autocorrelation_after_k_rounds_is_that_of_the_chain(p, q):
    bad, lam, stationary = states(p, q), 1 - p - q, p / (p + q)
    centred = (bad - stationary) / math.sqrt(stationary * (1 - stationary))
    for k in (1, 2, 5, 10, 40):
        products = (centred[:-k] * centred[k:]).mean(axis=0)  # of each link, which are independent
        assert products.mean() == pytest.approx(lam**k, abs=5 * products.std(ddof=1) / math.sqrt(LINKS))


def test_links_are_independent_and_seeds_differ():
    bad = states(0.05, 0.2).astype(float)
    correlation = np.corrcoef(bad, rowvar=False)[np.triu_indices(LINKS, 1)]
    assert correlation.mean() == pytest.approx(0, abs=5 * correlation.std() / math.sqrt(LINKS))
    assert not np.array_equal(bad, states(0.05, 0.2, seed=2))


def test_losses_are_those_of_the_state_and_the_cost_is_what_arrives():
    p, q, good, worse = 0.05, 0.2, 0.1, 0.7
    network = networks.gilbert_elliott(networks.ring(LINKS), p, q, good, worse, seed=1)
    mixer: Any = network.mixer
    agents = jnp.arange(LINKS)
    draw = jax.jit(jax.vmap(lambda t: mixer.up(t, jnp, agents, (agents + 1) % LINKS)))
    down, bad = ~np.asarray(draw(jnp.arange(ROUNDS))), states(p, q)
    chance((down & bad).sum(), bad.sum(), worse)
    chance((down & ~bad).sum(), (~bad).sum(), good)
    loss = (q * good + p * worse) / (p + q)
    assert mixer.rates == (pytest.approx(loss), 0)
    assert network.traffic == pytest.approx(2 * (1 - loss))
    matrices = [network.matrix(t) for t in range(3)]
    assert [W.nnz for W in matrices] == [LINKS + 2 * (LINKS - down[t].sum()) for t in range(3)]


@settings(max_examples=30, deadline=None)
@given(
    st.sampled_from(["ring", "star", "complete", "random-matching", "one-peer-exponential"]),
    st.floats(1e-4, 0.9),
    st.floats(1e-4, 0.9),
    st.floats(0, 0.5),
    st.integers(0, 2**31 - 1),
)
def test_every_round_is_mended_and_a_round_asked_for_alone_is_the_same(name, p, q, good, t):
    network = networks.make(name, 8, gilbert_elliott={"to_bad": p, "to_good": q, "loss_good": good})
    again = networks.make(name, 8, gilbert_elliott={"to_bad": p, "to_good": q, "loss_good": good})
    for over in ("W",) if network.stochastic == "doubly" else ("R", "C"):
        matrix = network.matrix(t, over)
        if over == "W":
            networks.check_doubly_stochastic(matrix, tolerance=1e-12)
            assert abs(matrix - matrix.T).max() == 0
        np.testing.assert_allclose(matrix.sum(axis=0 if over == "C" else 1), 1, atol=1e-12)
        assert abs(matrix - again.matrix(t, over)).max() == 0


def test_the_host_and_a_compiled_program_in_both_precisions_see_the_same_links():
    network = networks.gilbert_elliott(networks.star(40), 0.3, 0.4, 0.2, 0.8, seed=5)
    for x64 in (False, True):
        with jax.enable_x64(x64):
            compiled = jax.jit(lambda t: mix(network, jnp.eye(40), t))
            for t in (0, 1, 7, 12_345, 2**31 - 1):
                np.testing.assert_allclose(compiled(t), network.matrix(t).toarray(), atol=1e-7)


def test_bursts_of_bursts_are_independent():
    once = networks.gilbert_elliott(networks.complete(60), 0.5, 0.5, seed=1)
    twice = networks.gilbert_elliott(once, 0.5, 0.5, seed=1)
    up = (twice.matrix(0).toarray() > 0)[np.triu_indices(60, 1)]
    chance(up.sum(), up.size, 0.25)


def test_without_memory_it_is_failing_in_all_that_is_known_of_it():
    """At to_bad + to_good = 1 states are independent, and a link is down with chance to_bad."""
    bursts, plain = networks.gilbert_elliott(networks.ring(8), 0.3, 0.7), networks.failing(networks.ring(8), 0.3)
    assert bursts.gap == pytest.approx(plain.gap, rel=1e-12)
    assert bursts.traffic == pytest.approx(plain.traffic)
    assert bursts.activity == 1
    assert bursts.awake(0) is None


def test_a_burst_slows_gossip_more_than_as_many_single_losses():
    """The same share of losses, in bursts of 50 rounds or one by one: the gap is that of one round, and the same."""
    single = networks.gilbert_elliott(networks.ring(10), 0.5, 0.5)
    bursts = networks.gilbert_elliott(networks.ring(10), 0.02, 0.02)
    assert bursts.gap == pytest.approx(single.gap, rel=1e-12)
    left = [
        [network(seed).disagreement(60, seed=seed)[-1] for seed in range(20)]
        for network in (
            lambda seed: networks.gilbert_elliott(networks.ring(10), 0.5, 0.5, seed=seed),
            lambda seed: networks.gilbert_elliott(networks.ring(10), 0.02, 0.02, seed=seed),
        )
    ]
    assert np.median(left[1]) > 3 * np.median(left[0])


def test_local_steps_and_bursts_commute_and_names_say_all():
    before = networks.every(networks.gilbert_elliott(networks.ring(8), 0.1, 0.2), 2)
    after = networks.gilbert_elliott(networks.every(networks.ring(8), 2), 0.1, 0.2)
    for t in range(6):
        assert abs(before.matrix(t) - after.matrix(t)).max() == 0
    spec = {"to_bad": 0.1, "to_good": 0.2, "loss_good": 0.01, "loss_bad": 0.5, "seed": 4}
    made = networks.make("ring", 8, gilbert_elliott=spec)
    assert made.name == "gilbert_elliott(ring(8), to_bad=0.1, to_good=0.2, loss_good=0.01, loss_bad=0.5, seed=4)"


@table(
    ("values", "message"),
    [
        ({"to_bad": 0.0, "to_good": 0.1}, r"gilbert_elliott\(to_bad\) must be a number in \[1e-06, 1\], but is 0.0"),
        ({"to_bad": 0.1, "to_good": 1.5}, r"gilbert_elliott\(to_good\) must be a number in"),
        ({"to_bad": 0.1, "to_good": "soon"}, r"gilbert_elliott\(to_good\) must be a number in .* is 'soon'"),
        ({"to_bad": 0.1, "to_good": 0.1, "loss_bad": 1.1}, r"gilbert_elliott\(loss_bad\) must be a number in \[0, 1\]"),
        ({"to_bad": 0.1, "to_good": 0.1, "loss_good": 0.9, "loss_bad": 0.2}, "0.9 is above loss_bad = 0.2.*Swap them"),
        ({"to_bad": 0.1, "to_good": 0.1, "loss_good": 1.0}, "lets nobody ever meet"),
        ({"to_bad": 1.0, "to_good": 1.0}, "change its state in every round"),
        ({"to_bad": 0.1, "to_good": 0.1, "seed": -1}, r"gilbert_elliott\(seed\) must be a whole number"),
    ],
)
def test_senseless_bursts(values, message):
    with pytest.raises(InputError, match=message):
        networks.gilbert_elliott(networks.ring(8), **values)


@table(
    ("given", "message"),
    [
        (0.1, "ring: gilbert_elliott must be a table of to_bad, to_good, loss_good, loss_bad, seed, but is 0.1"),
        ({"to_bad": 0.1}, "ring: gilbert_elliott needs the option 'to_good', which is missing"),
        ({"to_bad": 0.1, "to_god": 0.2}, "gilbert_elliott has no option 'to_god'; did you mean 'to_good'"),
        ({"to_bad": 0.1, "to_good": 0.2, "network": 1}, "gilbert_elliott has no option 'network'"),
    ],
)
def test_senseless_tables(given, message):
    with pytest.raises(InputError, match=message):
        networks.make("ring", 8, gilbert_elliott=given)


def test_what_else_is_refused():
    with pytest.raises(InputError, match=r"gilbert_elliott\(network\) must be a network, but is str"):
        networks.gilbert_elliott("ring", 0.1, 0.1)  # pyright: ignore[reportArgumentType]
    with pytest.raises(InputError, match=r"let networks\.attacked stand around all the others"):
        networks.gilbert_elliott(networks.attacked(networks.ring(8), agents=[0]), 0.1, 0.1)
    with pytest.raises(InputError, match="Use a static undirected network"):
        networks.asynchronous(networks.gilbert_elliott(networks.ring(8), 0.1, 0.1))


def test_the_gap_of_long_bursts_on_drawn_rounds_is_that_of_independent_failures():
    drawn = networks.redrawn(8, 0.5)
    same = networks.failing(drawn, 0.5).gap
    for seed in range(3):
        assert networks.gilbert_elliott(drawn, 1e-3, 1e-3, seed=seed).gap == pytest.approx(same, abs=0.025)
