"""The tables of metrics and of the other columns, how each is shown, and a decorator for users to add metrics."""

import inspect
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

from gossamer.core import Array, InputError, Range, brief, flag, nearest

if TYPE_CHECKING:
    from gossamer.metrics.measuring import Snapshot

Better = Literal["lower", "higher"]
Measure = Callable[["Snapshot"], Any]
F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Column:
    """A column of a result's table besides its metrics, which summaries, figures and reports read here."""

    name: str
    kind: Literal["text", "count", "number"]
    axis: str | None = None
    """The name of the x-axis that shows the column, where there is one."""
    title: str = ""
    """The title of that axis."""
    short: str = ""
    """The title in a word or two, for tables and buttons."""
    unit: float = 1.0
    """The unit of the titles, in that of the column."""
    total: int | None = None
    """The digits of the column's last value in a summary, 0 for a whole number; without it a summary has no column."""
    optional: bool = False
    """True for columns that only some runs have."""

    @property
    def factor(self) -> float:
        """The factor from the column to its axis."""
        return 1 / self.unit


# another column is an entry here, and a number that the engine computes, as `gossamer.engines.costs.count_costs` does
COLUMNS = (
    Column("algorithm", "text"),
    Column("setting", "text"),
    Column("replicate", "count"),
    Column("seed", "count"),
    Column("round", "count", "rounds", "rounds", "rounds"),
    Column("status", "text"),
    Column("queries", "number", "queries", "gradient queries of an agent", "queries", total=0),
    Column("bytes_sent", "number", "bytes", "MB sent by an agent", "MB sent", 1e6, total=3),
    Column("messages", "number", "messages", "messages that an agent waits for", "messages"),
    Column("releases", "number", optional=True),
    Column("seconds", "number", "seconds", "time by the clock (s)", "seconds", optional=True),
    Column("seconds_low", "number", optional=True),
    Column("seconds_high", "number", optional=True),
    Column("joules", "number", "joules", "energy of an agent (J)", "joules", optional=True),
)

AXES = {column.axis: column for column in COLUMNS if column.axis is not None}
"""The x-axes of figures by name. The start of a method counts in all of them but rounds."""

UNITS = {"bytes": 1.0, "kB": 1e3, "MB": 1e6, "GB": 1e9}
"""The units of bytes."""


def fit_unit(axis: str, most: Any) -> Column:
    """Return the column of an axis, of bytes with the largest unit that `most` is not below."""
    column = AXES[axis]
    if axis != "bytes":
        return column
    # an axis of 0.000012 GB would be read wrong
    unit = next((unit for unit in reversed(UNITS) if (most or 0) >= UNITS[unit]), "bytes")
    title, short = (text.replace("MB", unit) for text in (column.title, column.short))
    return replace(column, title=title, short=short, unit=UNITS[unit])


NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,39}")

TAKEN = {column.name for column in COLUMNS} | {"variant", "seeds", "diverged", "reached", "rounds", "bytes", "eta"}
"""Names that mean something else in a result, its summary or its figures."""

LONGEST = 200
"""The most letters of a text that is shown."""


@dataclass(frozen=True)
class Label:
    """The words and the axis of a metric, wherever it is shown. A label is stored with a result."""

    about: str
    """A sentence about the metric."""
    text: str
    """The name in plain letters, for pages and tables."""
    latex: str | None = None
    """A formula for figures, without dollar signs, as matplotlib's mathtext knows it; the text if there is none."""
    log: bool = False
    """True for a logarithmic axis."""
    better: Better = "lower"
    """The better values."""
    summary: bool = True
    """True if a summary shows the metric."""
    end: bool = False
    """True if the metric is measured at the end of a run only."""

    def __post_init__(self) -> None:
        for key, text in (("text", self.text), ("about", self.about), ("latex", self.latex)):
            if key == "latex" and text is None:
                continue
            if not isinstance(text, str) or not text.strip() or len(text) > LONGEST or not text.isprintable():
                raise InputError(f"{key} of a metric must be one line of 1 to {LONGEST} letters, but is {brief(text)}.")
        if self.latex is not None and "$" in self.latex:
            raise InputError(f"latex of a metric is a formula without dollar signs, but is {brief(self.latex)}.")
        for key in ("log", "summary", "end"):
            flag(f"{key} of a metric", getattr(self, key))
        if self.better not in ("lower", "higher"):
            raise InputError(f'better of a metric must be "lower" or "higher", but is {brief(self.better)}.')


@dataclass(frozen=True)
class Metric:
    """A number that is measured along a run. It is hashable, since a compiled program depends on its metrics."""

    name: str
    """The column of a result."""
    label: Label
    measure: Measure
    """Returns the value, a scalar, from a `Snapshot`, or None where the metric does not apply. At the end of a run the
    snapshot has the models and the problem alone."""


def spread(a: Array) -> Array:
    """Return the mean over agents of the squared distance to the agents' mean."""
    return ((a - a.mean(0)) ** 2).sum(1).mean()


METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric("loss", Label("F(x̄), the loss of the agents' mean", "loss F(x̄)", r"F(\bar x)"), lambda s: s.loss),
        Metric(
            "grad_norm_sq",
            Label("‖∇F(x̄)‖²", "squared gradient norm ‖∇F(x̄)‖²", r"\|\nabla F(\bar x)\|^2", log=True),
            lambda s: s.gradient @ s.gradient,
        ),
        Metric(
            "stationarity",
            Label(
                "‖∇F(x̄) + ē‖², the distance from where a constant mean bias ē lets a method settle",
                "stationarity ‖∇F(x̄) + ē‖²",
                r"\|\nabla F(\bar x) + \bar e\|^2",
                log=True,
                summary=False,
            ),
            lambda s: None if s.bias is None else ((s.gradient + s.bias.mean(0)) ** 2).sum(),
        ),
        Metric(
            "consensus",
            Label(
                "mean over agents of ‖x_i − x̄‖²",
                "consensus error, mean of ‖xᵢ − x̄‖²",
                r"\frac{1}{n}\sum_i \|x_i - \bar x\|^2",
                log=True,
            ),
            lambda s: spread(s.x),
        ),
        Metric(
            "tracking",
            Label(
                "mean over agents of ‖v_i − v̄‖², for rules with a tracker v",
                "tracking error, mean of ‖vᵢ − v̄‖²",
                r"\frac{1}{n}\sum_i \|v_i - \bar v\|^2",
                log=True,
                summary=False,
            ),
            lambda s: spread(s.rule.tracker(s.state)) if hasattr(s.rule, "tracker") else None,
        ),
        Metric(
            "accuracy",
            Label(
                "share of the test set (test = … in the problem) that x̄ predicts right",
                "test accuracy",
                better="higher",
            ),
            lambda s: s.problem.test_accuracy(s.mean) if s.problem.has_accuracy else None,  # pyright: ignore[reportAttributeAccessIssue]
        ),
        Metric(
            "worst_loss",
            Label(
                "max_i F(x_i), the loss of the agent that does worst, at the end of a run (of very many agents, of "
                "those furthest from the mean)",
                "loss of the worst agent",
                r"\max_i F(x_i)",
                summary=False,
                end=True,
            ),
            lambda s: s.worst_loss,
        ),
    )
}
"""The metrics by name: ours, and those that users add by `metric`."""

OURS = {metric.name: metric.label for metric in METRICS.values()}
"""The labels of the metrics that come with Gossamer."""


def metric(
    name: str,
    *,
    about: str | None = None,
    text: str | None = None,
    latex: str | None = None,
    log: bool = False,
    better: Better = "lower",
    summary: bool = True,
    end: bool = False,
) -> Callable[[F], F]:
    """Make a function a metric that all later runs measure.

    The function takes a `gossamer.metrics.measuring.Snapshot` and returns one number, or None where the metric does not
    apply to the problem, the rule or the oracle. It is compiled with the run: write it in JAX. Where its value is not
    finite the table is empty.

    Args:
        name: its column in a result: letters, digits and underscores.
        about: a sentence about it; the first line of the function's docstring if it is not given.
        text: its name in plain letters; that of the column if it is not given.
        latex: its formula for figures, without dollar signs; the text if it is not given.
        log: whether its axis is logarithmic.
        better: "lower" or "higher": which way `until` compares it.
        summary: whether a summary shows it.
        end: whether it is measured at the end of a run only, from a snapshot of the models and the problem alone.
    """
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise InputError(
            "the name of a metric must be up to 40 letters, digits and underscores, with a letter first, but is "
            f"{brief(name)}."
        )
    if name in TAKEN or name.startswith("seconds"):  # a clock adds such columns
        raise InputError(f"{name!r} has another meaning in a result: choose another name for a metric.")
    if name in OURS:
        raise InputError(f"{name!r} is a metric of Gossamer's own: choose another name.")

    def register(measure: F) -> F:
        if not callable(measure):
            raise InputError(f"the metric {name!r} must be a function of a Snapshot, but is {brief(measure)}.")
        plain = name.replace("_", " ") if text is None else text
        sentence = (inspect.getdoc(measure) or plain).partition("\n")[0] if about is None else about
        METRICS[name] = Metric(name, Label(sentence, plain, latex, log, better, summary, end), measure)
        return measure

    return register


def select_metrics(names: Collection[str] | None = None, *, end: bool = False) -> tuple[Metric, ...]:
    """Return the metrics that are measured along a run, or at its `end`: all, or those that are named."""
    wanted = [one for one in METRICS.values() if one.label.end == end and (names is None or one.name in names)]
    return tuple(wanted)


def labels() -> dict[str, Label]:
    """Return the labels of all metrics."""
    return {name: metric.label for name, metric in METRICS.items()}


def own() -> dict[str, Measure]:
    """Return the functions of the user's metrics: they are part of a run's cache key."""
    return {name: metric.measure for name, metric in METRICS.items() if name not in OURS}


class Target(NamedTuple):
    """A value at which a run may end."""

    metric: str
    value: float
    better: Better


def targets(until: Any) -> tuple[Target, ...]:
    """Return the targets of a user's `until`: a run ends when each metric has come to its value or is better."""
    if until is None:
        return ()
    if not isinstance(until, Mapping) or not until:
        raise InputError(f'until must name metrics and values, such as {{"loss": 0.4}}, but is {brief(until)}.')
    found, along = [], [metric.name for metric in select_metrics()]
    for name, value in until.items():
        if not isinstance(name, str) or name not in METRICS:
            raise InputError(
                f"until names {brief(name)}, which is no metric (one of your own must be defined before the run); "
                f"{nearest(name, along)}"
            )
        label = METRICS[name].label
        if label.end:
            raise InputError(f"until names {name}, which is measured at the end only; {nearest('', along)}")
        anything = Range(float("-inf"), float("inf"), True, True)  # any finite number
        found.append(Target(name, anything.check(f"until: {name}", value), label.better))
    return tuple(found)
