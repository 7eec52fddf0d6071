"""Figures of results, in matplotlib."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter
from scipy import stats

from gossamer.core import InputError, nearest
from gossamer.results import PAID

if TYPE_CHECKING:
    from gossamer.results import Result

COLUMN = 3.5
"""The width of a column of a two-column paper, in inches."""

COLORS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C510A"]
"""Okabe and Ito's palette, which readers who do not see all colours can tell apart, and one more."""

DASHES = ["-", "--", "-.", ":"]

NAMES = {
    "loss": r"$F(\bar x)$",
    "grad_norm_sq": r"$\|\nabla F(\bar x)\|^2$",
    "consensus": r"$\frac{1}{n}\sum_i \|x_i - \bar x\|^2$",
    "tracking": r"$\frac{1}{n}\sum_i \|v_i - \bar v\|^2$",
    "accuracy": "test accuracy",
    "rounds": "rounds",
    "queries": "gradient queries of an agent",
    "bytes": "bytes sent by an agent",
}

LINEAR = ("loss", "accuracy")
"""Metrics that are read on a linear axis; the others span decades."""


def curves(result: "Result", metric: str = "loss", x: str = "rounds", *, log: bool | None = None) -> Figure:
    """A metric against what was paid: for each algorithm the mean over seeds and its 95 % band.

    Seeds that diverged are left out from the round in which they did, and the legend counts them.
    """
    result.check_metric(metric)
    if x not in PAID:
        raise InputError(f"there is no x-axis {x!r}; {nearest(x, PAID)}")
    log = metric not in LINEAR if log is None else log
    figure = Figure(figsize=(COLUMN, COLUMN * 0.75), layout="constrained", dpi=200)
    axes = figure.add_subplot()
    for number, label in enumerate(result.labels):
        rows = result.of(label)
        band = _band(rows.filter(pl.col("status") == "ok"), metric, PAID[x], log)
        lost = rows.filter(pl.col("status") == "diverged").height
        style: dict[str, Any] = {
            "color": COLORS[number % len(COLORS)],
            "linestyle": DASHES[number // len(COLORS) % len(DASHES)],
        }
        name = label if not lost else f"{label} ({lost} of {len(result.seeds)} diverged)"
        if len(band["x"]) == 0:
            axes.plot([], [], label=name, **style)
            continue
        axes.plot(band["x"], band["mean"], label=name, linewidth=1.2, **style)
        axes.fill_between(band["x"], band["low"], band["high"], color=style["color"], alpha=0.2, linewidth=0)
    _dress(axes, metric, x, log)
    return figure


def save(figure: Figure, path: str | Path) -> Path:
    """Write a figure; the suffix chooses the format (.pdf, .png, .svg)."""
    path = Path(path)
    kinds = figure.canvas.get_supported_filetypes()
    if path.suffix.lstrip(".") not in kinds:
        raise InputError(f"cannot write a figure as {path.suffix or 'a file without suffix'}; use .pdf, .png or .svg.")
    # no date in the file: the same result gives the same bytes
    undated = {"CreationDate": None} if path.suffix == ".pdf" else {"Date": None} if path.suffix == ".svg" else {}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, metadata=undated)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}.") from error
    return path


def _band(rows: pl.DataFrame, metric: str, paid: str, log: bool) -> dict[str, np.ndarray]:
    """Mean and 95 % interval over seeds; on a log axis of the logarithm, so that the band stays above zero."""
    rows = rows.filter(pl.col(metric).is_not_null() & pl.col(metric).is_finite())
    if log:
        rows = rows.filter(pl.col(metric) > 0)
    value = pl.col(metric).log() if log else pl.col(metric)
    groups = rows.group_by(paid, maintain_order=True).agg(
        value.mean().alias("mean"), value.std().fill_null(0.0).alias("std"), value.len().alias("n")
    )
    groups = groups.sort(paid)
    n = groups["n"].to_numpy()
    quantile = np.array([stats.t.ppf(0.975, k - 1) if k > 1 else 0.0 for k in n])
    mean, half = groups["mean"].to_numpy(), quantile * groups["std"].to_numpy() / np.sqrt(np.maximum(n, 1))
    undo = np.exp if log else (lambda values: values)
    return {
        "x": groups[paid].to_numpy().astype(float),
        "mean": undo(mean),
        "low": undo(mean - half),
        "high": undo(mean + half),
    }


def _dress(axes: Any, metric: str, x: str, log: bool) -> None:
    if log:
        axes.set_yscale("log")
        low, high = axes.get_ylim()
        if math.log10(high / low) > 2:
            axes.yaxis.set_major_locator(LogLocator(numticks=8))
            axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel(NAMES.get(x, x), fontsize=8)
    axes.set_ylabel(NAMES.get(metric, metric), fontsize=8)
    axes.tick_params(labelsize=7)
    axes.grid(alpha=0.25, linewidth=0.5)
    axes.legend(fontsize=6, frameon=False)
