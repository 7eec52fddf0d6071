"""The paper's numbers: conditions, weights, what one round takes from Φ, and the proof of the repair."""

import dataclasses
import math
from fractions import Fraction

import numpy as np
import pytest

import gossamer as gs
from gossamer.theory import (
    Constants,
    Factors,
    bound,
    coefficients,
    conditions,
    corollary,
    descent,
    eta_limit,
    floor,
    kappa,
    lam_limit,
    steps_limit,
)
from tests.theory.theory_grid import RHO, M, N, on_the_grid

RING = Constants(20, gs.networks.ring(20).gap, 1.841, 0.31, variance=0.03, heterogeneity=1.11)


def test_ring_of_twenty():
    assert RING.gap == pytest.approx(0.032629, abs=5e-7)
    assert RING.gap == pytest.approx(2 / 3 * (1 - math.cos(2 * math.pi / 20)), rel=1e-12)
    lam = lam_limit(RING, "printed")
    assert lam == pytest.approx(1.824e-3, rel=5e-4)
    assert eta_limit(RING, lam, "printed") * RING.smoothness == pytest.approx(7.44e-6, rel=1e-3)
    assert steps_limit(RING, "printed") == pytest.approx(6.01e6, rel=1e-3)
    assert steps_limit(RING, "repaired") == pytest.approx(7.06e7, rel=1e-3)
    assert kappa(20, RING.gap) == pytest.approx(11.74, rel=1e-3)


def test_corollary_1_fails_on_the_ring_of_twenty_and_the_repair_does_not():
    eta, lam = corollary(RING, steps_limit(RING, "printed"))
    assert descent(RING, eta, lam, "printed").A3 / eta == pytest.approx(-8.63, abs=5e-3)
    missed = [condition for condition in conditions(RING, eta, lam, "printed") if not condition.holds]
    assert [condition.text for condition in missed] == ["η ≤ ρλ/(8L)"]
    assert missed[0].missed_by == pytest.approx(1 / (2 * RING.gap))
    eta, lam = corollary(RING, steps_limit(RING, "repaired"))
    assert all(condition.holds for condition in conditions(RING, eta, lam, "repaired"))
    assert descent(RING, eta, lam, "repaired").A3 > 0


@pytest.mark.parametrize("form", ["printed", "repaired"])
def test_what_a_round_takes_is_never_negative(form):
    """The grid of A₁ … A₅ and A_m ≥ 0, in units of η, and how small they get."""
    k, lam, eta, a = on_the_grid(form)
    assert (a.A1 / eta).min() == pytest.approx(0.429, abs=5e-4)
    assert (a.Am / eta).min() == pytest.approx(0.199, abs=5e-4)
    assert 0.121 <= (a.A3 / (k * eta)).min() <= 0.15
    np.testing.assert_allclose(a.A4 * N**2 / eta, 1, rtol=1e-12)
    assert (np.abs(a.A5) <= 1e-12 * 3 * k * eta * lam**2 / RHO**2).all()


def test_the_weights_of_corollary_1_fail_on_sparse_graphs():
    """η = λ/(16L) with the printed weights: A₃ < 0 at λ's limit once nρ² is small, and never for nρ² ≥ ¼."""
    n, rho = (grid[:, :, 0, 0] for grid in (N, RHO))
    lam = rho / (4 * np.sqrt(n))
    negative = coefficients(n, rho, 1.0, 0.0, lam / 16, lam).A3 < 0
    assert negative.any()
    assert (rho[negative] < 0.5).all()
    assert (n * rho**2)[negative].max() < (n * rho**2)[~negative & (n > 1)].max()
    assert not negative[4 * n * rho**2 >= 1].any()
    sizes = np.arange(4, 200)
    rho = np.array([gs.networks.ring(int(n)).gap for n in sizes])
    lam = rho / (4 * np.sqrt(sizes))
    assert (sizes[coefficients(sizes, rho, 1.0, 0.0, lam / 16, lam).A3 < 0] == np.arange(10, 200)).all()


def test_steps_of_the_proof_of_the_repair():
    """The inequalities of the written proof, one by one, on the grid."""
    k, lam, eta, a = on_the_grid("repaired")
    c1 = coefficients(N, RHO, 1.0, M, eta, lam, k).c1
    slightly = 1 + 1e-12
    assert (lam <= 1 / 4 * slightly).all()
    assert (k / RHO**2 <= slightly / (16 * N * lam**2)).all()
    assert (a.moved <= 4.4 * eta / (N * lam**2)).all()
    assert (2 * N * a.gradients <= 18.25 * M * eta * slightly).all()
    assert (c1 * RHO <= 52.9 * eta / (N * lam**2)).all()
    assert (c1 * eta**2 / RHO <= 0.827 * k * eta).all()
    assert (3 * eta**2 * a.moved <= 0.052 * k * eta).all()
    assert (0.121 * k * eta <= a.A3).all()


@pytest.mark.parametrize("k", [Fraction(1), Fraction(7, 3)])
def test_terms_of_the_bound_are_those_of_the_descent(k):
    """64, 16, 8, 9/4 and 3/2 from the C's, and the closed form of C_ΔX, in exact fractions."""
    n, rho, M, lam = Fraction(7), Fraction(2, 9), Fraction(1, 300), Fraction(1, 50)
    eta = lam / 40
    exact = Factors(**{name: Fraction(value) for name, value in dataclasses.asdict(Factors()).items()})
    a = coefficients(n, rho, Fraction(1), M, eta, lam, k, exact)
    network = 1 + Fraction(9, 4) * k * lam**2 * n / rho**2
    assert 4 / eta * 2 * n * a.gradients == 64 * M * network
    assert 4 / eta * a.bias == 16 * network
    assert 4 / eta * a.noise == 8 * lam / n * (1 + Fraction(3, 2) * k * lam * (1 + lam) * n**2 / rho**2)
    around = k / rho**2 * (6 + 3 * lam**2 + 18 * lam**2 * M)
    assert a.moved == eta * (4 / (lam**2 * n) + 8 * M / n + around)
    assert (eta / n**2, 0) == (a.A4, a.A5)


def test_bound_term_by_term():
    c = Constants(5, 0.4, 2.0, 3.0, 0.003, 0.07, 0.2, 1.5, heterogeneity_at_start=1.0, gradients_at_start=4.0)
    lam = lam_limit(c, "printed")
    at = bound(c, eta_limit(c, lam, "printed"), lam, 1_000, "printed")
    assert at.applies
    assert at.total == pytest.approx(at.transient + at.heterogeneity + at.noise + at.bias)
    # nρ² > ¼, so κ = 1 and λ is the same; only the step may be larger
    again = bound(c, at.eta, lam, 1_000, "repaired")
    assert (again.total, again.phi) == pytest.approx((at.total, at.phi))
    assert bound(c, at.eta, lam, 2_000, "printed").transient == pytest.approx(at.transient / 2)
    assert bound(c, at.eta, 1e-9, 1e30, "printed").total == pytest.approx(floor(c), rel=1e-3)


def test_weight_of_the_mean_momentum_in_corollary_1():
    """c₃ = 1/(8Ln²) for Corollary 1's choice."""
    eta, lam = corollary(RING, 1e8)
    c3 = coefficients(20, RING.gap, RING.smoothness, 0.0, eta, lam).c3
    assert c3 == pytest.approx(1 / (8 * RING.smoothness * 400))


def test_linear_speed_up_is_late():
    """12n²σ²/(ρ²T) is below 8σ²/√(nT) only from T = 2.25n⁵/ρ⁴ on."""
    n, rho = RING.agents, RING.gap
    first = 2.25 * n**5 / rho**4
    assert 12 * n**2 / (rho**2 * first) == pytest.approx(8 / math.sqrt(n * first))


def test_eigenvalues_do_not_say_how_fast_an_asymmetric_network_mixes():
    W = np.array([[1 / 2, 1 / 2, 0], [1 / 6, 1 / 6, 2 / 3], [1 / 3, 1 / 3, 1 / 3]])
    np.testing.assert_allclose([W.sum(0), W.sum(1)], 1)
    others = np.sort(np.abs(np.linalg.eigvals(W)))[:-1]
    np.testing.assert_allclose(others, 0, atol=1e-7)  # a double eigenvalue, so known to the root of the rounding
    assert gs.networks.from_matrix(W).gap == pytest.approx(1 - 1 / math.sqrt(3), rel=1e-12)
    x = np.linalg.svd(W - 1 / 3)[2][0]
    assert np.linalg.norm(W @ x - x.mean()) == pytest.approx(np.linalg.norm(x - x.mean()) / math.sqrt(3))


def test_from_the_mean_the_bound_is_without_the_first_disagreement_of_the_trackers():
    c = Constants(20, 0.03, 2.0, 5.0, 0.001, 0.2, 0.5, 3.0, heterogeneity_at_start=4.0, gradients_at_start=6.0)
    eta, lam, steps = 1e-4, 1e-3, 7_000
    for form, k in (("printed", 1.0), ("repaired", max(1, 1 / (80 * 0.03**2)))):
        cold, three, mean = (bound(dataclasses.replace(c, warm=warm), eta, lam, steps, form) for warm in (0, 3, "mean"))
        saved = 4 * (k * eta / 0.03) * c.start.tracking / (eta * steps)
        assert cold.total - mean.total == pytest.approx(saved, rel=1e-12)
        assert cold.total - three.total == pytest.approx((1 - 0.97**6) * saved, rel=1e-12)
        assert cold.conditions == mean.conditions
    for warm in (3, "mean"):
        start = dataclasses.replace(c, warm=warm).start
        assert (start.average, start.estimation) == (c.start.average, c.start.estimation)
