"""The exact gradient and mini-batches: who draws which rows."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

import gossamer as gs
from gossamer.data import from_arrays
from gossamer.engines.agents import StackedAgents, World, each
from gossamer.oracles import exact, minibatch
from gossamer.oracles.sampling import below
from gossamer.problems import logistic
from gossamer.problems.problem import cast
from tests import plain
from tests.oracles.sites import DIM, POINTS, PROBLEM, SIZES, ask, at, key
from tests.table import table


@jax.jit
def _rows(oracle, site, keys):
    def draw(state, key):
        rows, state = oracle.draw(site._replace(key=key), state)
        return state, rows

    return jax.lax.scan(draw, oracle.init(site), keys)[1]


def rows(oracle, agent, queries, seed=0):
    """The rows that an agent draws in so many queries, [queries, batch]."""
    return np.asarray(_rows(oracle, at(agent, dtype=np.float32), jax.random.split(key(seed, agent), queries)))


def epochs(batch, agent, queries, seed=0):
    """The epochs that an agent goes through in so many queries, [epochs, size]."""
    dealt, size = rows(minibatch(batch, replace=False), agent, queries, seed).ravel(), SIZES[agent]
    return dealt[: len(dealt) // size * size].reshape(-1, size)


@pytest.mark.parametrize("agent", range(3))
def test_exact_is_the_gradient_of_the_agent(agent):
    with jax.enable_x64(True):
        (first, second), state = ask(exact(), at(agent), POINTS[0], POINTS[1])
    np.testing.assert_allclose(first, PROBLEM.gradients(POINTS[0])[agent], rtol=1e-13)
    np.testing.assert_allclose(second, PROBLEM.gradients(POINTS[1])[agent], rtol=1e-13)
    assert state == ()


# Integers below a bound.


@given(st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=8), st.integers(1, 2**31 - 1))
@example([0, 2**32 - 1], 1)
@example([0, 2**32 - 1, 2**31], 2**31 - 1)
@example([0xFFFF, 0x10000, 0xFFFFFFFF], 0xFFFF)
@example([0xFFFF, 0x10000, 0xFFFFFFFF], 0x10000)
@settings(max_examples=200, deadline=None)
def test_below_is_the_high_word_of_the_product(bits, size):
    padded = (bits * 8)[:8]  # one shape, one compilation
    drawn = jax.jit(below)(jnp.asarray(np.array(padded, np.uint32)), jnp.int32(size))
    assert drawn.tolist() == [b * size // 2**32 for b in padded]


def test_below_is_the_same_with_64_bits():
    bits = np.random.default_rng(0).integers(2**32, size=1000, dtype=np.uint32)
    narrow = jax.jit(below)(jnp.asarray(bits), jnp.int32(1_000_003))
    with jax.enable_x64(True):
        np.testing.assert_array_equal(jax.jit(below)(jnp.asarray(bits), jnp.int32(1_000_003)), narrow)


# With replacement.


@pytest.mark.parametrize("agent", range(3))
def test_rows_are_uniform_with_replacement(agent):
    """Chi-square over 20,000 draws: a right sampler fails for 1 in 10⁵ seeds."""
    drawn = rows(minibatch(10), agent, 2000)
    assert chisquare(np.bincount(drawn.ravel(), minlength=SIZES[agent])).pvalue > 1e-5
    assert drawn.max() == SIZES[agent] - 1  # and none beyond the agent's own


def test_pairs_in_a_batch_are_independent():
    """Chi-square over the 25 pairs of a row and the next, 10,000 of them: a right sampler fails for 1 in 10⁵ seeds."""
    drawn = rows(minibatch(10), 0, 2000).reshape(-1, 2)
    assert chisquare(np.bincount(drawn @ [5, 1], minlength=25)).pvalue > 1e-5


def test_batches_are_unbiased_with_the_variance_of_a_batch():
    """Over 4,000 batches each coordinate's mean is within 5 deviations but for a chance of 3e-6 in all.

    The deviation of a sample variance is about 2.5 % there, and 15 % are asked for.
    """
    agent, batch, queries = 1, 3, 4000
    A, y = PROBLEM.own_inputs(agent), PROBLEM.own_targets(agent)
    each = -y[:, None] * A / (1 + np.exp(y * (A @ POINTS[0])))[:, None]
    with jax.enable_x64(True):
        site, oracle = at(agent), minibatch(batch)
        keys = jax.random.split(key(5), queries)
        x = jnp.asarray(POINTS[0])
        gradients = jax.jit(jax.vmap(lambda k: oracle.query(site._replace(key=k), (), (x,))[0][0]))(keys)
    away = np.asarray(gradients) - PROBLEM.gradients(POINTS[0])[agent]
    deviation = np.sqrt(each.var(0) / batch)
    assert (np.abs(away.mean(0)) < 5 * deviation / np.sqrt(queries)).all()
    np.testing.assert_allclose(away.var(0), deviation**2, rtol=0.15)


def test_other_keys_draw_other_rows():
    first = rows(minibatch(10), 1, 2000)
    np.testing.assert_array_equal(first, rows(minibatch(10), 1, 2000))
    assert (first != rows(minibatch(10), 1, 2000, seed=1)).any()
    assert len({tuple(batch) for batch in first}) == 2000  # two of 12¹⁰ alike: 1 in 30,000 seeds


def test_agents_with_the_same_samples_draw_different_rows():
    """At one point their gradients differ only if their rows do."""
    same = from_arrays(np.tile(np.eye(8), (3, 1)), [-1, 1] * 12, holders=np.repeat([0, 1, 2], 8))
    problem = logistic(same, split="column:who")
    world, oracle = cast(World(problem, gs.networks.complete(3)), np.float32), minibatch(4, replace=False)

    @jax.jit
    def gradients(world):
        memory = each(lambda agent: oracle.init(at(problem=world.problem, dtype=np.float32)), 3)
        keys = jax.random.split(key(0), 3)
        return StackedAgents(world, oracle, keys, jnp.int32(0), memory).gradient(jnp.ones((3, 8)))

    assert len({tuple(g) for g in np.asarray(gradients(world))}) == 3


# Without replacement.


@pytest.mark.parametrize("agent", range(3))
@pytest.mark.parametrize("batch", [3, 5])
def test_every_epoch_deals_each_row_once(agent, batch):
    """Batches of 3 and 5 end in the middle of epochs of 5, 12 and 7."""
    dealt = epochs(batch, agent, 60)
    assert len(dealt) >= 60 * batch // 12
    for epoch in dealt:
        assert sorted(epoch) == list(range(SIZES[agent]))


def test_order_differs_between_epochs_and_seeds():
    dealt = epochs(3, 1, 60)
    assert len({tuple(epoch) for epoch in dealt}) == len(dealt) == 15
    assert (dealt[0] != epochs(3, 1, 60, seed=1)[0]).any()


@pytest.mark.parametrize("place", [0, 1, 6])
def test_every_place_of_an_epoch_is_uniform(place):
    """Chi-square over 6,000 epochs of 7 rows: a right shuffle fails for 1 in 10⁵ seeds, at each place."""
    assert chisquare(np.bincount(epochs(7, 2, 6000)[:, place], minlength=7)).pvalue > 1e-5


def test_first_row_after_the_wrap_does_not_remember_the_last_epoch():
    """Chi-square over the 49 pairs (first of an epoch, first of the next), 3,000 of them: fails for 1 in 10⁵ seeds."""
    firsts = epochs(7, 2, 6000)[:, 0].reshape(3000, 2)
    assert chisquare(np.bincount(firsts @ [7, 1], minlength=49)).pvalue > 1e-5


def test_an_epoch_of_batches_averages_to_the_exact_gradient():
    with jax.enable_x64(True):
        oracle, total = minibatch(4, replace=False), 0
        state = oracle.init(at(1))
        for t in range(3):
            (g,), state = ask(oracle, at(1, seed=t), POINTS[0], state=state)
            total += g
    np.testing.assert_allclose(total / 3, PROBLEM.gradients(POINTS[0])[1], rtol=1e-12)


def test_bias_is_zero():
    with jax.enable_x64(True):
        for oracle in (exact(), minibatch(3), minibatch(3, replace=False)):
            np.testing.assert_array_equal(oracle.bias(at(), oracle.init(at())), np.zeros(DIM))


# Errors.


@table("batch", [0, -1, 2.0, 1.5, "3", None, True, float("nan")])
def test_refuses_batches(batch):
    with pytest.raises(gs.InputError, match=r"minibatch\(batch=…\) must be a whole number of at least 1, but is"):
        minibatch(batch)


def test_refuses_a_replace_that_is_not_true_or_false():
    with pytest.raises(gs.InputError, match=r"minibatch\(replace=…\) must be True or False, but is 'no'"):
        minibatch(3, replace="no")


def test_refuses_a_problem_without_samples():
    problem, _ = plain.heterogeneous()
    with pytest.raises(gs.InputError, match=r"minibatch\(4\) needs a problem made of samples, but Quadratic has none"):
        gs.simulate(gs.DPSGD(eta=0.1), problem, plain.irregular(), minibatch(4), steps=1)


def test_refuses_a_batch_larger_than_an_agent_only_without_replacement():
    with pytest.raises(gs.InputError, match=r"larger than all 5 samples of agent 0\. Take a batch of at most 5, or"):
        minibatch(6, replace=False).check(PROBLEM)
    minibatch(5, replace=False).check(PROBLEM)
    minibatch(6).check(PROBLEM)
