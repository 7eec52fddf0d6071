"""Errors about the values of a spec, in our own words whatever type of error pydantic has for them."""

import pytest

from gossamer.basics.wishes import BOUNDS, WISHES
from gossamer.core import InputError
from gossamer.specs.spec import Spec
from tests.table import table

BASE = {
    "problem": {"name": "quadratic"},
    "network": {"name": "ring"},
    "run": {"steps": 3},
    "algorithm": [{"name": "d-psgd", "eta": 0.1}],
}

WRONG = [
    # a whole number
    ("run.steps", "many", "must be a whole number without quotation marks, but is 'many'"),
    ("run.steps", 3.5, "must be a whole number, but is 3.5"),
    ("run.steps", True, "must be a whole number, but is True"),
    ("run.together", 0, "must be at least 1, but is 0"),
    ("run.together", 10**6, "must be at most 100,000, but is 1000000"),
    # one of several types
    ("run.every", "x", "must be a whole number or a list in brackets, [ … ], but is 'x'"),
    ("run.seeds", 2.5, "must be a whole number or a list in brackets, [ … ], but is 2.5"),
    ("clock.links", 3, "must be text in quotation marks or a table, { key = … }, but is 3"),
    ("clock.compute", "x", "must be a number or a table, { key = … }, but is 'x'"),
    # a number
    ("tuning.margin", "big", "must be a number without quotation marks, but is 'big'"),
    ("tuning.margin", 0.0, "must be above 0, but is 0.0"),
    ("tuning.target", float("inf"), "must be a finite number, but is inf"),
    ("verdict.matters", 2.0, "must be at most 1, but is 2.0"),
    # other types
    ("title", 3, "must be text in quotation marks, but is 3"),
    ("tuning.refine", "yes", "must be true or false without quotation marks, but is 'yes'"),
    ("tuning.eta", 0.1, "must be a list in brackets, [ … ], but is 0.1"),
    ("run.until", 3, "must be a table, { key = … }, but is 3"),
    ("run", 3, "must be a section of keys, but is 3"),
    ("algorithm", {"name": "d-psgd"}, "must be a list of tables, each under [[algorithm]] with two brackets, but is"),
    ("variant", {"name": "a"}, "must be a list of tables, each under [[variant]] with two brackets, but is"),
    ("variant", [{"name": ""}], "key 'variant.0.name' must be text of at least one letter, but is ''"),
    # inside a list
    ("run.every", [10, "x"], "key 'run.every.1' must be a whole number without quotation marks, but is 'x'"),
    ("tuning.lam", ["x", 1.0], "key 'tuning.lam.0' must be a whole number or a number without quotation marks, but"),
    ("tuning.lam", [1.0, float("inf")], "key 'tuning.lam.1' must be a whole number or a finite number, but is inf"),
    # one of several words
    ("run.dtype", "half", "is 'half', which is not known; choose from float32, float64."),
    ("tuning.sampler", "grit", "is 'grit', which is not known; did you mean 'grid'? Known: design, grid, optuna."),
    # what sections check themselves
    ("tuning.eta", [1.0, 0.1], "[tuning] eta must be [lowest, highest] with 0 < lowest < highest, but is [1.0, 0.1]."),
    ("tuning.criterion", "speed", "[tuning] criterion is 'speed', which is not known; choose from"),
    ("verdict.metric", "speed", "key 'verdict.metric': no metric 'speed' is measured along a run; choose from"),
    ("run.setps", 3, "key 'run.setps' is not known; did you mean 'steps'?"),
]


def changed(path, value):
    """The spec with another value at a path."""
    section, _, key = path.rpartition(".")
    own = BASE.get(section, {"eta": [0.1, 1.0]} if section == "tuning" else {})
    return BASE | ({section: own | {key: value}} if section else {key: value})


@table(("path", "value", "message"), WRONG)
def test_a_wrong_value_is_named_with_its_key_and_what_it_must_be(path, value, message):
    with pytest.raises(InputError) as caught:
        Spec.of(changed(path, value))
    said = str(caught.value)
    assert message in said
    assert path.split(".")[0] in said
    assert "nput should" not in said
    assert "valid" not in said
    assert not said.endswith("..")


def test_every_type_of_error_that_the_sections_can_raise_has_words():
    """The rows above meet each of pydantic's types for which there are words, but for one of lax validation."""
    said = []
    for path, value, _ in WRONG:
        with pytest.raises(InputError) as caught:
            Spec.of(changed(path, value))
        said.append(str(caught.value))
    assert not any("another type" in line for line in said)
    met = " ".join(said)
    used = {words for words in (*WISHES.values(), *BOUNDS.values()) if words in met}
    assert {*WISHES.values(), "above", "at least", "at most"} == used


def test_a_variant_may_run_some_of_the_algorithms():
    given = {
        "problem": {"name": "quadratic", "A": [[1.0]], "b": [[1.0], [0.0]]},
        "network": {"name": "complete"},
        "run": {"steps": 5},
        "algorithm": [{"name": "gnsd", "eta": 0.1}, {"name": "d-psgd", "eta": 0.1}],
        "variant": [{"name": "both"}, {"name": "one", "only": ["d-psgd"]}],
    }
    both, one = Spec.of(given).variants().values()
    assert [[table["name"] for table in each.algorithm] for each in (both, one)] == [["gnsd", "d-psgd"], ["d-psgd"]]
    given["variant"][1]["only"] = ["d-pgsd"]
    with pytest.raises(InputError, match="names 'd-pgsd', which is no"):
        Spec.of(given)
