"""Constants and where they come from, the limit of stability, and plans."""

import dataclasses
import json
import math
import re

import jax
import networkx as nx
import numpy as np
import pytest

import gossamer as gs
from gossamer.core import InputError
from gossamer.theory import (
    Constants,
    best_bound,
    bound,
    coefficients,
    constants_of,
    eta_limit,
    floor,
    lam_limit,
    plan,
    propagate,
    step_limit,
    steps_for,
)
from gossamer.theory.moments import System
from gossamer.theory.planning import largest, spectrum
from gossamer.theory.theorem import phi_at_start
from tests.table import table
from tests.theory import theory_settings as ts

SOME = Constants(5, 0.4, 2.0, 3.0, 0.003, 0.07, 0.2, 1.5, heterogeneity_at_start=1.0, gradients_at_start=4.0)


def test_constants_of_a_quadratic_are_exact():
    problem, network = ts.quadratics(4, 3), gs.networks.ring(4)
    c = constants_of(problem, network, gs.oracles.exact() | gs.oracles.additive_bias(vectors=[0.3, 0.0, 0.4]))
    assert (c.agents, c.gap) == (4, pytest.approx(2 / 3))
    assert c.smoothness == pytest.approx(np.linalg.eigvalsh(problem.A).max())
    assert c.excess == pytest.approx(problem.loss(problem.start) - problem.loss(problem.solution()))
    assert (c.relative, c.absolute, c.variance) == (0, pytest.approx(0.25), 0)
    assert c.heterogeneity_at_start == pytest.approx(problem.heterogeneity(problem.start))
    assert (c.sources["smoothness"], c.sources["excess"], c.sources["heterogeneity"]) == ("exact", "exact", "estimate")
    same = gs.problems.quadratic(np.eye(3), problem.b)
    assert constants_of(same, network, gs.oracles.exact()).sources["heterogeneity"] == "exact"


def test_what_a_logistic_problem_does_not_know_is_estimated():
    problem, network = gs.problems.logistic("breast-cancer", agents=5), gs.networks.ring(5)
    c = constants_of(problem, network, gs.oracles.minibatch(16))
    assert c.smoothness == problem.smoothness
    assert (c.sources["smoothness"], c.sources["excess"], c.sources["variance"]) == ("bound", "estimate", "estimate")
    assert c.variance > 0
    assert c.heterogeneity >= problem.heterogeneity(problem.start) - 1e-12
    unknown = dataclasses.replace(problem, model=problem.model._replace(smoothness=None))
    guessed = constants_of(unknown, network, gs.oracles.exact())
    assert guessed.sources["smoothness"] == "estimate"
    assert 0.2 * problem.smoothness < guessed.smoothness <= problem.smoothness


E = np.array([0.3, 0.0, 0.4])
HALF = gs.oracles.additive_bias(mean=E, std=0.1)


def test_a_bias_that_is_drawn_once_is_known_whatever_the_noise():
    """σ_f² = max ‖e_i‖² over agents and seeds, which an oracle without noise shows: 0.73 of seed 0, where 32
    queries measure 2.2."""
    problem, network = gs.problems.quadratic(np.eye(3), np.zeros((40, 3)), start=np.ones(3)), gs.networks.ring(40)
    noisy = gs.oracles.exact() | HALF | gs.oracles.additive_bias(std=2.0, redraw=True)
    sizes = [gs.oracles.measure(HALF, problem, np.ones(3), seed=seed).bias_sq.max() for seed in range(3)]
    for seeds, expected in [(1, sizes[0]), (3, max(sizes)), ([1, 2], max(sizes[1:]))]:
        c = plan(problem, network, noisy, steps=1, trial=False, seeds=seeds).constants
        assert (c.relative, c.absolute, c.variance) == pytest.approx((0, expected, 12), rel=1e-12)
        assert c.sources["absolute"] == "exact"
    assert "Over the draws of 2 seeds it is" in c.note


@pytest.mark.parametrize("agents", [4, 100])
def test_a_bias_that_is_measured_is_the_upper_end_of_a_narrow_interval(agents):
    """Nothing is known of a function: ‖e‖² = 1/4 under noise of 0.75. The largest estimate of 32 queries is 0.41 for 4
    agents and 0.50 for 100."""
    unknown = gs.oracles.exact() | gs.oracles.custom(lambda g, x, site: g + E + jax.random.normal(site.key, (3,)) / 2)
    centres = np.random.default_rng(0).normal(size=(agents, 3))
    problem, network = gs.problems.quadratic(np.eye(3), centres, start=np.ones(3)), gs.networks.ring(agents)
    c = constants_of(problem, network, unknown)
    assert c.relative == 0  # 1/256 would have a higher floor, since agents differ by more than ‖e‖
    low, high = map(float, re.search(r"95 % interval, (\S+) to (\S+), from", c.note).groups())
    assert low < 0.25 < high == pytest.approx(c.absolute, rel=1e-3)
    assert high < (0.29 if agents == 4 else 0.31)
    assert c.variance == pytest.approx(0.75, rel=0.15)
    assert c.sources["absolute"] == "estimate"


def test_a_bias_that_is_lost_in_noise_is_said_to_be_so():
    unknown = gs.oracles.exact() | gs.oracles.custom(lambda g, x, site: g + jax.random.normal(site.key, (3,)))
    problem = gs.problems.quadratic(np.eye(3), 3 * np.eye(3), start=np.ones(3))
    c = constants_of(problem, gs.networks.ring(3), unknown)
    assert "95 % interval, 0 to" in c.note
    assert "from 4,096 queries of each agent at the start and at the lowest point." in c.note
    assert 0 < c.absolute < 0.02  # 3/32 is what 32 queries leave of the noise


def test_a_bias_that_the_relative_constant_covers_where_it_is_measured_is_said_to_be_so():
    """The mean of ‖e_i‖² is beside a σ_f² of 0, which holds at two points alone."""
    biased = gs.oracles.exact() | gs.oracles.top_k(share=0.5) | gs.oracles.additive_bias(0.01, 0.01)
    problem = gs.problems.quadratic(np.eye(5), 3 * np.eye(5), start=np.ones(5))
    c = constants_of(problem, gs.networks.ring(5), biased)
    assert (c.relative, c.absolute) == (pytest.approx(0.8), 0)
    assert "is the largest" not in c.note
    assert "0 to 0" not in c.note
    assert "σ_f² is 0 at the start and at the lowest point, where M_f ‖∇f_i‖² is at least the whole bias;" in c.note


def test_given_constants_are_taken():
    problem, network = ts.quadratics(3, 2), gs.networks.complete(3)
    stated = {
        "smoothness": 7.0,
        "relative": 0.001,
        "variance": 0.5,
        "excess": 2.0,
        "heterogeneity": 3.0,
        "absolute": 1.0,
    }
    c = constants_of(problem, network, gs.oracles.exact(), **stated)
    assert {name: getattr(c, name) for name in stated} == stated
    assert set(c.sources.values()) == {"given"}


def test_phi_at_the_start_is_bounded_by_the_constants():
    """E Φ⁰ from exact moments is at most the bound from the constants, whatever the bias and the noise."""
    for seed in range(20):
        problem, network = ts.quadratics(4, 2, seed), gs.networks.ring(4)
        oracle = ts.affine(4, 2, seed, delta=0.05, bias=0.5, noise=0.5)
        c = dataclasses.replace(
            ts.known(problem, network, oracle),
            heterogeneity_at_start=problem.heterogeneity(problem.start),
            gradients_at_start=float((problem.gradients(problem.start) ** 2).sum(1).mean()),
        )
        mean, cov = (system := System(problem, network.mixing, oracle, 0.01, 0.1)).begin(problem.start)
        loss, _, _, consensus, tracking, average, estimation, *_ = system.measure(mean, cov)[0]
        assert loss == pytest.approx(c.excess)
        assert consensus == pytest.approx(0, abs=1e-20)
        assert tracking <= c.start.tracking
        assert average <= c.start.average
        assert estimation <= c.start.estimation
        w = coefficients(4, c.gap, c.smoothness, c.relative, 0.01, 0.1)
        assert phi_at_start(c, w) >= loss + w.c2 * tracking + w.c3 * average + w.c4 * estimation


@pytest.mark.parametrize(("eta", "lam"), [(0.1, 0.3), (0.4, 0.05), (2.0, 0.5)])
def test_modes_are_the_eigenvalues_of_the_whole_system(eta, lam):
    network, a = gs.networks.star(5), 1.7
    problem = gs.problems.quadratic([[a]], np.arange(5.0)[:, None])
    P = System(problem, network.mixing, ts.affine(5, 1), eta, lam).P
    sizes = np.sort(np.abs(np.linalg.eigvals(P)))
    sizes = np.delete(sizes, np.abs(sizes - 1).argmin())  # mean(V) = mean(M)
    radius = largest(spectrum(network), lam, np.array([eta * a]))[0]
    assert radius == pytest.approx(sizes[-1], rel=1e-6)


def test_limit_of_stability():
    """On the ring of 20 a root leaves at r = −1 with w = −1/3: η = (1 + w)²(2 − λ)/(2λa). Beside it, runs agree."""
    network = gs.networks.ring(20)
    for lam in (1.0, 0.3, 0.05):
        assert step_limit(network, lam, 1.84) == pytest.approx((4 / 9) * (2 - lam) / (2 * lam * 1.84), rel=1e-9)
    # for W = J the modes of the disagreement are r² (r − 1 + λ) + ηλa r (r − 1): r = −1 at ηλa = (2 − λ)/2
    assert step_limit(gs.networks.complete(5), 0.3, 1.0) == pytest.approx(1.7 / 0.6, rel=1e-9)
    problem = gs.problems.quadratic([[1.0]], np.linspace(-1, 1, 20)[:, None])
    limit = step_limit(network, 0.3, 1.0)
    runs = [
        propagate(problem, network, ts.affine(20, 1), share * limit, 0.3, 2_000, start=[0.0]).consensus
        for share in (0.98, 1.02)
    ]
    assert runs[0][-1] < 0.5 * runs[0][1_000]
    assert runs[1][-1] > 1e6 * runs[1][1_000]


def test_limit_of_stability_of_a_very_large_network_uses_the_interval_of_its_spectrum():
    assert np.real(spectrum(gs.networks.ring(2_000))).max() == 1
    assert step_limit(gs.networks.ring(2_000), 0.3, 1.0) <= step_limit(gs.networks.ring(20), 0.3, 1.0)


@pytest.mark.parametrize("form", ["printed", "repaired"])
def test_best_bound_and_the_rounds_for_a_target(form):
    steps = 1e6
    best = best_bound(SOME, steps, form)
    assert best.applies
    tried = [lam_limit(SOME, form) * share for share in np.geomspace(1e-4, 1, 200)]
    assert best.total <= min(bound(SOME, eta_limit(SOME, lam, form), lam, steps, form).total for lam in tried) * (
        1 + 1e-9
    )
    target = 1.01 * floor(SOME)
    needed = steps_for(SOME, target, form)
    assert best_bound(SOME, needed, form).total <= target < best_bound(SOME, 0.99 * needed, form).total
    assert steps_for(SOME, 0.99 * floor(SOME), form) is None


def test_plan_of_the_papers_problem():
    problem = gs.problems.logistic("a9a", agents=20, split="by-label", alpha=0.01)
    oracle = gs.oracles.minibatch(64) | gs.oracles.additive_bias(mean=0.002)
    planned = plan(problem, gs.networks.ring(20), oracle)
    printed, repaired = planned.prescriptions
    assert printed.lam_limit == pytest.approx(1.824e-3, rel=1e-3)
    assert printed.corollary_A3 == pytest.approx(-8.63, abs=0.01)
    assert (printed.corollary_steps, repaired.corollary_steps) == pytest.approx((6.01e6, 7.06e7), rel=1e-3)
    assert repaired.corollary_A3 > 0
    assert planned.constants.smoothness == pytest.approx(1.841, abs=1e-3)
    assert planned.constants.absolute == pytest.approx(123 * 0.002**2)
    assert planned.constants.heterogeneity == pytest.approx(1.111, abs=1e-3)
    best = planned.practical.best
    assert best.loss < 0.5
    assert best.eta < best.limit
    text = str(planned)
    assert "0.032629" in text
    assert "a heuristic, not a theorem" in text
    assert "The printed proof of Corollary 1 fails here" in text
    assert max(map(len, text.splitlines())) <= 120
    assert json.loads(json.dumps(planned.asdict(), allow_nan=False))["theory"]["repaired"]["bound"]["applies"] is True


def test_plan_says_what_cannot_be_had():
    problem, network = ts.quadratics(4, 2), gs.networks.ring(4)
    low = plan(problem, network, gs.oracles.additive_bias(vectors=[1.0, 1.0]), target=1.0, trial=False)
    assert (low.floor, low.sharp_floor) == pytest.approx((32, 2))
    assert low.asdict()["sharp_floor"] == low.sharp_floor
    assert "settle at ‖∇F‖² ≤ (M_f ζ² + σ_f²)/(1 − M_f) = 2." in str(low)
    assert [prescription.bound for prescription in low.prescriptions] == [None, None]
    assert "No T reaches 1: the bound never goes below 32." in str(low)
    uncovered = plan(problem, network, gs.oracles.relative_bias(0.5), steps=100, trial=False)
    assert "Theorem 1 says nothing here: M_f is 0.25" in str(uncovered)
    assert "missed by a factor of 64" in str(uncovered)
    assert uncovered.sharp_floor == pytest.approx(uncovered.constants.heterogeneity / 3)
    unbounded = plan(problem, network, gs.oracles.relative_bias(factors=[1.0, 0, 0, 0]), steps=100, trial=False)
    assert unbounded.sharp_floor == math.inf
    assert "No bound holds for ‖∇F‖² where a tracker settles" in str(unbounded)
    reached = plan(problem, network, target=0.01, trial=False)
    assert all(prescription.bound.total == pytest.approx(0.01, rel=1e-4) for prescription in reached.prescriptions)


def test_a_bound_above_the_start_is_called_vacuous():
    problem, network = ts.quadratics(4, 2), gs.networks.ring(4)
    start = float((problem.gradient(problem.start) ** 2).sum())
    assert constants_of(problem, network, gs.oracles.exact()).gradient_at_start == pytest.approx(start)
    below = plan(problem, network, target=0.99 * start, trial=False)
    assert below.vacuous == ()
    assert "Vacuous" not in str(below)
    above = plan(problem, network, target=1.01 * start, trial=False)
    assert above.vacuous == ("printed", "repaired")
    assert "Vacuous, printed and repaired: the bound is above" in str(above)
    assert above.asdict()["vacuous"] == ["printed", "repaired"]


def test_a_plan_says_first_whose_it_is_and_what_holds_of_each_other_method():
    problem, network = ts.quadratics(4, 2), gs.networks.ring(4)
    names = ["biased-dmt", "gnsd", "gt-dsgd", "d-psgd"]
    found = plan(problem, network, steps=100, trial=False, methods=names)
    head = str(found).partition("\n\n")[0].splitlines()
    assert head[0] == f"A plan for Biased-DMT on {network.name}: n = 4, ρ = {network.gap:.6g}."
    assert head[2:] == [
        "- gnsd is Biased-DMT with λ = 1: the rows of that λ hold for it.",
        "- gt-dsgd is a tracker: without noise it settles at the floor of trackers, if it settles.",
        "- d-psgd: nothing below is about it.",
    ]
    assert list(found.asdict()["others"]) == names[1:]
    absent = plan(problem, network, steps=100, trial=False, methods=["d-psgd"])
    assert f"on {network.name}, which the spec does not run: n = 4" in str(absent)
    assert str(plan(problem, network, steps=100, trial=False, methods=["biased-dmt"])).splitlines()[1] == ""


CIRCLE = gs.networks.directed(nx.DiGraph([(0, 1), (1, 2), (2, 3), (3, 0), (0, 2)]))


@table(
    ("network", "options", "message"),
    [
        (gs.networks.ring(4), {"steps": 10, "target": 0.1}, "steps or a target, but not both"),
        (gs.networks.ring(4), {"target": -1}, r"target must be a number in \(0, ∞\), but is -1"),
        (gs.networks.ring(4), {"steps": 0}, r"steps must be a number in \[1, ∞\), but is 0"),
        (gs.networks.ring(4), {"varience": 1.0}, "did you mean 'variance'"),
        (gs.networks.ring(5), {}, "the problem has 4 agents, but the network"),
        (gs.networks.one_peer_exponential(4), {}, "changes from round to round, but the theory is about one W"),
        (CIRCLE, {}, "no spectral gap ρ > 0, which the theory needs"),
    ],
)
def test_what_cannot_be_planned_is_refused(network, options, message):
    with pytest.raises(InputError, match=message):
        plan(ts.quadratics(4, 2), network, **options)
