"""Compressed, clipped and delayed gradients, and factors that are given."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import gossamer as gs
from gossamer.oracles import (
    STAGES,
    additive_bias,
    clip,
    compressed,
    delay,
    exact,
    measure,
    minibatch,
    qsgd,
    rand_k,
    relative_bias,
    round_linf,
    round_to,
    scaled_sign,
    top_k,
)
from gossamer.specs.spec import Spec
from tests import plain
from tests.oracles.sites import DIM, FLAT, POINTS, PROBLEM, ask, at
from tests.table import table

G = np.array([3.0, -1.0, 0.5, 2.0])
"""The gradient of `FLAT` at this point."""


def seen(stage, x=G, **where):
    """What an agent of the flat quadratic takes for its gradient at x, which is x."""
    with jax.enable_x64(True):
        return ask(exact() | stage, at(problem=FLAT, **where), x)[0][0]


@pytest.mark.parametrize(
    ("stage", "wanted"),
    [
        (top_k(2), [3, 0, 0, 2]),
        (top_k(share=0.25), [3, 0, 0, 0]),
        (scaled_sign(), [1.625, -1.625, 1.625, 1.625]),
        (round_linf(2), [3, -1.5, 0, 1.5]),
        (round_to(0.75), [3, -0.75, 0.75, 2.25]),
        (clip(1.0), G / np.linalg.norm(G)),
        (clip(4.0), G),
        (compressed(gs.compressors.identity()), G),
        (delay(0), G),
        (relative_bias(factors=[0.5, 0, 0]), 1.5 * G),
        (relative_bias(factors=np.tile([1, 0, -1, 0.5], (3, 1))), G * [2, 1, 0, 1.5]),
    ],
    ids=lambda value: repr(value)[:60],
)
def test_what_a_stage_makes_of_a_gradient(stage, wanted):
    np.testing.assert_allclose(seen(stage), wanted, rtol=1e-12)


@pytest.mark.parametrize("stage", [rand_k(2), qsgd(2)], ids=["rand-k", "qsgd"])
def test_points_of_one_query_share_the_draw_and_queries_do_not(stage):
    with jax.enable_x64(True):
        (first, second), _ = ask(exact() | stage, at(problem=FLAT), G, 2 * G)
    np.testing.assert_allclose(second, 2 * first, rtol=1e-12)
    others = [seen(stage, seed=seed) for seed in range(8)]
    assert len({tuple(g) for g in others}) > 2


@pytest.mark.parametrize("stage", [rand_k(2), qsgd(2)], ids=["rand-k", "qsgd"])
def test_float32_and_float64_see_the_same_draws(stage):
    (single,), _ = ask(minibatch(2) | stage, at(1, dtype=np.float32), POINTS[0])
    with jax.enable_x64(True):
        (double,), _ = ask(minibatch(2) | stage, at(1), POINTS[0])
    assert (single.dtype, double.dtype) == (np.float32, np.float64)
    np.testing.assert_allclose(single, double, atol=2e-6)


def test_the_order_of_stages_counts():
    shift = additive_bias(vectors=np.array([0, 0, 5.0, 0]))
    np.testing.assert_allclose(seen(shift | top_k(1)), [0, 0, 5.5, 0])
    np.testing.assert_allclose(seen(top_k(1) | shift), [3, 0, 5, 0])
    np.testing.assert_allclose(seen(clip(1.0) | relative_bias(factors=[1.0, 0, 0])), 2 * G / np.linalg.norm(G))


# Top-k's constant.


def test_the_measured_constant_of_top_k_is_attained_where_all_sizes_are_equal():
    measured = measure(top_k(1), FLAT, [[1, -1, 1, 1.0], [2, 2, -2, 2]])
    assert (measured.queries, measured.variance) == (1, 0)
    np.testing.assert_allclose(measured.relative, 1 - 1 / DIM, rtol=1e-12)


@given(points=arrays(np.float64, (4, DIM), elements=st.floats(-10, 10).map(lambda a: round(a, 3))))
@settings(max_examples=25, deadline=None)
def test_the_measured_constant_of_top_k_is_never_above_its_bound(points):
    assert measure(top_k(1), FLAT, points).relative <= (1 - 1 / DIM) * (1 + 1e-12)


# Clipping.


@pytest.mark.parametrize("size", [0.5, 2.0, 8.0])
def test_clip_errs_by_what_is_above_the_threshold(size):
    """On gradients of one norm the constant is attained."""
    measured, stage = measure(clip(1.0), FLAT, size * G / np.linalg.norm(G)), clip(1.0)
    np.testing.assert_allclose(measured.relative, stage.relative_at(size), rtol=1e-12)
    np.testing.assert_allclose(measured.absolute_at(0), max(0, size - 1) ** 2, rtol=1e-12)


def test_clip_leaves_zero_alone():
    np.testing.assert_array_equal(seen(clip(1.0), np.zeros(DIM)), np.zeros(DIM))


# Delays.


@pytest.mark.parametrize("rounds", [0, 1, 3])
def test_delay_answers_for_the_point_of_so_many_queries_ago(rounds):
    points, state, answers = np.random.default_rng(0).normal(size=(9, DIM)), None, []
    with jax.enable_x64(True):
        for t, x in enumerate(points):
            (g,), state = ask(exact() | delay(rounds), at(problem=FLAT, seed=t, t=t), x, state=state)
            answers.append(g)
    np.testing.assert_allclose(answers, [points[max(0, t - rounds)] for t in range(9)], rtol=1e-14)


def test_a_late_gradient_is_on_a_fresh_sample():
    with jax.enable_x64(True):
        _, state = ask(minibatch(2) | delay(1), at(1, seed=0), POINTS[0])
        (late,), _ = ask(minibatch(2) | delay(1), at(1, seed=1), POINTS[1], state=state)
        (wanted,), _ = ask(minibatch(2), at(1, seed=1), POINTS[0])
    np.testing.assert_array_equal(late, wanted)


def test_a_run_with_late_gradients_is_the_late_recursion():
    problem, _ = plain.heterogeneous()
    network, eta, tau, steps = plain.irregular(), 0.05, 2, 7
    result = gs.simulate(gs.DPSGD(eta), problem, network, delay(tau), steps=steps, dtype="float64")
    gradient, path = plain.gradient_of(problem), [np.zeros((8, 5))]
    for t in range(steps):
        path.append(network.mixing @ path[-1] - eta * gradient(path[max(0, t - tau)]))
    np.testing.assert_allclose(result.iterates["d-psgd"][0], path[-1], atol=1e-12)


def test_a_delay_at_two_points_says_that_it_cannot():
    with pytest.raises(gs.InputError, match=r"delay\(2\) keeps one point for each query, but .* asks at 2 points"):
        ask(exact() | delay(2), at(dtype=np.float32, problem=FLAT), POINTS[0], POINTS[1])


# Factors that are given.


def test_opposite_factors_make_the_bound_of_relative_bias_tight():
    """f = ½L(x ∓ b)² with g̃ = (1 ± δ)∇f settles at x = δb, where ‖∇F‖² = M_f ζ²."""
    smooth, b, delta = 2.0, 3.0, 0.2
    problem = gs.problems.quadratic(np.array([[smooth]]), np.array([[b], [-b]]))
    oracle = exact() | relative_bias(factors=[delta, -delta])
    result = gs.simulate(gs.GNSD(0.1), problem, gs.networks.complete(2), oracle, steps=800, dtype="float64")
    x = result.iterates["gnsd"][0, 0]
    np.testing.assert_allclose(x, [delta * b], rtol=1e-10)
    floor = float((problem.gradient(x) ** 2).sum())
    np.testing.assert_allclose(floor, delta**2 * problem.heterogeneity(x), rtol=1e-9)
    assert oracle.constants(problem).relative == pytest.approx(delta**2)


# The rest of an oracle's contract.


@pytest.mark.parametrize("stage", [top_k(2), clip(1.0), delay(1), relative_bias(0.1)], ids=repr)
def test_no_losses_belong_to_a_changed_gradient(stage):
    site = at(problem=FLAT, dtype=np.float32)
    with pytest.raises(gs.InputError, match="gives gradients only, and no losses that belong to them"):
        (exact() | stage).value(site, (), (jnp.zeros(DIM),))


def test_an_unbiased_compressor_keeps_a_constant_bias_and_no_other_does():
    e = np.arange(DIM) + 1.0
    with jax.enable_x64(True):

        def bias(stage):
            oracle, site = exact() | additive_bias(vectors=e) | stage, at(problem=FLAT)
            return oracle.bias(site, oracle.init(site))

        for stage in (qsgd(3), rand_k(2), compressed(gs.compressors.identity()), delay(0)):
            np.testing.assert_array_equal(bias(stage), e)
        for stage in (top_k(2), rand_k(2, scaled=False), clip(1.0), delay(1), relative_bias(factors=[0.0] * 3)):
            assert bias(stage) is None


def test_a_spec_can_name_every_stage():
    options = {
        "additive-bias": {"mean": 0.1},
        "relative-bias": {"factors": [0.1, 0.1, 0.2, 0.2]},
        "clip": {"threshold": 1},
        "top-k": {"k": 3},
        "rand-k": {"share": 0.5, "scaled": False},
        "scaled-sign": {},
        "qsgd": {"levels": 4},
        "round-linf": {"levels": 4},
        "round-step": {"step": 0.01},
        "zeroth-order": {"method": "sphere", "radius": 0.01, "directions": 2},
        "delay": {"rounds": 2},
        "local-training": {"steps": 2, "eta": 0.1},
        "attack": {"how": "scale", "agents": [1], "scale": 3.0},
    }
    elsewhere = {"private", "error-feedback", "saga"}  # a source, a table inside, around mini-batches alone
    assert set(options) | elsewhere == set(STAGES)
    for kind, given_options in options.items():
        spec = {
            "problem": {"name": "logistic", "data": "breast-cancer", "agents": 4},
            "network": {"name": "ring"},
            "oracle": {"batch": 4, "stages": [{"kind": kind, **given_options}]},
            "run": {"steps": 1},
            "algorithm": [{"name": "d-psgd", "eta": 0.1}],
        }
        oracle = Spec.of(spec).parts().oracle
        assert jax.tree.structure(oracle) == jax.tree.structure(minibatch(4) | STAGES[kind](**given_options))


@table(
    ("make", "message"),
    [
        (lambda: clip(0), r"clip\(threshold=…\) must be a number in \(0, 1e\+100\], but is 0\. It is the largest norm"),
        (lambda: clip(1.0).relative_at(0), r"relative_at\(largest=…\) must be a number in \(0, ∞\)"),
        (lambda: delay(-1), r"delay\(rounds=…\) must be a whole number of at least 0, but is -1"),
        (lambda: delay(1.5), r"delay\(rounds=…\) must be a whole number of at least 0, but is 1\.5"),
        (
            lambda: compressed(top_k(2)),
            r"takes a compressor, such as gossamer\.compressors\.top_k\(10\), but was given",
        ),
        (lambda: relative_bias(), "takes either delta, for signs that are drawn, or factors"),
        (lambda: relative_bias(0.1, factors=[1.0]), "takes either delta, for signs that are drawn, or factors"),
        (lambda: relative_bias(factors=["a"]), r"relative_bias\(factors=…\) must be numbers, but is \['a'\]"),
        (lambda: relative_bias(factors=[np.nan]), r"relative_bias\(factors=…\) must be finite, but is nan"),
        (lambda: (exact() | top_k(5)).check(FLAT), r"top_k\(k=5\) keeps more coordinates than the 4"),
        (
            lambda: (exact() | relative_bias(factors=[1.0])).check(FLAT),
            r"shape \(3,\), a number for .* has shape \(1,\)",
        ),
        (lambda: (minibatch(6, replace=False) | clip(1.0) | delay(1) | top_k(1)).check(PROBLEM), "larger than all 5"),
    ],
)
def test_refuses(make, message):
    with pytest.raises(gs.InputError, match=message):
        make()
