"""Local training as an oracle: its closed form on quadratics, its samples, and where tracking settles with it."""

import jax
import numpy as np
import pytest

import gossamer as gs
from gossamer.oracles import completed, exact, local_training, measure, minibatch
from tests import plain
from tests.oracles.sites import DIM, POINTS, PROBLEM, ask, at
from tests.table import table

QUADRATIC, _ = plain.heterogeneous()
ETA, STEPS = 0.05, 5


def powers(eta=ETA, steps=STEPS):
    """P_i = (I − (I − ηA_i)^H)/(Hη)."""
    left = np.eye(QUADRATIC.dim) - eta * QUADRATIC.A
    return (np.eye(QUADRATIC.dim) - np.linalg.matrix_power(left, steps)) / (steps * eta)


@pytest.mark.parametrize("steps", [1, 2, STEPS])
def test_on_quadratics_it_is_the_sum_of_powers(steps):
    x = np.arange(QUADRATIC.dim) - 1.0
    with jax.enable_x64(True):
        (g,), _ = ask(exact() | local_training(steps, ETA), at(2, problem=QUADRATIC), x)
    np.testing.assert_allclose(g, powers(steps=steps)[2] @ (x - QUADRATIC.b[2]), rtol=1e-12)


def test_one_step_is_the_source_and_draws_its_sample():
    with jax.enable_x64(True):
        (g,), _ = ask(minibatch(2) | local_training(1, 0.3), at(1), POINTS[0])
        (bare,), _ = ask(minibatch(2), at(1), POINTS[0])
    np.testing.assert_array_equal(g, bare)


def test_adam_is_its_recursion_from_zero_moments():
    agent, steps, eta = 1, 4, 0.1
    y, m, v = POINTS[0].copy(), np.zeros(DIM), np.zeros(DIM)
    for h in range(1, steps + 1):
        g = PROBLEM.gradients(y)[agent]
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
        y = y - eta * (m / (1 - 0.9**h)) / (np.sqrt(v / (1 - 0.999**h)) + 1e-8)
    with jax.enable_x64(True):
        (told,), _ = ask(exact() | local_training(steps, eta, "adam"), at(agent), POINTS[0])
    np.testing.assert_allclose(told, (POINTS[0] - y) / (steps * eta), rtol=1e-10)


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_points_of_one_query_share_the_samples_of_every_step(optimizer):
    oracle = minibatch(2) | local_training(3, 0.1, optimizer)
    with jax.enable_x64(True):
        (first, second, third), _ = ask(oracle, at(1), POINTS[0], POINTS[1], POINTS[0])
        (alone,), _ = ask(oracle, at(1), POINTS[0])
    np.testing.assert_array_equal(first, third)
    np.testing.assert_allclose(first, alone, rtol=1e-13)
    assert (first != second).any()


def test_the_steps_of_an_epoch_go_through_it():
    """Three steps of 4 of the 12 rows, so small that they do not move: their mean is the gradient."""
    with jax.enable_x64(True):
        (g,), state = ask(minibatch(4, replace=False) | local_training(3, 1e-12), at(1), POINTS[0])
    np.testing.assert_allclose(g, PROBLEM.gradients(POINTS[0])[1], rtol=1e-9)
    assert int(state["next"]) == 0


def test_tracking_settles_at_the_fixed_point_of_the_powers_and_queries_count():
    P = powers()
    settled = np.linalg.solve(P.sum(0), np.einsum("nde,ne->d", P, QUADRATIC.b))
    given = QUADRATIC, plain.irregular(), local_training(STEPS, ETA)
    result = gs.simulate(gs.BiasedDMT(eta=0.05, lam=0.3), *given, steps=2000, dtype="float64")
    x = result.iterates["biased-dmt"][0]
    np.testing.assert_allclose(x, np.tile(settled, (8, 1)), atol=1e-10)
    assert np.abs(settled - QUADRATIC.solution()).max() > 0.1  # so local training costs accuracy
    assert result.table["queries"][-1] == STEPS * (1 + 2000)
    # ‖∇F‖² ≤ M_f · mean ‖∇f_i‖², and mean ‖∇f_i‖² = ζ² + ‖∇F‖²
    worst = max(np.linalg.norm(p @ np.linalg.inv(A) - np.eye(5), 2) ** 2 for p, A in zip(P, QUADRATIC.A, strict=True))
    floor, spread = result.final("grad_norm_sq")["biased-dmt"][0], QUADRATIC.heterogeneity(settled)
    assert 0.01 < floor <= worst / (1 - worst) * spread


@pytest.mark.parametrize("steps", [2, STEPS])
def test_what_it_states_bounds_the_closed_form_and_what_is_measured(steps):
    oracle = exact() | local_training(steps, ETA)
    stated = oracle.constants(QUADRATIC)
    errors = powers(steps=steps) @ np.linalg.inv(QUADRATIC.A) - np.eye(5)
    worst = (np.linalg.norm(errors, 2, axis=(1, 2)) ** 2).max()
    measured = measure(oracle, QUADRATIC, np.random.default_rng(0).normal(size=(6, 5)))
    assert measured.relative <= worst * (1 + 1e-9)
    assert worst <= stated.relative * (1 + 1e-9)
    assert (stated.absolute, stated.variance) == (0, 0)
    if steps == 2:  # there the error is ηA/2, as large as the bound
        assert worst == pytest.approx(stated.relative)


def test_noise_adds_an_absolute_bias_and_what_has_no_closed_form_is_not_stated():
    noise = gs.oracles.additive_bias(np.zeros(5), 0.1, redraw=True)
    quiet, noisy = (completed(o).constants(QUADRATIC) for o in (local_training(2, ETA), noise | local_training(2, ETA)))
    assert noisy.relative == pytest.approx(2 * quiet.relative)
    assert noisy.absolute == pytest.approx(2 * quiet.relative * 5 * 0.1**2)
    assert noisy.variance is None
    adam = completed(local_training(2, ETA, "adam")).constants(QUADRATIC)
    assert (adam.relative, adam.absolute, adam.variance) == (None, None, 0)
    assert "Adam's directions" in adam.note
    assert completed(local_training(10**6, 1.0)).constants(QUADRATIC).relative is None  # beyond all numbers


@table(
    ("given", "message"),
    [
        ((0, 0.1), r"local_training\(steps=…\) must be a whole number of at least 1, but is 0"),
        ((2.5, 0.1), r"local_training\(steps=…\) must be a whole number"),
        ((2, 0.0), r"local_training\(eta=…\) must be a number in \(0, .* the step size of the local steps"),
        ((2, 0.1, "adamw"), r"local_training\(optimizer='adamw'\) is not known; did you mean 'adam'"),
    ],
)
def test_refuses(given, message):
    with pytest.raises(gs.InputError, match=message):
        local_training(*given)
