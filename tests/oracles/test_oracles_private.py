"""Private gradients: which rows are taken, how they are clipped, and how far the result is from the gradient."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse
from scipy.stats import binomtest, chisquare

import gossamer as gs
from gossamer.data import Dataset, from_arrays
from gossamer.oracles import completed, exact, local_training, measure, minibatch, private, top_k
from gossamer.problems.inputs import Bits, Rows
from gossamer.problems.problem import cast
from tests import plain
from tests.oracles.sites import DIM, POINTS, PROBLEM, SIZES, ask, at, key
from tests.table import table

BARE = completed(private(0.5, 0.0, 1.0))
"""Every row, clipped, and no noise."""


def singles(agent, x=POINTS[0]):
    """The gradients of an agent's rows, in NumPy, without the regulariser."""
    A, y = PROBLEM.own_inputs(agent), PROBLEM.own_targets(agent)
    return -y[:, None] * A / (1 + np.exp(y * (A @ x)))[:, None]


def clipped(g, most=0.5):
    return g * np.minimum(1, most / np.linalg.norm(g, axis=1))[:, None]


def pull(x=POINTS[0]):
    """The gradient of the regulariser."""
    return 0.01 * 2 * x / (1 + x**2) ** 2


@pytest.mark.parametrize("agent", range(3))
def test_it_is_the_mean_of_clipped_gradients_and_the_regulariser_as_it_is(agent):
    with jax.enable_x64(True):
        (g,), _ = ask(BARE, at(agent), POINTS[0])
    each = singles(agent)
    assert (np.linalg.norm(each, axis=1) > 0.5).any()
    assert (np.linalg.norm(each, axis=1) < 0.5).any()
    np.testing.assert_allclose(g, clipped(each).mean(0) + pull(), rtol=1e-12)


def test_what_no_gradient_exceeds_changes_nothing():
    with jax.enable_x64(True):
        (g,), _ = ask(completed(private(1e6, 0.0, 1.0)), at(1), POINTS[0])
    np.testing.assert_allclose(g, PROBLEM.gradients(POINTS[0])[1], rtol=1e-12)


@pytest.mark.parametrize("form", [Bits, Rows, np.ndarray])
def test_every_form_of_features_and_any_loss(form):
    """Against single gradients by JAX, one after the other."""
    rng = np.random.default_rng(1)
    if form is np.ndarray:
        data = from_arrays(rng.normal(size=(9, 3)), np.arange(9) % 3)
        problem = gs.problems.neural(data, 2, split="iid", hidden=[2])
    else:
        dense = (rng.random((9, 60)) < (0.5 if form is Bits else 0.05)) * (1 if form is Bits else 1.5)
        features = dense.astype(np.int8) if form is Bits else scipy.sparse.csr_array(dense)
        problem = gs.problems.logistic(Dataset("kinds", features, np.resize([-1, 1], 9)), 2, split="iid", alpha=0.0)
    assert isinstance(problem.inputs, form)
    with jax.enable_x64(True):
        x = jnp.asarray(rng.normal(size=problem.dim))
        (g,), _ = ask(completed(private(0.3, 0.0, 1.0)), at(1, problem=problem), x)
        held = cast(problem, np.float64)
        rows = range(int(problem.sizes[1]))
        each = np.array([held.batch_gradient(jnp.int32(1), jnp.array([row], jnp.int32), x) for row in rows])
    assert (np.linalg.norm(each, axis=1) > 0.3).any()
    np.testing.assert_allclose(g, clipped(each, 0.3).mean(0), rtol=1e-10, atol=1e-14)


# Which rows.


@jax.jit
def _taken(oracle, site, keys):
    return jax.vmap(lambda k: oracle._rows(site._replace(key=k), site.problem))(keys)


def taken(rate, agent=1, queries=4000, dtype=np.float32):
    """Which rows an agent takes, [queries, longest]."""
    keys = jax.random.split(key(0, agent), queries)
    return np.asarray(_taken(completed(private(1.0, 1.0, rate)), at(agent, dtype=dtype), keys))


@pytest.mark.parametrize("rate", [0.03, 0.5])
def test_each_row_is_taken_with_its_probability_and_independently(rate):
    """4,000 queries of 12 rows: each of the two tests fails for 1 in 10⁵ seeds."""
    rows = taken(rate)
    assert binomtest(int(rows.sum()), rows.size, rate).pvalue > 1e-5
    pairs = np.bincount(2 * rows[:, 0::2].ravel() + rows[:, 1::2].ravel(), minlength=4)
    expected = np.array([(1 - rate) ** 2, rate * (1 - rate), rate * (1 - rate), rate**2])
    assert chisquare(pairs, pairs.sum() * expected).pvalue > 1e-5


def test_no_row_of_another_agent_is_taken_and_at_rate_one_all_of_its_own():
    np.testing.assert_array_equal(taken(1.0, agent=0, queries=5), [[True] * SIZES[0] + [False] * 7] * 5)
    assert not taken(0.5, agent=0)[:, SIZES[0] :].any()


def test_the_rows_are_the_same_in_both_precisions():
    narrow = taken(0.3, queries=50)
    with jax.enable_x64(True):
        np.testing.assert_array_equal(taken(0.3, queries=50, dtype=np.float64), narrow)


# How far it is from the gradient.


def test_clipping_s_bias_and_the_variance_are_those_of_a_direct_average():
    """4,096 queries of 3 agents. Each interval of the bias holds but for 5 % in all, and each variance, with a relative
    deviation of about √(2/4096 · (1/d + excess)) < 3 %, is within 15 % but for 1 in 10⁵ seeds."""
    C, noise, rate = 0.5, 0.2, 0.4
    oracle = completed(private(C, noise, rate))
    found = measure(oracle, PROBLEM, POINTS[:1], queries=4096)
    cut = [clipped(singles(agent)) for agent in range(3)]
    bias = [((cut[i].mean(0) - singles(i).mean(0)) ** 2).sum() for i in range(3)]
    low, high = found._ends()
    assert (low[0] < bias).all()
    assert (bias < high[0]).all()
    assert (high[0] - low[0]).max() < 0.05
    m = np.array(SIZES)
    sampled = np.array([(cut[i] ** 2).sum() for i in range(3)]) * (1 - rate) / (rate * m**2)
    variance = DIM * (noise * C / (rate * m)) ** 2 + sampled
    np.testing.assert_allclose(found.noise[0], variance, rtol=0.15)
    stated = oracle.constants(PROBLEM)
    assert (stated.relative, stated.absolute) == (None, None)
    assert stated.variance == pytest.approx(DIM * (noise * C / (rate * 5)) ** 2 + (1 - rate) * C**2 / (rate * 5))
    assert variance.max() <= stated.variance


def test_without_noise_and_sampling_one_query_is_the_bias():
    found = measure(BARE, PROBLEM, POINTS[:1])
    assert found.queries == 1
    direct = [((clipped(singles(i)).mean(0) - singles(i).mean(0)) ** 2).sum() for i in range(3)]
    np.testing.assert_allclose(found.bias_sq[0], direct, rtol=1e-10)


def test_noise_has_its_size_and_is_drawn_apart_from_the_rows():
    """3,000 queries of 4 numbers: their deviation is within 5 % but for 1 in 10¹⁰ seeds."""
    with jax.enable_x64(True):
        keys = jax.random.split(key(3), 3000)
        oracle, site, x = completed(private(0.5, 2.0, 1.0)), at(1), jnp.asarray(POINTS[0])
        g = jax.jit(jax.vmap(lambda k: oracle.query(site._replace(key=k), (), (x,))[0][0]))(keys)
    away = (np.asarray(g) - clipped(singles(1)).mean(0) - pull()) * SIZES[1] / (2.0 * 0.5)
    assert away.std() == pytest.approx(1, rel=0.05)
    assert np.abs(np.corrcoef(away.T) - np.eye(DIM)).max() < 0.1
    words = jax.random.bits(exact().own_key(at(1, dtype=np.float32)), (4,))
    assert not np.isin(words, jax.random.bits(oracle.own_key(at(1, dtype=np.float32)), (64,))).any()


# What is refused.


@table(
    ("given", "message"),
    [
        ({"clip": 0.0}, r"private\(clip=…\) must be a number in \(0, "),
        ({"noise": -1.0}, r"private\(noise=…\) must be a number in \[0, .* the noise multiplier"),
        ({"rate": 0.0}, r"private\(rate=…\) must be a number in .* the probability with which each row is taken"),
        ({"rate": 1.5}, r"private\(rate=…\) must be"),
        ({"delta": 0.0}, r"private\(delta=…\) must be a number in \(0, 1\)"),
    ],
)
def test_refuses_numbers(given, message):
    with pytest.raises(gs.InputError, match=message):
        private(**{"clip": 1.0, "noise": 1.0, "rate": 0.1} | given)


@table("source", [minibatch(2), minibatch(2, replace=False), exact() | top_k(2), top_k(2)])
def test_refuses_to_stand_around_what_draws_or_changes(source):
    with pytest.raises(gs.InputError, match=r"private draws its own rows, .* Begin with oracles\.private"):
        source | private(1.0, 1.0, 0.1)


def test_stages_stand_behind_it_and_keep_what_it_promises():
    staged = private(1.0, 2.0, 0.1) | top_k(2) | local_training(3, 0.1)
    assert (exact() | staged).privacy == (1.0, 2.0, 0.1, 1e-5)
    assert (exact() | top_k(2)).privacy is None


def test_refuses_a_problem_without_samples_and_rules_that_ask_at_two_points():
    problem, _ = plain.heterogeneous()
    with pytest.raises(
        gs.InputError, match=r"private protects samples, but Quadratic has none\. Use a problem made of"
    ):
        gs.simulate(gs.DPSGD(eta=0.1), problem, plain.irregular(), private(1.0, 1.0, 0.1), steps=1)
    with pytest.raises(gs.InputError, match=r"asks at 2 points on one sample, .* Use a rule that asks at one point"):
        gs.simulate(gs.GTHSGD(eta=0.1, a=0.5), PROBLEM, gs.networks.complete(3), private(1.0, 1.0, 0.1), steps=1)


def test_refuses_rules_that_ask_for_gradients_over_all_samples():
    oracle = private(1.0, 1.0, 0.5) | top_k(1)
    with pytest.raises(gs.InputError, match="which its ε would not hold for"):
        gs.simulate(gs.GTSARAH(eta=0.1, recursions=2), PROBLEM, gs.networks.ring(PROBLEM.agents), oracle, steps=1)
