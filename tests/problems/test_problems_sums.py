"""F and ∇F in float32: the rounding of their sums does not grow with the number of rows."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gossamer as gs
from gossamer.problems.inputs import Bits, Rows

MILLION = 1_000_000


def in_float32(problem, x):
    """The loss and the gradient that metrics are made of, in the program of a run."""
    loss, gradient = jax.jit(lambda x: problem.mean_loss_and_gradient(x))(jnp.asarray(x, jnp.float32))
    assert gradient.dtype == jnp.float32
    return float(loss), np.asarray(gradient, np.float64)


def apart(found, exact):
    return float(np.linalg.norm(found - exact) / np.linalg.norm(exact))


@pytest.mark.parametrize("native", [True, False])
def test_a9a_at_zero(native, monkeypatch):
    """A row's gradient at zero is −y a/2, so that ∇F is a mean of whole numbers over 2."""
    monkeypatch.setattr("gossamer.problems.native.likely", lambda: native)
    problem = gs.problems.logistic("a9a", agents=20)
    assert isinstance(problem.inputs, Rows if native else Bits)
    signed = [problem.own_targets(i) @ problem.own_inputs(i).astype(float) / problem.sizes[i] for i in range(20)]
    exact = -np.mean(signed, axis=0) / 2
    loss, gradient = in_float32(problem, np.zeros(123))
    assert apart(gradient, exact) <= 1e-6
    assert (gradient**2).sum() == pytest.approx((exact**2).sum(), rel=1e-6)
    assert loss == pytest.approx(np.log(2), rel=1e-6)


@pytest.mark.parametrize("kind", ["bits", "lists", "fractions"])
def test_a_million_rows(kind):
    draws = np.random.default_rng(0)
    features = draws.random((MILLION, 4), np.float32) < [0.9, 0.5, 0.3, 0.1]
    if kind == "lists":  # few of many columns, and two that hardly any row lacks
        columns = np.stack([np.zeros(MILLION, int), draws.integers(1, 40, MILLION)], axis=1)
        features = np.zeros((MILLION, 40), np.int8)
        np.put_along_axis(features, columns, 1, axis=1)
    elif kind == "fractions":
        features = features * 0.7
    signs = np.where(draws.random(MILLION) < 0.8, 1, -1)
    problem = gs.problems.logistic((features, signs), agents=4, split="iid", alpha=0.0)
    exact = -(signs @ features.astype(float)) / MILLION / 2
    loss, gradient = in_float32(problem, np.zeros(features.shape[1]))
    assert apart(gradient, exact) <= 1e-6
    assert loss == pytest.approx(np.log(2), rel=1e-6)


def test_blocks_of_any_number_of_rows_hold_every_row_once():
    """Rows are cut into runs, runs into blocks, and the last block reaches back: the sum is that of a plain loop."""
    draws = np.random.default_rng(1)
    for rows in (1, 2, 63, 64, 65, 127, 129, 1_000, 4_097):
        features, targets, x = draws.normal(size=(rows, 3)), draws.normal(size=rows), draws.normal(size=3)
        problem = gs.problems.least_squares((features, targets), agents=1, split="iid", alpha=0.0)
        expected = features.T @ (features @ x - targets) / rows
        np.testing.assert_allclose(problem.gradient(x), expected, rtol=1e-10, atol=1e-12)
        assert problem.loss(x) == pytest.approx(((features @ x - targets) ** 2).mean() / 2, rel=1e-12)
