"""Tables for a paper: proper names, digits by the interval, and bold by a stated rule."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import gossamer as gs
from gossamer.core import InputError
from gossamer.metrics import Label
from gossamer.report.names import display_name
from gossamer.report.tables import format_interval
from tests.results.side_by_side import made_up

SEEDS = np.array([0.10, -0.05, 0.02, -0.07, 0.03])
"""What five seeds do to every method alike."""


def lines(text):
    """The cells of each row of a table."""
    rows = [line.removesuffix(r" \\") for line in text.splitlines() if line.endswith(r" \\")]
    return [[cell.strip() for cell in row.split(" & ")] for row in rows]


def bold(text):
    return [row[0] for row in lines(text)[1:] if r"\mathbf" in row[-1]]


@pytest.mark.parametrize(
    ("value", "half", "text"),
    [
        (0.40031, 0.0031, r"0.4003 \pm 0.0031"),
        (0.40031, 0.00996, r"0.400 \pm 0.010"),
        (12.3456, 1.5, r"12.3 \pm 1.5"),
        (1234.5, 99.9, r"1234 \pm 100"),
        (6.224e-4, 2.1e-5, r"(6.22 \pm 0.21) \cdot 10^{-4}"),
        (1e-9, 3e-8, r"(0.1 \pm 3.0) \cdot 10^{-8}"),
        (2.5e7, None, r"2.500 \cdot 10^{7}"),
        (0.12345678, None, "0.1235"),
        (123.456, None, "123.5"),
        (0.5, 0.0, "0.5000"),
        (-0.75, 0.012, r"-0.750 \pm 0.012"),
        (0.0, None, "0.000"),
        (float("inf"), None, r"\infty"),
    ],
)
def test_digits_are_those_that_the_interval_leaves(value, half, text):
    assert format_interval(value, half) == text


def test_ours_have_proper_names_and_a_user_s_own_theirs():
    assert display_name("biased-dmt") == "Biased-DMT"
    assert display_name("biased-dmt-atc") == "Biased-DMT, adapt then combine"
    assert display_name("my-rule") == "my-rule"
    names = [display_name(name) for name in gs.algorithms.ALGORITHMS]
    assert len({*names}) == len(names)


def test_what_cannot_be_told_from_the_best_is_bold_by_pairs():
    """Seeds differ more than methods: intervals overlap all over, but paired differences tell."""
    noise = np.array([1, -1, 2, 0, -2]) * 1e-3
    result = made_up(
        {"biased-dmt": 1.0 + SEEDS, "gnsd": 1.0005 + SEEDS + noise, "d-psgd": 1.03 + SEEDS + noise, "dsgt": 2 + SEEDS}
    )
    text = result.to_latex("loss")
    assert bold(text) == ["Biased-DMT", "GNSD"]
    assert lines(text)[0] == ["Method", r"$F(\bar x)$"]
    half = stats.t.ppf(0.975, 4) * SEEDS.std(ddof=1) / np.sqrt(5)
    assert lines(text)[4] == ["DSGT", rf"$2.006 \pm {half:.3f}$"]
    assert text == result.summary().to_latex("loss")
    assert "\n% mean of its column, and means whose difference from it has an interval with 0 in it (at 95 %" in text
    assert text.count(r"\toprule") == text.count(r"\bottomrule") == 1


def test_bytes_are_a_column_where_methods_differ_in_them():
    """24 kB and 12 kB at the last round, in the unit that fits."""
    result = made_up({"gnsd": 1.0 + SEEDS, "d-psgd": 2.0 + SEEDS})
    sent = result.table["bytes_sent"] * result.table["algorithm"].replace_strict({"gnsd": 300, "d-psgd": 150})
    text = replace(result, table=result.table.with_columns(bytes_sent=sent)).to_latex("loss")
    assert [row[-1] for row in lines(text)] == ["kB sent", "$24$", "$12$"]
    assert "{lrr}" in text
    assert "sent" not in result.to_latex("loss").partition("toprule")[2]


def test_more_is_better_where_it_is_accuracy():
    result = made_up({"gnsd": 1.0 + SEEDS, "dsgt": 2.0 + SEEDS})
    table = result.table.with_columns(accuracy=result.table["loss"])
    text = replace(result, table=table).to_latex("loss", "accuracy")
    assert [[r"\mathbf" in cell for cell in row[1:]] for row in lines(text)[1:]] == [[True, False], [False, True]]


def test_a_metric_of_one_s_own_is_shown_by_its_label():
    result = made_up({"gnsd": 1.0 + SEEDS, "dsgt": 2.0 + SEEDS})
    table = result.table.with_columns(gain=result.table["loss"], cost=result.table["loss"])
    labels = {"gain": Label("a", "gain & more", r"\gamma", better="higher"), "cost": Label("a", "cost in %")}
    text = replace(result, table=table, metrics=labels).to_latex()
    assert lines(text)[0] == ["Method", r"$\gamma$", r"cost in \%"]
    assert [[r"\mathbf" in cell for cell in row[1:]] for row in lines(text)[1:]] == [[False, True], [True, False]]


def test_nothing_is_bold_without_intervals_and_no_method_that_diverged():
    assert bold(made_up({"gnsd": [1.0], "dsgt": [2.0]}).to_latex("loss")) == []
    assert bold(made_up({"gnsd": 1.0 + SEEDS}).to_latex("loss")) == []
    text = made_up({"gnsd": 0.1 + SEEDS, "dsgt": 2.0 + SEEDS}, diverged={("gnsd", 1)}).to_latex("loss")
    assert lines(text)[1][0] == "GNSD (1 of 5 diverged)"
    assert bold(text) == ["DSGT"]
    gone = made_up({"gnsd": [0.1], "dsgt": [2.0]}, diverged={("gnsd", 0)}).to_latex("loss")
    assert lines(gone)[1] == ["GNSD (1 of 1 diverged)", "--"]


def test_settings_tell_methods_apart_and_text_is_escaped():
    result = made_up({("gnsd", "eta=0.1"): SEEDS + 1, ("gnsd", "eta=0.2"): SEEDS + 2, ("a_b & 50%", "k=1"): SEEDS + 3})
    assert [row[0] for row in lines(result.to_latex())[1:]] == ["GNSD (eta=0.1)", "GNSD (eta=0.2)", r"a\_b \& 50\%"]


def test_a_study_has_its_variants_in_groups_with_a_best_in_each():
    first, second = (made_up({"gnsd": low + SEEDS, "dsgt": 2 + SEEDS}) for low in (1.0, 3.0))
    text = gs.concat({"a_1": first, "b": second}).to_latex()
    assert [row[:2] for row in lines(text)] == [
        ["Variant", "Method"], [r"a\_1", "GNSD"], ["", "DSGT"], ["b", "GNSD"], ["", "DSGT"],
    ]  # fmt: skip
    assert [r"\mathbf" in row[-1] for row in lines(text)[1:]] == [True, False, False, True]
    assert text.count(r"\midrule") == 2


def test_an_unknown_metric_is_said():
    with pytest.raises(InputError, match="no metric 'los'; did you mean 'loss'"):
        made_up({"gnsd": SEEDS}).to_latex("los")


def test_a_study_draws_and_reports_itself(tmp_path):
    one = made_up({"gnsd": 1 + SEEDS, "dsgt": 2 + SEEDS})
    study = gs.concat({"a": one, "b": one})
    with pytest.raises(InputError, match=r"has 2 figures, one a variant: give variant=…, a, b\."):
        study.plot()
    with pytest.raises(InputError, match="no variant 'c'"):
        study.plot(variant="c")
    assert len(study.plot("loss", variant="b").get_lines()) == 2
    alone = gs.concat({"a": made_up({"gnsd": 1 + SEEDS}), "b": made_up({"gnsd": 2 + SEEDS})})
    assert [line.get_label() for line in alone.plot().get_lines()] == ["a", "b"]
    path = study.report(tmp_path / "new" / "file.html")
    assert path == tmp_path / "new" / "file.html"
    assert "a, b" in path.read_text(encoding="utf-8")
