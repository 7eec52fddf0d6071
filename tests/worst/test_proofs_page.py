"""The page that judges the paper by proved bounds: its numbers are those of a run, and some are made again."""

import importlib
import json
import math
from pathlib import Path

import pytest

import gossamer as gs
from gossamer import theory

DOCS = Path(__file__).parents[2] / "docs"
FOUND = json.loads((DOCS / "assets" / "proofs" / "found.json").read_text(encoding="utf-8"))


@pytest.fixture
def study(monkeypatch):
    monkeypatch.syspath_prepend(DOCS)
    return importlib.import_module("proofs")


def test_page_is_what_was_found(study):
    """No number on the page is typed: written anew from the stored findings, it is the same."""
    assert study.page(FOUND) == (DOCS / "proofs.md").read_text(encoding="utf-8")


def test_the_theorem_s_numbers_are_its_own(study):
    for name, network in study.networks().items():
        c, row = study.constants(network), FOUND["theorem"][name]
        at = theory.bound(c, row["eta"], row["lam"], study.ROUNDS / row["eta"], "printed")
        assert at.applies
        assert row["theorem"]["total"] == pytest.approx(at.total)
        # the transient counts Δ alone where σ_f², σ² and ζ₀² are as small as they are here
        assert row["theorem"]["bias"] == pytest.approx(16 * (1 + 9 * row["lam"] ** 2 * network.agents / (4 * c.gap**2)))


def test_stored_bounds_can_be_proved_again(study):
    pytest.importorskip("clarabel")
    network, row = study.networks()["two agents, w = ½"], FOUND["theorem"]["two agents, w = ½"]
    rule = gs.BiasedDMT(eta=row["eta"], lam=row["lam"])
    again = gs.certificate(rule, network, bias=(0, study.BIAS), steps=study.ROUNDS / row["eta"])
    assert again.bound() == pytest.approx(row["quiet"]["bound"], rel=0.01)
    step = row["largest"]
    rule = gs.BiasedDMT(eta=step["eta"], lam=step["lam"])
    again = gs.certificate(rule, network, bias=(0, 1), heterogeneity=study.ANY, steps=1e4 / step["eta"])
    assert again.floor <= 1.02 * study.TWICE


def test_closed_forms_are_below_the_proved_floors():
    for row in FOUND["floors"]["biased"]:
        exact = 1 / (1 - row["relative"])
        assert exact <= row["bias"] <= 1.001 * exact
        assert row["relative"] * exact <= row["heterogeneity"] <= 1.002 * row["relative"] * exact
    for row in FOUND["floors"]["d_psgd"]:
        exact = row["ratio"] ** 2 / (1 - row["ratio"] ** 2)
        assert exact <= row["heterogeneity"] <= (1 + 1e-4) * exact


def test_what_is_proved_never_diverges(study):
    """On a few cells of the diagram: where a bound has hardly any ζ², no quadratic is found that diverges."""
    pytest.importorskip("clarabel")
    for name, network in study.panels().items():
        kinds = FOUND["phases"][name]["Biased-DMT"]
        for i in range(0, len(study.LAMBDAS), 5):
            for j in range(0, len(study.ETAS), 6):
                if kinds[i][j] == 0:
                    eta, lam = network.gap * study.ETAS[j], study.LAMBDAS[i]
                    assert gs.diverging(gs.BiasedDMT(eta=eta, lam=lam), network) is None


def test_no_best_bound_is_below_what_any_method_can_have():
    """√(2LΔσ²/(nT)) is the least over η of the descent lemma's bound of centralised SGD, without its higher orders."""
    for row in FOUND["corollary"]:
        assert row["best"]["bound"] > row["optimum"] == pytest.approx(math.sqrt(2 / (20 * row["steps"])))
        assert row["best"]["bound"] <= row["there"]["bound"] * 1.001
