"""Errors added to gradients: drawn once, drawn anew, or given."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import chi2, kstest

import gossamer as gs
from gossamer.oracles import Site, additive_bias, custom, exact, minibatch
from tests import plain
from tests.oracles.sites import DIM, FLAT, POINTS, PROBLEM, RNG, ask, at, key
from tests.table import table

VECTORS = RNG.normal(size=(3, DIM))


def errors(oracle, *sites, state=None):
    """What is added to the gradient at each site."""
    answers = []
    for site in sites:
        (g,), state = ask(oracle, site, np.zeros(DIM), state=state)
        answers.append(g)
    return np.array(answers)


def here(agent, seed=0, t=0):
    return at(agent, seed, t, FLAT)


@jax.jit
def _drawn(oracle, sites):
    def error_at(site):
        state = oracle.init(site)
        (g,), _ = oracle.query(site, state, (jnp.zeros(50),))
        return g, oracle.bias(site, state)

    return jax.vmap(error_at, (Site(None, 0, 0, None),))(sites)


def drawn(stage, seed=0):
    """The errors and the constant biases of 400 agents in 50 dimensions."""
    problem, agents = gs.problems.quadratic(np.eye(50), np.zeros((400, 50))), jnp.arange(400, dtype=jnp.int32)
    site = at(problem=problem, dtype=np.float32)
    keys = jax.vmap(lambda agent: key(seed, agent))(agents)
    return [np.asarray(a) for a in _drawn(exact() | stage, site._replace(agent=agents, key=keys))]


def test_drawn_once_is_constant_over_rounds():
    with jax.enable_x64(True):
        oracle = exact() | additive_bias(0.1, 1.0)
        e = errors(oracle, *(here(1, seed=t, t=t) for t in range(4)), state=oracle.init(here(1, seed=9)))
    np.testing.assert_allclose(e, e[[0] * 4], atol=1e-14)
    assert (e[0] != 0).all()


def test_redrawn_differs_between_queries():
    with jax.enable_x64(True):
        e = errors(exact() | additive_bias(0.1, 1.0, redraw=True), *(here(1, seed=t, t=t) for t in range(4)))
    assert len(np.unique(np.round(e, 9))) == 4 * DIM


@pytest.mark.parametrize("redraw", [False, True])
def test_errors_are_normal_with_this_mean_and_deviation(redraw):
    """20,000 draws. The mean, the deviation and the shape (Kolmogorov-Smirnov) fail for 1 in 10⁵ seeds each."""
    e, bias = drawn(additive_bias(0.3, 2.0, redraw=redraw))
    assert abs(e.mean() - 0.3) < 4.42 * 2.0 / np.sqrt(e.size)
    low, high = chi2.interval(1 - 1e-5, e.size)
    assert low < (((e - 0.3) / 2) ** 2).sum() < high
    assert kstest((e.ravel() - 0.3) / 2.0, "norm").pvalue > 1e-5
    np.testing.assert_allclose(bias, np.full_like(e, 0.3) if redraw else e, rtol=1e-6)


def test_every_agent_and_seed_has_a_bias_of_its_own():
    first, second = (drawn(additive_bias(0, 1.0), seed)[0] for seed in (0, 1))
    assert len(np.unique(first.round(6), axis=0)) == 400
    assert (first != second).mean() > 0.99


@pytest.mark.parametrize("redraw", [False, True])
def test_a_vector_is_the_mean_of_each_coordinate(redraw):
    mean = np.arange(DIM) - 1.5
    with jax.enable_x64(True):
        certain = errors(exact() | additive_bias(mean, redraw=redraw), here(0), here(1))
        shifted = errors(exact() | additive_bias(mean, 1.0, redraw=redraw), here(0))
        centred = errors(exact() | additive_bias(0, 1.0, redraw=redraw), here(0))
    np.testing.assert_allclose(certain, [mean, mean], atol=1e-14)
    np.testing.assert_allclose(shifted - centred, mean[None], atol=1e-14)


def test_nothing_given_adds_nothing():
    with jax.enable_x64(True):
        np.testing.assert_allclose(errors(exact() | additive_bias(), here(0)), 0, atol=1e-15)


def test_given_vectors_are_one_for_each_agent_or_one_for_all():
    with jax.enable_x64(True):
        added = [errors(exact() | additive_bias(vectors=VECTORS), here(agent))[0] for agent in range(3)]
        common = [errors(exact() | additive_bias(vectors=VECTORS[0]), here(agent))[0] for agent in range(3)]
    np.testing.assert_allclose(added, VECTORS, rtol=1e-12)
    np.testing.assert_allclose(common, VECTORS[[0, 0, 0]], rtol=1e-12)


def test_the_bias_of_each_kind():
    """The part that stays: all of what is drawn once or given, the mean of what is redrawn; stages add up."""
    drawn, stated = additive_bias(0.2, 1.0), additive_bias(vectors=VECTORS)
    redrawn = additive_bias(np.arange(DIM), 1.0, redraw=True)
    with jax.enable_x64(True):

        def bias(oracle) -> Any:
            return oracle.bias(here(2), oracle.init(here(2)))

        e = errors(exact() | drawn, here(2))[0]
        np.testing.assert_allclose(bias(exact() | drawn), e, rtol=1e-12)
        np.testing.assert_allclose(bias(minibatch(2) | redrawn), np.arange(DIM))
        np.testing.assert_allclose(bias(exact() | additive_bias(0.5, redraw=True)), [0.5] * DIM)
        np.testing.assert_allclose(bias(exact() | stated), VECTORS[2])
        np.testing.assert_allclose(bias(exact() | additive_bias(vectors=VECTORS[1])), VECTORS[1])
        np.testing.assert_allclose(bias(minibatch(2) | drawn | redrawn | stated), e + np.arange(DIM) + VECTORS[2])
        for stage in (drawn, stated, redrawn):
            assert bias(exact() | custom(lambda g, x, site: g) | stage) is None


def test_a_bare_stage_in_a_run_and_the_biases_that_it_reports():
    """Alone it stands around the exact gradient. A tracking method ends where ∇F = −ē; the seeds differ."""
    problem, _ = plain.heterogeneous()

    def run(oracle):
        return gs.simulate(gs.GNSD(eta=0.05), problem, plain.irregular(), oracle, steps=4000, seeds=2, dtype="float64")

    bare, rooted = run(additive_bias(0.1, 0.5)), run(exact() | additive_bias(0.1, 0.5))
    np.testing.assert_array_equal(bare.iterates["gnsd"], rooted.iterates["gnsd"])
    assert (bare.biases[0] != bare.biases[1]).all()
    for x, e in zip(bare.iterates["gnsd"], bare.biases, strict=True):
        np.testing.assert_allclose(x, np.tile(problem.solution(e), (8, 1)), atol=1e-8)


def test_float32_and_float64_see_the_same_draws():
    """The errors' and the batch's: another row would change the gradient by far more than rounding."""
    oracle = minibatch(2) | additive_bias(0.1, 1.0) | additive_bias(0.1, 1.0, redraw=True)
    (single,), _ = ask(oracle, at(1, dtype=np.float32), POINTS[0])
    with jax.enable_x64(True):
        (double,), _ = ask(oracle, at(1), POINTS[0])
    assert (single.dtype, double.dtype) == (np.float32, np.float64)
    np.testing.assert_allclose(single, double, atol=2e-6)


# Errors.


@table(
    ("options", "message"),
    [
        ({"std": -0.1}, r"additive_bias\(std=…\) must be a number of at least 0, but is -0\.1"),
        ({"std": [1.0, 2.0]}, r"std=…\) must be a number of at least 0, but is \[1\.0, 2\.0\]"),
        ({"std": float("nan")}, r"additive_bias\(std=…\) must be finite, but is nan"),
        ({"mean": float("inf")}, r"additive_bias\(mean=…\) must be finite, but is inf"),
        ({"mean": [0.0, float("nan")]}, r"additive_bias\(mean=…\) must be finite, but is nan"),
        ({"mean": "much"}, r"additive_bias\(mean=…\) must be numbers, but is 'much'"),
        ({"vectors": [[1.0], [1.0, 2.0]]}, r"additive_bias\(vectors=…\) must be numbers"),
        ({"vectors": [[float("nan")]]}, r"additive_bias\(vectors=…\) must be finite, but is nan"),
        ({"redraw": "no"}, r"additive_bias\(redraw=…\) must be True or False, but is 'no'"),
        ({"vectors": [1.0], "mean": 0.0}, r"either vectors, or mean, std and redraw, but not both"),
        ({"vectors": [1.0], "std": 0.0}, r"either vectors, or mean, std and redraw, but not both"),
        ({"vectors": [1.0], "redraw": False}, r"either vectors, or mean, std and redraw, but not both"),
    ],
)
def test_refuses(options, message):
    with pytest.raises(gs.InputError, match=message):
        additive_bias(**options)


@table(
    ("options", "message"),
    [
        ({"mean": np.zeros(3)}, r"must be a number, a vector of 4, the problem's dimension, .* have shape \(3,\)"),
        ({"mean": np.zeros((3, 4))}, r"must be a number or one vector for all, but has shape \(3, 4\)"),
        ({"vectors": np.zeros((4, 3))}, r"shape \(3, 4\), one row for each agent, but have shape \(4, 3\)"),
        ({"vectors": np.zeros(3)}, r"but have shape \(3,\)"),
        ({"vectors": 1.0}, r"must be one row for each agent, or one vector for all, but has shape \(\)"),
    ],
)
def test_refuses_shapes_that_do_not_fit_the_problem(options, message):
    with pytest.raises(gs.InputError, match=message):
        (exact() | additive_bias(**options)).check(PROBLEM)


def test_checks_the_stages_inside_too():
    oracle = minibatch(6, replace=False) | additive_bias(0.1)
    with pytest.raises(gs.InputError, match="larger than all 5 samples of agent 0"):
        oracle.check(PROBLEM)
    nested = exact() | additive_bias(np.zeros(3)) | additive_bias(vectors=VECTORS) | custom(lambda g, x, site: g)
    with pytest.raises(gs.InputError, match=r"but have shape \(3,\)"):
        nested.check(PROBLEM)
