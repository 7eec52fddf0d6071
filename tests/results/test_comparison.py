"""Two runs compared: what is beyond chance, what is not, and what differs in how they were made."""

import numpy as np
import pytest
from scipy import stats

import gossamer as gs
from gossamer.core import InputError
from gossamer.results.comparison import find_changes
from gossamer.results.study import Study, flatten
from tests.results.side_by_side import made_up

BASE = np.array([1.0, 1.4, 0.7, 1.9, 1.2])
"""Losses of five seeds: seeds differ much."""


def study(losses, **options):
    result = made_up(losses, **options)
    return Study("s", "S", result.spec or "", {"": result}, None)


def row(comparison, method="gnsd"):
    return comparison.table.filter(comparison.table["method"] == method).row(0, named=True)


def test_a_small_difference_shows_where_seeds_are_shared_and_not_where_they_are_not():
    better = BASE - 0.05 + 1e-3 * np.array([1, -1, 2, 0, -2])
    paired = gs.compare(study({"gnsd": BASE}), study({"gnsd": better}))
    assert row(paired)["verdict"] == "lower in B"
    assert row(paired)["paired"] == "by seed"
    assert paired.significant == ["gnsd, loss"]
    known = stats.ttest_rel(better, BASE).confidence_interval(0.95)
    np.testing.assert_allclose(row(paired)["difference_±"], (known.high - known.low) / 2, rtol=1e-12)
    apart = gs.compare(study({"gnsd": BASE}), study({"gnsd": better}, seeds=range(10, 15)))
    assert row(apart)["verdict"] == "not distinguishable"
    assert row(apart)["paired"] == "no (Welch)"
    assert apart.significant == []
    assert "seeds differs: 0 … 4 (A); 10 … 14 (B)" in str(apart)


def test_the_level_of_each_interval_is_such_that_all_hold_together():
    losses = {"gnsd": BASE, "dsgt": BASE + 1, "d-psgd": BASE + 2, "d2": BASE}
    comparison = gs.compare(study(losses), study(losses))
    assert comparison.level == pytest.approx(1 - 0.05 / 4)
    assert set(comparison.table["verdict"]) == {"identical"}


def test_what_rounding_can_make_is_no_difference():
    exact = np.full(3, 1.0)
    off = exact * (1 + 1e-7)
    assert row(gs.compare(study({"gnsd": exact}, dtype="float32"), study({"gnsd": off}, dtype="float32")))[
        "verdict"
    ] == ("not distinguishable")
    assert row(gs.compare(study({"gnsd": exact}), study({"gnsd": off})))["verdict"] == "lower in A"


def test_one_seed_decides_nothing_and_neither_do_survivors():
    alone = gs.compare(study({"gnsd": [1.0]}), study({"gnsd": [0.5]}))
    assert row(alone)["verdict"] == "undecided: one replicate has no interval"
    lost = gs.compare(study({"gnsd": BASE}), study({"gnsd": BASE - 0.5}, diverged={("gnsd", 2)}))
    assert row(lost)["verdict"] == "undecided: runs diverged, 1 in B"
    assert lost.significant == []


def test_methods_are_matched_by_setting_or_by_name_where_that_is_enough():
    first = study({("gnsd", "eta=0.1"): BASE, ("dsgt", "eta=0.1"): BASE, ("dsgt", "eta=0.2"): BASE, "d2": BASE})
    second = study({("gnsd", "eta=0.3"): BASE, ("dsgt", "eta=0.1"): BASE, ("dsgt", "eta=0.4"): BASE})
    comparison = gs.compare(first, second)
    assert comparison.table["method"].to_list() == ["gnsd", "dsgt(eta=0.1)"]
    assert comparison.only == (["dsgt(eta=0.2)", "d2"], ["dsgt(eta=0.4)"])
    with pytest.raises(InputError, match="the first runs gnsd, the second d2, and no method is in both"):
        gs.compare(study({"gnsd": BASE}), study({"d2": BASE}))


def test_variants_are_matched_by_name():
    def of(variants):
        return Study("s", "S", "", {name: made_up({"gnsd": losses}) for name, losses in variants.items()}, None)

    comparison = gs.compare(of({"x": BASE, "y": BASE}), of({"y": BASE + 1 + 0.01 * BASE, "z": BASE}))
    assert comparison.table["method"].to_list() == ["y: gnsd"]
    assert row(comparison, "y: gnsd")["verdict"] == "lower in A"
    assert comparison.only == (["x: gnsd"], ["z: gnsd"])


def test_what_differs_in_specs_and_code_is_listed():
    text = '[run]\nsteps = {}\n[[algorithm]]\nname = "gnsd"\neta = {}\n'
    first = study({"gnsd": BASE}, spec=text.format(10, 0.1))
    second = study({"gnsd": BASE}, spec=text.format(20, 0.1) + "lam = 0.5\n", code="beef")
    comparison = gs.compare(first, second)
    assert comparison.spec == [("run.steps", 10, 20), ("algorithm[gnsd].lam", None, 0.5)]
    assert comparison.made_by == [("code", "c0de", "beef")]
    assert "run.steps: 10 | 20" in str(comparison)
    assert "algorithm[gnsd].lam: not given | 0.5" in str(comparison)
    assert comparison.asdict()["spec"][0] == {"key": "run.steps", "first": 10, "second": 20}
    assert "no specs: an oracle is known by a spec only" in str(gs.compare(first, study({"gnsd": BASE})))
    same = str(gs.compare(first, first))
    assert "the specs are the same" in same
    assert "the same version of Gossamer, packages and machine" in same


def test_lists_of_tables_are_told_apart_by_name_or_by_number():
    given = {"a": [{"name": "x", "k": 1}, {"name": "y", "k": 2}], "b": [{"kind": "q"}], "c": [1, 2], "d": {}}
    assert dict(flatten(given)) == {
        "a[x].name": "x", "a[x].k": 1, "a[y].name": "y", "a[y].k": 2, "b[0].kind": "q", "c": [1, 2], "d": {},
    }  # fmt: skip
    assert find_changes({"p": 1, "q": 2}, {"q": 2, "r": 3}) == [("p", 1, None), ("r", None, 3)]


def test_results_are_compared_as_they_are_and_nothing_else_is():
    first, second = made_up({"gnsd": BASE}), made_up({"gnsd": BASE + 1})
    assert gs.compare(first, second).table.equals(gs.compare(study({"gnsd": BASE}), study({"gnsd": BASE + 1})).table)
    with pytest.raises(InputError, match="'B' must be a Result or a Study, but is 'runs/b'"):
        gs.compare(first, "runs/b")


def test_a_comparison_is_one_line_at_a_prompt():
    comparison = gs.compare(study({"gnsd": BASE}), study({"gnsd": BASE}), ("<a>", "b"))
    assert repr(comparison) == "Comparison('<a>' and 'b': 1 comparisons, 0 significant)"
    assert "A = &lt;a&gt;" in comparison._repr_html_()
