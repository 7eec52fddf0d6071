"""Where a constant bias lets a method settle."""

import numpy as np
import pytest

import gossamer as gs
from gossamer.problems import settling_point
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
