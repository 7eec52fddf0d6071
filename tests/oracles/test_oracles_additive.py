"""Errors added to gradients: drawn once, drawn anew, or given."""

import jax
import numpy as np
import plain
import pytest
from scipy.stats import chi2, kstest
from sites import DIM, POINTS, PROBLEM, RNG, ask, at

import gossamer as gs
from gossamer.oracles import additive_bias, custom, exact, minibatch

VECTORS = RNG.normal(size=(3, DIM))


def errors(oracle, *sites, state=None):
    """What is added to the exact gradient at each site."""
    found = []
    for site in sites:
        (g,), state = ask(oracle, site, POINTS[0], state=state)
        found.append(g - PROBLEM.gradients(POINTS[0])[int(site.agent)])
    return np.array(found)


def biases(stage, agents=400, d=50, seeds=1, dtype="float64"):
    """The constant biases of a run over many agents, [seeds, agents, d]."""
    problem = gs.problems.quadratic(np.eye(d), np.zeros((agents, d)))
    network = gs.networks.complete(agents)
    return gs.simulate(gs.DPSGD(eta=0.1), problem, network, stage, steps=1, seeds=seeds, dtype=dtype).biases


def test_drawn_once_is_constant_over_rounds():
    with jax.enable_x64(True):
        oracle = exact() | additive_bias(0.1, 1.0)
        e = errors(oracle, *(at(1, seed=t, t=t) for t in range(4)), state=oracle.init(at(1, seed=9)))
    np.testing.assert_allclose(e, e[[0] * 4], atol=1e-14)
    assert (e[0] != 0).all()


def test_redrawn_differs_between_queries():
    with jax.enable_x64(True):
        e = errors(exact() | additive_bias(0.1, 1.0, redraw=True), *(at(1, seed=t, t=t) for t in range(4)))
    assert len(np.unique(np.round(e, 9))) == 4 * DIM


def test_every_agent_and_seed_has_a_bias_of_its_own():
    e = biases(additive_bias(0, 1.0), agents=8, d=5, seeds=3)
    assert e.shape == (3, 8, 5)
    assert len(np.unique(e)) == e.size


def test_drawn_errors_are_normal_with_this_mean_and_deviation():
    """20,000 draws. The mean, the deviation and the shape (Kolmogorov-Smirnov) fail for 1 in 10⁵ seeds each."""
    e = biases(additive_bias(0.3, 2.0)).ravel()
    assert abs(e.mean() - 0.3) < 4.42 * 2.0 / np.sqrt(e.size)
    assert chi2.interval(1 - 1e-5, e.size)[0] < (((e - 0.3) / 2) ** 2).sum() < chi2.interval(1 - 1e-5, e.size)[1]
    assert kstest(e, "norm", (0.3, 2.0)).pvalue > 1e-5


def test_redrawn_errors_are_normal_with_this_mean_and_deviation():
    """One step of D-PSGD from the minimum moves each of 400 agents by −η e; the same error rates as above."""
    d, agents, seeds = 50, 200, 2
    problem, network = gs.problems.quadratic(np.eye(d), np.zeros((agents, d))), gs.networks.complete(agents)
    stage = additive_bias(0.3, 2.0, redraw=True)
    result = gs.simulate(gs.DPSGD(eta=0.5), problem, network, stage, steps=1, seeds=seeds, dtype="float64")
    e = -2 * result.iterates["d-psgd"].ravel()
    assert abs(e.mean() - 0.3) < 4.42 * 2.0 / np.sqrt(e.size)
    assert kstest(e, "norm", (0.3, 2.0)).pvalue > 1e-5
    np.testing.assert_array_equal(result.biases, np.full((seeds, agents, d), 0.3))


@pytest.mark.parametrize("redraw", [False, True])
def test_a_vector_is_the_mean_of_each_coordinate(redraw):
    mean = np.arange(DIM) - 1.5
    with jax.enable_x64(True):
        certain = errors(exact() | additive_bias(mean, redraw=redraw), at(0), at(1))
        shifted = errors(exact() | additive_bias(mean, 1.0, redraw=redraw), at(0))
        centred = errors(exact() | additive_bias(0, 1.0, redraw=redraw), at(0))
    np.testing.assert_allclose(certain, [mean, mean], atol=1e-14)
    np.testing.assert_allclose(shifted - centred, mean[None], atol=1e-14)


def test_nothing_given_adds_nothing():
    with jax.enable_x64(True):
        np.testing.assert_allclose(errors(exact() | additive_bias(), at(0)), 0, atol=1e-15)


def test_given_vectors_are_one_for_each_agent_or_one_for_all():
    with jax.enable_x64(True):
        own = errors(exact() | additive_bias(vectors=VECTORS), at(0), at(1), at(2))
        common = errors(exact() | additive_bias(vectors=VECTORS[0]), at(0), at(1), at(2))
    np.testing.assert_allclose(own, VECTORS, rtol=1e-12)
    np.testing.assert_allclose(common, VECTORS[[0, 0, 0]], rtol=1e-12)


def test_the_bias_of_each_kind():
    """The part that stays: all of what is drawn once or given, the mean of what is redrawn; stages add up."""
    drawn, given = additive_bias(0.2, 1.0), additive_bias(vectors=VECTORS)
    redrawn = additive_bias(np.arange(DIM), 1.0, redraw=True)
    with jax.enable_x64(True):

        def bias(oracle):
            return oracle.bias(at(2), oracle.init(at(2)))

        e = errors(exact() | drawn, at(2))[0]
        np.testing.assert_allclose(bias(exact() | drawn), e, rtol=1e-12)
        np.testing.assert_allclose(bias(minibatch(2) | redrawn), np.arange(DIM))
        np.testing.assert_allclose(bias(exact() | additive_bias(0.5, redraw=True)), [0.5] * DIM)
        np.testing.assert_allclose(bias(exact() | given), VECTORS[2])
        np.testing.assert_allclose(bias(exact() | additive_bias(vectors=VECTORS[1])), VECTORS[1])
        np.testing.assert_allclose(bias(minibatch(2) | drawn | redrawn | given), e + np.arange(DIM) + VECTORS[2])
        for stage in (drawn, given, redrawn):
            assert bias(exact() | custom(lambda g, x, site: g) | stage) is None


def test_a_run_reports_the_biases_that_it_used():
    problem, E = plain.heterogeneous()
    run = gs.simulate(
        gs.GNSD(eta=0.05), problem, plain.irregular(), additive_bias(0.1, 0.5), steps=4000, dtype="float64"
    )
    expected = problem.solution(run.biases[0])
    np.testing.assert_allclose(run.iterates["gnsd"][0], np.tile(expected, (8, 1)), atol=1e-8)


@pytest.mark.parametrize("redraw", [False, True])
def test_float32_and_float64_runs_see_the_same_draws(redraw):
    """And the same batches: five noisy steps end at the same place up to float32's rounding."""
    oracle = minibatch(2, replace=False) | additive_bias(0.1, 1.0, redraw=redraw)
    single, double = (
        gs.simulate(gs.DPSGD(eta=0.1), PROBLEM, gs.networks.complete(3), oracle, steps=5, dtype=dtype)
        for dtype in ("float32", "float64")
    )
    np.testing.assert_allclose(single.iterates["d-psgd"], double.iterates["d-psgd"], atol=2e-6)
    np.testing.assert_allclose(single.biases, double.biases, atol=1e-6)


# Errors.


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"std": -0.1}, r"additive_bias\(std=…\) must be a number of at least 0, but is -0\.1"),
        ({"std": [1.0, 2.0]}, r"std=…\) must be a number of at least 0, but is \[1\.0, 2\.0\]"),
        ({"std": float("nan")}, r"additive_bias\(std=…\) must be finite, but has nan"),
        ({"mean": float("inf")}, r"additive_bias\(mean=…\) must be finite, but has inf"),
        ({"mean": [0.0, float("nan")]}, r"additive_bias\(mean=…\) must be finite, but has nan"),
        ({"mean": "much"}, r"additive_bias\(mean=…\) must be numbers, but is 'much'"),
        ({"vectors": [[1.0], [1.0, 2.0]]}, r"additive_bias\(vectors=…\) must be numbers"),
        ({"vectors": [[float("nan")]]}, r"additive_bias\(vectors=…\) must be finite, but has nan"),
        ({"redraw": "no"}, r"additive_bias\(redraw=…\) must be True or False, but is 'no'"),
        ({"vectors": [1.0], "mean": 0.0}, r"either vectors, or mean, std and redraw, but not both"),
        ({"vectors": [1.0], "std": 0.0}, r"either vectors, or mean, std and redraw, but not both"),
        ({"vectors": [1.0], "redraw": False}, r"either vectors, or mean, std and redraw, but not both"),
    ],
)
def test_refuses(options, message):
    with pytest.raises(gs.InputError, match=message):
        additive_bias(**options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mean": np.zeros(3)}, r"a number or a vector of 4, the problem's dimension, but has shape \(3,\)"),
        ({"mean": np.zeros((3, 4))}, r"but has shape \(3, 4\)"),
        ({"vectors": np.zeros((4, 3))}, r"must have shape \(3, 4\), .* or \(4,\), one for all, but has shape \(4, 3\)"),
        ({"vectors": np.zeros(3)}, r"but has shape \(3,\)"),
        ({"vectors": 1.0}, r"but has shape \(\)"),
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
    with pytest.raises(gs.InputError, match=r"but has shape \(3,\)"):
        nested.check(PROBLEM)
