"""The table of a tuning as people read it, and the spec that it makes."""

import tomllib

import polars as pl
import pytest

import gossamer as gs
from gossamer.algorithms import ALGORITHMS
from gossamer.core import InputError
from gossamer.experiments import tuning
from gossamer.specs.spec import Spec

SPEC = {
    "problem": {"name": "quadratic", "A": [[1.0]], "b": [[1.0], [2.0]]},
    "network": {"name": "complete"},
    "run": {"steps": 40, "seeds": 4},
    "tuning": {"eta": [0.01, 1.0], "budget": 8},
    "algorithm": [{"name": "d-psgd"}, {"name": "biased-dmt"}, {"name": "gnsd", "eta": 0.1}],
}


def table(*searches):
    """Rows of a tuning: for each search (variant, replicate, algorithm, {(eta, lam): value})."""
    rows = []
    for variant, replicate, algorithm, values in searches:
        least = min(value for value in values.values() if value is not None)
        for (eta, lam), value in values.items():
            setting = f"eta={eta:g}" + ("" if lam is None else f", lam={lam:g}")
            rows.append(
                {"variant": variant, "replicate": replicate, "algorithm": algorithm, "setting": setting, "eta": eta,
                 "lam": lam, "criterion": "loss", "value": value, "diverged": int(value is None), "stage": 0,
                 "chosen": value == least}
            )  # fmt: skip
    return pl.DataFrame(rows, schema_overrides={"lam": pl.Float64, "value": pl.Float64})


LINE = {(0.01, None): 3.0, (0.1, None): 1.0, (1.0, None): None}
GRID = {
    (eta, lam): abs(eta - 0.1) + abs(lam - best) for best in (0.3,) for eta in (0.01, 0.1, 1.0) for lam in (0.1, 0.3, 1)
}
BOTH = table(("", 0, "d-psgd", LINE), ("", 0, "biased-dmt", GRID))


def test_the_numbers_stand_where_they_were_open_and_the_tuning_is_gone():
    given = tuning.apply_tuning(Spec.of(SPEC), BOTH)
    assert given["algorithm"] == [
        {"name": "d-psgd", "eta": 0.1}, {"name": "biased-dmt", "eta": 0.1, "lam": 0.3}, {"name": "gnsd", "eta": 0.1},
    ]  # fmt: skip
    assert "tuning" not in given
    assert "variant" not in given
    parts = Spec.of(given).parts()
    assert not any(candidate.open for candidate in parts.candidates)


def test_what_is_given_stays_as_it_is():
    spec = Spec.of(SPEC | {"algorithm": [{"name": "biased-dmt", "lam": 0.5}]})
    given = tuning.apply_tuning(spec, table(("", 0, "biased-dmt", {(0.1, 0.5): 2.0, (0.2, 0.5): 1.0})))
    assert given["algorithm"] == [{"name": "biased-dmt", "lam": 0.5, "eta": 0.2}]


def test_the_file_says_where_its_numbers_come_from_and_finds_its_data(tmp_path):
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "d.csv").write_text("a,label\n1,0\n2,1\n")
    spec = Spec.of(SPEC | {"problem": {"name": "logistic", "data": "inner/d.csv", "label": "label"}}, tmp_path)
    given = tuning.apply_tuning(spec, BOTH)
    text = tuning.format_spec(given, tmp_path / "tuned.toml", "my\nspec.toml", BOTH)
    assert text.startswith("# Tuned by `gossamer tune my\\nspec.toml`")
    assert "#   biased-dmt: eta=0.1, lam=0.3, loss 0\n" in text
    back = tomllib.loads(text)
    assert back["problem"]["data"] == "inner/d.csv"
    elsewhere = tuning.apply_tuning(spec, BOTH)
    apart = tomllib.loads(tuning.format_spec(elsewhere, tmp_path / "other" / "t.toml", "s", BOTH))
    assert apart["problem"]["data"] == str(tmp_path / "inner" / "d.csv")


def variants(*names, algorithms=None):
    several = [{"name": name, "tuning": {"seeds": 3}} for name in names]
    return Spec.of(SPEC | {"variant": several, "algorithm": algorithms or SPEC["algorithm"]})


OTHER = {(0.01, None): 1.0, (0.1, None): 2.0}


def test_variants_that_agree_share_the_numbers_and_lose_their_tuning():
    both = table(*((name, 0, "d-psgd", LINE) for name in "xy"), *((name, 0, "biased-dmt", GRID) for name in "xy"))
    given = tuning.apply_tuning(variants("x", "y"), both)
    assert given["algorithm"][0] == {"name": "d-psgd", "eta": 0.1}
    assert given["variant"] == [{"name": "x"}, {"name": "y"}]
    Spec.of(given).each(Spec.parts)


def test_variants_that_differ_carry_the_numbers_of_an_only_algorithm():
    spec = variants("x", "y", algorithms=[{"name": "d-psgd"}])
    given = tuning.apply_tuning(spec, table(("x", 0, "d-psgd", LINE), ("y", 0, "d-psgd", OTHER)))
    assert [one["algorithm"] for one in given["variant"]] == [{"eta": 0.1}, {"eta": 0.01}]
    rules = Spec.of(given).each(lambda one: one.parts().candidates[0].whole)
    assert rules == {"x": gs.DPSGD(0.1), "y": gs.DPSGD(0.01)}


def test_variants_that_differ_in_one_of_several_algorithms_must_be_named():
    found = table(
        ("x", 0, "d-psgd", LINE), ("x", 0, "biased-dmt", GRID), ("y", 0, "d-psgd", OTHER), ("y", 0, "biased-dmt", GRID)
    )
    with pytest.raises(
        InputError, match=r"the variants chose different numbers for d-psgd.* name one of them, 'x', 'y'"
    ):
        tuning.apply_tuning(variants("x", "y"), found)
    given = tuning.apply_tuning(variants("x", "y"), found, variant="y")
    assert given["algorithm"][0] == {"name": "d-psgd", "eta": 0.01}
    assert "variant" not in given
    Spec.of(given).parts()
    with pytest.raises(InputError, match="the spec has no variant 'z'"):
        tuning.apply_tuning(variants("x", "y"), found, variant="z")


def test_replicates_that_differ_must_be_named_and_bring_their_seeds():
    spec = Spec.of(SPEC | {"tuning": {"eta": [0.01, 1.0], "replicates": 2}, "algorithm": [{"name": "d-psgd"}]})
    found = table(("", 0, "d-psgd", LINE), ("", 1, "d-psgd", OTHER))
    with pytest.raises(InputError, match="the replicates of the tuning chose different numbers for d-psgd"):
        tuning.apply_tuning(spec, found)
    given = tuning.apply_tuning(spec, found, replicate=1)
    assert given["algorithm"] == [{"name": "d-psgd", "eta": 0.01}]
    assert given["run"]["seeds"] == [2, 3]
    with pytest.raises(InputError, match="there is no replicate 2: the tuning has 2, counted from 0"):
        tuning.apply_tuning(spec, found, replicate=2)
    same = tuning.apply_tuning(spec, table(("", 0, "d-psgd", LINE), ("", 1, "d-psgd", LINE)))
    assert same["run"]["seeds"] == 4


def test_a_step_size_and_a_count_of_other_names_come_back_under_their_own(monkeypatch):
    monkeypatch.setattr(ALGORITHMS, "_added", {})  # so that other tests do not meet what is added

    @gs.algorithms.register
    @gs.rule("own-for-tuned-spec")
    class Own:
        """Own."""

        alpha: gs.StepSize
        value: gs.Count

        def init(self, x, agent):
            return gs.State(x=x)

        def step(self, s, agent):
            return s

    row = {"variant": "", "replicate": 0, "algorithm": Own.name, "setting": "", "eta": 0.25, "value_": 5.0}
    row |= {"criterion": "loss", "value": 1.0, "diverged": 0, "stage": 0, "chosen": True}
    spec = Spec.of(SPEC | {"algorithm": [{"name": Own.name}]})
    (filled,) = tuning.apply_tuning(spec, pl.DataFrame([row]))["algorithm"]
    assert filled == {"name": Own.name, "alpha": 0.25, "value": 5}
    assert type(filled["value"]) is int


@pytest.mark.parametrize(
    ("values", "edges"),
    [
        ({(0.01, 0.3): 3.0, (0.1, 0.3): 1.0, (1.0, 0.3): 2.0}, {}),
        ({(0.01, 0.3): 3.0, (0.1, 0.3): 2.0, (1.0, 0.3): 1.0}, {"eta": "highest"}),
        ({(0.01, 0.3): 1.0, (0.1, 0.3): 2.0}, {"eta": "lowest"}),
        ({(0.01, 0.3): 3.0, (0.1, 0.3): 1.0, (1.0, 0.3): None}, {}),
        ({(e, lam): abs(e - 0.1) + 1 - lam for e in (0.01, 0.1, 1.0) for lam in (0.1, 0.5, 1.0)}, {}),
        ({(e, lam): abs(e - 0.1) + 1 - lam for e in (0.01, 0.1, 1.0) for lam in (0.1, 0.5)}, {"lam": "highest"}),
        ({(e, lam): abs(e - 0.1) + lam for e in (0.01, 0.1, 1.0) for lam in (0.1, 0.5, 1.0)}, {"lam": "lowest"}),
    ],
)
def test_an_edge_is_an_end_of_what_was_tried_with_room_beyond_it(values, edges):
    """A neighbour that diverged is no room; nor is there any beyond λ = 1."""
    found = table(("", 0, "biased-dmt", values))
    (search,) = tuning.searches(found)
    assert search.on_edge() == edges
    assert sum("value that was tried" in line for line in tuning.warnings(found)) == len(edges)


def test_an_optimum_is_hardly_resolved_where_the_criterion_changes_beside_it():
    """Of one number the two nearest neighbours count, those that failed do not; of two numbers the three nearest."""
    line = {(0.1, None): 1.0, (0.11, None): 1.02, (0.09, None): 1.05, (1.0, None): 9.0, (0.105, None): None}
    (search,) = tuning.searches(table(("", 0, "d-psgd", line)))
    assert search.change == pytest.approx(0.05)
    assert not tuning.warnings(table(("", 0, "d-psgd", line)))
    (said,) = tuning.warnings(table(("", 0, "d-psgd", line)), margin=0.04)
    assert "d-psgd: hardly resolved: the loss changes by 5 % from the best setting to its nearest" in said
    grid = {(0.1, 0.5): 2.0, (0.1, 0.3): 2.2, (0.2, 0.5): 2.6, (0.05, 0.5): 3.0, (0.8, 0.1): 9.0, (0.02, 1.0): 9.0}
    (search,) = tuning.searches(table(("", 0, "biased-dmt", grid)))
    assert search.change == pytest.approx(0.5)
    head, (row,) = tuning.overview(table(("", 0, "biased-dmt", grid)))
    assert dict(zip(head, row, strict=True))["resolved to"] == "50 %"


def test_two_numbers_are_a_grid_and_one_is_a_list_of_the_best():
    line, grid = tuning.searches(BOTH)
    assert tuning.lay_out(grid) == (
        ["eta \\ lam", "0.1", "0.3", "1"],
        [["0.01", "0.29", "0.09", "0.79"], ["0.1", "0.2", "0*", "0.7"], ["1", "1.1", "0.9", "1.6"]],
    )
    assert tuning.lay_out(line) == (["setting", "loss"], [["eta=0.1", "1*"], ["eta=0.01", "3"], ["eta=1", "diverged"]])
    many = {(0.1 * 1.1**k, None): float(k) for k in range(50)}
    (long,) = tuning.searches(table(("", 0, "d-psgd", many)))
    assert [row[1] for row in tuning.lay_out(long)[1]] == ["0*", *(str(k) for k in range(1, 10))]


def test_a_tuning_is_one_line_and_a_table_in_a_notebook():
    assert (
        tuning.tuning_line(BOTH) == "Tuned(d-psgd(eta=0.1), biased-dmt(eta=0.1, lam=0.3); by loss, 12 settings tried)"
    )
    page = tuning.tuning_html(BOTH)
    assert page.count("<details>") == 2
    assert "eta=0.1, lam=0.3" in page
    assert "<script" not in tuning.tuning_html(table(("<script>", 0, "d-psgd", OTHER)))
    assert "⚠ &lt;script&gt;, d-psgd: eta = 0.01 is the lowest value" in tuning.tuning_html(
        table(("<script>", 0, "d-psgd", OTHER))
    )
    problem = gs.problems.quadratic([[1.0]], [[1.0], [2.0]])
    tuned = gs.tune([gs.DPSGD], problem, gs.networks.complete(2), steps=4, eta=(0.1, 0.5), budget=4,
                    progress=False)  # fmt: skip
    assert repr(tuned).endswith("; by loss, 4 settings tried)")
    assert "<details>" in tuned._repr_html_()
