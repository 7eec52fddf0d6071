"""Figures in matplotlib, in the column widths and type of journals."""

import math
import os
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
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.mathtext import MathTextParser
from matplotlib.ticker import LogLocator, NullFormatter

from gossamer.core import InputError, brief, nearest
from gossamer.metrics import AXES, METRICS, Label, fit_unit
from gossamer.networks import NetworkComparison
from gossamer.report import names, styles
from gossamer.report.styles import Look
from gossamer.report.tables import write_file
from gossamer.results.result import last_rows
from gossamer.results.statistics import half_width

if TYPE_CHECKING:
    from gossamer.experiments.recommend import Recommendation
    from gossamer.results.result import Result
    from gossamer.results.study import Study

SERIF, SANS = ("STIXGeneral", "stix"), ("DejaVu Sans", "dejavusans")
"""Fonts that come with matplotlib, each with its font for formulas; STIX has the shapes of Times."""

EMBEDDED: Any = {"pdf.fonttype": 42, "ps.fonttype": 42, "svg.fonttype": "path"}
"""Fonts are embedded as TrueType (Type 42): submission systems refuse matplotlib's own Type 3."""

DPI = 300
"""The resolution of a bitmap."""

FLOORED = "grad_norm_sq"
"""The metric that a bias keeps above ‖ē‖²."""

LETTERS = 13
"""The letters of a legend that fit into an inch, beside its signs; longer names are wrapped."""

DOTS: Any = {"linestyle": (0, (1, 1.5)), "linewidth": 1.0, "zorder": 1.5}
"""The line of a level that a bias predicts."""

FAR = 10.0
"""Ends of which the largest is more than so many times the smallest need a logarithmic axis."""

BAR = 0.035
"""The room for a bar at the foot of a figure, as a share of its height."""

MARKS = 8
"""About the markers of a curve."""

ENDS = {"diverged": ("x", "all seeds diverged"), "reached": ("*", "target reached"), "stopped": ("|", "stopped")}
"""The mark at the end of a curve that ends before the others, and what it means, by the status of its runs."""

DRAWN_AGENTS = 100
"""The most agents of a graph that can still be read; beyond, only the curves are drawn."""

ACROSS = 6
"""Graphs in a row."""


class JournalLayout(NamedTuple):
    """The measures of a journal's page, in inches and points."""

    one: float
    """The width of one column."""
    two: float
    """The width of two columns, or of the text where there is one."""
    size: float = 8.0
    fonts: tuple[str, str] = SERIF

    @property
    def rc(self) -> Any:
        """matplotlib's settings for the layout."""
        family, formulas = self.fonts
        small = self.size - 1
        sizes = {"axes.labelsize": self.size, "xtick.labelsize": small, "ytick.labelsize": small}
        return {
            **EMBEDDED,
            **sizes,
            "font.family": family,
            "mathtext.fontset": formulas,
            "font.size": self.size,
            "legend.fontsize": small,
            "text.usetex": False,  # whatever the user's settings: TeX would execute the formulas of a stored result
            "axes.linewidth": 0.6,
            "axes.grid": True,
            "grid.alpha": 0.25,
            "grid.linewidth": 0.5,
            "lines.linewidth": 1.2,
            "lines.markersize": 3.5,
        }


LAYOUTS: Mapping[str, JournalLayout] = {
    "plain": JournalLayout(3.5, 7.16, fonts=SANS),
    "ieee": JournalLayout(3.5, 7.16),
    "acm": JournalLayout(3.33, 7.0),
    "icml": JournalLayout(3.25, 6.75),
    "neurips": JournalLayout(2.7, 5.5),
    "elsevier": JournalLayout(3.54, 7.48),
}
"""Layouts by the name that `style=` takes."""


def find_layout(style: str) -> JournalLayout:
    """Return the layout of this name."""
    if not isinstance(style, str) or style not in LAYOUTS:
        raise InputError(f"there is no style {brief(style)} for figures; {nearest(str(style), LAYOUTS)}")
    return LAYOUTS[style]


class PaperFigure(Figure):
    """A figure that is saved with the settings of its layout, also by the user's own `savefig`."""

    def __init__(self, rc: Any, **options: Any):
        self.rc = rc
        super().__init__(**options)

    def savefig(self, fname: Any, **options: Any) -> None:
        with rc_context(self.rc):
            super().savefig(fname, **{"dpi": DPI, **options})


def new_figure(style: str, columns: int, rows: int = 0) -> tuple[PaperFigure, Axes]:
    """Return a figure in this style, with room for a legend of `rows` rows, and its axes."""
    layout = find_layout(style)
    if columns not in (1, 2):
        raise InputError(f"a figure is 1 or 2 columns wide, but columns is {brief(columns)}.")
    wide = layout.one if columns == 1 else layout.two
    # an inch has 72 points, and a row of the legend is 3 points higher than its type
    high = wide * (0.66 if columns == 1 else 0.42) + rows * (layout.size + 3) / 72
    with rc_context(layout.rc):
        figure = PaperFigure(layout.rc, figsize=(wide, high), layout="constrained", dpi=DPI)
        return figure, figure.add_subplot()


# --- curves -----------------------------------------------------------------------------------------------------------


def band(rows: pl.DataFrame, metric: str, paid: str, log: bool) -> dict[str, np.ndarray]:
    """Return the mean over replicates and its 95 % interval; on a log axis those of the logarithm."""
    rows = rows.filter(pl.col(metric).is_not_null() & pl.col(metric).is_finite())
    if log:
        rows = rows.filter(pl.col(metric) > 0)
    value = pl.col(metric).log() if log else pl.col(metric)
    # the seeds of one tuning are not independent: they are averaged before the interval is taken
    rows = rows.group_by("replicate", paid, maintain_order=True).agg(pl.col(metric).mean())
    groups = rows.group_by(paid, maintain_order=True).agg(
        value.mean().alias("mean"), value.std().fill_null(0.0).alias("std"), value.len().alias("n")
    )
    groups = groups.sort(paid)
    mean, half = groups["mean"].to_numpy(), half_width(groups["n"].to_numpy(), groups["std"].to_numpy())
    undo = np.exp if log else np.positive
    with np.errstate(over="ignore"):  # a run that diverges
        return {
            "x": groups[paid].to_numpy().astype(float),
            "mean": undo(mean),
            "low": undo(mean - half),
            "high": undo(mean + half),
        }


def metric_title(label: Label) -> str:
    """Return the title of a metric's axis: its formula, or its text where matplotlib cannot set the formula."""
    if label.latex is not None:
        formula = f"${label.latex}$"
        with suppress(Exception):  # a result may hold any formula
            MathTextParser("path").parse(formula)
            return formula
    return label.text.replace("$", r"\$")


def method_looks(result: "Result") -> dict[str, Look]:
    """Return the looks of the methods of a result, by label, with their proper names."""
    bias = result.mean_bias
    floor = None if bias is None else float((np.asarray(bias, float) ** 2).sum(1).mean())
    floor = floor if floor and math.isfinite(floor) else None
    shown, looks = names.name_labels(result), styles.style_methods([method for method, _ in result.labels.values()])
    return {label: Look(shown[label], look, floor) for label, look in zip(result.labels, looks, strict=True)}


def variant_looks(study: "Study") -> dict[str, Look]:
    """Return the looks of the variants of a study in one figure."""
    levels = bias_floors(study)
    return {name: look._replace(floor=levels.get(name)) for name, look in names.name_variants(study).items()}


def bias_floors(study: "Study") -> dict[str, float]:
    """Return ‖ē‖² by variant, where there is a bias: the level that ‖∇F‖² cannot leave."""
    known = {variant: study.facts.get(variant, {}).get("bias_sq") for variant in study.results}
    return {name: float(size) for name, size in known.items() if isinstance(size, (int, float)) and size > 0}


def draw_curves(
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
    """Draw a metric against what was paid: for each algorithm the mean over replicates and its 95 % band.

    Seeds that diverged are left out from the round in which they did, and the legend counts them. A curve whose runs
    all ended early has a mark at its end, which the legend explains. A dotted line is the level ‖ē‖² that an absolute
    bias predicts for ‖∇F‖².

    Args:
        result: the runs.
        metric: what is measured.
        x: what is paid: "rounds", "queries", "bytes", "messages" or, with a clock, "seconds" and "joules".
        log: whether the metric's axis is logarithmic; as is usual for the metric if not given.
        style: the journal's layout: "plain", "ieee", "acm", "icml", "neurips" or "elsevier".
        columns: the width of the figure in columns, 1 or 2.
        ax: axes to draw into, without a legend; a figure of its own, with the legend outside, if not given.
        looks: names, colours and floors by label; those of the methods if not given.
    """
    result.check_metric(metric)
    if x not in result.axes:
        raise InputError(f"there is no x-axis {x!r} in this result; {nearest(x, result.axes)}")
    looks = method_looks(result) if looks is None else looks
    label_of_metric = result.metrics[metric]
    # a metric that is 0 throughout, as the loss of gossip alone, has no logarithm
    log = (label_of_metric.log and bool((result.table[metric] > 0).any())) if log is None else log
    texts = {}
    for label in result.labels:
        lost = result.of(label).filter(pl.col("status") == "diverged").height
        # matplotlib leaves names that begin with an underscore out of the legend
        text = looks[label].text.lstrip("_")
        texts[label] = text if not lost else f"{text} ({lost} of {len(result.seeds)} diverged)"
    # short names stand two beside each other in a column
    columns_of_legend = 2 * columns if max(map(len, texts.values()), default=0) <= 22 else columns
    # several results may be drawn into axes that are given, with one unit for all
    paid_in = AXES[x] if ax is not None else fit_unit(x, result.table[result.axes[x]].max())
    layout = find_layout(style)
    inches = layout.one if columns == 1 else layout.two / 2
    texts = {label: fill(text, int(LETTERS * inches)) for label, text in texts.items()}
    early = {label: find_end(result, label) for label in texts}
    marks = [end for end in ENDS if end in early.values()]
    with rc_context(layout.rc):
        lines = sum(text.count("\n") + 1 for text in texts.values()) + len(marks)
        figure, axes = new_figure(style, columns, math.ceil(lines / columns_of_legend)) if ax is None else (None, ax)
        for number, (label, text) in enumerate(texts.items()):
            alive = result.of(label).filter(pl.col("status") != "diverged")
            points = band(alive, metric, "round", log)
            paid = dict(alive.group_by("round").agg(pl.col(result.axes[x]).mean().alias("paid")).iter_rows())
            across = np.array([paid[int(t)] for t in points["x"]], float) * paid_in.factor
            style_of_curve = looks[label].style
            color = style_of_curve.color
            each = max(1, len(across) // MARKS)
            # markers of curves that lie on each other stand at different places
            places = number * each // 4 % each, each
            # where all seeds diverged at once there is no point, but the legend still counts them
            look: Any = {"color": color, "linestyle": style_of_curve.line, "marker": style_of_curve.symbol}
            axes.plot(across, points["mean"], label=text.replace("$", r"\$"), markevery=places, **look)
            axes.fill_between(across, points["low"], points["high"], color=color, alpha=0.18, linewidth=0)
            if len(across) and (end := early[label]):
                axes.plot(across[-1], points["mean"][-1], ENDS[end][0], color=color, markersize=7, zorder=3)
            if x == "seconds" and len(across):
                # a bar at the end of the curve is the interval of its seconds, over the clock's seeds
                last = alive.filter(pl.col("round") == alive["round"].max())
                low, high = (last[f"seconds_{end}"].drop_nulls() for end in ("low", "high"))
                if len(low) and low.min() != high.max():
                    bar = np.array([low.mean(), high.mean()], float)
                    axes.plot(bar, [points["mean"][-1]] * 2, color=color, linewidth=2.4, solid_capstyle="butt")
        for end in marks:
            axes.plot([], [], ENDS[end][0], color="0.25", markersize=6, label=f"curve ends: {ENDS[end][1]}")
        if metric == FLOORED:
            # the levels that a bias predicts: one line for all methods, or one for each curve in its colour
            levels = {look.floor for look in looks.values() if look.floor is not None}
            for look in looks.values() if len(levels) > 1 else ():
                if look.floor is not None:
                    axes.axhline(look.floor, color=look.style.color, **DOTS)
            if len(levels) == 1:
                (level,) = levels
                axes.axhline(level, color="0.25", **DOTS)
                note: Any = {"xytext": (-2, 2), "textcoords": "offset points", "ha": "right", "va": "bottom"}
                place = {"xycoords": ("axes fraction", "data"), "fontsize": "small", "color": "0.25"}
                axes.annotate(r"$\Vert \bar e \Vert^2$", (1, level), **place, **note)
        label_axes(axes, metric_title(label_of_metric), paid_in.title, log)
        if figure is not None:
            _draw_legend(figure, axes, columns_of_legend)
    return axes


def find_end(result: "Result", label: str) -> str | None:
    """Return why a method's curve ends early, a key of `ENDS`, where all its runs ended so; else None."""
    statuses = last_rows(result.of(label))["status"].unique().to_list()
    return statuses[0] if len(statuses) == 1 and statuses[0] in ENDS else None


def _draw_legend(figure: PaperFigure, axes: Axes, across: int) -> None:
    """Draw the legend below the axes, off the data."""
    handles, labels = axes.get_legend_handles_labels()
    if handles:  # matplotlib warns of an empty legend
        figure.legend(
            handles, labels, loc="outside lower center", ncols=min(across, len(handles)), frameon=False,
            handlelength=2.6, columnspacing=1.2, borderpad=0.1,
        )  # fmt: skip


def label_axes(axes: Axes, y: str, x: str, log: bool) -> None:
    """Set the titles of both axes, and the scale and ticks of the metric's."""
    if log:
        axes.set_yscale("log")
        low, high = axes.get_ylim()
        if math.log10(high / low) > 2:  # else the labels of minor ticks are needed, and there is room for them
            axes.yaxis.set_major_locator(LogLocator(numticks=8))
            axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel(x)
    axes.set_ylabel(y, usetex=False)


# --- step sizes -------------------------------------------------------------------------------------------------------


class StepLine(NamedTuple):
    """A method's ends by its step size."""

    text: str
    style: styles.Style
    points: dict[str, np.ndarray]
    """The mean and its interval, as `band` returns them."""
    stable: np.ndarray
    """The step sizes that are stable in every replicate."""


def step_lines(tried: pl.DataFrame, order: Sequence[str], log: bool) -> list[StepLine]:
    """Return a line for each method, in this order, with the styles of its curves."""
    methods = {str(name): str(name).partition(" (")[0] for name in tried["algorithm"].unique(maintain_order=True)}
    ordered = sorted(methods, key=lambda name: order.index(methods[name]) if methods[name] in order else len(order))
    lines, looks = [], styles.style_methods([methods[name] for name in ordered])
    for name, look in zip(ordered, looks, strict=True):
        own = tried.filter(pl.col("algorithm") == name)
        stable = own.group_by("eta").agg(pl.col("stable").all()).filter("stable")["eta"].to_numpy()
        points = band(own, "value", "eta", log)
        lines.append(StepLine(names.display_name(name), look, points, stable))
    return lines


def needs_log(tried: pl.DataFrame) -> bool:
    """Return True if only a logarithmic axis can tell the ends apart."""
    ends = tried["value"].drop_nulls().to_numpy()
    return bool(len(ends) and 0 < FAR * ends.min() < ends.max())


def draw_step_sizes(
    tried: pl.DataFrame, label: Label, *, order: Sequence[str] = (), style: str = "plain", columns: int = 1
) -> Axes:
    """Draw the end of each method against its step size, from `Study.step_sizes`, and its stable range.

    Bands are 95 % intervals over replicates. Step sizes that diverged in a replicate are left out. The bars at the foot
    are the stable ranges, the line above them heavy. The axis is logarithmic where it is usual, or ends lie far apart.
    `order` is that of the methods; that of the rows if not given.
    """
    log = label.log or needs_log(tried)
    lines = step_lines(tried, order, log)
    with rc_context(find_layout(style).rc):
        figure, axes = new_figure(style, columns, math.ceil(len(lines) / (2 * columns)))
        for number, (name, look, points, always) in enumerate(lines):
            # nan breaks the heavy line where the step is not stable
            heavy, text = np.isin(points["x"], always), name.replace("$", r"\$").lstrip("_")
            axes.plot(points["x"], points["mean"], color=look.color, marker=look.symbol, linewidth=0.8, label=text)
            axes.plot(points["x"], np.where(heavy, points["mean"], np.nan), color=look.color, linewidth=2.2)
            axes.fill_between(points["x"], points["low"], points["high"], color=look.color, alpha=0.18, linewidth=0)
            if len(always):
                foot, across = BAR * (number + 0.7), axes.get_xaxis_transform()
                axes.plot([always.min(), always.max()], [foot] * 2, color=look.color, linewidth=3, transform=across)
        axes.set_xscale("log")
        label_axes(axes, metric_title(label), r"step size $\eta$", log)
        # the bars at the foot have their room, which no curve enters
        room, scale = BAR * (len(lines) + 0.7), axes.yaxis.get_transform()
        low, high = scale.transform(np.array(axes.get_ylim()))
        bottom = scale.inverted().transform(np.array([low - (high - low) * room / (1 - room)]))
        axes.set_ylim(bottom=float(bottom[0]))
        _draw_legend(figure, axes, 2 * columns)
    return axes


# --- recommendations and networks -------------------------------------------------------------------------------------


def draw_front(recommendation: "Recommendation") -> Figure:
    """Draw the error of the finalists against what was paid for it, with 95 % bands.

    The black line is the lowest error so far.
    """
    layout, label = LAYOUTS["plain"], METRICS[recommendation.criterion].label
    looks = styles.style_methods([row["method"].split(" ")[0] for row in recommendation.ranking])
    with rc_context(layout.rc):
        figure = PaperFigure(layout.rc, figsize=(layout.two, layout.one * 0.8), layout="constrained")
        for place, paid in enumerate(("seconds", "bytes")):
            axes = figure.add_subplot(1, 2, place + 1)
            column = fit_unit(paid, max(curve[paid][-1] for curve in recommendation.curves.values()))
            every = []
            for number, (name, curve) in enumerate(recommendation.curves.items()):
                # round 0 has paid nothing, which a logarithmic axis cannot show
                x, mean, low, high = (np.array(curve[key][1:]) for key in (paid, "mean", "low", "high"))
                x, color = column.factor * x, looks[number].color
                axes.plot(x, mean, color=color, linewidth=1.2, label=f"{number + 1}. {name}")
                axes.fill_between(x, low, high, color=color, alpha=0.2, linewidth=0)
                every += list(zip(x.tolist(), mean.tolist(), strict=True))
            ordered = sorted(every)
            best = np.minimum.accumulate([value for _, value in ordered])
            axes.step([x for x, _ in ordered], best, where="post", color="black", linewidth=0.7, linestyle=":")
            axes.set_xscale("log")
            label_axes(axes, metric_title(label) if not place else "", column.title, log=label.log)
            axes.legend(fontsize=6, frameon=False)
    return figure


def draw_networks(compared: NetworkComparison) -> Figure:
    """Draw the agents of each network on a circle with the links of all rounds, and below them how fast they agree.

    The disagreement that is left is drawn against rounds and against messages.
    """
    count = len(compared.rows)
    down = math.ceil(count / ACROSS) if compared.agents <= DRAWN_AGENTS else 0
    figure = Figure(figsize=(2 * LAYOUTS["plain"].one, 1.3 * down + 4.2), layout="constrained", dpi=200)
    parts: Any = figure.subfigures(2, 1, height_ratios=[1.3 * down, 4.2]) if down else (None, figure)
    above, below = parts
    looks = [styles.style_of(k) for k in range(count)]
    if above is not None:
        for k, axes in enumerate(np.ravel(above.subplots(down, ACROSS, squeeze=False))):
            axes.set_axis_off()
            if k < count:
                network, color = compared.rows[k].network, looks[k].color
                n = network.agents
                angles = 2 * np.pi * np.arange(n) / n
                places = np.stack([np.sin(angles), np.cos(angles)], axis=1)
                ends = np.array([(i, j) for i in range(n) for j in network.neighbors(i).tolist()])
                faint = min(1.0, max(0.12, 60 / max(network.links, 1)))  # many links are fainter, so as not to blot
                links = LineCollection(list(places[ends]), colors=color, linewidths=0.5, alpha=faint)
                axes.add_collection(links)
                axes.scatter(places[:, 0], places[:, 1], s=5, color=color, zorder=2)
                axes.set(xlim=(-1.15, 1.15), ylim=(-1.15, 1.15), aspect="equal")
                axes.set_title(compared.rows[k].name, fontsize=6, pad=2)
    left, right = below.subplots(1, 2, sharey=True)
    for row, look in zip(compared.rows, looks, strict=True):
        # exact agreement is drawn at the foot of the figure
        seen = np.maximum(row.disagreement, compared.target / 10)
        for axes, paid in ((left, np.arange(len(seen))), (right, row.messages)):
            axes.plot(paid + 1, seen, color=look.color, linestyle=look.line, linewidth=1.1, label=row.name)
    for axes, what in ((left, "1 + rounds"), (right, "1 + messages sent by an agent")):
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_ylim(compared.target / 10, 1.5)
        axes.set_xlabel(what, fontsize=8)
        axes.tick_params(labelsize=7)
        axes.grid(alpha=0.25, linewidth=0.5)
    left.set_ylabel(r"$\Vert x - \bar x \Vert$, relative to the start", fontsize=8, usetex=False)
    handles, labels = left.get_legend_handles_labels()
    below.legend(handles, labels, loc="outside lower center", ncols=5, fontsize=6, frameon=False)
    return figure


# --- files ------------------------------------------------------------------------------------------------------------


def check_file(path: Path) -> None:
    """Raise InputError if no figure can be written to this file, before anything is measured for it."""
    check_format(path)
    if os.path.isdir(path):
        raise InputError(f"cannot write {path}: it is a directory.")
    if not os.path.isdir(path.parent):  # unlike Path.is_dir, it takes names that are too long for a file
        raise InputError(f"cannot write {brief(str(path))}: there is no directory {brief(str(path.parent))}.")


def check_format(path: Path) -> None:
    """Raise InputError if figures cannot be written as files with this suffix."""
    if path.suffix not in (".pdf", ".png", ".svg"):
        raise InputError(f"cannot write a figure as {path.suffix or 'a file without suffix'}; use .pdf, .png or .svg.")


def save(drawn: Figure | Axes, path: str | Path) -> Path:
    """Write a figure, or that of these axes; the suffix chooses the format (.pdf, .png, .svg)."""
    figure = drawn if isinstance(drawn, Figure) else drawn.get_figure(root=True)
    assert figure is not None
    path, data = Path(path), BytesIO()
    check_format(path)
    # no date in the file: the same result gives the same bytes
    undated = {".pdf": {"CreationDate": None}, ".svg": {"Date": None}}.get(path.suffix, {})
    with rc_context(EMBEDDED):
        figure.savefig(data, format=path.suffix[1:], metadata=undated)
    return write_file(path, data.getvalue())


def save_both(drawn: Axes, stem: str | Path) -> list[Path]:
    """Write a figure as PDF and as PNG, laid out once for both: a fifth less time than twice."""
    vector = save(drawn, f"{stem}.pdf")
    figure = drawn.get_figure(root=True)
    assert figure is not None
    figure.set_layout_engine(None)  # the layout of the PDF stays
    return [vector, save(drawn, f"{stem}.png")]
