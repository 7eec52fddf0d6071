"""A problem is the same in whatever form its features are held: bits, bytes or sparse rows."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gossamer.data import Dataset, from_arrays
from gossamer.problems import empirical, inputs, least_squares, logistic, neural, softmax
from gossamer.problems.inputs import Bits, Bytes, Rows
from gossamer.problems.problem import cast
from tests import sparse

DRAW = np.random.default_rng(0)
LABELS, TEST_LABELS = DRAW.integers(0, 2, 260), DRAW.integers(0, 2, 20)


def bits():
    parts = [(DRAW.random((rows, 701)) < 0.2).astype(np.int8) for rows in (260, 20)]
    return from_arrays(parts[0], LABELS, test=(parts[1], TEST_LABELS))


def pixels():
    parts = [DRAW.integers(0, 256, (rows, 400), dtype=np.uint8) for rows in (260, 20)]
    return Dataset("pixels", parts[0], LABELS, parts[1], TEST_LABELS, divisor=255)


def rows():
    parts = [sparse.drawn((rows, 300), 0.02, DRAW) for rows in (260, 20)]
    return from_arrays(parts[0], LABELS, test=(parts[1], TEST_LABELS))


def own(data, agents, **options):
    def loss(params, inputs, targets):
        return (jnp.tanh(inputs).sum(1) * params[0] - targets) ** 2

    return empirical(loss, np.ones(1), data, agents, predict=lambda w, a: a.sum(1) > w[0], **options)


@pytest.mark.parametrize(
    ("make", "form", "kind"),
    [
        *((bits, Bits, kind) for kind in (logistic, softmax, neural)),
        *((pixels, Bytes, kind) for kind in (softmax, neural)),
        *((rows, Rows, kind) for kind in (logistic, softmax, least_squares, neural, own)),
    ],
)
def test_losses_gradients_and_accuracy_are_those_of_the_matrix(make, form, kind, monkeypatch):
    """All rows are summed in blocks, of which the last is not full. No array is made of all sparse features."""
    monkeypatch.setattr(inputs, "DENSE_BYTES", 0)
    held = kind(make(), 4, split="iid")
    dense = replace(held, inputs=np.asarray(held.inputs, float), test_inputs=np.asarray(held.test_inputs, float))
    assert isinstance(held.inputs, form)
    assert isinstance(held.test_inputs, form)
    x = DRAW.normal(size=held.dim) / 10
    for name in ("loss", "gradient", "gradients"):
        found, expected = (getattr(problem, name)(x) for problem in (held, dense))
        np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-13)
    np.testing.assert_array_equal(held.own_inputs(2), dense.own_inputs(2))
    assert held.accuracy(x) == dense.accuracy(x)
    if held.local_smoothness is not None:
        np.testing.assert_allclose(held.local_smoothness, dense.local_smoothness, rtol=1e-12)
    with jax.enable_x64(True):
        loss, gradient = jax.jit(cast(held, np.float64).mean_loss_and_gradient)(jnp.asarray(x))
    np.testing.assert_allclose(loss, held.loss(x), rtol=1e-13)
    np.testing.assert_allclose(gradient, held.gradient(x), rtol=1e-11, atol=1e-14)
