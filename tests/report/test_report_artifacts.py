"""Figures and tables for a paper."""

from dataclasses import replace

import polars as pl
import pytest

from gossamer import report
from gossamer.basics.table import escape_latex
from gossamer.report import tables
from tests.report import made_up


@pytest.fixture(scope="module")
def studies():
    both = [made_up.study(), made_up.study(variants=("",), name="a/b")]
    few = {"grad_norm_sq": None, "stationarity": None, "tracking": None}  # fewer metrics, fewer figures to wait for
    return [
        replace(study, results={name: made_up.with_columns(one, **few) for name, one in study.results.items()})
        for study in both
    ]


@pytest.fixture(scope="module")
def folder(studies, tmp_path_factory):
    folder = tmp_path_factory.mktemp("artifacts")
    written = report.write_artifacts(studies, made_up.VERDICTS, folder)
    assert sorted(written) == sorted(path for path in folder.rglob("*") if path.is_file())
    return folder


def test_each_metric_of_each_variant_is_a_figure(folder):
    metrics = ("loss", "consensus")
    stems = [f"{stem}-{metric}-rounds" for stem in ("bias-00-ring", "bias-01-complete", "a-b") for metric in metrics]
    stems += ["bias-00-ring-step-sizes", "bias-01-complete-step-sizes", "a-b-step-sizes"]
    names = sorted(path.name for path in (folder / "figures").iterdir())
    assert names == sorted(f"{stem}.{kind}" for stem in stems for kind in ("pdf", "png"))
    assert (folder / "figures" / "a-b-loss-rounds.pdf").read_bytes().startswith(b"%PDF")


def test_each_table_is_csv_and_latex(folder):
    stems = ["verdicts", "bias-summary", "bias-tuning", "a-b-summary", "a-b-tuning"]
    names = sorted(path.name for path in (folder / "tables").iterdir())
    assert names == sorted(f"{stem}.{kind}" for stem in stems for kind in ("csv", "tex"))


def test_csv_keeps_every_digit(studies, folder):
    back = pl.read_csv(folder / "tables" / "bias-summary.csv")
    expected = studies[0].results["complete"].summary().table["loss"].to_list()
    assert back.filter(pl.col("variant") == "complete")["loss"].to_list() == expected
    chosen = pl.read_csv(folder / "tables" / "bias-tuning.csv")
    assert chosen.columns == ["variant", "algorithm", "setting", "value", "settings", "settings_diverged", "extensions"]
    assert chosen.row(0) == ("ring", "biased-dmt", "eta=0.01, lam=1.0", 0.05, 12, 3, 1)
    verdicts = pl.read_csv(folder / "tables" / "verdicts.csv")
    assert verdicts["low"].to_list() == [0.018, None, 0.5]


def test_verdicts_in_latex_are_escaped(folder):
    text = (folder / "tables" / "verdicts.tex").read_text(encoding="utf-8")
    assert r"DSGT is faster \& 100\% safe & never & does not hold \\" in text
    assert text.startswith("\\begin{tabular}{llll}\n\\toprule\n")
    assert text.endswith("\\bottomrule\n\\end{tabular}\n")


def test_latex_rounds_and_leaves_out_empty_columns(tmp_path):
    frame = pl.DataFrame(
        {
            "name": ["a_b", "[x]"],
            "loss": [1.23456789e-5, None],
            "n": [12345, 1],
            "no": [None] * 2,
        }
    )
    lines = tables.write_latex(frame, tmp_path / "t.tex").read_text(encoding="utf-8").splitlines()
    assert lines == [
        r"\begin{tabular}{lrr}",
        r"\toprule",
        r"name & loss & n \\",
        r"\midrule",
        r"a\_b & $1.235 \cdot 10^{-5}$ & 12345 \\",
        r"{[}x{]} & -- & 1 \\",
        r"\bottomrule",
        r"\end{tabular}",
    ]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("100 % & $5 #1", r"100 \% \& \$5 \#1"),
        (r"\input{x}", r"\textbackslash{}input\{x\}"),
        ("a\n\nb~^", r"a b\textasciitilde{}\textasciicircum{}"),
        ("--out <i>", r"-{}-out \textless{}i\textgreater{}"),
        ('a "b" c"', "a “b” c''"),
        ("η ≤ 2‖ē‖²", r"$\eta$ $\le$ 2$\|$ē$\|$$^2$"),
    ],
)
def test_latex_takes_no_letter_for_a_command(text, shown):
    assert escape_latex(text) == shown
