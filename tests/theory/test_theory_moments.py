"""The exact moments against every path of two-valued noise, and against runs."""

import itertools

import numpy as np
import pytest

import gossamer as gs
from gossamer.core import InputError
from gossamer.theory import Affine, affine_of, propagate
from gossamer.theory.moments import CHANGES
from tests import plain
from tests.theory import theory_settings as ts

ETA, LAM = 0.13, 0.4


def quantities(problem, states):
    """What `Moments` holds, along one path, straight from the definitions."""
    A, b, n = problem.A, problem.b, problem.agents
    best = problem.loss(problem.solution())
    rows = []
    for t, s in enumerate(states):
        mean = s.x.mean(0)
        local = np.einsum("nde,ne->nd", A, s.x - b)
        common = np.einsum("nde,ne->nd", A, mean - b)
        after = states[t + 1] if t + 1 < len(states) else s
        rows.append(
            {
                "loss": 0.5 * np.einsum("nd,nd->", mean - b, common) / n - best,
                "gradient": (common.mean(0) ** 2).sum(),
                "momentum": (s.m.mean(0) ** 2).sum(),
                "consensus": ((s.x - mean) ** 2).sum(),
                "tracking": ((s.v - s.v.mean(0)) ** 2).sum(),
                "average": ((local - s.m).sum(0) ** 2).sum(),
                "estimation": ((s.m - local) ** 2).sum(),
                "gradients": (local**2).sum(),
                "heterogeneity": ((common - common.mean(0)) ** 2).sum() / n,
                "moved": ((after.x - s.x) ** 2).sum(),
                "changed": ((after.m - s.m) ** 2).sum(),
            }
        )
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def test_moments_are_the_mean_over_every_path():
    """Two agents, noise ±s_i along one direction each, three rounds: all 2⁸ paths, by the rule itself in NumPy."""
    problem, network = ts.quadratics(2, 2), gs.networks.from_matrix([[0.7, 0.3], [0.3, 0.7]])
    oracle = ts.affine(2, 2, delta=0.3, bias=0.5)
    directions = np.array([[0.4, -0.1], [0.2, 0.6]])
    oracle = Affine(oracle.relative, oracle.bias, directions[:, :, None] * directions[:, None, :])
    rounds = 3
    paths = []
    for signs in itertools.product([-1.0, 1.0], repeat=2 * (rounds + 1)):
        draws = iter(np.reshape(signs, (rounds + 1, 2)))

        def gradient(X, draws=draws):
            true = np.einsum("nde,ne->nd", problem.A, X - problem.b)
            return (
                true + np.einsum("nde,ne->nd", oracle.relative, true) + oracle.bias + next(draws)[:, None] * directions
            )

        start = np.tile(problem.start, (2, 1))
        rule = gs.BiasedDMT(eta=ETA, lam=LAM)
        paths.append(quantities(problem, plain.states(rule, start, network.mixing, gradient, rounds)))
    moments = propagate(problem, network, oracle, ETA, LAM, rounds, start=problem.start)
    for name in paths[0]:
        expected = np.mean([path[name] for path in paths], axis=0)
        expected = expected[:-1] if name in CHANGES else expected
        np.testing.assert_allclose(getattr(moments, name), expected, rtol=1e-11, atol=1e-14, err_msg=name)


def test_without_noise_they_are_a_run_of_the_simulator():
    problem, network = ts.quadratics(6, 3), gs.networks.ring(6)
    oracle = gs.oracles.exact() | gs.oracles.additive_bias(std=0.3) | gs.oracles.relative_bias(0.2)
    rule = gs.BiasedDMT(eta=0.05, lam=0.3)
    result = gs.simulate(rule, problem, network, oracle, steps=40, every=1, seeds=[7], dtype="float64")
    affine = affine_of(oracle, problem, seed=7)
    moments = propagate(problem, network, affine, 0.05, 0.3, 40, start=problem.start)
    frame = result.frame()
    np.testing.assert_allclose(moments.gradient, frame["grad_norm_sq"].to_numpy(), rtol=1e-9)
    np.testing.assert_allclose(moments.consensus / 6, frame["consensus"].to_numpy(), rtol=1e-8, atol=1e-25)
    np.testing.assert_allclose(moments.tracking / 6, frame["tracking"].to_numpy(), rtol=1e-9)


def test_the_stationary_covariance_solves_its_equation():
    """After many rounds, E‖∇F(x̄)‖² = ‖ē‖² + noise, and the noise part is that of C = PCPᵀ + QSQᵀ, solved at once."""
    problem, network, oracle = ts.quadratics(3, 2), gs.networks.path(3), ts.affine(3, 2, bias=0.4, noise=0.5)
    moments = propagate(problem, network, oracle, 0.1, 0.3, 4_000, start=problem.start)
    n, d, eta, lam = 3, 2, 0.1, 0.3
    W, eye, zero = np.kron(network.mixing, np.eye(d)), np.eye(n * d), np.zeros((n * d, n * d))
    H, S = zero.copy(), zero.copy()
    for i in range(n):
        block = slice(i * d, i * d + d)
        H[block, block], S[block, block] = problem.A[i], oracle.covariance[i]
    # (X, M, V − M) has no mode at 1 but that of mean(V) = mean(M), which starts at 0 and never moves
    first = np.block([[W, -eta * eye, -eta * eye]])
    second = np.block([[zero, (1 - lam) * eye, zero]]) + lam * H @ first
    third = np.block([[zero, W - eye, W]])
    P, Q = np.vstack([first, second, third]), np.vstack([zero, lam * eye, zero])
    still = np.kron(np.ones((n, n)) / n, np.eye(d))
    P[2 * n * d :, 2 * n * d :] -= still
    size = 3 * n * d
    kick = Q @ S @ Q.T
    C = np.linalg.solve(np.eye(size**2) - np.kron(P, P), kick.ravel()).reshape(size, size)
    top = np.hstack([np.kron(np.ones((1, n)) / n, np.eye(d)), np.zeros((d, 2 * n * d))])
    hessian = problem.A.mean(0)
    noise = np.trace(hessian @ top @ C @ top.T @ hessian)
    assert moments.gradient[-1] == pytest.approx((oracle.bias.mean(0) ** 2).sum() + noise, rel=1e-9)


def test_affine_oracles_are_read_from_what_they_answer():
    problem = ts.quadratics(3, 2)
    inner = gs.oracles.exact() | gs.oracles.additive_bias(mean=[0.1, -0.2], std=0.3, redraw=True)
    oracle = affine_of(inner | gs.oracles.relative_bias(factors=[0.5, -0.5, 0.0]), problem)
    stretch = np.array([1.5, 0.5, 1.0])
    np.testing.assert_allclose(oracle.relative, (stretch - 1)[:, None, None] * np.eye(2), atol=1e-15)
    np.testing.assert_allclose(oracle.bias, stretch[:, None] * [[0.1, -0.2]], atol=1e-15)
    np.testing.assert_allclose(oracle.covariance, 0.09 * stretch[:, None, None] ** 2 * np.eye(2), atol=1e-15)
    assert affine_of(gs.oracles.exact() | gs.oracles.custom(lambda g, x, site: 0.9 * g), problem) is None


def test_the_tight_example_of_relative_bias():
    """Two agents, f = ½L(x ∓ b)², gradients (1 ± δ)∇f: the run settles at δb, where ‖∇F‖² = M_f ζ²."""
    L, b, delta = 2.0, 3.0, 1 / 16
    problem = gs.problems.quadratic([[L]], [[b], [-b]])
    oracle = affine_of(gs.oracles.exact() | gs.oracles.relative_bias(factors=[delta, -delta]), problem)
    moments = propagate(problem, gs.networks.complete(2), oracle, 0.1, 0.3, 2_000, start=problem.start)
    assert oracle.constants["relative"] == delta**2
    assert abs(moments.gradient[-1] - delta**2 * moments.heterogeneity[-1]) < 1e-10
    assert moments.heterogeneity[-1] == pytest.approx(L**2 * b**2, rel=1e-12)


def test_too_large_a_system_is_refused():
    problem = ts.quadratics(50, 10)
    with pytest.raises(InputError, match="matrices of 1500 rows, above the limit of 1200"):
        propagate(problem, gs.networks.ring(50), ts.affine(50, 10), 0.1, 0.1, 1, start=problem.start)
