"""The vocabulary of claims: what is read from the runs of a study, and the questions that claims ask about it.

A claim is a sentence with a test. The tests here cover most of what papers assert, and take a line each:

| a paper says | its test |
| --- | --- |
| BEER ends at less than half of CHOCO-SGD's ‖∇F‖² | `Ratio(Floor("grad_norm_sq"), "beer", ["choco-sgd"], below=0.5)` |
| it needs fewer bytes to a loss of 0.4 | `Ratio(Cost(0.4, pays="bytes_sent"), "beer", ["d2", "d-psgd"])` |
| it ends at a lower loss | `LowerLoss("biased-dmt", ["d-psgd"])` |
| it ties with D² | `Equal(End("grad_norm_sq"), "beer", ["d2"], within=1.5)` |
| the floor does not depend on the network | `Slope(Floor(), METHODS, "gap", above=-0.05, below=0.05)` |
| the larger the bias, the higher the floor | `Order(Floor(), ["beer @ small", "beer @ large"])` |
| rounds go with the effective neighbours | `Rank(Cost(0.4), {"d-psgd @ ring": 3.1, …}, above=0.9)` |
| log₂ n rounds average exactly | `Exactly(errors)`, where `errors()` computes what should be 0 |

A method is named as in the spec, and with its variant as "beer @ star". A test holds, does not hold, is a tie or is
undecided by the interval over replicates: see `gossamer.papers.verdicts`. Any other function of a study that returns a
`Question` is a test, too.
"""

import math
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from itertools import pairwise
from typing import Literal, NamedTuple, Protocol

import numpy as np
import polars as pl

from gossamer.basics.text import format_between
from gossamer.papers.verdicts import Insufficient, NotRun, Question, Word
from gossamer.results import statistics
from gossamer.results.result import Result
from gossamer.results.study import TUNED, Study

# --- readings of a study: a number for each replicate, or the reason why there is none ------------------------------

Readings = dict[int, float]
"""A number for each replicate."""


@dataclass(frozen=True)
class Runs:
    """The runs of one algorithm in one variant, none of which diverged."""

    name: str
    replicates: list[int]
    rounds: np.ndarray  # the measured rounds, the same for every run
    table: pl.DataFrame  # sorted by replicate, seed and round

    @staticmethod
    def of(study: Study, method: str, variant: str = "", *, tuned: bool | None = None) -> "Runs":
        """Return the runs of a method, which may name its variant as "beer @ star".

        `tuned` keeps only those whose hyper-parameters were tuned (True) or given (False).
        """
        algorithm, named = split_method(method)
        variant = variant or named
        name = f'{algorithm} in "{variant}"' if variant else algorithm
        table = result_of(study, variant).table.filter(pl.col("algorithm") == algorithm)
        if tuned is not None:
            table = table.filter(pl.col("setting").str.starts_with(TUNED) == tuned)
        table = table.sort("replicate", "seed", "round")
        if table.is_empty():
            raise NotRun(f"there is no run of {name}")
        if table["setting"].n_unique() > 1:
            raise Insufficient(f"{name} ran with several settings, and none is singled out")
        seeds, replicates = table["seed"].n_unique(), table["replicate"].unique().sort().to_list()
        if lost := table.filter(pl.col("status") != "ok")["seed"].n_unique():
            raise Insufficient(f"{name} diverged on {lost} of {seeds} seeds")
        if len(replicates) < 2:
            raise Insufficient(f"{name} has one replicate only, and an interval needs two")
        return Runs(name, replicates, table["round"].unique().sort().to_numpy(), table)

    def values(self, metric: str) -> np.ndarray:
        """Return the metric, [replicates, rounds], each the mean over the replicate's seeds."""
        if metric not in self.table.columns or self.table[metric].null_count():
            raise Insufficient(f"{self.name} has no {metric}")
        values = self.table[metric].to_numpy().astype(float).reshape(len(self.replicates), -1, len(self.rounds))
        if not np.isfinite(values).all():
            raise Insufficient(f"{metric} of {self.name} is not finite")
        return values.mean(1)

    def floor(self, metric: str = "grad_norm_sq") -> Readings:
        """Return the mean over the last half of the rounds, of runs that have settled."""
        return self._settled_mean(metric, self.values(metric))

    def floor_of_gradient(self, bias_sq: Readings) -> Readings:
        """Return the floor of ‖∇F‖² as ‖ē‖² plus that of ‖∇F + ē‖², which has less noise.

        ‖∇F‖² = ‖ē‖² + ‖∇F + ē‖² − 2ē·(∇F + ē), and where runs have settled the last term has no mean: the mean
        momentum, whose mean is that of ∇F + ē, moves them nowhere. That term is noise alone, and left out.
        """
        known = np.array([bias_sq[replicate] for replicate in self.replicates])
        return self._settled_mean("‖ē‖² + stationarity", known[:, None] + self.values("stationarity"))

    def _settled_mean(self, metric: str, values: np.ndarray) -> Readings:
        losses = None
        with suppress(Insufficient):  # without losses, the values alone must show that runs have settled
            losses = self.values("loss")
        if why := statistics.unsettled(self.rounds, values, losses):
            raise Insufficient(f"{metric} of {self.name} has not settled after {self.last:,} rounds: {why}")
        return self._readings(statistics.floor(self.rounds, values))

    def end(self, metric: str = "loss") -> Readings:
        """Return the mean over the end, the last tenth of the rounds."""
        return self._readings(self.values(metric)[:, statistics.ending(self.rounds, self.last)].mean(1))

    def mean(self, metric: str = "grad_norm_sq", until: float = math.inf) -> Readings:
        """Return the mean over all rounds up to one, on straight lines between measured rounds."""
        kept = self.rounds <= until
        if kept.sum() < 2:
            raise Insufficient(f"{self.name} was measured {kept.sum()} times up to round {until:,.0f}")
        rounds, values = self.rounds[kept].astype(float), self.values(metric)[:, kept]
        return self._readings(np.trapezoid(values, rounds, axis=1) / (rounds[-1] - rounds[0]))

    def arrivals(self, target: float, by: str = "round", metric: str = "loss") -> Readings:
        """Return the round from which on a metric stays at the target or below, on a straight line between marks.

        A run that never gets there counts as its number of rounds + 1. `by` names what is paid until then: a column
        that grows along a run, such as messages, in which the start counts.
        """
        return self._readings(np.array([found.estimate for found in self._arrivals(target, by, metric)]))

    def between(self, target: float, by: str = "round", metric: str = "loss") -> str:
        """Return the marks between which the metric comes to the target, as text: their means over replicates."""
        found = self._arrivals(target, by, metric)
        before, after, _ = np.mean(found, axis=0).tolist()
        return format_between(before, after)

    def _arrivals(self, target: float, by: str, metric: str) -> list[statistics.Arrival]:
        never = statistics.Arrival(*[self.last + 1.0] * 3)
        found = [statistics.arrival(self.rounds, losses, target) or never for losses in self.values(metric)]
        if by == "round":
            return found
        paid = zip(found, self.values(by), strict=True)
        return [statistics.Arrival(*np.interp(one, self.rounds, costs).tolist()) for one, costs in paid]

    @property
    def resolution(self) -> str:
        """A sentence on how finely the round of a target is known."""
        steps = np.diff(self.rounds)
        every = format_between(float(steps.min()), float(steps.max()))
        return f"the loss is measured every {every} rounds, and ratios take a straight line between two marks"

    def never_arrives(self, target: float, metric: str = "loss") -> bool:
        """Return True if some replicate does not reach the target."""
        return any(statistics.arrival(self.rounds, losses, target) is None for losses in self.values(metric))

    @property
    def last(self) -> int:
        return int(self.rounds[-1])

    def _readings(self, values: np.ndarray) -> Readings:
        return dict(zip(self.replicates, values.tolist(), strict=True))


def split_method(method: str) -> tuple[str, str]:
    """Return the algorithm and the variant of "beer @ star"; of "beer" the variant is ""."""
    algorithm, _, variant = method.partition(" @ ")
    return algorithm, variant


def result_of(study: Study, variant: str) -> Result:
    """Return the result of a variant, or raise `NotRun`."""
    if variant not in study.results:
        raise NotRun(f'the study has no variant "{variant}"')
    return study.results[variant]


def way(runs: list[Runs]) -> tuple[float, float]:
    """Return the loss at the start, and the lowest mean loss at the end."""
    start = float(np.mean([run.values("loss")[:, 0].mean() for run in runs]))
    end = min(average(run.end()) for run in runs)
    if not end < start:
        raise Insufficient(f"no run lowers the loss: it starts at {start:.4g} and ends at {end:.4g} at best")
    return start, end


def target(runs: list[Runs], share: float = 0.95) -> float:
    """Return the loss after this share of the way from the start to the lowest end."""
    start, end = way(runs)
    return end + (1 - share) * (start - end)


def bias_sq(study: Study, variant: str = "") -> Readings:
    """Return ‖ē‖², the square of the agents' mean bias as drawn, the mean over the seeds of each replicate."""
    result = result_of(study, variant)
    if (bias := result.mean_bias) is None or len(bias) != len(result.seeds):
        raise Insufficient(f'the mean bias of "{variant}" is not known' if variant else "the mean bias is not known")
    squares = dict(zip(result.seeds, (np.asarray(bias, float) ** 2).sum(1).tolist(), strict=True))
    return statistics.by_replicate(squares, dict(result.table.select("seed", "replicate").unique().iter_rows()))


def fact(study: Study, variant: str, name: str) -> float:
    """Return a positive number that the study knows of a variant."""
    result_of(study, variant)
    value = study.facts.get(variant, {}).get(name)
    if not isinstance(value, int | float | np.number) or not math.isfinite(value) or value <= 0:
        raise Insufficient(f'the {name} of "{variant}" is {value}, and its logarithm is needed')
    return float(value)


def is_algorithm(algorithm: str) -> pl.Expr:
    """Select the rows of an algorithm in a table of settings, whose names also say how a tracker starts."""
    return (pl.col("algorithm") == algorithm) | pl.col("algorithm").str.starts_with(f"{algorithm} (")


def chosen(study: Study, algorithm: str, name: str, variant: str = "") -> list[float]:
    """Return what tuning chose for a hyper-parameter, replicate by replicate."""
    if study.tuning is None or name not in study.tuning.columns:
        raise Insufficient(f"what was chosen for {name} of {algorithm} is not known")
    rows = study.tuning.filter((pl.col("variant") == variant) & is_algorithm(algorithm) & pl.col("chosen"))
    return rows.sort("replicate")[name].to_list()


def resolution(study: Study, algorithm: str, variant: str = "") -> float:
    """Return the ratio of the criterion at the better neighbour to that at the chosen setting, the largest one.

    A neighbour is the nearest smaller or larger step size that was tried with the same other number. What speeds a
    method up by less than this ratio, a finer grid could have given to another.
    """
    if study.tuning is None:
        raise Insufficient("it is not known which step sizes were tried")
    tried = study.tuning.filter((pl.col("variant") == variant) & is_algorithm(algorithm))
    ratios = []
    for _, trials in tried.group_by("replicate"):
        second = [name for name in ("lam", "beta") if name in trials.columns]
        for best in trials.filter("chosen").to_dicts():
            alike = trials.filter(*(pl.col(name).eq_missing(best[name]) for name in second)).sort("eta")
            etas, values = alike["eta"].to_list(), alike["value"].to_list()
            place = etas.index(best["eta"])
            beside = [values[k] for k in (place - 1, place + 1) if 0 <= k < len(values) and values[k] is not None]
            ratios.append(min(beside) / best["value"] if beside else math.inf)
    if not ratios:
        raise Insufficient(f"it is not known which step sizes of {algorithm} were tried")
    return max(ratios)


def average(readings: Readings) -> float:
    """Return the mean over replicates."""
    return float(np.mean(list(readings.values())))


def pair(*readings: Readings) -> np.ndarray:
    """Return the readings on the replicates that all share, [readings, replicates]."""
    shared = sorted(set.intersection(*(set(each) for each in readings)))
    if len(shared) < 2:
        raise Insufficient(f"the runs share {len(shared)} replicates, and an interval needs two")
    return np.array([[each[replicate] for replicate in shared] for each in readings], float)


def difference(a: Readings, b: Readings) -> np.ndarray:
    """Return a − b, replicate by replicate."""
    # methods of a replicate share their samples, so that the luck of the draw cancels
    values = pair(a, b)
    return values[0] - values[1]


def shorten(methods: Iterable[str]) -> list[str]:
    """Return the names of methods, or of their variants alone where all are one algorithm."""
    names = list(methods)
    variants = [split_method(name)[1] for name in names]
    return variants if all(variants) and len({split_method(name)[0] for name in names}) == 1 else names


def log_ratio(a: Readings, b: Readings) -> np.ndarray:
    """Return log a/b, replicate by replicate."""
    values = _log(pair(a, b))
    return values[0] - values[1]


def log_slope(x: Mapping[str, float], y: Mapping[str, Readings]) -> np.ndarray:
    """Return the slope of log y against log x by least squares, replicate by replicate."""
    logs = np.log([x[name] for name in y])
    if len(logs) < 2 or np.ptp(logs) < 1e-9:
        raise Insufficient(f"a slope needs two different values, but there are {len(logs)}, all alike")
    centred = logs - logs.mean()
    return centred @ _log(pair(*y.values())) / (centred @ centred)


def _log(values: np.ndarray) -> np.ndarray:
    if not (values > 0).all():
        raise Insufficient(f"a reading is {values.min():.4g}, which has no logarithm")
    return np.log(values)


# --- measures: what is compared --------------------------------------------------------------------------------------

PAID = {
    "round": "rounds",
    "queries": "gradients",
    "messages": "rounds of messages",
    "bytes_sent": "bytes",
    "seconds": "seconds of the clock",
}
"""The columns that grow along a run, and their names in text."""

SHOWN = {"grad_norm_sq": "‖∇F‖²", "consensus": "disagreement"}
"""Metrics, and their names in text where these differ."""


class Reading(NamedTuple):
    """The numbers that were read of a method."""

    values: Readings
    shown: str
    late: bool = False
    """True if some run never came to the target, so that its cost is only known to be more."""


class Measure(Protocol):
    """A number of each replicate of a method."""

    @property
    def title(self) -> str: ...

    def __call__(self, study: Study, method: str) -> Reading: ...


def _show(values: Readings) -> Reading:
    return Reading(values, f"{average(values):.4g}")


@dataclass(frozen=True)
class End:
    """The mean of a metric over the end of the runs, their last tenth."""

    metric: str = "loss"
    _: KW_ONLY
    tuned: bool | None = None
    """Of a method that a spec has twice, tuned and given: which one."""

    @property
    def title(self) -> str:
        return f"{SHOWN.get(self.metric, self.metric)} at the end"

    def __call__(self, study: Study, method: str) -> Reading:
        return _show(Runs.of(study, method, tuned=self.tuned).end(self.metric))


@dataclass(frozen=True)
class Floor:
    """The mean of a metric over the last half of runs that have settled."""

    metric: str = "grad_norm_sq"

    @property
    def title(self) -> str:
        return f"floor of {SHOWN.get(self.metric, self.metric)}"

    def __call__(self, study: Study, method: str) -> Reading:
        return _show(Runs.of(study, method).floor(self.metric))


@dataclass(frozen=True)
class BiasFloor:
    """The floor of ‖∇F‖² where the agents' mean bias is constant: see `Runs.floor_of_gradient`."""

    title = "floor of ‖∇F‖²"

    def __call__(self, study: Study, method: str) -> Reading:
        return _show(Runs.of(study, method).floor_of_gradient(bias_sq(study, split_method(method)[1])))


@dataclass(frozen=True)
class Cost:
    """The price until a metric stays at a target or below; without a target, that of the spec's `[tuning]`."""

    target: float | None = None
    metric: str = "loss"
    pays: Literal["round", "queries", "messages", "bytes_sent", "seconds"] = "round"

    @property
    def title(self) -> str:
        return PAID[self.pays]

    def goal(self, study: Study) -> float:
        return tomllib.loads(study.spec)["tuning"]["target"] if self.target is None else self.target

    def __call__(self, study: Study, method: str) -> Reading:
        goal, runs = self.goal(study), Runs.of(study, method)
        values, shown = (read(goal, self.pays, self.metric) for read in (runs.arrivals, runs.between))
        return Reading(values, shown, runs.never_arrives(goal, self.metric))  # pyright: ignore


def read_arrived(measure: Measure, study: Study, methods: Sequence[str]) -> dict[str, Reading]:
    """Return the numbers of each method, or raise Insufficient if some run never came to the target."""
    read = {name: measure(study, name) for name in methods}
    if late := [name for name, one in read.items() if one.late]:
        raise Insufficient(f"{', '.join(late)} does not reach the target in every replicate")
    return read


# --- tests ------------------------------------------------------------------------------------------------------------

FACTOR = 1.1
"""The smallest ratio of floors, rounds or disagreements that matters, unless a claim states another."""

SHARE = 0.01
"""The smallest difference of losses that matters, as a share of the way from the start to the lowest end."""

FLAT = 0.05
"""A slope no steeper than this counts as none."""


@dataclass(frozen=True)
class Ratio:
    """Ask if a measure of one method is that of each other one times a factor in a region.

    Without `below` and `above`: smaller by more than `margin`, and a ratio within the margin is a tie. A claim with a
    region of its own says itself what matters, so nothing ties there.
    """

    measure: Measure
    method: str
    others: Sequence[str]
    _: KW_ONLY
    below: float = math.inf
    above: float = -math.inf
    margin: float = FACTOR

    @property
    def methods(self) -> list[str]:
        return [self.method, *self.others]

    def __call__(self, study: Study) -> Question:
        read = {name: self.measure(study, name) for name in self.methods}
        parts = {name: log_ratio(read[self.method].values, read[name].values) for name in self.others}
        bare = math.isinf(self.below) and math.isinf(self.above)
        below = 1 / self.margin if bare else self.below
        late = [name for name, one in read.items() if one.late]
        note = describe(self.measure, study, read) + _of_late(late)
        quantity = f"ratio of {self.measure.title} to the other's"
        tie = (1 / self.margin, self.margin) if bare else None
        doubted = {name: _doubt(self.method in late, name in late, below, self.above) for name in self.others}
        return Question(quantity, parts, self.above, below, tie=tie, ratio=True, note=note, doubted=doubted)


def _doubt(late: bool, other_late: bool, below: float, above: float) -> tuple[Word, ...]:
    """Return the answers about a ratio that are not to be trusted, where a method or the other never arrived.

    What a method that never arrives pays is known from below only: the ratio is at least, or at most, what it seems.
    """
    if math.isfinite(below) and math.isfinite(above):
        return ("holds", "tie", "does not hold") if late or other_late else ()
    understated, overstated = (late, other_late) if math.isfinite(below) else (other_late, late)
    doubted: tuple[Word, ...] = ("holds", "tie") if understated else ()
    return (*doubted, "tie", "does not hold") if overstated else doubted


def _of_late(late: Sequence[str]) -> str:
    return f"; not reached in every replicate by {', '.join(late)}, whose rounds count as their number + 1" * bool(late)


def describe(measure: Measure, study: Study, read: Mapping[str, Reading]) -> str:
    """Return what was read of each method, as text."""
    shown = ", ".join(f"{name} {one.shown}" for name, one in zip(shorten(read), read.values(), strict=True))
    if not isinstance(measure, Cost):
        return f"{measure.title}: {shown}"
    what = "a loss" if measure.metric == "loss" else f"{SHOWN.get(measure.metric, measure.metric)}"
    first = Runs.of(study, next(iter(read)))
    resolution = first.resolution.replace("the loss", SHOWN.get(measure.metric, f"the {measure.metric}"), 1)
    return f"mean {measure.title} to {what} of {measure.goal(study):g}: {shown}; {resolution}"


@dataclass(frozen=True)
class Equal:
    """Ask if a measure of one method is that of each other one, within a factor."""

    measure: Measure
    method: str
    others: Sequence[str]
    _: KW_ONLY
    within: float = FACTOR

    @property
    def methods(self) -> list[str]:
        return [self.method, *self.others]

    def __call__(self, study: Study) -> Question:
        within = {"below": self.within, "above": 1 / self.within}
        return Ratio(self.measure, self.method, self.others, **within)(study)._replace(tie=None)


@dataclass(frozen=True)
class LowerLoss:
    """Ask if a method ends at a lower loss than each other one, by a share of the way from the start to the lowest."""

    method: str
    others: Sequence[str]
    share: float = SHARE

    @property
    def methods(self) -> list[str]:
        return [self.method, *self.others]

    def __call__(self, study: Study) -> Question:
        mine = Runs.of(study, self.method)
        theirs = {name: Runs.of(study, name) for name in self.others}
        start, end = way([mine, *theirs.values()])
        least = self.share * (start - end)
        note = f"end of {self.method} {average(mine.end()):.5g}, smallest difference that matters {least:.2g}"
        parts = {name: difference(mine.end(), runs.end()) for name, runs in theirs.items()}
        return Question("loss at the end minus that of the other", parts, below=-least, tie=(-least, least), note=note)


@dataclass(frozen=True)
class Slope:
    """Ask if the slope of the logarithm of a measure against that of a number lies in a region.

    `by` is a fact that the study knows of each variant, such as "gap", or the number of each method.
    """

    measure: Measure
    methods: Sequence[str]
    by: str | Mapping[str, float]
    _: KW_ONLY
    above: float = -math.inf
    below: float = math.inf
    against: str = ""
    """The name of the number, for the text."""

    def __call__(self, study: Study) -> Question:
        read = read_arrived(self.measure, study, self.methods)
        x = _numbers(study, self.methods, self.by)
        y = {name: one.values for name, one in read.items()}
        against = self.against or str(self.by)
        return slope_question(x, y, self.measure.title, against, self.above, self.below)


def _numbers(study: Study, methods: Sequence[str], by: str | Mapping[str, float]) -> dict[str, float]:
    if isinstance(by, str):
        return {name: fact(study, split_method(name)[1], by) for name in methods}
    return {name: float(by[name]) for name in methods}


def slope_question(
    x: Mapping[str, float],
    y: Mapping[str, Readings],
    quantity: str,
    against: str,
    above: float = -math.inf,
    below: float = math.inf,
) -> Question:
    """Ask if the slope of log y against log x lies in a region; `quantity` and `against` say what y and x are."""
    note = f"{quantity} by {against}: "
    note += ", ".join(f"{average(y[name]):.4g} at {x[name]:.4g}" for name in sorted(y, key=lambda name: x[name]))
    text = f"slope of log {quantity} against log {against}"
    return Question(text, {"": log_slope(x, y)}, above=above, below=below, note=note)


@dataclass(frozen=True)
class Order:
    """Ask if a measure rises from each method to the next, by more than a margin."""

    measure: Measure
    methods: Sequence[str]
    margin: float = FACTOR

    def __call__(self, study: Study) -> Question:
        read = read_arrived(self.measure, study, self.methods)
        names = dict(zip(self.methods, shorten(self.methods), strict=True))
        parts = {f"{names[b]}/{names[a]}": log_ratio(read[b].values, read[a].values) for a, b in pairwise(self.methods)}
        note, tie = describe(self.measure, study, read), (1 / self.margin, self.margin)
        quantity = f"ratio of {self.measure.title} to that before"
        return Question(quantity, parts, above=self.margin, tie=tie, ratio=True, note=note)


@dataclass(frozen=True)
class Rank:
    """Ask if the Spearman correlation of a measure with a number of each method is above a bound, or below another."""

    measure: Measure
    by: Mapping[str, float]
    _: KW_ONLY
    above: float = -math.inf
    below: float = math.inf
    against: str = "the number"

    @property
    def methods(self) -> list[str]:
        return list(self.by)

    def __call__(self, study: Study) -> Question:
        read = read_arrived(self.measure, study, self.methods)
        x, y = list(self.by.values()), pair(*(one.values for one in read.values()))
        found = np.array([rank_correlation(x, values) for values in y.T])
        quantity = f"Spearman correlation of {self.measure.title} with {self.against}"
        return Question(quantity, {"": found}, self.above, self.below, note=describe(self.measure, study, read))


def rank_correlation(x: Sequence[float], y: Sequence[float] | np.ndarray) -> float:
    """Return Spearman's correlation; ties share their mean rank."""
    from scipy.stats import rankdata

    return float(np.corrcoef(rankdata(x), rankdata(y))[0, 1])


@dataclass(frozen=True)
class Exactly:
    """Ask if numbers that should be 0 are, within rounding. No run is needed: the two readings are one."""

    errors: Callable[[], Mapping[str, float]]
    """Computes the largest error of each case, by its name."""
    tolerance: float = 1e-12
    methods = ()

    def __call__(self, study: Study) -> Question:
        parts = {name: np.array([float(error)]) for name, error in self.errors().items()}
        return Question("largest error", parts, below=self.tolerance, exact=True)
