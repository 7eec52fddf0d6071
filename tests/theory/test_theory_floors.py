"""The floor (M_f ζ² + σ_f²)/(1 − M_f): trackers attain it, and no algorithm has a better worst case."""

import jax.numpy as jnp
import numpy as np
import pytest

import gossamer as gs
from gossamer.theory import Constants, sharp_floor
from tests.seldom import seldom
from tests.test_contract import RULES, rule
from tests.theory import theory_settings as ts

AGENTS, HETEROGENEITY = 6, 2.25
SIGNS = np.resize([1.0, -1.0], AGENTS)
TRACKERS = seldom(["biased-dmt", "gnsd", "gt-dsgd"], {"biased-dmt"})
ERRORS = [(0.0, 0.3), (0.09, 0.0), (1 / 256, 0.02), (0.5, 0.3)]
"""M_f and σ_f²: an absolute bias, a relative one, and both."""


def floor_of(relative, absolute):
    c = Constants(AGENTS, 1.0, 1.0, 1.0, relative, absolute, heterogeneity=HETEROGENEITY)
    return sharp_floor(c)


def settled(name, problem, oracle):
    result = gs.simulate(rule(name), problem, gs.networks.ring(AGENTS), oracle, steps=3000, dtype="float64")
    X = result.iterates[name][0]
    np.testing.assert_allclose(X, np.tile(X[0], (AGENTS, 1)), atol=1e-12)
    return X[0]


@pytest.mark.parametrize(("relative", "absolute"), ERRORS)
@pytest.mark.parametrize("name", TRACKERS)
def test_trackers_attain_the_floor(name, relative, absolute):
    """Every agent's error points along the first axis, and is as large as M_f and σ_f² allow. The minima of the losses
    lie on both sides of that axis, so that all ‖∇f_i‖ are equal on it, and with them all errors."""
    problem = gs.problems.quadratic(np.eye(2), np.outer(SIGNS, [0, np.sqrt(HETEROGENEITY)]), start=[1.0, 1.0])

    def largest(g, x, site):
        return g - jnp.sqrt(relative * (g @ g) + absolute) * jnp.array([1.0, 0.0])

    x = settled(name, problem, gs.oracles.custom(largest))
    assert problem.heterogeneity(x) == pytest.approx(HETEROGENEITY, abs=1e-12)
    assert (problem.gradient(x) ** 2).sum() == pytest.approx(floor_of(relative, absolute), abs=1e-10)


@pytest.mark.parametrize("name", TRACKERS)
def test_errors_that_are_a_turned_gradient_attain_the_floor_of_relative_bias(name):
    """Linear errors: −δ times the gradient, turned by ±φ with sin φ = √(1 − δ²) so that it points along the first axis
    where the tracker settles. At other points nothing changes: ‖b_i‖ = δ‖∇f_i‖ exactly."""
    delta = 0.6
    turns = np.array([[[delta, t * 0.8], [-t * 0.8, delta]] for t in SIGNS])
    problem = gs.problems.quadratic(np.eye(2), np.outer(-SIGNS, [0, np.sqrt(HETEROGENEITY)]), start=[1.0, 1.0])
    oracle = gs.oracles.custom(lambda g, x, site: g - delta * jnp.asarray(turns)[site.agent] @ g)
    x = settled(name, problem, oracle)
    assert (problem.gradient(x) ** 2).sum() == pytest.approx(0.36 * HETEROGENEITY / (1 - 0.36), abs=1e-10)


def test_no_tracker_settles_above_the_floor():
    """Random quadratics with random affine errors: the point where the mean of the answers is 0, in closed form."""
    shares = []
    for seed in range(300):
        delta, bias = (0.0, 0.3, 0.9)[seed % 3], (0.0, 1.0)[seed % 2]
        problem, errors = ts.quadratics(4, 2, seed), ts.affine(4, 2, seed, delta, bias)
        answers = (np.eye(2) + errors.relative) @ problem.A
        pull = np.einsum("nde,ne->d", answers, problem.b) - errors.bias.sum(0)
        x = np.linalg.solve(answers.sum(0), pull)
        known = ts.known(problem, gs.networks.ring(4), errors, problem.heterogeneity(x))
        if known.relative < 1 and sharp_floor(known) > 0:
            shares.append((problem.gradient(x) ** 2).sum() / sharp_floor(known))
    assert len(shares) > 150
    assert 0.3 < max(shares) <= 1 + 1e-12


class Pair:
    r"""Two problems that no algorithm can tell apart.

    $$ \nabla f_i^\pm(x) = a_i + (s \pm e(|s|)) u_1, \quad s = x_1, \qquad \tilde g_i(x) = a_i + s u_1 , $$

    with $a_i = \pm \zeta u_2$ and $e(p) = (\sqrt{M_f p^2 + (1 - M_f) S} - M_f p)/(1 - M_f)$, $S = M_f\zeta^2 +
    \sigma_f^2$.
    """

    def __init__(self, relative, absolute):
        self.M, self.S = relative, relative * HETEROGENEITY + absolute
        self.problems = {sign: self.problem(sign) for sign in (1.0, -1.0)}

    def error(self, p):
        return (jnp.sqrt(self.M * p**2 + (1 - self.M) * self.S) - self.M * p) / (1 - self.M)

    def potential(self, s):
        """The integral of e(|s|) from 0 to s."""
        M, K = self.M, (1 - self.M) * self.S
        if M == 0:
            return jnp.sqrt(K) * s
        root = s * jnp.sqrt(M * s**2 + K) / 2 + K / (2 * M**0.5) * jnp.arcsinh(s * (M / K) ** 0.5)
        return (root - M * s * jnp.abs(s) / 2) / (1 - M)

    def problem(self, sign):
        def loss(x, inputs, targets):
            return inputs @ x + x[0] ** 2 / 2 + sign * self.potential(x[0])

        heights = np.outer(SIGNS, [0, np.sqrt(HETEROGENEITY)])
        return gs.problems.empirical(loss, jnp.array([1.0, 0.0]), (heights, np.arange(AGENTS)), AGENTS)

    def oracle(self, sign):
        return gs.oracles.custom(lambda g, x, site: g.at[0].add(-sign * self.error(jnp.abs(x[0]))))


@pytest.mark.parametrize(("relative", "absolute"), ERRORS)
def test_both_problems_of_a_pair_meet_the_assumptions_and_one_of_them_is_steep(relative, absolute):
    pair = Pair(relative, absolute)
    points = np.stack([np.linspace(-5, 5, 201), np.linspace(2, -1, 201)], 1)
    gradients = []
    for sign, problem in pair.problems.items():
        measured = gs.oracles.measure(pair.oracle(sign), problem, points, queries=4)
        assert measured.absolute_at(relative) == pytest.approx(absolute, abs=1e-12)
        gradients.append(np.stack([problem.gradient(x) for x in points]))
        np.testing.assert_allclose([problem.heterogeneity(x) for x in points], HETEROGENEITY, rtol=1e-12)
        np.testing.assert_array_less(np.abs(np.diff(gradients[-1][:, 0]) / 0.05), 2)  # L ≤ 2
    squared = (np.stack(gradients) ** 2).sum(2)
    floor = floor_of(relative, absolute)
    assert squared.max(0).min() == pytest.approx(floor, rel=1e-12)  # where s = 0
    assert squared.mean(0).min() >= (1 - relative) * floor - 1e-12  # what a point that is drawn can gain


@pytest.mark.parametrize(("relative", "absolute"), [(0.0, 0.3), (0.5, 0.3)])
@pytest.mark.parametrize("name", seldom(RULES, {"biased-dmt", "d-adamw"}))
def test_no_algorithm_tells_a_pair_apart(name, relative, absolute):
    pair = Pair(relative, absolute)
    kind = rule(name)
    weights = {"weights": "lazy"} if kind.lowest is not None else {}
    network = gs.networks.path(AGENTS) if kind.tree else gs.networks.ring(AGENTS, **weights)
    ends = [
        gs.simulate(kind, problem, network, pair.oracle(sign), steps=40, dtype="float64").iterates[name][0]
        for sign, problem in pair.problems.items()
    ]
    np.testing.assert_allclose(ends[0], ends[1], rtol=0, atol=1e-11)
    assert np.abs(ends[0][:, 0] - 1).max() > 0.01  # it has moved
    for x in ends[0]:
        steepest = max((problem.gradient(x) ** 2).sum() for problem in pair.problems.values())
        assert steepest >= floor_of(relative, absolute) - 1e-9
