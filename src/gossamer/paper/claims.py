r"""The paper's claims and ours, each a question that measurements could answer either way.

A claim is a region that a number should lie in: a ratio of errors above 2, a slope within ±0.05. The measurement gives
an interval for that number (Student's t over replicates, paired where two methods share them). The claim *holds* if the
interval lies inside the region and *does not hold* if it lies outside. A claim that something is smaller, or larger,
names the smallest difference that matters; where the whole interval is below that, it is a *tie*. Anything else is
*undecided*, also where runs diverged or floors have not settled. What was not run is *not run*.

A page of $k$ claims takes each at $1 - 0.05/k$, and a claim that makes $m$ comparisons takes each at $1 - 0.05/(km)$
(Bonferroni), so that all intervals of the page hold together at 95 %. `gossamer.results.statistics` defines replicates,
ends and floors.

Every claim is a sentence of the paper, in our words and with its section, and is tested once. Those that the paper does
not make are ours, and say so. Methods are tuned by what is judged, at the horizon at which it is judged.
"""

import math
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import polars as pl

from gossamer.basics.text import format_between
from gossamer.paper.verdicts import ERROR, Claim, Insufficient, NotRun, Question, Verdicts, Word
from gossamer.results import statistics
from gossamer.results.result import Result
from gossamer.results.study import TUNED, Study
from gossamer.theory.theorem import kappa

# --- readings of a study: a number for each replicate, or the reason why there is none ------------------------------

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
    rounds: np.ndarray  # the measured rounds, the same for every run
    table: pl.DataFrame  # sorted by replicate, seed and round

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

    def arrivals(self, target: float, by: str = "round") -> Readings:
        """Return the round from which on the loss stays at the target or below, on a straight line between marks.

        A run that never gets there counts as its number of rounds + 1. `by` names what is paid until then: a column
        that grows along a run, such as messages, in which the start counts.
        """
        return self._readings(np.array([found.estimate for found in self._arrivals(target, by)]))

    def between(self, target: float, by: str = "round") -> str:
        """Return the marks between which the loss comes to the target, as text: their means over replicates."""
        found = self._arrivals(target, by)
        before, after, _ = np.mean(found, axis=0).tolist()
        return format_between(before, after)

    def _arrivals(self, target: float, by: str) -> list[statistics.Arrival]:
        never = statistics.Arrival(*[self.last + 1.0] * 3)
        found = [statistics.arrival(self.rounds, losses, target) or never for losses in self.values("loss")]
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
    # methods of a replicate share their samples, so that the luck of the draw cancels
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


# --- the methods that are compared ------------------------------------------------------------------------------------

RIVALS = ("biased-dsgd", "dsgdm", "gt-dsgd")
"""The methods that the paper compares with."""

CONTROLS = ("gnsd", "momentum-tracking", "centralized-sgd")
"""The methods that we add."""


def _smaller(quantity: str, parts: dict, factor: float, note: str) -> Question:
    """Ask if ratios, given as logarithms, are below 1 by a factor that matters."""
    return Question(quantity, parts, below=1 / factor, tie=(1 / factor, factor), ratio=True, note=note)


# --- figure 1: loss, and rounds to a target -------------------------------------------------------------------------


def lowest_loss(others: tuple[str, ...], study: Study) -> Question:
    dmt = Runs.of(study)
    theirs = {name: Runs.of(study, name) for name in others}
    start, end = way([dmt, *theirs.values()])
    least = SHARE * (start - end)
    note = f"end of {DMT} {average(dmt.end()):.5g}, smallest difference that matters {least:.2g}"
    parts = {name: difference(dmt.end(), runs.end()) for name, runs in theirs.items()}
    return Question("loss at the end minus that of the other", parts, below=-least, tie=(-least, least), note=note)


def fewest_rounds(others: tuple[str, ...], study: Study) -> Question:
    goal = tomllib.loads(study.spec)["tuning"]["target"]
    runs = {name: Runs.of(study, name) for name in (DMT, *others)}
    rounds = {name: each.arrivals(goal) for name, each in runs.items()}
    shown = ", ".join(f"{name} {each.between(goal)}" for name, each in runs.items())
    lams = sorted(chosen(study, DMT, "lam"))
    finest = max(resolution(study, name) for name in runs)
    note = (
        f"mean rounds to a loss of {goal:g}: {shown}; {runs[DMT].resolution}; λ chosen for {DMT}: "
        f"{', '.join(f'{lam:.3g}' for lam in lams)}; the criterion changes by at most {100 * (finest - 1):.2g} % from "
        "a chosen step size to its better neighbour"
    )
    late = {name for name, each in runs.items() if each.never_arrives(goal)}
    if late:
        note += f"; not reached in every replicate by {', '.join(sorted(late))}, whose rounds count as their number + 1"
    doubt: tuple[Word, ...] = ("holds", "tie") if DMT in late else ()
    doubted = {name: (*doubt, "tie", "does not hold") if name in late else doubt for name in others}
    parts = {name: log_ratio(rounds[DMT], rounds[name]) for name in others}
    # a margin below what the grids resolve would let a grid decide
    return _smaller("ratio of rounds to the other's", parts, max(FACTOR, finest), note)._replace(doubted=doubted)


# --- error against horizon --------------------------------------------------------------------------------------------

HORIZONS = ("T = 2,000", "T = 8,000", "T = 32,000")


def _over_floor(study: Study, algorithm: str, horizon: str) -> Readings:
    """Return the error at the end over ‖ē‖², the level that no tracker settles below."""
    end, bias = Runs.of(study, algorithm, horizon).end("grad_norm_sq"), bias_sq(study, horizon)
    return {replicate: end[replicate] / bias[replicate] for replicate in end.keys() & bias.keys()}


def _curve(study: Study, algorithm: str) -> str:
    """Return the error over the floor at each horizon that was run: a quick reproduction has the last alone."""
    return f"{algorithm} " + ", ".join(
        f"{average(_over_floor(study, algorithm, horizon)):.3g} at {horizon.removeprefix('T = ')}"
        for horizon in HORIZONS
        if horizon in study.results
    )


def stalls(algorithms: tuple[str, ...], study: Study) -> Question:
    parts = {
        name if len(algorithms) > 1 else "": np.log(pair(_over_floor(study, name, HORIZONS[-1]))[0])
        for name in algorithms
    }
    beside = [DMT] if all(horizon in study.results for horizon in HORIZONS) else []
    note = "‖∇F‖² over ‖ē‖² by horizon, each tuned there: " + "; ".join(
        _curve(study, name) for name in (*algorithms, *beside)
    )
    quantity = f"‖∇F‖² over ‖ē‖² at {HORIZONS[-1]}"
    return Question(quantity, parts, above=2, tie=(1 / FACTOR, FACTOR), ratio=True, note=note)


def buys_time(study: Study) -> Question:
    ratios = {
        horizon: log_ratio(
            Runs.of(study, "biased-dsgd", horizon).end("grad_norm_sq"), Runs.of(study, DMT, horizon).end("grad_norm_sq")
        )
        for horizon in HORIZONS
    }
    shown = ", ".join(
        f"{math.exp(values.mean()):.3g} at {name.removeprefix('T = ')}" for name, values in ratios.items()
    )
    quantity = f"how often the ratio of errors, biased-dsgd to {DMT}, at {HORIZONS[0]} is that at {HORIZONS[-1]}"
    note = f"ratio of errors by horizon, each tuned there: {shown}"
    return Question(quantity, {"": ratios[HORIZONS[0]] - ratios[HORIZONS[-1]]}, above=2, ratio=True, note=note)


# --- figure 2: growing bias -------------------------------------------------------------------------------------------

READINGS = ("once", "redrawn")
"""When the paper's e_i is drawn: once for each agent, or anew at each query."""

MAGNITUDES = range(1, 6)
SIGNS = {"": "positive mean", "-minus": "negative mean"}
ALIKE = 0.05
"""The largest difference of losses on the way that still counts as alike, as a share of the way."""


def _readings(study: Study) -> list[str]:
    """Return the readings that were run: a quick reproduction has the first alone."""
    return [reading for reading in READINGS if f"{reading}-1" in study.results] or [READINGS[0]]


def staircase(study: Study) -> Question:
    parts, told = {}, []
    for reading in _readings(study):
        steps = ["unbiased", *(f"{reading}-{k}" for k in MAGNITUDES)]
        floors = {step: Runs.of(study, variant=step).floor_of_gradient(bias_sq(study, step)) for step in steps}
        parts |= {f"{b}/{a}": log_ratio(floors[b], floors[a]) for a, b in pairwise(steps)}
        told.append(f"{reading} {', '.join(f'{average(floor):.4g}' for floor in floors.values())}")
    note = f"floors {'; '.join(told)}"
    return Question("ratio of floors of ‖∇F‖²", parts, above=1.1, tie=(1 / 1.1, 1.1), ratio=True, note=note)


def floor_as_predicted(study: Study) -> Question:
    least, parts = Runs.of(study, variant="unbiased").floor(), {}
    for variant in (f"{reading}-{k}" for reading in _readings(study) for k in MAGNITUDES):
        bias = bias_sq(study, variant)
        expected = {replicate: least[replicate] + bias[replicate] for replicate in least.keys() & bias.keys()}
        parts[variant] = log_ratio(Runs.of(study, variant=variant).floor_of_gradient(bias), expected)
    quantity = "floor of ‖∇F‖² over ‖ē‖² + the floor without bias"
    return Question(quantity, parts, above=0.9, below=1.1, ratio=True, note="floors by ‖ē‖² + ‖∇F + ē‖²")


def _on_the_way(study: Study, variant: str) -> tuple[np.ndarray, float, str]:
    """Return the mean loss minus that without bias until 90 % of the way down, that way, and the marks of its end."""
    unbiased, biased = Runs.of(study, variant="unbiased"), Runs.of(study, variant=variant)
    start, end = way([unbiased])
    goal = target([unbiased], 0.9)
    arrival = average(unbiased.arrivals(goal))
    parts = difference(biased.mean("loss", arrival), unbiased.mean("loss", arrival))
    return parts, start - end, unbiased.between(goal)


def alike_at_first(study: Study) -> Question:
    parts, down = {}, 0.0
    for variant in (f"once-{k}" for k in MAGNITUDES):
        parts[variant], down, _ = _on_the_way(study, variant)
    quantity, most = "mean loss on the way minus that without bias", ALIKE * down
    return Question(quantity, parts, above=-most, below=most, note=f"{100 * ALIKE:g} % of the way is {most:.3g}")


def bias_accelerates(study: Study) -> Question:
    parts, down, rounds = {}, 0.0, ""
    for sign, word in SIGNS.items():
        parts[word], down, rounds = _on_the_way(study, f"once-{MAGNITUDES[-1]}{sign}")
    least = SHARE * down
    note = f"without bias 90 % of the way takes {rounds} rounds; smallest difference that matters {least:.2g}"
    return Question("mean loss on the way minus that without bias", parts, below=-least, tie=(-least, least), note=note)


# --- heterogeneity ----------------------------------------------------------------------------------------------------

PROPORTION = 0.25
"""How far the exponent of a proportion to heterogeneity may be off: relative biases differ much from draw to draw."""

MIXED_SPLITS = ("mixed:0", "mixed:0.25", "mixed:0.5", "mixed:0.75", "mixed:1")


def floor_by_heterogeneity(bias: str, above: float, below: float, study: Study) -> Question:
    variants = [f"{bias} {split}" for split in MIXED_SPLITS]
    spreads = {name: fact(study, name, "heterogeneity_at_end") for name in variants}
    runs = {name: Runs.of(study, variant=name) for name in variants}
    absolute = bias == "absolute"
    floors = {
        name: each.floor_of_gradient(bias_sq(study, name)) if absolute else each.floor() for name, each in runs.items()
    }
    return slope_question(spreads, floors, "floor of ‖∇F‖²", "ζ² at the end", above, below)


# --- number of agents -------------------------------------------------------------------------------------------------

GRAPHS = ("ring", "exponential")
AGENTS = (4, 8, 16, 32)
POWER = 0.15
"""How far the exponent of a power law of noise may be off."""


def noise_by_agents(study: Study) -> Question:
    slopes, told = {}, []
    for graph in GRAPHS:
        sizes = {f"{graph}-{n}": float(n) for n in AGENTS}
        parts = {name: _noise(study, f"{name} noisy", f"{name} exact") for name in sizes}
        slopes[graph] = log_slope(sizes, parts)
        told.append(f"{graph} {', '.join(f'{average(parts[name]):.4g} at {n:g}' for name, n in sizes.items())}")
    quantity = "slope of log ‖x̄ − x̄ without noise‖² against log n"
    return Question(quantity, slopes, above=-1 - POWER, below=-1 + POWER, note=f"by n: {'; '.join(told)}")


def _noise(study: Study, noisy: str, exact: str) -> Readings:
    """Return the squared distance, at the end, of the mean model from that of exact gradients from the same start."""
    with_noise, without = result_of(study, noisy), result_of(study, exact)
    if len(Runs.of(study, variant=noisy).replicates) != len(with_noise.seeds):
        raise Insufficient(f'"{noisy}" has several seeds a replicate')
    (noisy_models,), (exact_models,) = with_noise.states.values(), without.states.values()
    distances = ((noisy_models.mean(1) - exact_models[0].mean(0)) ** 2).sum(1)
    return dict(zip(with_noise.seeds, distances.astype(float).tolist(), strict=True))


def least_rounds(agents: float, gap: float) -> float:
    """Return the fewest rounds that Corollary 1 covers in its repaired form."""
    return 16 * agents**2 * float(kappa(agents, gap)) / gap**2


def corollary(study: Study) -> Question:
    horizon = 25_600
    families = {
        "n, complete": {f"complete-{n}, T = {horizon:,}": float(n) for n in AGENTS},
        "n, exponential": {f"exponential-{n}, T = {horizon:,}": float(n) for n in AGENTS[:3]},
        "T, complete": {f"complete-8, T = {steps:,}": float(steps) for steps in (6_400, 25_600, 102_400)},
    }
    slopes, told = {}, []
    for name, family in families.items():
        runs = {variant: Runs.of(study, variant=variant) for variant in family}
        for variant, each in runs.items():
            needed = least_rounds(fact(study, variant, "agents"), fact(study, variant, "gap"))
            if each.last < needed * (1 - 1e-9):
                raise Insufficient(f"{variant} needs {needed:,.0f} rounds")
        errors = {variant: each.mean() for variant, each in runs.items()}
        slopes[name] = log_slope(family, errors)
        told.append(f"{name}: {', '.join(f'{average(errors[v]):.3g} at {x:g}' for v, x in family.items())}")
    note = f"mean ‖∇F‖² by {'; '.join(told)}. On a ring of 16 agents the condition asks for "
    note += f"{least_rounds(16, 2 / 3 * (1 - math.cos(math.pi / 8))):.2g} rounds: not tested there"
    note += "; noise in M⁰ adds a part that falls as n^(−3/2), so slopes in n may be steeper"
    return Question("slope of log mean ‖∇F‖²", slopes, below=-0.5 + POWER, note=note)


# --- networks, and the start of the tracker ---------------------------------------------------------------------------

NETWORKS = ("complete", "exponential", "torus", "ring", "path")
STARTED = ("complete", "exponential", "torus", "random", "ring", "path")


def same_floor(study: Study) -> Question:
    gaps = {name: fact(study, name, "gap") for name in NETWORKS}
    floors = {name: Runs.of(study, variant=name).floor_of_gradient(bias_sq(study, name)) for name in NETWORKS}
    return slope_question(gaps, floors, "floor of ‖∇F‖²", "ρ", above=-FLAT, below=FLAT)


class TargetCost(NamedTuple):
    """The cost of Biased-DMT until it reaches the target on a graph, from a start."""

    readings: Readings
    shown: str
    """The marks before and after, with the name of the start."""
    resolution: str

    @staticmethod
    def of(study: Study, graph: str, start: str, by: str = "round") -> "TargetCost":
        goal, runs = tomllib.loads(study.spec)["tuning"]["target"], Runs.of(study, variant=f"{graph} {start}")
        if runs.never_arrives(goal):
            raise Insufficient(f"{runs.name} does not reach {goal:g} in every replicate within {runs.last:,} rounds")
        return TargetCost(runs.arrivals(goal, by), f"{runs.between(goal, by)} {start}", runs.resolution)


def same_rounds(study: Study) -> Question:
    gaps = {name: fact(study, f"{name} cold", "gap") for name in STARTED}
    costs = {name: TargetCost.of(study, name, "cold") for name in STARTED}
    rounds = {name: cost.readings for name, cost in costs.items()}
    asked = slope_question(gaps, rounds, "rounds to the target", "ρ", above=-FLAT, below=FLAT)
    by_gap = sorted(STARTED, key=gaps.__getitem__)
    note = f"rounds by ρ: {', '.join(f'{costs[name].shown} at {gaps[name]:.4g}' for name in by_gap)}"
    return asked._replace(note=f"{note}; {costs[STARTED[0]].resolution}")


SPARSEST = ("ring", "path")
"""The graphs on which k = 1/ρ gossips are fewer than the rounds that a cold start loses."""

PAID = {"messages": "rounds of messages", "bytes_sent": "bytes", "seconds": "seconds of the clock"}
"""The columns that count the start, and their names in text."""


def cost_of_start(study: Study) -> Question:
    parts, ideal = {}, TargetCost.of(study, "complete", "cold")
    kinds = {name: ("cold", "warm", *(("mean",) if name in SPARSEST else ())) for name in STARTED[1:]}
    costs = {name: {kind: TargetCost.of(study, name, kind) for kind in some} for name, some in kinds.items()}
    for graph in SPARSEST:
        cold, mean, least = pair(costs[graph]["cold"].readings, costs[graph]["mean"].readings, ideal.readings)
        if not (cold > least).all():
            raise Insufficient(f"on {graph} a cold start takes no more rounds than on the complete graph")
        parts[graph] = (cold - mean) / (cold - least)
    note = f"rounds, without those of the start: complete {ideal.shown}; {_list_costs(costs)}; {ideal.resolution}"
    return Question(
        "share of the rounds beyond the complete graph's that a mean start saves", parts, above=0.5, note=note
    )


def warm_start_pays(by: str, study: Study) -> Question:
    costs = {name: {kind: TargetCost.of(study, name, kind, by) for kind in ("cold", "warm")} for name in STARTED[1:]}
    parts = {name: log_ratio(costs[name]["warm"].readings, costs[name]["cold"].readings) for name in SPARSEST}
    note = f"{_list_costs(costs)}; {costs[SPARSEST[0]]['cold'].resolution}"
    return _smaller(f"ratio of {PAID[by]}, warm to cold", parts, FACTOR, note)


def _list_costs(costs: Mapping[str, Mapping[str, TargetCost]]) -> str:
    return "; ".join(f"{graph} {', '.join(one.shown for one in each.values())}" for graph, each in costs.items())


# --- step sizes, in common units --------------------------------------------------------------------------------------

LARGER = 1.25
"""The smallest ratio of stable step sizes that matters."""


def largest_step(study: Study) -> Question:
    if study.tuning is None or "" not in study.results:
        raise NotRun("no step sizes were tried")
    tried = study.step_sizes()
    names = (DMT, "gt-dsgd", "gnsd", "momentum-tracking")
    tops = {}
    for name in names:
        own = tried.filter(is_algorithm(name))
        if name in names[:2] or not own.is_empty():  # the others stand in the note alone
            tops[name] = _tops(own, name)
    etas = sorted(tried["eta"].unique().to_list())
    step = max(b / a for a, b in pairwise(etas))
    if any(top == etas[-1] for each in tops.values() for top in each.values()):
        raise Insufficient(f"the largest step size that was tried, {etas[-1]:g}, is stable")
    rules = {each["name"]: each for each in tomllib.loads(study.spec)["algorithm"] if "eta" not in each}
    lam = rules[DMT]["lam"]
    ratio = log_ratio(tops[DMT], tops["gt-dsgd"])
    note = "largest stable η " + ", ".join(f"{name} {average(each):.4g}" for name, each in tops.items())
    if "momentum-tracking" in tops:
        note += f" (momentum-tracking is {DMT} with η in the second unit)"
    note += f"; intervals hold one step of the grid, {step:.3g}"
    # the truth lies anywhere between two step sizes of the grid
    parts = {"per round of a constant gradient": ratio, "of the newest gradient": ratio + math.log(lam)}
    quantity = "ratio of the largest stable step to that of gt-dsgd"
    tie = (1 / LARGER, LARGER)
    return Question(quantity, parts, above=LARGER, tie=tie, ratio=True, note=note, wider=math.log(step))


def _tops(tried: pl.DataFrame, name: str) -> Readings:
    """Return the largest stable step size in each replicate."""
    if tried.is_empty():
        raise NotRun(f"no step size of {name} was tried")
    tops = tried.filter("stable").group_by("replicate").agg(pl.col("eta").max())
    if len(tops) < tried["replicate"].n_unique():
        raise Insufficient(f"no step size of {name} is stable in every replicate")
    return dict(tops.iter_rows())


def disagreement(study: Study) -> Question:
    others = ("gt-dsgd", "gnsd")
    runs = {name: Runs.of(study, name, tuned=False).end("consensus") for name in (DMT, *others)}
    note = "mean of ‖x_i − x̄‖² at the end " + ", ".join(f"{name} {average(each):.4g}" for name, each in runs.items())
    parts = {name: log_ratio(runs[DMT], runs[name]) for name in others}
    return _smaller("ratio of disagreements to the other's", parts, FACTOR, note)


# --- the list ---------------------------------------------------------------------------------------------------------

OURS = "Ours"
"""The section of a claim that the paper does not make."""

MARGIN = f"margin {100 * SHARE:g} % of the way from the start to the lowest end"

CLAIMS: list[Claim] = [
    Claim(
        "fig1",
        f"Biased-DMT ends at a lower loss than each of Biased-DSGD, DSGDm and GT-DSGD ({MARGIN})",
        "Section V-B",
        "Biased-DMT ends at the lowest training loss of all methods compared.",
        "Under a bias the lowest loss is passed on the way to the floor, so a tuned rival may stop there as well.",
        partial(lowest_loss, RIVALS),
    ),
    Claim(
        "fig1",
        f"Biased-DMT ends at a lower loss than GNSD, Momentum Tracking and centralized SGD ({MARGIN})",
        OURS,
        "The paper has no such controls: no tracker without momentum in its own form, and no all-reduce.",
        "They may do as well: GNSD is Biased-DMT with λ = 1, and an all-reduce needs no tracking.",
        partial(lowest_loss, CONTROLS),
    ),
    Claim(
        "descent",
        "On the ring Biased-DMT descends fastest: it reaches the target in fewer rounds than each of Biased-DSGD, "
        "DSGDm and GT-DSGD, all tuned for that (margin 10 %, or what the grids resolve)",
        "Section V-B",
        "Biased-DMT has the steepest descent of all methods compared.",
        "GT-DSGD adapts before it combines, and allows larger steps than Algorithm 1's form at λ = 1; where a graph "
        "mixes fast, methods without tracking lose little.",
        partial(fewest_rounds, RIVALS),
    ),
    Claim(
        "descent",
        "It is the momentum: Biased-DMT reaches the target in fewer rounds than GNSD, which is Biased-DMT with λ = "
        "1, both tuned for that (margin 10 %, or what the grids resolve)",
        "Section V-B",
        "Without acceleration by momentum gradient tracking converges more slowly.",
        "Tuning may choose λ = 1, or a λ that gains less than the margin.",
        partial(fewest_rounds, ("gnsd",)),
    ),
    Claim(
        "horizon",
        "Biased-DSGD stalls above the floor of the bias: tuned at 32,000 rounds, its ‖∇F‖² is there still more than "
        "twice ‖ē‖²",
        "Section V-B",
        "The steady error of Biased-DSGD stays bounded from below by the heterogeneity of the data.",
        "Its fixed point depends on the step size, and tends to that of a tracker as the step size tends to 0.",
        partial(stalls, ("biased-dsgd",)),
        "Biased-DSGD stalls above the floor of the bias",
    ),
    Claim(
        "horizon",
        "DSGDm with β = 0.9 stalls above the floor of the bias, with local and with gossiped momentum: tuned at "
        "32,000 rounds, its ‖∇F‖² is there still more than twice ‖ē‖²",
        "Section V-B",
        "DSGDm does not converge tightly, because it remains vulnerable to heterogeneous data.",
        "As for Biased-DSGD: a smaller step brings it as close as one likes, given time.",
        partial(stalls, ("dsgdm", "dsgdm-gossip")),
        "DSGDm with β = 0.9 stalls above the floor of the bias",
    ),
    Claim(
        "horizon",
        "On the ring tracking buys time, not a floor: how much larger the error of Biased-DSGD is than that of "
        "Biased-DMT falls by more than half from 2,000 to 32,000 rounds, each tuned at its horizon",
        OURS,
        "The paper speaks of a floor that stays; it states no horizon.",
        "Were it a floor for ever, the ratio would stay or grow; on a better graph there is less time to buy.",
        buys_time,
    ),
    Claim(
        "sensitivity",
        f"Biased-DMT with λ = 0.1 bears a step more than {LARGER} times that of GT-DSGD, in both units of a step: "
        "what a constant gradient moves the model a round, and what the newest gradient moves it",
        OURS,
        "The paper says that tuning λ frees the step size from the network, and compares no step sizes.",
        "Momentum spreads a gradient over 1/λ rounds, so one unit may favour it and the other not.",
        largest_step,
    ),
    Claim(
        "sensitivity",
        "At η = 0.1, the step of a constant gradient, the agents of Biased-DMT with λ = 0.1 disagree less than those "
        "of GT-DSGD and GNSD (margin 10 %)",
        OURS,
        "The paper says nothing of it.",
        "GT-DSGD mixes after each step, which brings agents together by itself.",
        disagreement,
    ),
    Claim(
        "fig2",
        "The floor of ‖∇F‖² rises at each of five steps of the bias, drawn once or redrawn at every query (margin 10 "
        "%)",
        "Section V-C",
        "Larger biases give higher floors, like stairs.",
        "It follows from ∇F = −ē only if runs settle and noise does not hide the smallest step.",
        staircase,
    ),
    Claim(
        "fig2",
        "The floor of ‖∇F‖² is ‖ē‖² plus the floor without bias, within ±10 % at every magnitude and for both draws",
        "Section V-B",
        "Under an absolute bias the floor depends on the bias alone.",
        "Any error that heterogeneous data leave, or that bias and noise make together, would add to it.",
        floor_as_predicted,
    ),
    Claim(
        "fig2",
        "At first all biases descend alike: until 90 % of the way is covered, the mean loss is within "
        f"±{100 * ALIKE:g} % of that way of the loss without bias",
        "Section V-C",
        "In the first phase all magnitudes of the bias converge similarly and fast.",
        "The bias is of the size of the gradients that are left after a few dozen rounds.",
        alike_at_first,
    ),
    Claim(
        "fig2",
        "The largest bias speeds up the start, whatever its sign: the mean loss is lower than without bias until 90 "
        f"% of the way is covered (margin {100 * SHARE:g} % of that way)",
        "Section V-C",
        "A large bias makes the iterates drift and overshoot, which speeds up their escape from the start.",
        "The paper leaves the direction open: a bias along the descent helps, and one against it does not.",
        bias_accelerates,
    ),
    Claim(
        "heterogeneity",
        "Under an absolute bias the floor does not depend on heterogeneity: the slope of log floor against log ζ² is "
        f"within ±{FLAT}",
        "Theorem 1, Corollary 1",
        "Under an absolute bias heterogeneous data leave no error.",
        "Tracking would have to fail: D-PSGD's floor grows with ζ².",
        partial(floor_by_heterogeneity, "absolute", -FLAT, FLAT),
        "Under an absolute bias the floor does not depend on heterogeneity",
    ),
    Claim(
        "heterogeneity",
        "Under a relative bias with M_f = 1/256, the most that Theorem 1 allows, the floor is in proportion to "
        f"heterogeneity: the slope of log floor against log ζ² is within 1 ± {PROPORTION}",
        "Theorem 1",
        "Under a relative bias an error of order M_f ζ² is left.",
        "The theorem bounds it from above only: errors of different agents may cancel.",
        partial(floor_by_heterogeneity, "relative", 1 - PROPORTION, 1 + PROPORTION),
        "Under a relative bias the floor is in proportion to heterogeneity",
    ),
    Claim(
        "speedup",
        "Noise falls as one over the number of agents, at fixed step size and momentum: the slope of log ‖x̄ − x̄ "
        f"without noise‖² against log n is within −1 ± {POWER} on ring and exponential graph",
        "Theorem 1",
        "The leading term of the noise has the factor 1/n.",
        "Its other terms grow with n and 1/ρ, and could dominate on the ring.",
        noise_by_agents,
        "Noise falls as one over the number of agents",
    ),
    Claim(
        "corollary",
        "The corollary's rate where noise dominates: with its λ and η the slope of log mean ‖∇F‖² is −1/2 or steeper "
        f"(below {POWER - 0.5:g}), against log n on the complete and the exponential graph, and against log T",
        "Corollary 1",
        "With λ = √(n/T) and η = λ/(16L) the error falls as 1/√(nT).",
        "Started at the minimum there is no way down: noise that agents did not average, or that the network added, "
        "would show.",
        corollary,
        "The corollary's rate where noise dominates",
    ),
    Claim(
        "topology",
        f"The floor does not depend on the network: the slope of log floor of ‖∇F‖² against log ρ is within ±{FLAT}, "
        "at one step size and momentum",
        "Section II-C",
        "The spectral gap does not enter the level at which the error stays.",
        "The theorem's noise term has 1/ρ², and at this step size the conditions of the theorem do not hold.",
        same_floor,
    ),
    Claim(
        "start",
        "The network does not slow it down when η and λ are tuned on each: the slope of log rounds to the target "
        f"against log ρ is within ±{FLAT}",
        "Remark on Theorem 1",
        "Tuning λ absorbs what the network costs in the first phase.",
        "Φ⁰ holds the disagreement of the trackers at the start, divided by ρ.",
        same_rounds,
        "The network does not slow it down when it is tuned",
    ),
    Claim(
        "start",
        "Most of what a sparse network costs Biased-DMT is its start: from the mean gradient it saves more than half "
        "of the rounds that ring and path take beyond the complete graph",
        OURS,
        "Algorithm 1 starts each tracker from the agent's own gradient.",
        "Rounds may be lost to slow mixing all along, and not to the start alone.",
        cost_of_start,
        "Most of what a sparse network costs is the start",
    ),
    *(
        Claim(
            "start",
            f"A warm start pays on ring and path, in {PAID[by]}: from Wᵏg⁰ with k = 1/ρ, whose gossips count, the "
            "target takes less than from g⁰ (margin 10 %)",
            OURS,
            "Algorithm 1 starts each tracker from the agent's own gradient.",
            "The k gossips may cost as much as they save.",
            partial(warm_start_pays, by),
            f"A warm start pays on ring and path, in {PAID[by]}",
        )
        for by in PAID
    ),
]
"""Every claim, by experiment: figures first, then theorems."""


def judge(studies: dict[str, Study], wanted: Sequence[str] = ()) -> Verdicts:
    """Return the verdict on every claim whose study is among these; studies go by the names of their experiments.

    A claim about another experiment that is `wanted` gets the verdict "not run". The level is that of a page with all
    claims of all experiments, whatever part of them is judged here.
    """
    error = ERROR / len(CLAIMS)
    return Verdicts(
        claim(studies.get(claim.experiment), error)
        for claim in CLAIMS
        if claim.experiment in studies or claim.experiment in wanted
    )
