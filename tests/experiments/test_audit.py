"""Audits: what is measured is what the algorithm's own queries would see."""

import copy
import json
from dataclasses import replace

import numpy as np
import pytest

import gossamer as gs
from gossamer.experiments.audit import audit
from gossamer.oracles import ErrorBounds
from gossamer.specs.spec import Spec
from tests import plain

A = [[2.0, 0.5], [0.5, 1.0]]
B = [[1.0, 0.0], [0.0, 2.0], [-1.0, 1.0]]
PROBLEM = gs.problems.quadratic(A, B)
E = [[0.1, 0.2], [0.0, 0.3], [0.4, 0.0]]
BASE = {
    "problem": {"name": "quadratic", "A": A, "b": B},
    "network": {"name": "complete"},
    "run": {"steps": 7, "dtype": "float64"},
    "algorithm": [{"name": "d-psgd", "eta": 0.1}],
}


def spec(*stages, **changes):
    return Spec.of(copy.deepcopy(BASE) | {"oracle": {"stages": list(stages)}} | changes)


def one(*stages, **changes):
    (finding,) = audit(spec(*stages, **changes), rounds=3).findings
    return finding


def test_a_given_bias_is_found_exactly():
    finding = one({"kind": "additive-bias", "vectors": E})
    assert finding.rounds == [0, 3, 6]
    np.testing.assert_allclose(finding.measured.bias_sq, np.tile((np.array(E) ** 2).sum(1), (3, 1)), rtol=1e-12)
    assert (finding.covered, finding.exceeded, finding.diverged) == (True, [], -1)
    assert finding.words[0].startswith("At these rounds Assumption 3 holds with M_f = 1/256 if σ_f² is at least 0.1")
    wrong = replace(finding, stated=ErrorBounds(0.0, 0.1, 0.0))
    assert wrong.exceeded == ["bias"]
    assert "The stated bound on the bias is exceeded: the closed form is wrong for this problem." in wrong.words


def test_a_bias_that_was_drawn_once_is_the_runs_own():
    stage = {"kind": "additive-bias", "std": 0.5}
    finding = one(stage, run={"steps": 7, "dtype": "float64", "seeds": [4, 5]})
    oracle = gs.oracles.additive_bias(std=0.5)
    rule, network = gs.DPSGD(0.1), gs.networks.complete(3)
    run = gs.simulate(rule, PROBLEM, network, oracle, steps=1, seeds=[4], dtype="float64")
    sizes = (run.biases[0] ** 2).sum(1)
    np.testing.assert_allclose(finding.measured.bias_sq[0], sizes, rtol=1e-10)
    assert finding.stated.absolute == pytest.approx(sizes.max(), rel=1e-12)
    rounded = one(stage, run={"steps": 7, "dtype": "float32", "seeds": [4]})
    assert finding.exceeded == rounded.exceeded == []


@pytest.mark.parametrize("name", ["d-psgd", "biased-dmt"])
def test_a_delay_is_measured_at_the_query_that_comes(name):
    """D-PSGD asks in round t at x^t, Biased-DMT at x^{t+1}; either then sees the gradient of two queries before."""
    hyper = {"d-psgd": {"eta": 0.1}, "biased-dmt": {"eta": 0.1, "lam": 0.5}}[name]
    finding = one({"kind": "delay", "rounds": 2}, algorithm=[{"name": name, **hyper}])
    asked = []

    def late(X):
        asked.append(X)
        return plain.gradient_of(PROBLEM)(asked[max(0, len(asked) - 3)])

    plain.states(gs.algorithms.ALGORITHMS[name](**hyper), np.zeros((3, 2)), np.full((3, 3), 1 / 3), late, 7)
    first = len(asked) - 7  # Biased-DMT has asked once before round 0
    for row, t in enumerate(finding.rounds):
        now, before = asked[first + t], asked[max(0, first + t - 2)]
        wrong = ((before - now) @ np.array(A)) ** 2
        np.testing.assert_allclose(finding.measured.bias_sq[row], wrong.sum(1), rtol=1e-9, atol=1e-14)
    assert finding.measured.bias_sq[-1].max() > 1e-6


def test_variants_words_and_tables():
    """A relative bias within the theorem, one beyond it, and noise whose variance no closed form bounds."""
    variants = [
        {"name": "small", "oracle": {"stages": [{"kind": "relative-bias", "delta": 0.05}]}},
        {"name": "large", "oracle": {"stages": [{"kind": "top-k", "k": 1}]}},
        {"name": "random", "oracle": {"stages": [{"kind": "rand-k", "k": 1}]}},
    ]
    told = []
    found = audit(spec(variant=variants), rounds=2, queries=16, progress=lambda *args: told.append(args))
    small, large, random = found.findings
    assert [finding.variant for finding in found.findings] == ["small", "large", "random"]
    assert small.words == ["At these rounds Assumption 3 holds with M_f ≤ 1/256 and σ_f² = 0."]
    np.testing.assert_allclose(small.measured.relative, 0.0025, rtol=1e-9)
    assert large.covered is False
    assert large.notes == ["The stated M_f = 0.5 is above 1/256: the theorem does not cover it."]
    assert any(
        line.startswith("No bound on the variance is stated: along this path it is at most") for line in random.words
    )
    assert all(finding.exceeded == [] for finding in found.findings)
    assert {args[0] for args in told} == {"small: d-psgd", "large: d-psgd", "random: d-psgd"}
    assert [finding.stated.relative for finding in found.findings] == [pytest.approx(0.0025), 0.5, 0.0]
    assert [finding.stated.variance for finding in found.findings] == [0, 0, None]
    text = str(found)
    assert "small: d-psgd (eta=0.1), rounds 0, 6" in text
    assert "stated   M_f = 0, σ_f² = 0, σ² = –" in text
    kept = json.loads(json.dumps(found.asdict()))["findings"][1]
    assert (kept["covered"], kept["rounds"], kept["measured"]["points"]) == (False, [0, 6], 2)


def test_a_sentence_about_several_runs_is_printed_once():
    """Two methods with one oracle: its note holds of both, and so does that the theorem does not cover it."""
    several = [{"name": "d-psgd", "eta": 0.1}, {"name": "biased-dmt", "eta": 0.1, "lam": 0.5}]
    found = audit(spec({"kind": "rand-k", "k": 1}, algorithm=several), rounds=2, queries=16)
    first, second = found.findings
    assert first.notes == second.notes
    assert len(first.notes) == 1
    text = " ".join(str(found).split())
    assert text.endswith(f"The oracle: - {first.notes[0]}")
    assert text.count(first.notes[0]) == 1


def test_a_run_that_diverges_is_measured_as_far_as_it_goes():
    run = {"steps": 200, "dtype": "float64"}
    finding = one({"kind": "relative-bias", "delta": 0.5}, run=run, algorithm=[{"name": "d-psgd", "eta": 3.0}])
    assert finding.rounds == [0]
    assert finding.diverged > 0
    assert any(line.startswith(f"The run diverged in round {finding.diverged};") for line in finding.words)


@pytest.mark.parametrize(
    ("changes", "options", "message"),
    [
        (
            {"tuning": {"eta": [0.01, 0.1]}, "algorithm": [{"name": "biased-dmt"}]},
            {},
            "biased-dmt has no eta and no lam",
        ),
        ({}, {"rounds": 0}, "rounds must be a whole number of at least 1, but is 0"),
        ({}, {"queries": 2}, "queries must be a whole number of at least 4"),
    ],
)
def test_refuses(changes, options, message):
    with pytest.raises(gs.InputError, match=message):
        audit(spec(**changes), **options)
