"""Results in pandas, in xarray and by Arrow: every number is the one in the frame."""

import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest
import xarray as xr
from polars.testing import assert_frame_equal

import gossamer as gs
from tests import plain

PROBLEM, _ = plain.heterogeneous()
ORACLE = gs.oracles.additive_bias(mean=0.1, std=0.2, redraw=True)
RULES = [gs.BiasedDMT(0.05, 0.3), gs.BiasedDMT(0.02, 0.3), gs.DPSGD(50.0)]


def run(rules=RULES, **options):
    options = {"steps": 40, "every": 10, "seeds": 3, "dtype": "float64"} | options
    return gs.simulate(rules, PROBLEM, plain.irregular(), ORACLE, **options)


@pytest.fixture(scope="module")
def result():
    """D-PSGD diverges; the two others are one algorithm."""
    return run(clock="internet")


def study_of(**results):
    return gs.concat(results)


def test_pandas_has_the_rows_of_the_frame(result):
    table = result.to_pandas()
    assert list(table.columns) == result.frame().columns
    assert [str(table[name].dtype) for name in ("seed", "round", "loss")] == ["int64", "int64", "float64"]
    for name, column in result.frame().to_dict().items():
        missing = column.is_null().to_numpy()
        assert list(table[name].isna()) == list(missing), name
        assert list(table[name][~missing]) == column.drop_nulls().to_list(), name
    means = table[table["round"] == 40].groupby(["algorithm", "setting"], sort=False)["loss"].mean()
    assert means["biased-dmt"].to_list() == pytest.approx(result.summary().table["loss"][:2].to_list(), rel=1e-14)


def test_readers_of_arrow_take_a_result(result):
    assert_frame_equal(pl.DataFrame(result), result.frame())
    assert "arrow_array_stream" in repr(result.__arrow_c_stream__())


def test_every_value_of_the_frame_is_at_its_place_in_xarray(result):
    data, titles = result.to_xarray(), {key: label for label, key in result.labels.items()}
    assert data.sizes == {"label": 3, "seed": 3, "round": 5}
    assert list(data["label"].values) == list(result.labels)
    assert list(data.data_vars) == ["loss", "grad_norm_sq", "stationarity", "consensus", "tracking", "worst_loss"]
    numbers = 0
    for row in result.frame().iter_rows(named=True):
        at = {"label": titles[row["algorithm"], row["setting"]], "seed": row["seed"]}
        if row["status"] == "diverged":
            assert (data["status"].sel(at).item(), data["end"].sel(at).item()) == ("diverged", row["round"])
            continue
        own = data.sel(at | {"round": row["round"]})
        for name in ("queries", "bytes_sent", "messages", "seconds", "seconds_low", "seconds_high"):
            assert own[name].item() == row[name], (name, row)
        for name in data.data_vars:
            expected = np.nan if row[name] is None else row[name]
            if name != "worst_loss" or row[name] is not None:  # of the end, it has no rounds
                np.testing.assert_equal(own[name].item(), expected)
                numbers += row[name] is not None
    known = result.frame().select(data.data_vars.keys()).count().sum_horizontal().item()
    assert numbers == known == sum(int(data[name].count()) for name in data.data_vars)
    assert data["worst_loss"].dims == ("label", "seed")
    assert data["loss"].attrs["long_name"] == "loss F(x̄)"
    assert data["bytes_sent"].dims == ("label", "round")


def test_variants_of_a_study_are_a_dimension():
    """The first has fewer rounds and another method than the second: what is missing is NaN."""
    short, long = run([gs.DPSGD(0.05)], steps=20), run([gs.DPSGD(0.05), gs.BiasedDMT(0.05, 0.3)], seeds=2)
    study = study_of(short=short, long=long)
    frame = study.frame()
    assert frame.columns[0] == "variant"
    assert_frame_equal(frame.filter(pl.col("variant") == "long").drop("variant"), long.frame())
    data = study.to_xarray()
    assert dict(data.sizes) == {"variant": 2, "label": 2, "seed": 3, "round": 5}
    xr.testing.assert_equal(
        data["loss"].sel(variant="long", seed=[0, 1]).drop_vars("variant").reset_coords(drop=True),
        long.to_xarray()["loss"].reset_coords(drop=True),
    )
    lost = data["loss"].sel(variant="short")
    assert lost.sel(label="biased-dmt").isnull().all()
    assert lost.sel(label="d-psgd", round=[30, 40]).isnull().all()
    assert lost.sel(label="d-psgd", round=[0, 10, 20]).notnull().all()
    assert data["status"].sel(variant="short", label="biased-dmt").values.tolist() == [""] * 3
    assert data["end"].sel(variant="short", label="d-psgd").values.tolist() == [20.0] * 3
    alone = study_of(a=short, b=short).results["a"]
    pd.testing.assert_frame_equal(alone.to_pandas(), short.to_pandas())


@pytest.mark.parametrize("package", ["pandas", "xarray"])
def test_a_missing_package_is_named(result, package, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(
        ImportError, match=rf"^to_{package}\(\) needs the package {package}, .*: pip install {package}, or"
    ):
        getattr(result, f"to_{package}")()
