"""Figures of results, in matplotlib."""

import math
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from matplotlib.figure import Figure
from matplotlib.mathtext import MathTextParser
from matplotlib.ticker import LogLocator, NullFormatter

from gossamer.core import InputError, nearest
from gossamer.metrics import Label
from gossamer.report.tables import band
from gossamer.results.files import write

if TYPE_CHECKING:
    from gossamer.results.result import Result

COLUMN = 3.5
"""The width of a column of a two-column paper, in inches."""

COLORS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C510A"]
"""Okabe and Ito's palette, which readers who do not see all colours can tell apart, and one more."""

DASHES = ["-", "--", "-.", ":"]

PAID = {
    "rounds": "rounds",
    "queries": "gradient queries of an agent",
    "bytes": "bytes sent by an agent",
    "seconds": "seconds, by the clock",
}
"""The titles of the x-axes."""


def drawn(label: Label) -> str:
    """A metric's name in a figure: its formula, or its text where it has none that matplotlib can set."""
    if label.latex is not None:
        formula = f"${label.latex}$"
        with suppress(Exception):  # a result may hold any formula
            MathTextParser("path").parse(formula)
            return formula
    return label.text.replace("$", r"\$")


def curves(result: "Result", metric: str = "loss", x: str = "rounds", *, log: bool | None = None) -> Figure:
    """A metric against what was paid: for each algorithm the mean over replicates and its 95 % band.

    Seeds that diverged are left out from the round in which they did, and the legend counts them.
    """
    result.check_metric(metric)
    if x not in result.axes:
        raise InputError(f"there is no x-axis {x!r} in this result; {nearest(x, result.axes)}")
    shown_as = result.metrics[metric]
    log = shown_as.log if log is None else log
    figure = Figure(figsize=(COLUMN, COLUMN * 0.75), layout="constrained", dpi=200)
    axes = figure.add_subplot()
    for number, label in enumerate(result.labels):
        rows = result.of(label)
        alive = rows.filter(pl.col("status") != "diverged")
        points = band(alive, metric, "round", log)
        points["x"] = along(alive, points["x"], result.axes[x])
        lost = rows.filter(pl.col("status") == "diverged").height
        style: dict[str, Any] = {
            "color": COLORS[number % len(COLORS)],
            "linestyle": DASHES[number // len(COLORS) % len(DASHES)],
        }
        shown = label.replace("$", r"\$").lstrip("_")
        name = shown if not lost else f"{shown} ({lost} of {len(result.seeds)} diverged)"
        if len(points["x"]) == 0:
            axes.plot([], [], label=name, **style)
            continue
        axes.plot(points["x"], points["mean"], label=name, linewidth=1.2, **style)
        axes.fill_between(points["x"], points["low"], points["high"], color=style["color"], alpha=0.2, linewidth=0)
        if x == "seconds":
            _clock_interval(axes, alive, points, style["color"])
    dress(axes, drawn(shown_as), PAID[x], log)
    return figure


def along(rows: pl.DataFrame, rounds: np.ndarray, column: str) -> np.ndarray:
    """What was paid at these rounds, the mean over seeds."""
    known = dict(rows.group_by("round").agg(pl.col(column).mean().alias("paid")).iter_rows())
    return np.array([known[int(t)] for t in rounds], float)


def _clock_interval(axes: Any, rows: pl.DataFrame, points: dict[str, np.ndarray], color: str) -> None:
    """A bar at the end of a curve: how far its seconds are known, over the clock's seeds."""
    last = rows.filter(pl.col("round") == rows["round"].max())
    low, high = (last[f"seconds_{end}"].drop_nulls() for end in ("low", "high"))
    if len(low) and low.min() != high.max():
        axes.plot(
            [low.mean(), high.mean()], [points["mean"][-1]] * 2, color=color, linewidth=2.4, solid_capstyle="butt"
        )


def step_sizes(tried: pl.DataFrame, label: Label) -> Figure:
    """What each method ended at against its step size, from `Study.step_sizes`; heavy where the step is stable.

    Bands are 95 % intervals over replicates. Step sizes that diverged in a replicate are left out.
    """
    figure = Figure(figsize=(COLUMN, COLUMN * 0.75), layout="constrained", dpi=200)
    axes, log = figure.add_subplot(), label.log
    for number, (name,) in enumerate(tried.select("algorithm").unique(maintain_order=True).iter_rows()):
        own = tried.filter(pl.col("algorithm") == name)
        points = band(own, "value", "eta", log)
        always = own.group_by("eta").agg(pl.col("stable").all()).filter("stable")["eta"]
        color, stable = COLORS[number % len(COLORS)], np.isin(points["x"], always.to_numpy())
        axes.plot(points["x"], points["mean"], color=color, linewidth=0.8, label=name)
        axes.plot(points["x"], np.where(stable, points["mean"], np.nan), color=color, linewidth=2.2)
        axes.fill_between(points["x"], points["low"], points["high"], color=color, alpha=0.2, linewidth=0)
    axes.set_xscale("log")
    dress(axes, drawn(label), r"step size $\eta$", log)
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
        drawn = BytesIO()
        figure.savefig(drawn, format=path.suffix.lstrip("."), metadata=undated)
        write(path, drawn.getvalue())
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}.") from error
    return path


def dress(axes: Any, y: str, x: str, log: bool) -> None:
    if log:
        axes.set_yscale("log")
        low, high = axes.get_ylim()
        if math.log10(high / low) > 2:
            axes.yaxis.set_major_locator(LogLocator(numticks=8))
            axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel(x, fontsize=8)
    axes.set_ylabel(y, fontsize=8, usetex=False)  # whatever the user's settings: a stored formula is no program
    axes.tick_params(labelsize=7)
    axes.grid(alpha=0.25, linewidth=0.5)
    axes.legend(fontsize=6, frameon=False)
