"""`gossamer prove`, and the proved bound of a plan."""

import dataclasses
import json
import sys

import numpy as np
import pytest

import gossamer as gs
from gossamer import theory
from gossamer.core import InputError
from gossamer.worst import LyapunovBound
from tests.commands import gossamer

pytest.importorskip("clarabel")

SPEC = """
[problem]
name = "quadratic"
A = [[2.0, 0.5], [0.5, 1.0]]
b = [[1.0, 0.0], [0.0, 1.0], [-1.0, 0.5], [0.5, -1.0]]

[network]
name = "ring"

[run]
steps = 2000
every = 100
seeds = 1

[tuning]
budget = 8
eta = [0.01, 1.0]

[[algorithm]]
name = "d-psgd"
eta = 0.02

[[algorithm]]
name = "biased-dmt"
eta = 2.0
lam = 0.5

[[algorithm]]
name = "gnsd"

[[algorithm]]
name = "d-adamw"
eta = 0.1
"""


def test_prove_prints_a_row_or_a_reason_for_every_method(tmp_path):
    (tmp_path / "spec.toml").write_text(SPEC)
    done = gossamer("prove", "spec.toml", "--json", "--seconds", "40", "--out", "proofs", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    fixed, diverging, tuned, nonlinear = json.loads(done.stdout)["methods"]
    assert fixed["verified"]
    assert fixed["rule"] == "DPSGD(eta=0.02)"
    assert fixed["largest"] > 0.02
    assert fixed["floor"] < fixed["bound"]
    assert not diverging["verified"]
    assert "In fact it diverges on quadratics" in diverging["reason"]
    assert 0.01 < diverging["largest"] < 2.0
    assert f"The largest proved η is {diverging['largest']:.4g}" in diverging["reason"]
    assert tuned["verified"]
    assert not nonlinear["verified"]
    assert "linear" in nonlinear["reason"]
    assert {path.name for path in (tmp_path / "proofs").iterdir()} == {"1-d-psgd.json", "3-gnsd.json"}
    assert LyapunovBound.read(tmp_path / "proofs" / "3-gnsd.json").bound() == tuned["bound"]
    assert "multipliers: about" in done.stderr
    refused = gossamer("prove", "spec.toml", "--seconds", "-1", cwd=tmp_path)
    assert refused.returncode == 2


PROBLEM = gs.problems.random_quadratic(4, 3, heterogeneity=0.5)


def test_a_proof_is_about_the_problem_s_own_numbers():
    network = gs.networks.ring(4)
    oracle = gs.oracles.exact() | gs.oracles.additive_bias(vectors=[0.1, 0.0, 0.0])
    found = theory.prove([gs.GNSD(eta=0.05), "gt-dsgd"], PROBLEM, network, oracle, steps=500)
    c = found.constants
    fixed, searched = (row.found for row in found.rows)
    assert fixed is not None
    assert searched is not None
    assert fixed.given["absolute"] == pytest.approx(0.01)
    assert fixed.given["excess"] == c.excess
    again = gs.certificate(gs.GNSD(eta=0.05), network, **theory.question_of(c, 500))
    assert again.bound() == fixed.bound()
    assert searched.bound() < fixed.bound()
    measured = gs.simulate(searched.rule, PROBLEM, network, oracle, steps=500, every=1, seeds=1, dtype="float64")
    assert np.mean(measured.frame()["grad_norm_sq"].to_numpy()[:500]) <= searched.bound()
    text = str(found)
    for word in ("gnsd (eta=0.05)", "gt-dsgd", "σ_f²", "T = 500", "verified"):
        assert word in text


def test_what_bounds_an_oracle_along_a_path_only_is_said():
    world = PROBLEM, gs.networks.ring(4), gs.oracles.exact() | gs.oracles.delay(2)
    proofs = theory.prove([gs.DPSGD(eta=0.02)], *world, steps=50)
    worst = theory.worst_cases([gs.DPSGD(eta=0.02)], *world, steps=1, replay=False)
    for found in (proofs, worst):
        assert "Of the oracle: delay's σ_f²" in str(found)
        assert "Of the oracle" not in str(
            dataclasses.replace(found, constants=dataclasses.replace(found.constants, note=""))
        )


def test_no_method_is_proved_where_a_gradient_may_be_zero():
    with pytest.raises(InputError, match="M_f"):
        theory.prove([gs.GNSD(eta=0.05)], PROBLEM, gs.networks.ring(4), steps=5, relative=1.0)


def test_a_plan_has_the_proved_bound_beside_the_theorem_s():
    plan = theory.plan(PROBLEM, gs.networks.ring(4), steps=1000, trial=False)
    found = plan.proved
    assert isinstance(found, LyapunovBound)
    assert found.steps == 1000
    for prescription in plan.prescriptions:
        assert prescription.bound is not None
        assert found.bound() < prescription.bound.total
    assert f"Proved by machine for T = 1,000: {found.bound():.4g}, valid, with η = " in str(plan)
    assert not plan.proves_nothing
    assert plan.asdict()["proved"]["bound"] == found.bound()
    without = theory.plan(PROBLEM, gs.networks.ring(4), steps=1000, trial=False, seconds=0)
    assert "machine" not in str(without)


def test_a_plan_goes_on_without_a_solver(monkeypatch):
    monkeypatch.setitem(sys.modules, "clarabel", None)
    plan = theory.plan(PROBLEM, gs.networks.ring(4), steps=1000, trial=False)
    assert "pip install clarabel" in str(plan)
    assert plan.asdict()["proved"] is None


def test_a_plan_says_why_nothing_was_proved():
    plan = theory.plan(PROBLEM, gs.networks.ring(4), steps=1000, trial=False, seconds=1e-9)
    assert "No bound was proved by machine: no bound of biased-dmt was proved within the budget" in str(plan)
