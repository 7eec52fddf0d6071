"""Lemmas 1 to 7, the descent of Φ and Theorem 1 on exact moments: they hold, and wrong constants are caught."""

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gossamer as gs
from gossamer.core import InputError
from gossamer.theory import Factors, certify, coefficients, corollary, propagate, step_limit, steps_limit
from gossamer.theory.certificate import check_descent, check_lemmas
from gossamer.theory.constants import Constants
from gossamer.theory.theorem import PAPER, phi_at_start
from tests.table import table
from tests.theory import theory_settings as ts

RULE = gs.BiasedDMT(eta=0.05, lam=0.1)


def checks(problem, network, oracle, eta, lam, steps):
    """Every inequality on a run, by name."""
    m = propagate(problem, network, oracle, eta, lam, steps, start=problem.start)
    return judge(ts.known(problem, network, oracle, m.heterogeneity[:-1].max()), m, eta, lam)


def judge(c, m, eta, lam, factors=PAPER):
    checked = check_lemmas(c, m, eta, lam, factors)
    for form in ("printed", "repaired"):
        checked += check_descent(c, m, eta, lam, form, factors)
    return {inequality.name: inequality for inequality in checked}


def violated(checked):
    return [name for name, inequality in checked.items() if inequality.verdict == "violated"]


NETWORKS = [gs.networks.ring(6), gs.networks.path(4), gs.networks.complete(3), gs.networks.star(5)]
NETWORKS.append(gs.networks.from_matrix([[1 / 2, 1 / 2, 0], [1 / 6, 1 / 6, 2 / 3], [1 / 3, 1 / 3, 1 / 3]]))


@given(
    network=st.sampled_from(NETWORKS),
    d=st.integers(1, 3),
    seed=st.integers(0, 10**6),
    delta=st.sampled_from([0.0, 1 / 64, 1 / 23, 0.5]),
    bias=st.sampled_from([0.0, 0.3]),
    noise=st.sampled_from([0.0, 0.1, 2.0]),
    spread=st.sampled_from([0.0, 1.0, 10.0]),
    lam=st.floats(0.01, 1.0),
    share=st.floats(0.01, 0.9),
)
@settings(max_examples=60, deadline=None, derandomize=True)
def test_lemmas_hold_for_every_stable_step(network, d, seed, delta, bias, noise, spread, lam, share):
    problem = ts.quadratics(network.agents, d, seed, spread)
    oracle = ts.affine(network.agents, d, seed, delta, bias, noise)
    eta = share * min(step_limit(network, lam, problem.smoothness), 1 / problem.smoothness)
    checked = checks(problem, network, oracle, eta, lam, 120)
    assert violated(checked) == []
    assert [name for name, inequality in checked.items() if "Lemma" in name and inequality.verdict != "holds"] == []


@given(
    network=st.sampled_from(NETWORKS),
    seed=st.integers(0, 10**6),
    delta=st.sampled_from([0.0, 1 / 23]),
    bias=st.sampled_from([0.0, 0.3]),
    noise=st.sampled_from([0.0, 1.0]),
    form=st.sampled_from(["printed", "repaired"]),
    share=st.floats(0.05, 1.0),
)
@settings(max_examples=40, deadline=None, derandomize=True)
def test_theorem_holds_where_its_conditions_do(network, seed, delta, bias, noise, form, share):
    problem = ts.quadratics(network.agents, 2, seed)
    oracle = ts.affine(network.agents, 2, seed, delta, bias, noise)
    eta, lam = ts.allowed(ts.known(problem, network, oracle), form, share)
    checked = checks(problem, network, oracle, eta, lam, 300)
    assert violated(checked) == []
    assert checked[f"Theorem 1 ({form})"].verdict == "holds"
    assert checked[f"Φ, descent ({form})"].verdict == "holds"


def test_repaired_theorem_holds_on_a_ring_where_the_printed_one_says_nothing():
    """A ring of 20 with the repaired step, which is far above the printed ρλ/(8L)."""
    problem, network, oracle = ts.quadratics(20, 1), gs.networks.ring(20), ts.affine(20, 1, bias=0.2, noise=0.5)
    eta, lam = ts.allowed(ts.known(problem, network, oracle), "repaired")
    checked = checks(problem, network, oracle, eta, lam, 2_000)
    assert violated(checked) == []
    assert checked["Theorem 1 (repaired)"].verdict == "holds"
    printed = checked["Theorem 1 (printed)"]
    assert printed.verdict == "does not apply"
    assert "missed by a factor of 15.3" in printed.missing[0]


def test_on_the_ring_of_twenty_phi_grows():
    """With Corollary 1's own η and λ, and exact gradients, Φ rises at first; with the repaired ones it falls."""
    problem, network, oracle = ts.quadratics(20, 1, spread=3.0), gs.networks.ring(20), ts.affine(20, 1)
    c = ts.known(problem, network, oracle)
    checked = checks(problem, network, oracle, *corollary(c, steps_limit(c, "printed")), 200)
    assert checked["Φ, descent (printed)"].violations >= 10
    assert checked["Φ, descent (printed)"].left > checked["Φ, descent (printed)"].right == 0
    assert checked["Φ, one step (printed)"].verdict == "holds"
    assert checked["Theorem 1 (printed)"].violations == 0
    mended = checks(problem, network, oracle, *corollary(c, steps_limit(c, "repaired")), 200)
    assert mended["Φ, descent (repaired)"].verdict == "holds"


WRONG = {
    "change": (0.5, "Lemma 1"),
    "shift": (0.25, "Lemma 5"),
    "tracking": (0.9, "Lemma 2"),
    "consensus": (0.9, "Lemma 3"),
    "drift": (0.1, "Lemma 4"),
    "bias": (0.5, "Lemma 4"),
    "noise": (0.5, "Lemma 5"),
    "mixing": (0.05, "Lemma 6"),
    "moved": (0.25, "Lemma 6"),
    "apart": (0.05, "Φ, one step"),
    "direction": (0.5, "Lemma 7"),
    "initial": (0.1, "Theorem 1"),
    "relative": (0.25 / 64, "Theorem 1"),
    "variance": (0.0, "Theorem 1"),
    "absolute": (0.05, "Theorem 1"),
}
"""Factors of the inequalities, the share of the right value that is tried, and the statement that must catch it."""


@pytest.fixture(scope="module")
def runs():
    """The exact moments of 64 settings, and their constants."""
    followed = []
    for problem, network, oracle, eta, lam, steps in ts.pool():
        m = propagate(problem, network, oracle, eta, lam, steps, start=problem.start)
        followed.append((ts.known(problem, network, oracle, m.heterogeneity[:-1].max()), m, eta, lam))
    return followed


def test_the_right_constants_hold_on_all_of_them(runs):
    assert [violated(judge(*run)) for run in runs] == [[]] * len(runs)


@table("name", WRONG)
def test_a_wrong_constant_is_caught(runs, name):
    share, where = WRONG[name]
    wrong = Factors(**{name: share * getattr(PAPER, name)})
    caught = {one for run in runs for one in violated(judge(*run, factors=wrong))}
    assert any(where in one for one in caught), caught


def test_a_wrong_claim_about_an_oracle_is_caught():
    problem, network, oracle = (
        ts.quadratics(4, 2),
        gs.networks.ring(4),
        gs.oracles.additive_bias(mean=0.5, std=0.2, redraw=True),
    )
    assert certify(RULE, problem, network, oracle, steps=200).holds
    lied = certify(RULE, problem, network, oracle, steps=200, absolute=0.0)
    assert not lied.holds
    assert "Lemma 5, each momentum" in lied.violated
    assert "is false in" in str(lied)
    assert str(lied).splitlines()[-1].startswith("violated: ")
    assert lied.constants.sources["absolute"] == "given"


def test_certificate_says_where_the_bound_does_not_apply():
    problem, network = ts.quadratics(4, 2), gs.networks.ring(4)
    certificate = certify(RULE, problem, network, gs.oracles.additive_bias(std=0.3), steps=100)
    assert certificate.kind == "exact"
    assert {inequality.verdict for inequality in certificate.checks if "Theorem" in inequality.name} == {
        "does not apply"
    }
    assert "λ ≤ ρ/(4√n)" in str(certificate)
    assert "(not valid here)" in str(certificate)
    assert json.loads(json.dumps(certificate.asdict(), allow_nan=False))["holds"] is True


def test_certificate_of_a_covered_setting():
    problem, network = ts.quadratics(4, 2), gs.networks.ring(4)
    c = ts.known(problem, network, ts.affine(4, 2))
    eta, lam = ts.allowed(c, "printed")
    certificate = certify(gs.BiasedDMT(eta=eta, lam=lam), problem, network, steps=500)
    assert {inequality.verdict for inequality in certificate.checks} == {"holds"}
    assert certificate.measured <= certificate.bounds[0].total
    # without bias and noise the bound of Φ⁰ is attained
    constants = certificate.constants
    assert certificate.bounds[0].phi == pytest.approx(
        phi_at_start(constants, coefficients(4, constants.gap, constants.smoothness, 0.0, eta, lam))
    )


def test_other_problems_are_simulated():
    """A custom oracle cannot be followed exactly; this one is exact all the same, so both ways agree."""
    problem, network = ts.quadratics(3, 2), gs.networks.complete(3)
    oracle = gs.oracles.exact() | gs.oracles.custom(lambda g, x, site: g)
    eta, lam = ts.allowed(ts.known(problem, network, ts.affine(3, 2)), "printed")
    no_errors = dict(relative=0.0, absolute=0.0, variance=0.0)
    certificate = certify(gs.BiasedDMT(eta=eta, lam=lam), problem, network, oracle, steps=100, seeds=3, **no_errors)
    assert certificate.kind == "simulated"
    assert [inequality.verdict for inequality in certificate.checks] == ["holds", "holds"]
    assert certificate.interval
    low, high = certificate.interval
    assert low <= certificate.measured <= high
    exactly = certify(gs.BiasedDMT(eta=eta, lam=lam), problem, network, steps=100)
    assert certificate.measured == pytest.approx(exactly.measured, rel=1e-4)
    assert exactly.bounds[0].phi <= certificate.bounds[0].phi * (1 + 1e-9)


def test_a_run_that_diverged_has_no_finite_mean():
    problem, network = ts.quadratics(3, 2), gs.networks.complete(3)
    oracle = gs.oracles.exact() | gs.oracles.custom(lambda g, x, site: g)
    no_errors = dict(relative=0.0, absolute=0.0, variance=0.0)
    certificate = certify(gs.BiasedDMT(eta=1e6, lam=1.0), problem, network, oracle, steps=100, seeds=2, **no_errors)
    assert math.isinf(certificate.measured)
    assert json.loads(json.dumps(certificate.asdict(), allow_nan=False))["measured"] is None
    assert [inequality.verdict for inequality in certificate.checks] == ["does not apply", "does not apply"]


def test_what_cannot_be_certified_is_refused():
    problem, network = ts.quadratics(3, 2), gs.networks.complete(3)
    with pytest.raises(InputError, match="about Biased-DMT with one η and one λ"):
        certify(gs.GNSD(eta=0.1), problem, network, steps=10)
    with pytest.raises(InputError, match="about Biased-DMT with one η and one λ"):
        certify(gs.BiasedDMT(eta=lambda t: 0.1, lam=0.1), problem, network, steps=10)
    with pytest.raises(InputError, match=r"no constant 'sigma' to give"):
        certify(RULE, problem, network, steps=10, sigma=1.0)
    with pytest.raises(InputError, match=r"variance=… must be a number in \[0, ∞\)"):
        certify(RULE, problem, network, steps=10, variance=-1.0)
    with pytest.raises(InputError, match=r"this run diverges: at round \d+ its moments are above 1e\+60"):
        certify(gs.BiasedDMT(eta=100.0, lam=1.0), problem, network, steps=500)
    oracle = gs.oracles.exact() | gs.oracles.custom(lambda g, x, site: g)
    with pytest.raises(InputError, match="at least two of them: give seeds=5"):
        certify(RULE, problem, network, oracle, steps=10, seeds=1)


@pytest.mark.parametrize("warm", [3, "mean"])
@pytest.mark.parametrize("oracle", [gs.oracles.exact(), gs.oracles.additive_bias(mean=0.5, std=0.2, redraw=True)])
def test_certificate_of_a_warm_start(warm, oracle):
    """Everything that holds from V⁰ = M⁰ holds, and Φ⁰ is without what the start took from Ξ_v⁰."""
    problem, network = ts.quadratics(6, 2), gs.networks.ring(6)
    eta, lam = ts.allowed(ts.known(problem, network, ts.affine(6, 2)), "printed")
    cold, three, certificate = (
        certify(gs.BiasedDMT(eta=eta, lam=lam, warm=k), problem, network, oracle, steps=300) for k in (0, 3, warm)
    )
    assert {inequality.verdict for inequality in certificate.checks} == {"holds"}
    names = [inequality.name for inequality in certificate.checks]
    assert names == ["Proposition 1, warm start", *(inequality.name for inequality in cold.checks)]
    left, apart = certificate.checks[0].left, three.checks[0].right / (1 - network.gap) ** 6
    assert left == pytest.approx(0, abs=1e-15) if warm == "mean" else 0 < left < apart / 2
    for before, after in zip(cold.bounds, certificate.bounds, strict=True):
        k = 1.0 if before.form == "printed" else max(1, 1 / (24 * network.gap**2))
        c2 = coefficients(6, network.gap, problem.smoothness, 0.0, eta, lam, k).c2
        saved = 4 * c2 * (apart - left) / (eta * 300)
        assert before.total - after.total == pytest.approx(saved, rel=1e-9)
    assert f"warm = {warm}" in str(certificate)
    assert json.loads(json.dumps(certificate.asdict(), allow_nan=False))["constants"]["warm"] == warm


def test_a_start_that_shrinks_less_than_the_gap_says_is_caught(monkeypatch):
    problem, network = ts.quadratics(6, 2), gs.networks.ring(6)
    rule = gs.BiasedDMT(eta=0.01, lam=0.1, warm=2)
    monkeypatch.setattr(Constants, "kept_apart", property(lambda c: (1 - c.gap) ** 8))
    assert certify(rule, problem, network, steps=5).violated == ["Proposition 1, warm start"]


@pytest.mark.parametrize("warm", [0, 4])
def test_moments_of_a_warm_start_are_those_of_the_runs(warm):
    problem, network = ts.quadratics(4, 2), gs.networks.ring(4)
    m = propagate(problem, network, ts.affine(4, 2), 0.05, 0.3, 20, start=problem.start, warm=warm)
    result = gs.simulate(
        gs.BiasedDMT(0.05, 0.3, warm=warm), problem, network, steps=20, every=1, dtype="float64", progress=False
    )
    assert m.gradient == pytest.approx(result.frame()["grad_norm_sq"].to_numpy(), rel=1e-9)
    assert m.consensus == pytest.approx(4 * result.frame()["consensus"].to_numpy(), rel=1e-9, abs=1e-20)
