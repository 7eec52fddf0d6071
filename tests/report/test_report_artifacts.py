"""Figures and tables for a paper."""

from dataclasses import replace

import polars as pl
import pytest

from gossamer import report
from gossamer.report.tables import escape_latex
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
    written = report.write_artifacts(studies, folder)
    assert sorted(written) == sorted(path for path in folder.rglob("*") if path.is_file())
    return folder


def test_each_metric_of_each_variant_is_a_figure(folder):
    metrics = ("loss", "consensus")
    stems = [f"{stem}-{metric}-rounds" for stem in ("bias-00-ring", "bias-01-complete", "a-b") for metric in metrics]
    stems += ["bias-00-ring-step-sizes", "bias-01-complete-step-sizes", "a-b-step-sizes"]
    names = sorted(path.name for path in (folder / "figures").iterdir())
    assert names == sorted(f"{stem}.{kind}" for stem in stems for kind in ("pdf", "png"))
    assert (folder / "figures" / "a-b-loss-rounds.pdf").read_bytes().startswith(b"%PDF")


def test_each_table_is_csv_and_ends_are_latex_too(folder):
    stems = ["bias-summary", "bias-tuning", "a-b-summary", "a-b-tuning"]
    names = {path.name for path in (folder / "tables").iterdir()}
    assert names == {*(f"{stem}.csv" for stem in stems), "bias-summary.tex", "a-b-summary.tex"}


def test_csv_keeps_every_digit(studies, folder):
    back = pl.read_csv(folder / "tables" / "bias-summary.csv")
    expected = studies[0].results["complete"].summary().table["loss"].to_list()
    assert back.filter(pl.col("variant") == "complete")["loss"].to_list() == expected
    chosen = pl.read_csv(folder / "tables" / "bias-tuning.csv")
    assert chosen.columns == ["variant", "algorithm", "setting", "value", "settings", "settings_diverged", "stages"]
    assert chosen.row(0) == ("ring", "biased-dmt", "eta=0.01, lam=1.0", 0.05, 12, 3, 2)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("100 % & $5 #1", r"100 \% \& \$5 \#1"),
        (r"\input{x}", r"\textbackslash{}input\{x\}"),
        ("a\n\nb~^", r"a b\textasciitilde{}\textasciicircum{}"),
        ("--out <i>", r"-{}-out \textless{}i\textgreater{}"),
        ('a "b"', "a ''b''"),
        ("η ≤ 2‖ē‖²", r"$\eta$ $\le$ 2$\|$ē$\|$$^2$"),
    ],
)
def test_latex_takes_no_letter_for_a_command(text, shown):
    assert escape_latex(text) == shown
