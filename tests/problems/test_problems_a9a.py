"""The paper's problem: all 32,561 rows of a9a, sorted by label, over 20 agents. Numbers measured elsewhere."""

import numpy as np
import pytest
from scipy.optimize import minimize

from gossamer.problems import logistic

ZERO = np.zeros(123)


@pytest.fixture(scope="module")
def problem():
    return logistic("a9a", 20)


def test_holds_every_row(problem):
    assert problem.sizes.tolist() == [1629] + [1628] * 19
    assert problem.sizes.sum() == 32_561


def test_smoothness(problem):
    assert round(problem.smoothness, 3) == 1.841


def test_smoothness_of_the_mean(problem):
    """L_F = 1.592: an agent's own rows are less alike than all rows, so the mean is smoother than the worst."""
    gram = sum(_rows(problem, agent).T @ _rows(problem, agent) / problem.sizes[agent] for agent in range(20)) / 20
    assert np.linalg.eigvalsh(gram)[-1] / 4 + 0.02 == pytest.approx(1.592, abs=5e-4)


def test_loss_at_zero_is_log_two(problem):
    assert problem.loss(ZERO) == pytest.approx(np.log(2), rel=1e-13)


def test_heterogeneity_at_zero(problem):
    assert problem.heterogeneity(ZERO) == pytest.approx(1.111, abs=5e-4)


def test_variance_of_a_batch_of_64_at_zero(problem):
    """A sample's gradient at zero is −y a/2, so its variance is the trace of the covariance of a·y, over 4."""
    signed = [_rows(problem, agent) * problem.own_targets(agent)[:, None] for agent in range(20)]
    assert np.mean([rows.var(0).sum() for rows in signed]) / 4 / 64 == pytest.approx(0.0297, rel=0.02)


def test_minimum_and_its_accuracy(problem):
    found = minimize(problem.loss, ZERO, jac=problem.gradient, method="L-BFGS-B", options={"ftol": 1e-6})
    assert found.fun == pytest.approx(0.38349, abs=1e-4)
    assert problem.accuracy(found.x) > 0.84


def _rows(problem, agent):
    return problem.own_inputs(agent).astype(float)
