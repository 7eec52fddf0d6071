"""Results: tables, files and figures."""

import json

import numpy as np
import polars as pl
import pytest
from scipy import stats

import gossamer as gs
from gossamer.report import figures
from gossamer.results.result import Summary
from tests import plain
from tests.results import side_by_side

PROBLEM, E = plain.heterogeneous()


@pytest.fixture(scope="module")
def result():
    rules = [gs.BiasedDMT(0.05, 0.3), gs.BiasedDMT(0.02, 0.3), gs.DPSGD(50.0)]
    oracle = gs.oracles.additive_bias(mean=0.1, std=0.2, redraw=True)
    return gs.simulate(rules, PROBLEM, plain.irregular(), oracle, steps=40, every=10, seeds=3, dtype="float64")


def test_the_frame_is_tidy(result):
    frame = result.frame()
    assert frame.columns == [
        *("algorithm", "setting", "replicate", "seed", "round", "status"),
        *("loss", "grad_norm_sq", "stationarity", "consensus", "tracking", "accuracy", "worst_loss"),
        *("queries", "bytes_sent", "messages"),
    ]
    assert frame.select("algorithm", "setting", "seed", "round").is_duplicated().sum() == 0
    assert frame.filter(pl.col("algorithm") == "biased-dmt").height == 2 * 3 * 5


def test_labels_name_the_setting_only_where_it_is_needed(result):
    assert list(result.labels) == ["biased-dmt(eta=0.05, lam=0.3)", "biased-dmt(eta=0.02, lam=0.3)", "d-psgd"]
    assert {x.shape for x in result.iterates.values()} == {(3, 8, 5)}
    assert result.mean_bias.shape == (3, 5)


def test_final_and_summary_agree_with_the_frame(result):
    label = "biased-dmt(eta=0.05, lam=0.3)"
    last = result.of(label).filter(pl.col("round") == 40).sort("seed")["loss"].to_numpy()
    np.testing.assert_array_equal(result.final("loss")[label], last)
    row = result.summary().table.row(0, named=True)
    low, high = stats.t.interval(0.95, 2, loc=last.mean(), scale=stats.sem(last))
    assert (row["loss"] - row["loss_±"], row["loss"] + row["loss_±"]) == pytest.approx((low, high))
    assert result.summary().table["diverged"].to_list() == [0, 0, 3]
    assert str(result.summary()).splitlines()[-1].endswith("3 of 3")


def test_one_value_has_no_interval(result):
    alone = result.table.filter(pl.col("seed") == 0)
    row = Summary.of(alone).table.row(0, named=True)
    assert row["loss"] is not None
    assert row["loss_±"] is None
    assert row["accuracy"] is None


def test_saved_and_loaded_it_is_the_same(result, tmp_path):
    result.save(tmp_path / "run")
    back = gs.Result.load(tmp_path / "run")
    assert back.frame().equals(result.frame())
    assert back.seeds == result.seeds
    assert back.manifest.pop("date").startswith("20"), "when it was written"
    assert back.manifest == json.loads(json.dumps(result.manifest))
    for label, x in result.iterates.items():
        np.testing.assert_array_equal(back.iterates[label], x)
    np.testing.assert_array_equal(back.biases, result.biases)
    assert sorted(p.name for p in (tmp_path / "run").iterdir()) == ["arrays.npz", "manifest.json", "result.parquet"]
    assert [p.name for p in tmp_path.iterdir()] == ["run"]


def test_the_manifest_tells_where_it_came_from(result):
    assert {"gossamer", "jax", "jaxlib", "numpy", "python", "source"} <= set(result.manifest["versions"])
    assert set(result.manifest["seconds"]) == {f"{a}({s})" for a, s in result.states}
    assert result.manifest["network"]["agents"] == 8
    data = gs.simulate(gs.DPSGD(0.1), gs.problems.logistic("a9a", 4), gs.networks.ring(4), steps=1).manifest["data"]
    assert data == {"name": "a9a", "sha256": gs.data.load("a9a").sha256}


def test_saving_never_overwrites(result, tmp_path):
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "thesis.tex").touch()
    with pytest.raises(gs.InputError, match="taken is not empty"):
        result.save(tmp_path / "taken")
    with pytest.raises(OSError, match="thesis"):
        result.save(tmp_path / "taken" / "thesis.tex" / "run")


def test_a_directory_without_a_run_is_said(tmp_path):
    with pytest.raises(gs.InputError, match="holds no finished run"):
        gs.Result.load(tmp_path)
    with pytest.raises(gs.InputError, match="does not exist"):
        gs.Result.load(tmp_path / "nothing")


@pytest.mark.parametrize("x", ["rounds", "queries", "bytes", "messages"])
def test_figures_show_the_mean_and_no_diverged_values(result, x):
    axes = result.plot("consensus", x)
    lines = {line.get_label(): line for line in axes.get_lines()}
    names = ["Biased-DMT (eta=0.05)", "Biased-DMT (eta=0.02)"]  # both have lam=0.3
    assert list(lines) == [*names, "D-PSGD (3 of 3 diverged)", "curve ends: all seeds diverged"]
    rows = result.of("biased-dmt(eta=0.05, lam=0.3)").filter(pl.col("round") == 40)
    assert lines["Biased-DMT (eta=0.05)"].get_ydata()[-1] == pytest.approx(
        np.exp(np.log(rows["consensus"].to_numpy()).mean())
    )
    assert all(np.isfinite(line.get_ydata()).all() for line in lines.values())
    assert axes.get_yscale() == "log"


def test_the_band_is_the_interval_of_the_mean(result):
    label = "biased-dmt(eta=0.05, lam=0.3)"
    band = figures.band(result.of(label), "loss", "round", log=False)
    last = result.final("loss")[label]
    low, high = stats.t.interval(0.95, 2, loc=last.mean(), scale=stats.sem(last))
    assert (band["low"][-1], band["high"][-1]) == pytest.approx((low, high))


def test_a_figure_is_the_same_to_the_byte(result, tmp_path):
    for name in ("a.pdf", "b.pdf"):
        figures.save(result.plot("loss"), tmp_path / name)
    assert (tmp_path / "a.pdf").read_bytes() == (tmp_path / "b.pdf").read_bytes()


def test_unknown_metrics_axes_and_formats_are_refused(result, tmp_path):
    with pytest.raises(gs.InputError, match="no metric 'lost' in this result; did you mean 'loss'"):
        result.final("lost")
    with pytest.raises(gs.InputError, match="nothing in this result has the metric 'accuracy'"):
        result.plot("accuracy")
    with pytest.raises(gs.InputError, match="no x-axis 'seconds'"):
        result.plot("loss", "seconds")
    with pytest.raises(gs.InputError, match=r"use .pdf, .png or .svg"):
        figures.save(result.plot("loss"), tmp_path / "figure.doc")
    with pytest.raises(gs.InputError, match="no algorithm 'gnsd'"):
        result.of("gnsd")


def test_a_method_that_ends_above_its_start_is_said_to_in_the_summary_and_told_what_to_do():
    """`gossamer plan` knows the step sizes of Biased-DMT and GNSD alone."""
    losses = {"gnsd": [9.0, 9.1], "d-psgd": [8.0, 8.1], "dsgt": [0.1, 0.2]}
    result = side_by_side.made_up(losses)
    lines = [line for line in str(result.summary()).splitlines() if " of 2" in line]
    assert ["0 of 2, ended above its start" in line for line in lines] == [True, True, False]
    assert result.summary().table["ended_above_start"].to_list() == [True, True, None]
    hints = {note.split()[0]: note for note in result.verdicts().notes if "ended worse" in note}
    assert "gossamer plan says which are stable" in hints["gnsd"]
    assert "plan" not in hints["d-psgd"]
