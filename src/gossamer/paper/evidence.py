"""Readings of a study, for claims: one number for each replicate, or the reason why there is none."""

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import polars as pl

from gossamer.paper.verdicts import Insufficient, NotRun, Question
from gossamer.results import statistics
from gossamer.results.result import Result
from gossamer.results.study import TUNED, Study

DMT = "biased-dmt"

Readings = dict[int, float]
"""A number for each replicate."""

SHARE = 0.01
"""The smallest difference of losses that matters, as a share of the way from the start to the lowest end."""

FACTOR = 1.1
"""The smallest ratio of floors, rounds or disagreements that matters."""

FLAT = 0.05
"""A slope no steeper than this counts as none."""


@dataclass(frozen=True)
class Runs:
    """The runs of one algorithm in one variant, none of which diverged."""

    name: str
    replicates: list[int]
    rounds: np.ndarray
    """The measured rounds, the same for every run."""
    table: pl.DataFrame
    """Sorted by replicate, seed and round."""

    @staticmethod
    def of(study: Study, algorithm: str = DMT, variant: str = "", *, tuned: bool | None = None) -> "Runs":
        """Return the runs; `tuned` keeps only those whose hyper-parameters were tuned (True) or given (False)."""
        name = f'{algorithm} in "{variant}"' if variant else algorithm
        table = result_of(study, variant).table.filter(pl.col("algorithm") == algorithm)
        if tuned is not None:
            table = table.filter(pl.col("setting").str.starts_with(TUNED) == tuned)
        table = table.sort("replicate", "seed", "round")
        if table.is_empty():
            raise NotRun(f"there is no run of {name}")
        if (settings := table["setting"].n_unique()) > 1:
            raise Insufficient(f"{name} ran with {settings} settings, and none is singled out")
        seeds, replicates = table["seed"].n_unique(), table["replicate"].unique().sort().to_list()
        if lost := table.filter(pl.col("status") != "ok")["seed"].n_unique():
            raise Insufficient(f"{name} diverged on {lost} of {seeds} seeds")
        if len(replicates) < 2:
            raise Insufficient(f"{name} has one replicate only, and an interval needs two")
        rounds = [own["round"].to_list() for own in table.partition_by("seed")]
        if any(own != rounds[0] for own in rounds):
            raise Insufficient(f"the seeds of {name} were measured in different rounds")
        if seeds % len(replicates) or table.group_by("replicate").agg(pl.col("seed").n_unique())["seed"].n_unique() > 1:
            raise Insufficient(f"the replicates of {name} have different numbers of seeds")
        return Runs(name, replicates, np.array(rounds[0]), table)

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

    def arrivals(self, target: float, by: str = "round") -> Readings:
        """Return the round from which on the loss stays at the target or below, on a straight line between marks.

        A run that never gets there counts as its number of rounds + 1. `by` names what is paid until then: a column
        that grows along a run, such as messages, in which the start counts.
        """
        paid = self.rounds.astype(float)[None] if by == "round" else self.values(by)
        rounds = [statistics.arrival(self.rounds, losses, target) for losses in self.values("loss")]
        ends = [self.last + 1 if t is None else t for t in rounds]
        costs = [np.interp(t, self.rounds, paid[min(k, len(paid) - 1)]) for k, t in enumerate(ends)]
        return self._readings(
            np.where([t > self.last for t in ends], ends, costs) if by == "round" else np.array(costs)
        )

    def never_arrives(self, target: float) -> bool:
        """Return True if some replicate does not reach the target."""
        return any(statistics.arrival(self.rounds, losses, target) is None for losses in self.values("loss"))

    @property
    def last(self) -> int:
        return int(self.rounds[-1])

    def _readings(self, values: np.ndarray) -> Readings:
        return dict(zip(self.replicates, values.tolist(), strict=True))


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
    values = pair(a, b)
    return values[0] - values[1]


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


def _log(values: np.ndarray) -> np.ndarray:
    if not (values > 0).all():
        raise Insufficient(f"a reading is {values.min():.4g}, which has no logarithm")
    return np.log(values)
