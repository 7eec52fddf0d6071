"""Relative bias."""

import numpy as np
import pytest

import gossamer as gs
from tests import plain


def test_the_error_is_exactly_delta_times_the_gradient():
    """D-PSGD's first step shows the gradient that an agent saw."""
    problem, _ = plain.heterogeneous()
    network, eta, delta = plain.irregular(), 0.1, 0.25
    rule, oracle = gs.DPSGD(eta), gs.oracles.relative_bias(delta)
    result = gs.simulate(rule, problem, network, oracle, steps=1, seeds=2, dtype="float64", start=np.ones(5))
    exact = plain.gradient_of(problem)(np.ones((8, 5)))
    seen = (network.mixing @ np.ones((8, 5)) - result.iterates["d-psgd"]) / eta
    np.testing.assert_allclose(np.abs(seen / exact - 1), delta, rtol=1e-9)
    signs = np.sign(seen / exact - 1)
    assert not np.array_equal(signs[0], signs[1])
    assert len({tuple(row) for row in signs[0]}) > 1
    assert result.biases is None


def test_the_signs_are_drawn_once():
    problem, _ = plain.heterogeneous()
    result = gs.simulate(
        gs.CentralizedSGD(0.05), problem, plain.irregular(), gs.oracles.relative_bias(0.3), steps=6000, dtype="float64"
    )
    x = result.iterates["centralized-sgd"][0, 0]
    other = gs.simulate(
        gs.CentralizedSGD(0.05), problem, plain.irregular(), gs.oracles.relative_bias(0.3), steps=6001, dtype="float64"
    )
    np.testing.assert_allclose(other.iterates["centralized-sgd"][0, 0], x, atol=1e-10)
    assert np.linalg.norm(problem.gradient(x)) > 1e-3


@pytest.mark.parametrize("delta", [-0.1, float("nan"), "much"])
def test_bad_deltas_are_refused(delta):
    with pytest.raises(gs.InputError, match=r"relative_bias\(delta=…\) must be a number in \[0, 1e\+100\]"):
        gs.oracles.relative_bias(delta)
