"""Quadratics: closed forms, the solution under a bias, and what is refused."""

import numpy as np
import pytest

import gossamer as gs
from gossamer.core import InputError
from gossamer.problems import quadratic
from tests import plain
from tests.table import table

RNG = np.random.default_rng(0)
X = RNG.normal(size=5)


def test_loss_and_gradients_are_the_closed_forms():
    problem, _ = plain.heterogeneous()
    away = X - problem.b
    rows = np.array([A @ v for A, v in zip(problem.A, away, strict=True)])
    assert problem.loss(X) == pytest.approx(np.mean([0.5 * v @ g for v, g in zip(away, rows, strict=True)]), rel=1e-13)
    np.testing.assert_allclose(problem.gradients(X), rows, rtol=1e-12)
    np.testing.assert_allclose(problem.gradient(X), rows.mean(0), rtol=1e-12)
    assert problem.heterogeneity(X) == pytest.approx(((rows - rows.mean(0)) ** 2).sum(1).mean(), rel=1e-12)


def test_gradient_is_the_difference_quotient_of_the_loss():
    problem, _ = plain.heterogeneous()
    quotients = [(problem.loss(X + 1e-5 * e) - problem.loss(X - 1e-5 * e)) / 2e-5 for e in np.eye(5)]
    np.testing.assert_allclose(problem.gradient(X), quotients, atol=1e-8)


def test_at_the_solution_the_gradient_is_minus_the_mean_bias():
    problem, E = plain.heterogeneous()
    np.testing.assert_allclose(problem.gradient(problem.solution(E)), -E.mean(0), atol=1e-12)
    np.testing.assert_allclose(problem.gradient(problem.solution(E[0])), -E[0], atol=1e-12)
    np.testing.assert_allclose(problem.gradient(problem.solution()), 0, atol=1e-12)


def test_without_bias_the_solution_is_the_minimum():
    problem, _ = plain.heterogeneous()
    best = problem.solution()
    assert all(problem.loss(best) < problem.loss(best + step) for step in 0.01 * RNG.normal(size=(20, 5)))


def test_relative_bias_is_tight():
    """n = 2, f = ½L(x ∓ b)², errors ±δ∇f: ∇F at δb has the squared norm δ²ζ² exactly."""
    L, b, delta = 3.0, 2.0, 0.25
    problem = quadratic([[L]], [[b], [-b]])
    x = np.array([delta * b])
    g = problem.gradients(x)
    np.testing.assert_allclose((np.array([[1 + delta], [1 - delta]]) * g).mean(0), 0, atol=1e-15)
    assert problem.gradient(x)[0] ** 2 == pytest.approx(delta**2 * problem.heterogeneity(x))


def test_one_hessian_is_shared_by_all():
    shared, b = np.diag([1.0, 2.0]), np.array([[1.0, 0], [0, 1], [2, 2]])
    one, many = quadratic(shared, b), quadratic([shared] * 3, b)
    np.testing.assert_array_equal(one.gradients([3, 4]), many.gradients([3, 4]))
    np.testing.assert_allclose(one.solution(), b.mean(0))
    assert (one.agents, one.dim) == (3, 2)


def test_smoothness_is_the_largest_curvature_of_either_sign():
    problem = quadratic([np.diag([1.0, 5.0]), np.diag([-7.0, 2.0]), np.diag([9.0, 1.0])], np.zeros((3, 2)))
    np.testing.assert_allclose(problem.local_smoothness, [5, 7, 9])
    assert problem.smoothness == 9


def test_starts_at_zero_or_where_told():
    np.testing.assert_array_equal(quadratic(np.eye(2), np.ones((3, 2))).start, [0, 0])
    np.testing.assert_array_equal(quadratic(np.eye(2), np.ones((3, 2)), start=[1, 2]).start, [1, 2])


def test_the_callers_arrays_are_not_shared():
    A, b = np.eye(2), np.ones((3, 2))
    problem = quadratic(A, b)
    A[:], b[:] = 5, 5
    np.testing.assert_array_equal(problem.b, np.ones((3, 2)))
    np.testing.assert_array_equal(problem.A, [np.eye(2)] * 3)


def test_has_no_samples_and_no_accuracy():
    problem = quadratic(np.eye(2), np.ones((3, 2)))
    assert not problem.has_samples
    assert problem.accuracy([0, 0]) is None


EYES = np.stack([np.eye(2)] * 3)


def changed(array, index, value):
    array = array.copy()
    array[index] = value
    return array


@table(
    ("A", "b", "message"),
    [
        (np.eye(2), np.zeros(2), r"b must be \[agents, d\], one row an agent, but has shape \(2,\)"),
        (np.eye(2), np.zeros((0, 2)), r"b must be .* but has shape \(0, 2\)"),
        (
            np.eye(3),
            np.zeros((3, 2)),
            r"A must be .* = \(3, 2, 2\), \[d, d\] or \[agents\] .*\(3, 2\), but has shape \(3, 3\)",
        ),
        (EYES[:2], np.zeros((3, 2)), r"but has shape \(2, 2, 2\)"),
        (changed(EYES, (1, 0, 1), np.nan), np.zeros((3, 2)), r"A must be finite, but is nan at index \(1, 0, 1\)"),
        (EYES, changed(np.zeros((3, 2)), (2, 1), np.inf), r"b must be finite, but is inf at index \(2, 1\)"),
        (changed(EYES, (2, 0, 1), 0.5), np.zeros((3, 2)), r"agent 2's differs by 0\.5 .*\(0, 1\) and \(1, 0\)\. Use"),
        (EYES - 1.5 * np.eye(2), np.zeros((3, 2)), r"positive definite, but its smallest eigenvalue is -0\.5"),
        (np.diag([1.0, 0.0]), np.zeros((3, 2)), r"smallest eigenvalue is 0: F would have no single minimum"),
    ],
)
def test_refuses(A, b, message):
    with pytest.raises(gs.InputError, match=message):
        quadratic(A, b)


def test_refuses_every_mean_hessian_of_low_rank():
    """Rounding may leave the zero eigenvalues above zero."""
    for v in RNG.normal(size=(200, 3)):
        with pytest.raises(gs.InputError, match="must be positive definite"):
            quadratic(np.outer(v, v), np.zeros((2, 3)))


def test_an_indefinite_agent_is_allowed_where_the_mean_is_definite():
    problem = quadratic([np.diag([-1.0, 1.0]), np.diag([3.0, 1.0])], [[1, 1], [2, 2]])
    np.testing.assert_allclose(problem.gradient(problem.solution()), 0, atol=1e-14)


def test_refuses_a_start_of_another_shape():
    with pytest.raises(gs.InputError, match=r"start must have shape \(2,\), but has shape \(3,\)"):
        quadratic(np.eye(2), np.zeros((3, 2)), start=[0, 0, 0])


def test_hessians_beyond_memory_are_refused_before_they_are_made():
    with pytest.raises(InputError, match=r"60,000 × 60,000 numbers for each of 50 agents needs about 5.76 TB"):
        quadratic(np.ones(50), np.zeros((50, 60_000)))


@pytest.mark.parametrize("curvatures", [None, [0.5, 1.0, 1.5, 2.0]])
def test_random_quadratics_have_the_constants_that_were_asked_for(curvatures):
    options = {"mu": 0.25, "smoothness": 4.0, "curvatures": curvatures, "heterogeneity": 3.0, "distance": 10.0}
    problem = gs.problems.random_quadratic(4, 6, seed=2, **options)
    minimum = problem.solution()
    assert np.linalg.norm(minimum) == pytest.approx(10)
    own = np.einsum("nde,ne->nd", problem.A, minimum - problem.b)
    np.testing.assert_allclose(own.mean(0), 0, atol=1e-12)
    assert (own**2).sum(1).mean() == pytest.approx(3)
    for k, A in enumerate(problem.A):
        expected = np.linspace(0.25, 4, 6) if curvatures is None else np.full(6, curvatures[k])
        np.testing.assert_allclose(np.linalg.eigvalsh(A), expected)
    assert not problem.start.any()


def test_random_quadratics_refuse_what_cannot_be():
    for options, said in (
        ({"mu": 2.0}, "mu must be at most smoothness"),
        ({"curvatures": [1.0]}, "curvatures must be 4 positive numbers"),
        ({"heterogeneity": -1.0}, "heterogeneity"),
        ({"dim": 0}, "dim must be a whole number"),
    ):
        with pytest.raises(gs.InputError, match=said):
            gs.problems.random_quadratic(4, **options)
