"""Logistic regression against closed forms in NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gossamer as gs
from gossamer.data import Dataset
from gossamer.problems import logistic
from gossamer.problems.problem import cast
from tests.table import table

RNG = np.random.default_rng(0)
SIZES = np.array([1, 40, 3, 17])
FEATURES = RNG.normal(size=(SIZES.sum(), 5))
LABELS = RNG.choice([-1, 1], SIZES.sum())
HOLDERS = RNG.permutation(np.repeat(np.arange(4), SIZES))
ALPHA = 0.3
POINTS = RNG.normal(size=(20, 5))


def unequal(alpha=ALPHA):
    """Four agents with 1, 40, 3 and 17 rows, mixed in the data."""
    return logistic(Dataset("small", FEATURES, LABELS, holders=HOLDERS), split="column:who", alpha=alpha)


def own(agent):
    return FEATURES[agent == HOLDERS], LABELS[agent == HOLDERS]


def closed_loss(A, y, x, alpha=ALPHA):
    return np.log1p(np.exp(-y * (A @ x))).mean() + alpha * (x**2 / (1 + x**2)).sum()


def closed_gradient(A, y, x, alpha=ALPHA):
    pull = -y / (1 + np.exp(y * (A @ x)))
    return A.T @ pull / len(y) + alpha * 2 * x / (1 + x**2) ** 2


def closed_hessian(A, y, x, alpha=ALPHA):
    p = 1 / (1 + np.exp(-y * (A @ x)))
    return (A.T * (p * (1 - p))) @ A / len(y) + alpha * np.diag(2 * (1 - 3 * x**2) / (1 + x**2) ** 3)


def differences(function, x, h=1e-6):
    return np.array([(function(x + h * e) - function(x - h * e)) / (2 * h) for e in np.eye(len(x))])


def test_loss_is_the_plain_mean_over_agents_of_means_over_their_own_samples():
    problem = unequal()
    assert problem.sizes.tolist() == SIZES.tolist()
    for x in POINTS[:5]:
        expected = np.mean([closed_loss(*own(agent), x) for agent in range(4)])
        assert problem.loss(x) == pytest.approx(expected, rel=1e-13)
        assert abs(expected - closed_loss(FEATURES, LABELS, x)) > 1e-3  # the mean over all rows is another number


def test_gradient_is_the_closed_form_for_each_agent_and_their_mean():
    problem = unequal()
    for x in POINTS[:5]:
        rows = np.array([closed_gradient(*own(agent), x) for agent in range(4)])
        np.testing.assert_allclose(problem.gradients(x), rows, rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(problem.gradient(x), rows.mean(0), rtol=1e-12, atol=1e-14)
        assert problem.heterogeneity(x) == pytest.approx(((rows - rows.mean(0)) ** 2).sum(1).mean(), rel=1e-12)


def test_local_loss_is_the_closed_form_for_each_agent():
    with jax.enable_x64(True):
        problem = cast(unequal(), np.float64)
        losses = jax.jit(jax.vmap(problem.local_loss, (0, None)))(jnp.arange(4), jnp.asarray(POINTS[0]))
    np.testing.assert_allclose(losses, [closed_loss(*own(agent), POINTS[0]) for agent in range(4)], rtol=1e-13)


def test_gradient_is_the_difference_quotient_of_the_loss():
    problem = unequal()
    np.testing.assert_allclose(problem.gradient(POINTS[0]), differences(problem.loss, POINTS[0]), atol=1e-8)


@pytest.mark.parametrize("agent", [0, 3])
def test_an_agent_never_sees_the_rows_of_another(agent):
    """Other agents' rows are made a thousand times larger: an agent's own gradient stays, bit for bit."""
    loud = np.where((agent == HOLDERS)[:, None], FEATURES, 1000 * FEATURES)
    other = logistic(Dataset("loud", loud, -LABELS * (1 - 2 * (agent == HOLDERS)), holders=HOLDERS), split="column:who")
    quiet = unequal(alpha=0.01)
    np.testing.assert_array_equal(other.gradients(POINTS[0])[agent], quiet.gradients(POINTS[0])[agent])
    np.testing.assert_array_equal(other.own_inputs(agent), own(agent)[0])
    np.testing.assert_array_equal(other.own_targets(agent), own(agent)[1])


@pytest.mark.parametrize("split", ["iid", "dirichlet:0.5"])
def test_sizes_as_they_fall_hold_every_row_once(split):
    problem = logistic((FEATURES, LABELS), 6, split=split, sizes="as-they-fall", seed=3)
    held = np.concatenate([problem.own_inputs(agent) for agent in range(6)])
    assert problem.sizes.sum() == len(FEATURES)
    np.testing.assert_array_equal(held[np.lexsort(held.T)], FEATURES[np.lexsort(FEATURES.T)])
    parts = [(problem.own_inputs(agent), problem.own_targets(agent)) for agent in range(6)]
    assert problem.loss(POINTS[0]) == pytest.approx(np.mean([closed_loss(A, y, POINTS[0], 0.01) for A, y in parts]))


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_table_is_split_by_its_column(tmp_path, ending):
    path = tmp_path / f"patients.{ending}"
    columns = {f"f{k}": FEATURES[:, k] for k in range(5)}
    frame = pl.DataFrame(columns | {"clinic": [f"c{who}" for who in HOLDERS], "ill": LABELS == 1})
    frame.write_csv(path) if ending == "csv" else frame.write_parquet(path)
    problem = logistic(path, split="column:clinic", label="ill", alpha=ALPHA)
    np.testing.assert_allclose(problem.gradients(POINTS[0]), unequal().gradients(POINTS[0]), rtol=1e-12)


# The regulariser: without features the logistic part is log 2 and its gradient is zero.

FEATURELESS = (np.zeros((4, 3)), [-1, 1, 1, -1])


@given(st.lists(st.floats(-1e3, 1e3), min_size=3, max_size=3))
@settings(max_examples=30, deadline=None)
def test_regulariser_and_its_slope(values):
    x, problem = np.array(values), logistic(FEATURELESS, 2, alpha=1.0)
    assert problem.loss(x) == pytest.approx(np.log(2) + (x**2 / (1 + x**2)).sum(), rel=1e-12)
    np.testing.assert_allclose(problem.gradient(x), 2 * x / (1 + x**2) ** 2, rtol=1e-12, atol=1e-15)


def test_regulariser_slope_is_at_most_three_root_three_eighths():
    problem = logistic((np.zeros((2, 30_001)), [-1, 1]), 1, alpha=1.0)
    line = np.linspace(-3, 3, 30_001)
    slope = problem.gradient(line)
    assert slope.max() == pytest.approx(3 * np.sqrt(3) / 8, abs=1e-7)
    assert line[slope.argmax()] == pytest.approx(1 / np.sqrt(3), abs=2e-4)


def test_regulariser_curvature_is_between_minus_a_half_and_two():
    problem = logistic((np.zeros((2, 30_001)), [-1, 1]), 1, alpha=1.0)
    line, h = np.linspace(-3, 3, 30_001), 1e-5
    curvature = (problem.gradient(line + h) - problem.gradient(line - h)) / (2 * h)
    assert curvature.max() == pytest.approx(2, abs=1e-6)
    assert curvature.min() == pytest.approx(-0.5, abs=1e-6)
    assert abs(line[curvature.argmin()]) == pytest.approx(1, abs=1e-3)


# Smoothness.


def test_smoothness_is_the_stated_formula():
    problem = unequal()
    stated = [np.linalg.norm(own(agent)[0], 2) ** 2 / (4 * SIZES[agent]) + 2 * ALPHA for agent in range(4)]
    np.testing.assert_allclose(np.asarray(problem.local_smoothness), stated, rtol=1e-12)
    assert problem.smoothness == pytest.approx(max(stated))


def test_smoothness_bounds_the_hessian_of_differences_and_is_reached_at_zero():
    """At zero both parts bend most, so the bound is exact there."""
    problem = unequal()
    for scale, points in ((1.0, POINTS), (0.0, POINTS[:1])):
        for x in scale * points:
            rows = differences(problem.gradients, x)  # [direction, agent, d]
            for agent in range(4):
                hessian = rows[:, agent]
                np.testing.assert_allclose(hessian, closed_hessian(*own(agent), x), atol=1e-7)
                norm = np.linalg.norm(hessian, 2)
                assert norm <= problem.local_smoothness[agent] + 1e-7
                if scale == 0:
                    assert norm == pytest.approx(problem.local_smoothness[agent], abs=1e-7)


def test_loss_stays_finite_far_out():
    x = np.full(5, 1e6)
    assert np.isfinite(unequal().loss(x))
    assert np.isfinite(unequal().gradient(-x)).all()


# Labels.


@pytest.mark.parametrize("low_high", [(0, 1), (1, 2), (-1.0, 1.0), (0.25, 0.5), ("healthy", "ill"), (False, True)])
def test_any_two_labels_are_minus_one_and_one(low_high):
    named = np.where(LABELS == 1, low_high[1], low_high[0])
    problem = logistic((FEATURES, named), 4, test=(FEATURES, named))
    np.testing.assert_array_equal(problem.test_targets, LABELS)
    np.testing.assert_array_equal(problem.targets, logistic((FEATURES, LABELS), 4).targets)


def test_accuracy_is_the_share_of_signs_that_are_right():
    problem = logistic((FEATURES, LABELS == 1), 4, test=(FEATURES, LABELS == 1))
    right = np.where(FEATURES @ POINTS[0] > 0, 1, -1) == LABELS
    assert problem.accuracy(POINTS[0]) == pytest.approx(right.mean())


def test_no_test_set_no_accuracy():
    problem = unequal()
    assert not problem.has_accuracy
    assert problem.accuracy(POINTS[0]) is None


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([0, 1, 2, 0], r"needs two classes, but arrays has 3 \(0, 1, 2\)\. For more use problems\.softmax"),
        ([1, 1, 1, 1], r"needs two classes, but arrays has 1 \(1\)"),
        (list("abcd"), r"has 4 \(a, b, c, d\)"),
    ],
)
def test_refuses_other_than_two_classes(labels, message):
    with pytest.raises(gs.InputError, match=message):
        logistic((np.eye(4), labels), 2)


@table("alpha", [-0.1, float("nan"), float("inf"), "0.1", None, True])
def test_refuses_alpha(alpha):
    with pytest.raises(gs.InputError, match=r"logistic\(alpha=…\) must be a number in \[0, ∞\), but is .*0 leaves"):
        logistic(FEATURELESS, 2, alpha=alpha)


def test_refuses_test_labels_that_were_never_trained():
    with pytest.raises(gs.InputError, match=r"test part of arrays has the label 2, but the training part only 0, 1\."):
        logistic((FEATURES, LABELS == 1), 2, test=(FEATURES[:2], [0, 2]))


@table("shape", [(4,), (6,), (5, 1), ()])
def test_refuses_points_of_another_shape(shape):
    with pytest.raises(gs.InputError, match=r"a point of this problem has shape \(5,\), but x has shape"):
        unequal().loss(np.zeros(shape))


def test_classes_keep_the_names_of_their_labels(tmp_path):
    """Targets are −1 and 1, and a reader sees the words of the file."""
    (tmp_path / "t.csv").write_text("x,y,status\n1,2,ill\n2,0,healthy\n3,1,ill\n0,1,healthy\n")
    problem = gs.problems.logistic(tmp_path / "t.csv", agents=2, label="status")
    assert problem.class_names == ("healthy", "ill")
    assert sorted({int(one) for one in problem.own_targets(0)} | {int(one) for one in problem.own_targets(1)}) == [
        -1,
        1,
    ]
