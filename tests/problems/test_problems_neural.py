"""The shipped neural network."""

from itertools import pairwise

import numpy as np
import pytest
from scipy.special import log_softmax

import gossamer as gs
from gossamer.problems import neural
from tests.table import table

RNG = np.random.default_rng(0)
FEATURES = RNG.normal(size=(30, 4))
LABELS = np.repeat([3, 5, 9], 10)


def layers(x, widths):
    """The weights and offsets in the flat vector."""
    found = []
    for fan_in, fan_out in pairwise(widths):
        cut = fan_in * fan_out
        found.append((x[:cut].reshape(fan_in, fan_out), x[cut : cut + fan_out]))
        x = x[cut + fan_out :]
    assert not len(x)
    return found


def scores(x, inputs, widths):
    *inner, (w, o) = layers(x, widths)
    for weights, offsets in inner:
        inputs = np.tanh(inputs @ weights + offsets)
    return inputs @ w + o


@pytest.mark.parametrize("hidden", [(), (6, 5)])
def test_is_tanh_layers_with_cross_entropy(hidden):
    problem, widths = neural((FEATURES, LABELS), 3, hidden=hidden), [4, *hidden, 3]
    x = RNG.normal(size=problem.dim)
    parts = [(problem.own_inputs(agent), problem.own_targets(agent)) for agent in range(3)]
    losses = [-log_softmax(scores(x, a, widths), 1)[np.arange(len(y)), y].mean() for a, y in parts]
    assert problem.loss(x) == pytest.approx(np.mean(losses), rel=1e-12)


def test_gradient_is_the_difference_quotient_of_the_loss():
    problem = neural((FEATURES, LABELS), 3, hidden=(3,))
    x, direction = RNG.normal(size=(2, problem.dim))
    quotient = (problem.loss(x + 1e-6 * direction) - problem.loss(x - 1e-6 * direction)) / 2e-6
    assert problem.gradient(x) @ direction == pytest.approx(quotient, abs=1e-8)


def test_start_is_drawn_from_the_seed():
    first, again, other = (neural((FEATURES, LABELS), 3, split="iid", seed=seed) for seed in (4, 4, 5))
    np.testing.assert_array_equal(first.start, again.start)
    assert (first.start != other.start).any()


def test_start_has_lecun_weights_and_zero_offsets():
    """The sample deviation of 400 · 50 normal numbers is within 3 % but for a chance of about 2e-9."""
    (w, o), (_, last) = layers(neural((np.ones((4, 400)), [0, 0, 1, 1]), 2, hidden=(50,)).start, [400, 50, 2])
    assert w.std() == pytest.approx(1 / 20, rel=0.03)
    assert not o.any()
    assert not last.any()


def test_digits_at_the_start_and_after_some_gradient_descent():
    """At the start about a tenth is right; full gradients on alike agents soon get most of them."""
    problem = neural("digits", 4, split="iid")
    assert problem.dim == 64 * 32 + 32 + 32 * 10 + 10
    assert problem.loss(problem.start) == pytest.approx(np.log(10), abs=1)
    x = problem.start
    for _ in range(60):
        x = x - problem.gradient(x)
    for point in (problem.start, x):
        right = scores(point, np.asarray(problem.test_inputs), [64, 32, 10]).argmax(1) == problem.test_targets
        assert problem.accuracy(point) == pytest.approx(right.mean())
    assert problem.accuracy(x) > 0.8


def test_labels_may_be_text():
    named = np.array(["three", "five", "nine"])[np.searchsorted([3, 5, 9], LABELS)]
    problem = neural((FEATURES, named), 3, test=(FEATURES, named))
    assert sorted(set(problem.targets.tolist())) == [0, 1, 2]
    assert problem.own_targets(0).tolist() == [0] * 10  # "five" is the first in the alphabet
    np.testing.assert_array_equal(problem.own_inputs(0), FEATURES[10:20])
    right = scores(problem.start, FEATURES, [4, 32, 3]).argmax(1) == np.repeat([2, 0, 1], 10)
    assert problem.accuracy(problem.start) == pytest.approx(right.mean())


@table("hidden", [(0,), (8, -1), (2.5,), ("8",), 8])
def test_refuses_widths(hidden):
    with pytest.raises(gs.InputError, match=r"^hidden.* must be a .* of at least 1, but is"):
        neural((FEATURES, LABELS), 3, hidden=hidden)


def test_refuses_test_labels_that_were_never_trained():
    """A label between two known ones would otherwise count as the upper."""
    with pytest.raises(
        gs.InputError, match=r"has the label 4, but the training part only 3, 5, 9\. Write labels alike"
    ):
        neural((FEATURES, LABELS), 3, test=(FEATURES[:2], [3, 4]))
