"""Results side by side: labels are kept, and what does not belong together is refused or said."""

import numpy as np
import polars as pl
import pytest

import gossamer as gs
from gossamer.core import InputError
from gossamer.results.study import Study
from tests.results.side_by_side import made_up
from tests.table import table

A = made_up({"gnsd": [1.0, 1.1], "d-psgd": [1.2, 1.3]})


def test_results_stand_side_by_side_under_their_labels():
    other = made_up({"gnsd": [0.5, 0.6]}, network="torus", rounds=20)
    study = gs.concat({"ring": A, "torus": other})
    assert list(study.results) == ["ring", "torus"]
    table = study.summary().table
    assert table.select("variant", "algorithm").rows() == [("ring", "gnsd"), ("ring", "d-psgd"), ("torus", "gnsd")]
    np.testing.assert_allclose(table["loss"], [1.05, 1.25, 0.55], rtol=1e-15)
    said = str(study.summary())
    assert "network differs: ring (ring); torus (torus)" in said
    assert "steps differs: 10 (ring); 20 (torus)" in said
    assert "data differs" not in said


@table(
    ("changed", "word", "message"),
    [
        ({"data": "e2"}, "problem", r"data differs: made up \(d1d1d1d1d1d1\) \(a\); made up \(e2e2e2e2e2e2\) \(b\)"),
        ({"dimension": 5}, "problem", r"dimension differs: 3 \(a\); 5 \(b\)"),
        ({"start": 2.5}, "problem", r"F at the start differs: 2 \(a\); 2\.5 \(b\)"),
        ({"agents": 8}, "agents", r"agents differs: 4 \(a\); 8 \(b\)"),
        ({"dtype": "float32"}, "dtype", r"dtype differs: float64 \(a\); float32 \(b\)"),
    ],
)
def test_what_should_be_shared_is_refused_unless_it_is_allowed(changed, word, message):
    other = made_up({"gnsd": [0.5, 0.6]}, **changed)
    with pytest.raises(InputError, match=message):
        gs.concat({"a": A, "b": other})
    with pytest.raises(InputError, match=rf'allow=\["{word}"\]'):
        gs.concat({"a": A, "b": other}, allow=[known for known in ("problem", "agents", "dtype") if known != word])
    study = gs.concat({"a": A, "b": other}, allow=word)
    assert any("differs" in note for note in study.summary().notes)


def test_rounding_is_no_difference_of_the_start():
    near = made_up({"gnsd": [0.5, 0.6]}, start=2.0 * (1 + 1e-7), dtype="float32")
    exact = made_up({"gnsd": [0.5, 0.6]}, dtype="float32")
    assert gs.concat({"a": exact, "b": near}).summary().notes == ()


def test_problems_of_specs_are_compared_and_the_place_of_a_file_is_not():
    text = '[problem]\nname = "logistic"\nalpha = {}\ndata = "{}"\n'
    first = made_up({"gnsd": [1.0, 1.1]}, spec=text.format(0.1, "/here/d.csv"))
    moved = made_up({"gnsd": [1.0, 1.1]}, spec=text.format(0.1, "/there/d.csv"))
    other = made_up({"gnsd": [1.0, 1.1]}, spec=text.format(0.2, "/here/d.csv"))
    gs.concat({"a": first, "b": moved})
    with pytest.raises(
        InputError, match=r"problem differs: name = logistic, alpha = 0\.1 \(a\); .* alpha = 0\.2 \(b\)"
    ):
        gs.concat({"a": first, "b": other})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"a": A}, "concat takes a dictionary of several results by label, but got"),
        ({"a": A, "b": 3}, "'b' must be a Result or a Study, but is 3"),
        ([A, A], "concat takes a dictionary of several results by label, but got"),
    ],
)
def test_bad_input_is_said(given, message):
    with pytest.raises(InputError, match=message):
        gs.concat(given)


def test_an_unknown_allowance_is_said():
    with pytest.raises(InputError, match="does not know 'agent'; did you mean 'agents'"):
        gs.concat({"a": A, "b": A}, allow="agent")


def test_a_study_brings_its_variants_its_tuning_and_its_facts(tmp_path):
    tuning = pl.DataFrame(
        {
            **{"variant": ["x", "y"], "replicate": [0, 0], "algorithm": ["gnsd"] * 2, "setting": ["eta=0.1"] * 2},
            **{"eta": [0.1, 0.1], "criterion": ["loss"] * 2, "value": [1.0, 1.1], "diverged": [0, 0]},
            **{"stage": [0, 0], "chosen": [True, True]},
        }
    )
    inner = Study("s", "S", "title = 's'\n", {"x": A, "y": A}, tuning, {"x": {"agents": 4}, "y": {"agents": 4}})
    study = gs.concat({"s": inner, "r": A})
    assert list(study.results) == ["s: x", "s: y", "r"]
    assert study.tuning is not None
    assert study.tuning["variant"].to_list() == ["s: x", "s: y"]
    assert study.facts["s: x"]["agents"] == 4
    study.save(tmp_path)
    back = Study.load(tmp_path)
    assert list(back.results) == list(study.results)
    assert back.results["s: y"].spec == "title = 's'\n"
    assert "#   title = 's'" in back.spec
    assert back.summary().table.equals(study.summary().table)


def test_labels_that_become_equal_are_refused():
    inner = Study("s", "S", "", {"x": A, "y": A}, None)
    with pytest.raises(InputError, match="two results are called 's: x'"):
        gs.concat({"s": inner, "s: x": A})
