"""Measuring an oracle's constants: unbiased, with intervals that cover, at any points and memories."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import gossamer as gs
from gossamer.oracles import (
    Measured,
    Site,
    additive_bias,
    custom,
    delay,
    exact,
    measure,
    measuring,
    minibatch,
    rand_k,
    top_k,
)
from tests.oracles.sites import DIM, FLAT, POINTS, PROBLEM, at
from tests.table import table

MANY = gs.problems.quadratic(np.eye(3), np.zeros((600, 3)))
CLOUD = additive_bias([0.3, 0, 0.4], 0.5, redraw=True)


def test_estimates_are_unbiased_and_their_intervals_cover():
    """600 agents. A mean fails for 1 in 10⁶ seeds (4.9 deviations). The coverage of a 95 % interval has a deviation of
    0.9 points and the jackknife misses at most 2 points with 32 queries: 90 % fails for fewer than 1 in 1,000 seeds."""
    measured = measure(CLOUD, MANY, np.zeros(3), queries=32)
    spread = measured.bias_sq.std(ddof=1) / np.sqrt(600)
    assert abs(measured.bias_sq.mean() - 0.25) < 4.9 * spread
    assert abs(measured.noise.mean() - 0.75) < 4.9 * measured.noise.std(ddof=1) / np.sqrt(600)
    away = np.abs(measured.bias_sq - 0.25) / measured.error
    assert 0.90 < (away < stats.t.ppf(0.975, 31)).mean() < 0.99
    low, high = measured.absolute_interval(0)
    assert low < 0.25 < high
    assert measured.absolute_at(0) > 0.3  # the largest of 600 estimates is too large, and the interval says so


def test_without_a_bias_the_lower_end_is_zero():
    """Fails for fewer than 1 in 40 seeds."""
    measured = measure(additive_bias(np.zeros(3), 0.5, redraw=True), MANY, np.ones(3), queries=32)
    assert measured.absolute_interval(0)[0] == 0
    assert measured.relative_interval[0] == 0
    assert measured.absolute_interval(0)[1] > 0


def test_rand_k_has_the_bias_and_the_variance_of_its_closed_form():
    """Unscaled: M_f = (1 − k/d)², variance (k/d)(1 − k/d)‖g‖². 4,096 queries: 5 deviations are below 10 %."""
    measured = measure(rand_k(1, scaled=False), FLAT, [3.0, -1, 0.5, 2], queries=4096)
    np.testing.assert_allclose(measured.bias_sq / measured.grad_sq, 0.75**2, rtol=0.1)
    np.testing.assert_allclose(measured.noise / measured.grad_sq, 0.25 * 0.75, rtol=0.1)
    assert measured.relative_interval[0] < 0.75**2 < measured.relative_interval[1]


def test_an_oracle_without_variance_is_asked_once_and_is_exact():
    measured = measure(additive_bias(vectors=np.array([3.0, 0, 4, 0])), FLAT, POINTS)
    assert (measured.queries, measured.variance, measured.error.max()) == (1, 0, 0)
    np.testing.assert_allclose(measured.bias_sq, np.full((3, 3), 25.0), rtol=1e-12)
    np.testing.assert_allclose(measured.grad_sq, np.repeat((POINTS**2).sum(1)[:, None], 3, axis=1), rtol=1e-12)
    assert measured.absolute_interval(0) == (measured.absolute_at(0),) * 2
    halved = measure(custom(lambda g, x, site: g / 2), FLAT, POINTS)
    assert halved.queries == 64  # nothing is known of a function, but its answers agree
    np.testing.assert_allclose([halved.relative, *halved.relative_interval], 0.25, rtol=1e-10)


def test_the_frontier():
    """‖b‖² = 4 and ‖∇f‖² = 16 at one point, 1 and 1 at another: σ_f² = max(4 − 16M, 1 − M)."""
    pulled = custom(lambda g, x, site: g + jnp.where(x[0] > 2, 2.0, 1.0) * jnp.eye(DIM)[0])
    measured = measure(pulled, FLAT, [[4.0, 0, 0, 0], [1, 0, 0, 0]], queries=4)
    assert measured.relative == pytest.approx(1)
    for relative in (0, 1 / 256, 0.1, 0.2, 0.5):
        assert measured.absolute_at(relative) == pytest.approx(max(4 - 16 * relative, 1 - relative))


def test_a_bias_where_the_gradient_is_zero_needs_more_than_a_relative_constant():
    measured = measure(additive_bias(vectors=np.ones(DIM)), FLAT, np.zeros(DIM))
    assert measured.relative == np.inf
    assert measured.asdict()["relative"] is None
    assert measure(exact(), FLAT, np.zeros(DIM)).relative == 0


def test_points_may_be_common_or_each_agents_own():
    own = np.stack([POINTS, 2 * POINTS])
    each = measure(top_k(2), FLAT, own)
    np.testing.assert_allclose(each.grad_sq, (own**2).sum(2), rtol=1e-12)
    common = measure(top_k(2), FLAT, POINTS)
    np.testing.assert_allclose(common.bias_sq[:, 0], each.bias_sq[0], rtol=1e-12)
    np.testing.assert_array_equal(measure(top_k(2), FLAT, POINTS[0]).bias_sq, common.bias_sq[:1])


def test_what_the_memory_holds_is_what_is_measured():
    """A bias that was drawn once, and a delay that has seen other points."""
    with jax.enable_x64(True):
        oracle = exact() | additive_bias(0.1, 0.5) | delay(1)
        site = at(problem=FLAT)
        agents = jnp.arange(3)
        memory = jax.vmap(lambda agent: oracle.init(site._replace(agent=agent)), out_axes=0)(agents)
        ask = jax.vmap(lambda agent, held: oracle.query(Site(*site)._replace(agent=agent), held, (jnp.ones(DIM),))[1])
        memory = ask(agents, memory)
    measured = measure(oracle, FLAT, POINTS[0], memory=memory)
    wrong = np.ones(DIM) + np.asarray(memory["inner"]["e"]) - POINTS[0]
    np.testing.assert_allclose(measured.bias_sq[0], (wrong**2).sum(1), rtol=1e-12)
    assert measure(oracle, FLAT, POINTS[0]).bias_sq[0, 0] != measured.bias_sq[0, 0]


def test_a_seed_repeats_and_blocks_change_nothing(monkeypatch):
    oracle = minibatch(2)
    first = measure(oracle, PROBLEM, POINTS, queries=16)
    np.testing.assert_array_equal(measure(oracle, PROBLEM, POINTS, queries=16).bias_sq, first.bias_sq)
    assert (measure(oracle, PROBLEM, POINTS, queries=16, seed=1).bias_sq != first.bias_sq).all()
    monkeypatch.setattr(measuring, "NUMBERS", 1)
    np.testing.assert_allclose(measure(oracle, PROBLEM, POINTS, queries=16).bias_sq, first.bias_sq, rtol=1e-10)


def test_joined_and_shown():
    parts = [measure(top_k(1), FLAT, x) for x in POINTS]
    measured = Measured.join(parts)
    np.testing.assert_array_equal(measured.bias_sq, measure(top_k(1), FLAT, POINTS).bias_sq)
    text = str(measured)
    assert "measured at 3 points, 3 agents, 1 query, exact each" in text
    assert f"M_f with σ_f² = 0     {measured.relative:.4g}" in text
    noisy = measure(CLOUD, MANY, np.zeros(3), queries=32)
    assert "95 %: " in str(noisy)
    assert json.loads(json.dumps(noisy.asdict()))["absolute_at_0_interval"] == list(noisy.absolute_interval(0))


@table(
    ("points", "options", "message"),
    [
        (np.zeros(3), {}, r"points must be \[4\], or \[points, 4\], or \[points, 3, 4\] .* have shape \(3,\)"),
        (np.zeros((2, 2, 4)), {}, r"have shape \(2, 2, 4\)"),
        (np.zeros((0, 4)), {}, r"have shape \(0, 4\)"),
        (np.full(4, np.nan), {}, "points must be finite"),
        (np.zeros(4), {"queries": 3}, "queries must be a whole number of at least 4, but is 3"),
    ],
)
def test_refuses(points, options, message):
    with pytest.raises(gs.InputError, match=message):
        measure(exact(), FLAT, points, **options)


def test_refuses_an_oracle_that_does_not_fit():
    with pytest.raises(gs.InputError, match="needs a problem made of samples"):
        measure(minibatch(2), FLAT, np.zeros(DIM))
