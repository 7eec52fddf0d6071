"""Least squares: the loss as written out, the optimum in closed form, the exact smoothness, and splits by target."""

from itertools import pairwise

import numpy as np
import pytest

import gossamer as gs
from gossamer import problems
from gossamer.core import InputError
from gossamer.data import from_arrays, split

ROWS, DIM, AGENTS, ALPHA = 41, 4, 3, 0.2
rng = np.random.default_rng(5)
A = rng.normal(size=(ROWS, DIM))
Y = A @ rng.normal(size=DIM) + rng.normal(size=ROWS)


def closed_form(problem, alpha):
    parts = [(problem.own_inputs(i), problem.own_targets(i)) for i in range(problem.agents)]
    H = np.mean([a.T @ a / len(a) for a, _ in parts], axis=0) + alpha * np.eye(problem.dim)
    return np.linalg.solve(H, np.mean([a.T @ y / len(a) for a, y in parts], axis=0)), H


def test_the_loss_is_what_the_equation_says():
    problem = problems.least_squares((A, Y), AGENTS, alpha=ALPHA)
    x = rng.normal(size=DIM)
    losses = [
        ((problem.own_inputs(i) @ x - problem.own_targets(i)) ** 2).mean() / 2 + ALPHA / 2 * x @ x
        for i in range(AGENTS)
    ]
    assert problem.loss(x) == pytest.approx(np.mean(losses), rel=1e-13)
    np.testing.assert_array_equal(problem.start, 0)


@pytest.mark.parametrize("alpha", [0.0, ALPHA])
def test_the_optimum_is_in_closed_form(alpha):
    problem = problems.least_squares((A, Y), AGENTS, alpha=alpha, split="iid")
    best, H = closed_form(problem, alpha)
    np.testing.assert_allclose(problem.gradient(best), 0, atol=1e-13)
    v = rng.normal(size=DIM)
    assert problem.loss(best + v) - problem.loss(best) == pytest.approx(v @ H @ v / 2, rel=1e-10)
    np.testing.assert_allclose(problems.settling_point(problem), best, atol=1e-7)


def test_agents_of_equal_sizes_find_the_ordinary_least_squares():
    problem = problems.least_squares((A[:39], Y[:39]), AGENTS)
    ordinary = np.linalg.lstsq(A[:39], Y[:39])[0]
    np.testing.assert_allclose(closed_form(problem, 0.0)[0], ordinary, rtol=1e-10)
    result = gs.simulate(
        gs.GNSD(eta=0.3), problem, gs.networks.complete(AGENTS), gs.oracles.exact(), steps=400, dtype="float64"
    )
    np.testing.assert_allclose(result.iterates["gnsd"][0].mean(0), ordinary, atol=1e-8)


def test_the_smoothness_is_exact():
    problem = problems.least_squares((A, Y), AGENTS, alpha=ALPHA)
    for agent, L in enumerate(problem.local_smoothness):
        own = problem.own_inputs(agent)
        assert pytest.approx(np.linalg.norm(own, 2) ** 2 / len(own) + ALPHA, rel=1e-13) == L
        values, vectors = np.linalg.eigh(own.T @ own)
        step = problem.gradients(vectors[:, -1])[agent] - problem.gradients(np.zeros(DIM))[agent]
        np.testing.assert_allclose(step, L * vectors[:, -1], rtol=1e-10)
        assert values[-1] / len(own) + ALPHA == pytest.approx(L)


def test_a_test_part_gives_no_accuracy():
    problem = problems.least_squares(from_arrays(A, Y, test=(A, Y)), AGENTS)
    assert not problem.has_accuracy
    assert problem.accuracy(np.zeros(DIM)) is None


def test_by_label_gives_each_agent_a_range_of_targets():
    problem = problems.least_squares((A, Y), AGENTS, split="by-label")
    ranges = [problem.own_targets(i) for i in range(AGENTS)]
    assert [len(own) for own in ranges] == [14, 14, 13]
    assert all(low.max() < high.min() for low, high in pairwise(ranges))
    problem = problems.least_squares((A, Y), AGENTS, split="mixed:0.5")
    assert sorted(np.concatenate([problem.own_targets(i) for i in range(AGENTS)])) == sorted(Y)


@pytest.mark.parametrize("how", ["dirichlet:0.5", "labels:2"])
def test_splits_that_deal_out_classes_are_refused_for_real_targets(how):
    with pytest.raises(
        InputError, match=rf"{how} deals out classes, but .* 41 different numbers .* Use by-label or mixed"
    ):
        split(from_arrays(A, Y), AGENTS, how)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"alpha": -1}, r"least_squares\(alpha=…\) must be a number in \[0, ∞\)"),
        ({"test": (A, Y)}, "least_squares has no accuracy, so a test set would not be used: leave out test"),
        ({"data": (np.eye(2), ["a", "b"])}, "needs numbers as targets, but the labels of arrays are text, such as 'a'"),
    ],
)
def test_what_is_refused(given, message):
    with pytest.raises(InputError, match=message):
        problems.least_squares(**({"data": (A, Y), "agents": 2} | given))
