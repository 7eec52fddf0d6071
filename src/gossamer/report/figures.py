"""Figures of results, in matplotlib."""

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import polars as pl
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.mathtext import MathTextParser
from matplotlib.ticker import LogLocator, NullFormatter

from gossamer.basics.files import write
from gossamer.core import InputError, nearest
from gossamer.metrics import AXES, Label
from gossamer.report import names, styles
from gossamer.report.layouts import EMBEDDED, LAYOUTS, PaperFigure, layout, sheet
from gossamer.report.styles import Style
from gossamer.report.tables import band

if TYPE_CHECKING:
    from gossamer.results.result import Result

COLUMN = LAYOUTS["plain"].one
"""The width of a column of a two-column paper, in inches."""

PAID = {name: (axis.title, 1 / axis.unit) for name, axis in AXES.items()}
"""The titles of the x-axes, and by what their columns are multiplied."""

FLOORED = "grad_norm_sq"
"""The metric that a bias keeps above ‖ē‖²."""

LETTERS = 13
"""The letters of a legend that fit into an inch, beside its signs; longer names are wrapped."""

FAR = 10.0
"""Ends of which the largest is more than so many times the smallest are told apart on a logarithmic axis only."""

BAR = 0.035
"""The room for a bar at the foot of a figure, as a share of its height."""

MARKS = 8
"""About the markers of a curve."""


def drawn(label: Label) -> str:
    """A metric's name in a figure: its formula, or its text where it has none that matplotlib can set."""
    if label.latex is not None:
        formula = f"${label.latex}$"
        with suppress(Exception):  # a result may hold any formula
            MathTextParser("path").parse(formula)
            return formula
    return label.text.replace("$", r"\$")


class Look(NamedTuple):
    """How the curve of a label is drawn."""

    text: str
    style: Style
    floor: float | None = None
    """The level that a bias predicts for ‖∇F‖²."""


def looks_of(result: "Result") -> dict[str, Look]:
    """The looks of the methods of a result, by their proper names."""
    bias = result.mean_bias
    floor = None if bias is None else float((np.asarray(bias, float) ** 2).sum(1).mean())
    shown = names.shown(result)
    return {
        label: Look(shown[label], styles.of(number), floor if floor and math.isfinite(floor) else None)
        for number, label in enumerate(result.labels)
    }


def curves(
    result: "Result",
    metric: str = "loss",
    x: str = "rounds",
    *,
    log: bool | None = None,
    style: str = "plain",
    columns: int = 1,
    ax: Axes | None = None,
    looks: Mapping[str, Look] | None = None,
) -> Axes:
    """A metric against what was paid: for each algorithm the mean over replicates and its 95 % band.

    Seeds that diverged are left out from the round in which they did, and the legend counts them. A dotted line is the
    level ‖ē‖² that an absolute bias predicts for ‖∇F‖².

    Args:
        result: what is drawn.
        metric: what is measured.
        x: what is paid: "rounds", "queries", "bytes", "messages" or, with a clock, "seconds".
        log: whether the metric's axis is logarithmic; as is usual for it if not given.
        style: whose column widths, type and sizes: "plain", "ieee", "acm", "icml", "neurips" or "elsevier".
        columns: how many columns the figure is wide, 1 or 2.
        ax: axes to draw into, without a legend; a figure of their own, with the legend outside, if not given.
        looks: names, colours and floors by label; those of the methods if not given.
    """
    result.check_metric(metric)
    if x not in result.axes:
        raise InputError(f"there is no x-axis {x!r} in this result; {nearest(x, result.axes)}")
    looks = looks_of(result) if looks is None else looks
    shown_as = result.metrics[metric]
    log = shown_as.log if log is None else log
    texts = {label: _text(result, label, looks[label]) for label in result.labels}
    across = 2 * columns if max(map(len, texts.values()), default=0) <= 22 else columns
    inches = layout(style).one if columns == 1 else layout(style).two / 2
    texts = {label: fill(text, int(LETTERS * inches)) for label, text in texts.items()}
    with rc_context(layout(style).rc):
        lines = sum(text.count("\n") + 1 for text in texts.values())
        figure, axes = sheet(style, columns, math.ceil(lines / across)) if ax is None else (None, ax)
        for number, (label, text) in enumerate(texts.items()):
            _curve(axes, result, label, (text, looks[label].style), (metric, x, log), number)
        if metric == FLOORED:
            _floors(axes, list(looks.values()), log)
        dress(axes, drawn(shown_as), PAID[x][0], log)
        if figure is not None:
            _legend(figure, axes, across)
    return axes


def _text(result: "Result", label: str, look: Look) -> str:
    """A curve's name in the legend, with the seeds that diverged."""
    text, lost = look.text.lstrip("_"), result.of(label).filter(pl.col("status") == "diverged").height
    return text if not lost else f"{text} ({lost} of {len(result.seeds)} diverged)"


def _curve(
    axes: Axes, result: "Result", label: str, look: tuple[str, Style], what: tuple[str, str, bool], number: int
) -> None:
    (text, drawn_as), (metric, x, log) = look, what
    rows = result.of(label)
    alive = rows.filter(pl.col("status") != "diverged")
    points = band(alive, metric, "round", log)
    points["x"] = along(alive, points["x"], result.axes[x]) * PAID[x][1]
    name = text.replace("$", r"\$")
    style: dict[str, Any] = {"color": drawn_as.color, "linestyle": drawn_as.line, "marker": drawn_as.symbol}
    if len(points["x"]) == 0:
        axes.plot([], [], label=name, **style)
        return
    each = max(1, len(points["x"]) // MARKS)
    # markers of curves that lie on each other stand at different places
    axes.plot(points["x"], points["mean"], label=name, markevery=(number * each // 4 % each, each), **style)
    axes.fill_between(points["x"], points["low"], points["high"], color=style["color"], alpha=0.18, linewidth=0)
    if x == "seconds":
        _clock_interval(axes, alive, points, style["color"])


def _floors(axes: Axes, looks: list[Look], log: bool) -> None:
    """The levels that a bias predicts: one for all methods, or one for each curve in its colour."""
    levels = {look.floor for look in looks if look.floor is not None}
    for look in looks if len(levels) > 1 else looks[:1]:
        if look.floor is not None and (look.floor > 0 or not log):
            color = look.style.color if len(levels) > 1 else "0.25"
            axes.axhline(look.floor, color=color, linestyle=(0, (1, 1.5)), linewidth=1.0, zorder=1.5)
    if len(levels) == 1:
        (level,) = levels
        note = {"xytext": (-2, 2), "textcoords": "offset points", "ha": "right", "va": "bottom", "fontsize": "small"}
        axes.annotate(r"$\Vert \bar e \Vert^2$", (1, level), xycoords=("axes fraction", "data"), color="0.25", **note)


def _legend(figure: PaperFigure, axes: Axes, across: int) -> None:
    """Below the axes, off the data."""
    handles, labels = axes.get_legend_handles_labels()
    if handles:
        figure.legend(
            handles, labels, loc="outside lower center", ncols=min(across, len(handles)), frameon=False,
            handlelength=2.6, columnspacing=1.2, borderpad=0.1,
        )  # fmt: skip


def along(rows: pl.DataFrame, rounds: np.ndarray, column: str) -> np.ndarray:
    """What was paid at these rounds, the mean over seeds."""
    known = dict(rows.group_by("round").agg(pl.col(column).mean().alias("paid")).iter_rows())
    return np.array([known[int(t)] for t in rounds], float)


def _clock_interval(axes: Axes, rows: pl.DataFrame, points: dict[str, np.ndarray], color: str) -> None:
    """A bar at the end of a curve: how far its seconds are known, over the clock's seeds."""
    last = rows.filter(pl.col("round") == rows["round"].max())
    low, high = (last[f"seconds_{end}"].drop_nulls() for end in ("low", "high"))
    if len(low) and low.min() != high.max():
        ends = np.array([low.mean(), high.mean()], float)
        axes.plot(ends, [points["mean"][-1]] * 2, color=color, linewidth=2.4, solid_capstyle="butt")


def in_order(tried: pl.DataFrame, order: Sequence[str]) -> list[str]:
    """The methods of which step sizes were tried, in the order that gives them the colours of their curves."""
    methods = {str(name): str(name).partition(" (")[0] for name in tried["algorithm"].unique(maintain_order=True)}
    return sorted(methods, key=lambda name: order.index(methods[name]) if methods[name] in order else len(order))


def far_apart(tried: pl.DataFrame) -> bool:
    """Whether ends differ so much that only a logarithmic axis tells them apart."""
    ends = tried["value"].drop_nulls().to_numpy()
    return bool(len(ends) and 0 < FAR * ends.min() < ends.max())


def step_sizes(
    tried: pl.DataFrame, label: Label, *, order: Sequence[str] = (), style: str = "plain", columns: int = 1
) -> Axes:
    """What each method ended at against its step size, from `Study.step_sizes`; shaded where the step is stable.

    Bands are 95 % intervals over replicates. Step sizes that diverged in a replicate are left out. The bars at the foot
    are the stable ranges, the line above them heavy. The axis is logarithmic where it is usual, or ends lie far apart.
    `order` is that of the methods; that of the rows if not given.
    """
    log, methods = label.log or far_apart(tried), in_order(tried, order)
    with rc_context(layout(style).rc):
        figure, axes = sheet(style, columns, math.ceil(len(methods) / (2 * columns)))
        for number, name in enumerate(methods):
            own, look = tried.filter(pl.col("algorithm") == name), styles.of(number)
            points = band(own, "value", "eta", log)
            always = own.group_by("eta").agg(pl.col("stable").all()).filter("stable")["eta"].to_numpy()
            heavy, text = np.isin(points["x"], always), names.display_name(name).replace("$", r"\$").lstrip("_")
            axes.plot(points["x"], points["mean"], color=look.color, marker=look.symbol, linewidth=0.8, label=text)
            axes.plot(points["x"], np.where(heavy, points["mean"], np.nan), color=look.color, linewidth=2.2)
            axes.fill_between(points["x"], points["low"], points["high"], color=look.color, alpha=0.18, linewidth=0)
            if len(always):
                foot, across = BAR * (number + 0.7), axes.get_xaxis_transform()
                axes.plot([always.min(), always.max()], [foot] * 2, color=look.color, linewidth=3, transform=across)
        axes.set_xscale("log")
        dress(axes, drawn(label), r"step size $\eta$", log)
        _lift(axes, BAR * (len(methods) + 0.7))
        _legend(figure, axes, 2 * columns)
    return axes


def _lift(axes: Axes, share: float) -> None:
    """Keep this share of the axes, at the foot, free of curves."""
    scale = axes.yaxis.get_transform()
    low, high = scale.transform(np.array(axes.get_ylim()))
    bottom = scale.inverted().transform(np.array([low - (high - low) * share / (1 - share)]))
    axes.set_ylim(bottom=float(bottom[0]))


def save(drawn: Figure | Axes, path: str | Path) -> Path:
    """Write a figure, or that of these axes; the suffix chooses the format (.pdf, .png, .svg)."""
    figure = drawn if isinstance(drawn, Figure) else drawn.get_figure(root=True)
    assert figure is not None
    path = Path(path)
    kinds = figure.canvas.get_supported_filetypes()
    if path.suffix.lstrip(".") not in kinds:
        raise InputError(f"cannot write a figure as {path.suffix or 'a file without suffix'}; use .pdf, .png or .svg.")
    # no date in the file: the same result gives the same bytes
    undated = {"CreationDate": None} if path.suffix == ".pdf" else {"Date": None} if path.suffix == ".svg" else {}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        data = BytesIO()
        with rc_context(EMBEDDED):
            figure.savefig(data, format=path.suffix.lstrip("."), metadata=undated)
        write(path, data.getvalue())
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}.") from error
    return path


def save_both(drawn: Axes, stem: str | Path) -> list[Path]:
    """Write a figure as PDF and as PNG, laid out once for both: a fifth less time than twice."""
    vector = save(drawn, f"{stem}.pdf")
    figure = drawn.get_figure(root=True)
    assert figure is not None
    figure.set_layout_engine(None)  # where everything stands now, it stays
    return [vector, save(drawn, f"{stem}.png")]


def dress(axes: Axes, y: str, x: str, log: bool) -> None:
    if log:
        axes.set_yscale("log")
        low, high = axes.get_ylim()
        if math.log10(high / low) > 2:
            axes.yaxis.set_major_locator(LogLocator(numticks=8))
            axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel(x)
    axes.set_ylabel(y, usetex=False)
