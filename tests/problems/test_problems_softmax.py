"""Softmax regression: the loss as written out, its relation to logistic regression, and its smoothness."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gossamer import problems
from gossamer.core import InputError
from gossamer.data import from_arrays
from gossamer.problems.problem import cast

ROWS, DIM, AGENTS, ALPHA = 40, 4, 3, 0.05


@pytest.fixture
def rng():
    return np.random.default_rng(8)


def made_of(rng, classes, alpha=ALPHA, **options):
    features = rng.normal(size=(ROWS, DIM))
    labels = np.arange(ROWS) % classes
    return problems.softmax((features, labels), AGENTS, alpha=alpha, **options)


def hessian(problem, agent, x):
    with jax.enable_x64(True):
        held = cast(problem, np.float64)
        return np.asarray(jax.jacfwd(lambda y: held.local_gradient(agent, y))(jnp.asarray(x)))


def test_the_loss_is_what_the_equation_says(rng):
    problem = made_of(rng, 3, split="iid")
    X = rng.normal(size=(DIM, 3))
    total = 0.0
    for agent in range(AGENTS):
        A, y = problem.own_inputs(agent), problem.own_targets(agent)
        losses = [np.log(np.exp(a @ X).sum()) - a @ X[:, k] for a, k in zip(A, y, strict=True)]
        total += (np.mean(losses) + ALPHA * (X**2 / (1 + X**2)).sum()) / AGENTS
    assert problem.loss(X.ravel()) == pytest.approx(total, rel=1e-12)
    assert problem.dim == 3 * DIM
    np.testing.assert_array_equal(problem.start, 0)


def test_two_classes_are_logistic_regression_in_the_difference(rng):
    features, x = rng.normal(size=(ROWS, DIM)), rng.normal(size=DIM)
    labels = np.where(rng.random(ROWS) < 0.5, "no", "yes")
    both = [make((features, labels), AGENTS, alpha=0.0) for make in (problems.softmax, problems.logistic)]
    X = np.stack([np.zeros(DIM), x], axis=1)
    assert both[0].loss(X.ravel()) == pytest.approx(both[1].loss(x), rel=1e-12)
    np.testing.assert_allclose(both[0].gradient(X.ravel()).reshape(DIM, 2)[:, 1], both[1].gradient(x), rtol=1e-10)


@pytest.mark.parametrize("classes", [2, 5])
def test_no_hessian_exceeds_the_smoothness(classes, rng):
    problem = made_of(rng, classes)
    for scale in (0.0, 0.3, 3.0):
        x = scale * rng.normal(size=problem.dim)
        for agent, L in enumerate(problem.local_smoothness):
            assert np.abs(np.linalg.eigvalsh(hessian(problem, agent, x))).max() <= L * (1 + 1e-12)


def test_the_smoothness_is_attained_at_zero_by_two_classes(rng):
    problem = made_of(rng, 2)
    for agent, L in enumerate(problem.local_smoothness):
        largest = np.linalg.eigvalsh(hessian(problem, agent, problem.start))[-1]
        assert largest == pytest.approx(L, rel=1e-12)


def test_accuracy_counts_the_largest_score(rng):
    features = np.eye(3)[np.arange(12) % 3]
    labels = np.array(["a", "b", "c"])[np.arange(12) % 3]
    data = from_arrays(features, labels, test=(features[:6], labels[:6]))
    problem = problems.softmax(data, 2, split="iid")
    assert problem.has_accuracy
    assert problem.accuracy(np.eye(3).ravel()) == 1.0
    assert problem.accuracy(np.roll(np.eye(3), 1, axis=1).ravel()) == 0.0
    assert problem.accuracy(np.eye(3)[:, [0, 2, 1]].ravel()) == pytest.approx(1 / 3)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"alpha": -1}, r"softmax\(alpha=…\) must be a number in \[0, ∞\)"),
        ({"data": (np.eye(3), [1, 1, 1])}, "needs two classes at least, but all labels of arrays are 1"),
        (
            {"data": from_arrays(np.eye(3), [0, 1, 2], test=(np.eye(3), [0, 1, 3]))},
            "the test part of arrays has the label 3, but the training part only 0, 1, 2",
        ),
    ],
)
def test_what_is_refused(given, message):
    with pytest.raises(InputError, match=message):
        problems.softmax(**({"data": (np.eye(3), [0, 1, 2]), "agents": 3} | given))


def real(rows=60):
    draw = np.random.default_rng(1)
    return from_arrays(draw.normal(size=(rows, 3)), draw.normal(size=rows), name="prices")


@pytest.mark.parametrize("make", [problems.logistic, problems.softmax, problems.neural])
@pytest.mark.parametrize("rows", [6, 60])
def test_targets_of_a_regression_are_refused_with_the_way_out(make, rows):
    with pytest.raises(
        InputError, match=f"labels of prices are {rows} different numbers in {rows} rows.* use problems.least_sq"
    ):
        make(real(rows), 2)


def test_fractions_that_are_few_are_classes():
    labels = np.array([0.5, 1.0, 1.5])[np.arange(30) % 3]
    data = from_arrays(np.random.default_rng(0).normal(size=(30, 2)), labels)
    assert not data.continuous
    assert problems.softmax(data, 2).dim == 6
    two = from_arrays(np.eye(2), [-0.5, 0.5])
    assert problems.logistic(two, 2).dim == 2


def test_whole_numbers_are_never_taken_for_real_targets():
    data = from_arrays(np.eye(30), np.arange(30) * 7.0)
    assert not data.continuous
    assert real().continuous
    assert repr(real()) == "Dataset('prices', rows=60, dim=3, real labels)"
