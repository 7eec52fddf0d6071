"""Gradients from function values: exact where theory says so, and biased at the stated order of the radius."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gossamer as gs
from gossamer.oracles import clip, custom, exact, measure, minibatch, top_k, zeroth_order
from gossamer.oracles.zeroth import along, direction_variance, forward_difference
from gossamer.problems.quadratic import Quadratic
from tests.oracles.sites import DIM, FLAT, POINTS, PROBLEM, ask, at
from tests.table import table

RADII = np.geomspace(0.02, 0.2, 5)
RNG = np.random.default_rng(5)
ROOT = RNG.normal(size=(3, DIM, DIM))
HILLY = gs.problems.quadratic(ROOT @ ROOT.transpose(0, 2, 1), RNG.normal(size=(3, DIM)))


def wavy(x):
    return jnp.sin(x[0]) + jnp.cos(2 * x[1]) * jnp.sin(x[0] + x[1])


def order(values):
    """The slope of log value over log radius."""
    return np.polyfit(np.log(RADII), np.log(values), 1)[0]


def test_the_squared_bias_of_forward_differences_falls_as_the_square_of_the_radius():
    with jax.enable_x64(True):
        x = jnp.asarray([0.3, -0.4])
        errors = [np.asarray(forward_difference(wavy, x, h) - jax.grad(wavy)(x)) for h in RADII]
    assert abs(order([e @ e for e in errors]) - 2) < 0.2


def test_the_squared_bias_of_gaussian_smoothing_falls_as_the_fourth_power_of_the_radius():
    """The mean over u is Gauss and Hermite's, of the estimator itself."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(24)
    with jax.enable_x64(True):
        x = jnp.asarray([0.3, -0.4])
        u = jnp.asarray(np.stack(np.meshgrid(nodes, nodes), -1).reshape(-1, 2))
        chance = jnp.asarray(np.outer(weights, weights).ravel() / weights.sum() ** 2)
        estimates = jax.jit(jax.vmap(lambda u, h: along(wavy, x, u[None], h), (0, None)))
        errors = [np.asarray(chance @ estimates(u, h) - jax.grad(wavy)(x)) for h in RADII]
    assert abs(order([e @ e for e in errors]) - 4) < 0.2


@pytest.mark.parametrize("radius", [0.1, 3.0])
def test_the_mean_over_a_circle_is_exact_on_a_quadratic(radius):
    """Eight directions integrate the cubes of sines and cosines exactly."""
    angles = 2 * np.pi * np.arange(8) / 8
    A, b = np.array([[2.0, 0.5], [0.5, 1.0]]), np.array([1.0, -2.0])
    with jax.enable_x64(True):
        u, x = jnp.asarray(np.stack([np.cos(angles), np.sin(angles)], 1)), jnp.asarray([0.7, 0.2])
        gradient = 2 * along(lambda x: 0.5 * (x - b) @ A @ (x - b), x, u, radius)
    np.testing.assert_allclose(gradient, A @ (np.asarray(x) - b), rtol=1e-11)


@pytest.mark.parametrize(("method", "factor", "directions"), [("gaussian", DIM + 1, 1), ("sphere", DIM - 1, 3)])
def test_random_directions_are_unbiased_on_quadratics_with_this_variance(method, factor, directions):
    """4,096 queries. The interval of the bias misses zero for at most 1 in 40 seeds. The variance is (d ± 1)‖∇f‖² a
    direction at a vanishing radius; its relative deviation is below 4 %, so that 20 % fails for 1 in 10⁶ seeds."""
    measured = measure(zeroth_order(method, radius=1e-5, directions=directions), HILLY, POINTS[:1], queries=4096)
    assert measured.absolute_interval(0)[0] == 0
    assert measured.absolute_interval(0)[1] < 0.02 * measured.grad_sq.max() * factor
    np.testing.assert_allclose(measured.noise, factor / directions * measured.grad_sq, rtol=0.2)
    wide = measure(zeroth_order(method, radius=0.5, directions=directions), HILLY, POINTS[:1], queries=4096)
    assert wide.absolute_interval(0)[0] == 0


@pytest.mark.parametrize(("method", "deviation"), [("gaussian", 296**0.5), ("sphere", 45**0.5)])
def test_the_stated_variance_is_that_of_a_linear_loss(method, deviation):
    """20,000 draws in six dimensions. With ‖g‖ = 1 the squared norm of an answer has variance 296 and 45, so that five
    standard errors are missed for fewer than 1 in 10⁶ seeds."""
    g, draws = np.array([0.5, -0.5, 0.5, -0.5, 0.0, 0.0]), 20_000
    linear = gs.problems.empirical(lambda w, a, y: a @ w, np.zeros(6), ([g, g], [0, 1]), agents=1)
    oracle = exact() | zeroth_order(method, radius=0.5)
    variance = measure(oracle, linear, [g], queries=draws).noise.item()
    stated = direction_variance(method, d=6)
    assert abs(variance - stated) < 5 * deviation / draws**0.5
    assert f"a variance of {stated} ‖g‖²" in oracle.constants(linear).note
    halved = (exact() | zeroth_order(method, radius=0.5, directions=2)).constants(linear)
    assert f"a variance of {stated / 2:g} ‖g‖²" in halved.note


def test_coordinates_on_a_quadratic_err_by_half_the_curvature():
    h = 0.1
    with jax.enable_x64(True):
        (gradient,), _ = ask(exact() | zeroth_order("coordinate", radius=h), at(1, problem=HILLY), POINTS[0])
    np.testing.assert_allclose(gradient, HILLY.gradients(POINTS[0])[1] + h / 2 * np.diag(HILLY.A[1]), rtol=1e-11)


def test_measured_and_stated_biases_on_data():
    """Forward differences on logistic regression: the measured order, and never above dL²h²/4."""
    biases = []
    for h in RADII:
        oracle = exact() | zeroth_order("coordinate", radius=h)
        measured, stated = measure(oracle, PROBLEM, POINTS), oracle.constants(PROBLEM)
        assert (stated.relative, stated.variance) == (0, 0)
        assert measured.absolute_at(0) <= stated.absolute
        biases.append(measured.bias_sq[0, 0])
    assert abs(order(biases) - 2) < 0.2


@pytest.mark.parametrize("replace", [True, False])
def test_both_values_are_on_the_sample_of_the_source(replace):
    """Three queries through an epoch: with a tiny radius they are the source's own gradients."""
    source, states = minibatch(3, replace=replace), [None, None]
    with jax.enable_x64(True):
        for t in range(3):
            site = at(2, seed=t, t=t)
            (plain,), states[0] = ask(source, site, POINTS[0], state=states[0])
            (gradient,), states[1] = ask(
                source | zeroth_order("coordinate", radius=1e-6), site, POINTS[0], state=states[1]
            )
            np.testing.assert_allclose(gradient, plain, atol=1e-5)


@gs.pytree
@dataclass(frozen=True, eq=False, repr=False)
class Opaque(Quadratic):
    """A loss whose gradient nobody may ask for."""

    def local_loss(self, agent, x):
        return 0.5 * (x - self.b[agent]) @ self.A[agent] @ (x - self.b[agent])

    def local_gradient(self, agent, x):
        raise AssertionError("a gradient was asked for")


@pytest.mark.parametrize("method", ["gaussian", "sphere", "coordinate"])
def test_no_derivative_is_taken_and_float32_sees_the_same_directions(method):
    oracle = exact() | zeroth_order(method, radius=0.5)
    problem = Opaque(HILLY.A, HILLY.b, HILLY.start)
    (single,), _ = ask(oracle, at(1, problem=problem, dtype=np.float32), POINTS[0])
    with jax.enable_x64(True):
        (double,), _ = ask(oracle, at(1, problem=problem), POINTS[0])
    np.testing.assert_allclose(single, double, rtol=1e-4, atol=1e-4)


def test_points_of_one_query_share_their_directions():
    with jax.enable_x64(True):
        (first, second), _ = ask(exact() | zeroth_order(radius=1e-6), at(problem=FLAT), POINTS[0], 2 * POINTS[0])
    np.testing.assert_allclose(second, 2 * first, rtol=1e-4)


def test_a_run_settles_where_the_gradient_undoes_the_bias():
    """On quadratics forward differences have the constant bias h/2 diag(A_i)."""
    oracle, h = zeroth_order("coordinate", radius=0.1), 0.1
    result = gs.simulate(gs.GNSD(0.02), HILLY, gs.networks.complete(3), oracle, steps=3000, dtype="float64")
    wanted = HILLY.solution(h / 2 * np.stack([np.diag(A) for A in HILLY.A]))
    np.testing.assert_allclose(result.iterates["gnsd"][0], np.tile(wanted, (3, 1)), atol=1e-8)


@gs.pytree
class Mute(Quadratic):
    """A problem without function values."""

    def local_loss(self, agent, x):
        raise gs.InputError("this problem has gradients only.")


@table(
    ("make", "message"),
    [
        (lambda: zeroth_order(radius=0), r"zeroth_order\(radius=…\) must be a number in \(0, ∞\), but is 0"),
        (lambda: zeroth_order(radius=-0.1), r"must be a number in \(0, ∞\), but is -0\.1"),
        (lambda: zeroth_order("gauss", radius=0.1), "method='gauss'.* is not known; did you mean 'gaussian'"),
        (
            lambda: zeroth_order(radius=0.1, directions=0),
            r"directions=…\) must be a whole number of at least 1, but is 0",
        ),
        (lambda: zeroth_order("coordinate", radius=0.1, directions=2), "directions=2 would change nothing"),
        (
            lambda: (exact() | top_k(2) | zeroth_order(radius=0.1)).check(FLAT),
            r"zeroth_order asks for function values, .* Compressed gives gradients only.* Put it around a source",
        ),
        (lambda: (exact() | clip(1.0) | zeroth_order(radius=0.1)).check(FLAT), "Clip gives gradients only"),
        (lambda: (custom(lambda g, x, s: g) | zeroth_order(radius=0.1)).check(FLAT), "has no oracle to stand around"),
        (
            lambda: (exact() | zeroth_order(radius=0.1) | zeroth_order(radius=0.1)).check(FLAT),
            "ZerothOrder gives gradients only",
        ),
        (
            lambda: (exact() | zeroth_order(radius=0.1)).check(Mute(HILLY.A, HILLY.b, HILLY.start)),
            "there are none: this problem has gradients only",
        ),
    ],
)
def test_refuses(make, message):
    with pytest.raises(gs.InputError, match=message):
        make()
