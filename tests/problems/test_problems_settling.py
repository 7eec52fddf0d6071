"""Where a constant bias lets a method settle."""

import numpy as np
import pytest

import gossamer as gs
from gossamer.problems import dpsgd_fixed_point, settling_point
from tests import plain


def test_on_quadratics_it_is_the_closed_form():
    problem, E = plain.heterogeneous()
    np.testing.assert_allclose(settling_point(problem, E.mean(0)), problem.solution(E), atol=1e-8)


def test_the_gradient_there_is_minus_the_bias():
    problem = gs.problems.logistic("breast-cancer", agents=4, alpha=0.1)
    bias = np.random.default_rng(0).normal(0, 0.02, problem.dim)
    np.testing.assert_allclose(problem.gradient(settling_point(problem, bias)), -bias, atol=1e-7)


def test_a_bias_that_nothing_holds_is_refused():
    """A column without data is held by the regulariser alone, whose pull is at most α·3√3/8."""
    features = np.array([[1.0, 0], [-1, 0], [2, 0], [-1, 0]])
    problem = gs.problems.logistic((features, [1, -1, -1, 1]), agents=2, alpha=0.1)
    limit = 0.1 * 3 * np.sqrt(3) / 8
    x = settling_point(problem, [0.0, 0.95 * limit])
    assert problem.gradient(x)[1] == pytest.approx(-0.95 * limit, abs=1e-7)
    with pytest.raises(gs.InputError, match=r"no point has ∇F = −ē .*coordinate 1.*Use a smaller bias"):
        settling_point(problem, [0.0, 1.05 * limit])


def test_a_quadratic_may_settle_however_far_away():
    far = gs.problems.quadratic([[2.0, 0.5], [0.5, 1.0]], [[3e4, 0.0], [5e4, -8e3]])
    np.testing.assert_allclose(settling_point(far, [1.0, -2.0]), far.solution([1.0, -2.0]), rtol=1e-12)
    inputs = np.random.default_rng(0).normal(size=(40, 3))
    regression = gs.problems.least_squares((inputs, inputs @ [100.0, -500.0, 3.0]), agents=4)
    np.testing.assert_allclose(settling_point(regression), [100.0, -500.0, 3.0], rtol=1e-10)


def test_d_psgd_on_quadratics_stays_at_the_solution_of_its_linear_system():
    problem, E = plain.heterogeneous()
    W, eta = plain.irregular().matrix().toarray(), 0.05
    n, d = problem.agents, problem.dim
    blocks = np.zeros((n, d, n, d))
    blocks[np.arange(n), :, np.arange(n), :] = problem.A
    system = np.kron(np.eye(n) - W, np.eye(d)) + eta * blocks.reshape(n * d, n * d)
    expected = np.linalg.solve(system, eta * (np.einsum("nde,ne->nd", problem.A, problem.b) - E).ravel())
    np.testing.assert_allclose(dpsgd_fixed_point(problem, W, eta, E).ravel(), expected, atol=1e-10)


@pytest.mark.parametrize("eta", [0.4, 0.1])
def test_a_long_run_of_d_psgd_with_exact_gradients_ends_at_its_fixed_point(eta):
    """On the paper's loss, nonconvex, with a bias of each agent's own: to 1e-8, in every model."""
    problem, network = gs.problems.logistic("breast-cancer", agents=6, split="by-label", alpha=0.1), gs.networks.ring(6)
    e = np.random.default_rng(1).normal(0.003, 0.003, (6, problem.dim))
    fixed = dpsgd_fixed_point(problem, network.matrix(), eta, e)
    oracle = gs.oracles.exact() | gs.oracles.additive_bias(vectors=e)
    run = gs.simulate(gs.DPSGD(eta=eta), problem, network, oracle, steps=40_000, dtype="float64", progress=False)
    (models,) = run.states.values()
    np.testing.assert_allclose(models[0], fixed, atol=1e-8)


def test_the_fixed_point_of_d_psgd_tends_to_that_of_a_tracker_with_its_step_size():
    """The distance falls in proportion to η, so that no floor above the tracker's is for ever."""
    problem, network = gs.problems.logistic("breast-cancer", agents=6, split="by-label", alpha=0.1), gs.networks.ring(6)
    settled = settling_point(problem)
    apart = [np.linalg.norm(dpsgd_fixed_point(problem, network.matrix(), eta) - settled) for eta in (1e-2, 1e-3, 1e-4)]
    np.testing.assert_allclose([apart[0] / apart[1], apart[1] / apart[2]], 10, rtol=0.05)


def test_bad_arguments_of_the_fixed_point_are_refused():
    problem, _ = plain.heterogeneous()
    W = plain.irregular().matrix()
    with pytest.raises(gs.InputError, match=r"W must have shape \(8, 8\)"):
        dpsgd_fixed_point(problem, np.eye(3), 0.1)
    with pytest.raises(gs.InputError, match="bias must have shape"):
        dpsgd_fixed_point(problem, W, 0.1, np.zeros((3, 3, 3)))
    with pytest.raises(gs.InputError, match="eta must be a number above 0"):
        dpsgd_fixed_point(problem, W, 0.0)
