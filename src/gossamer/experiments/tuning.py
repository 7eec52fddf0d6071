"""Tuning: every algorithm gets the same number of settings, on the same samples, judged by the same criterion.

The first grid spans the step sizes that the spec names, and the values of λ or β where an algorithm has one; an
algorithm with η alone gets as many settings as a finer grid of η. If some algorithm's best setting lies on an edge of
its grid, all algorithms get half as many settings again: beyond the edge, or around the best for one that lies inside.
That happens at most twice. λ = 1 and β = 0 are no edges, for there is nothing beyond; nor is a setting whose neighbour
diverged.

A setting is judged by the mean of the criterion over the end of its runs, the last tenth of their rounds. One that
diverged, never reached the target or has no finite criterion is never chosen. Tuning may be repeated in *replicates*,
each on tuning seeds of its own, so that what a choice owes to chance shows in the intervals of what was chosen.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from gossamer.algorithms import ALGORITHMS
from gossamer.basics.progress import Report, reporting, saying
from gossamer.core import InputError, brief, nearest, setting
from gossamer.engines.runs import Plan, Row, Setting, Width, compute, fits
from gossamer.engines.simulator import check, planned
from gossamer.experiments.tried import tuning_html, tuning_line
from gossamer.networks import Network
from gossamer.oracles import Oracle, completed
from gossamer.problems import Problem
from gossamer.results.statistics import arrival, ending
from gossamer.results.store import Nowhere, Store
from gossamer.specs.making import explained
from gossamer.specs.sections import SECOND, TuningSection
from gossamer.specs.spec import Parts, left, tried

Hyper = dict[str, Any]


@dataclass(frozen=True)
class Trial:
    """One setting that was tried."""

    hyper: Hyper
    value: float | None
    """The criterion, the mean over tuning seeds; None where a seed diverged or has no finite criterion."""
    diverged: int
    extension: int


@dataclass(frozen=True)
class Tuned:
    """The hyper-parameters that were chosen, by the number of the algorithm in the spec, and all that were tried."""

    chosen: dict[int, Hyper]
    trials: dict[int, list[Trial]]
    names: dict[int, str]
    replicate: int = 0
    criterion: str = "loss"

    def __repr__(self) -> str:
        return tuning_line(self.table())

    def _repr_html_(self) -> str:
        return tuning_html(self.table())

    @property
    def rules(self) -> list[Any]:
        """The algorithms with the hyper-parameters that were chosen, for `simulate`."""
        return [ALGORITHMS[self.names[number]](**hyper) for number, hyper in self.chosen.items()]

    def table(self, variant: str = "") -> pl.DataFrame:
        """One row for each setting that was tried."""
        rows = [
            {
                "variant": variant,
                "replicate": self.replicate,
                "algorithm": self.names[number],
                "setting": setting(ALGORITHMS[self.names[number]](**trial.hyper)),
                **{name: trial.hyper.get(name) for name in ("eta", *SECOND)},
                "criterion": self.criterion,
                "value": trial.value,
                "diverged": trial.diverged,
                "extension": trial.extension,
                "chosen": trial.hyper == self.chosen[number],
            }
            for number, trials in self.trials.items()
            for trial in trials
        ]
        return pl.DataFrame(rows, schema_overrides=dict.fromkeys(("eta", *SECOND, "value"), pl.Float64))

    @staticmethod
    def table_of(tuned: dict[str, list["Tuned"]]) -> pl.DataFrame | None:
        """The rows of all variants and replicates; None if nothing was tuned."""
        tables = [one.table(variant) for variant, several in tuned.items() for one in several if one.trials]
        return pl.concat(tables) if tables else None


def tune(
    algorithms: Sequence[Any],
    problem: Problem,
    network: Network,
    oracle: Oracle | None = None,
    *,
    steps: int,
    eta: tuple[float, float],
    seeds: int = 2,
    dtype: str = "float32",
    progress: bool | Report = True,
    **section: Any,
) -> Tuned:
    """Choose the hyper-parameters of several algorithms, with the same budget for each.

    Args:
        algorithms: classes such as ``gs.BiasedDMT``, or names.
        problem: what is minimised.
        network: who talks to whom.
        oracle: where gradients come from; the exact ones if it is not given.
        steps: rounds of a tuning run.
        eta: the lowest and the highest step size of the first grid.
        seeds: how many tuning seeds; they start at 1,000,000, so that they are not those of a later run.
        dtype: "float32" or "float64".
        progress: as in `simulate`.
        section: other keys of a spec's ``[tuning]``: `lam`, `beta`, `budget`, `extensions`, `criterion`, `target`,
            `together`.
    """
    several = algorithms if isinstance(algorithms, (list, tuple)) else [algorithms]
    names = [one if isinstance(one, str) else getattr(one, "name", brief(one)) for one in several]
    for name in names:
        if not isinstance(name, str) or name not in ALGORITHMS:
            raise InputError(f"there is no algorithm {brief(name)}; {nearest(name, ALGORITHMS)}")
    oracle = completed(oracle)
    plan, _ = planned(steps, None, seeds, dtype)
    with explained(list(TuningSection.model_fields), "tune: "):
        given = list(eta) if isinstance(eta, tuple) else eta
        grid = TuningSection.model_validate({"eta": given, "seeds": seeds, **section})
    check([], problem, network, oracle, tuned=len(names))
    for name in names:
        check(tried(name, {}, grid)[:1], problem, network, oracle)
    parts = Parts([(name, {}) for name in names], problem, network, oracle, {})
    grid_fits(parts, grid, plan.steps, dtype)
    with reporting(progress) as report:
        return search(parts, grid, plan.steps, dtype, Nowhere(), report)


def search(
    parts: Parts,
    section: TuningSection,
    steps: int,
    dtype: str,
    store: Store,
    report: Report,
    replicate: int = 0,
) -> Tuned:
    """Choose what the algorithms of `parts` leave open, on the tuning seeds of one replicate."""
    open_ones = {number: (name, hyper) for number, (name, hyper) in enumerate(parts.algorithms) if left(name, hyper)}
    trials: dict[int, list[Trial]] = {number: [] for number in open_ones}
    for extension in range(section.extensions + 1):
        if extension and not any(on_edge(trials[number], name) for number, (name, _) in open_ones.items()):
            break
        for number, (name, fixed) in open_ones.items():
            grid = first_grid(name, fixed, section) if not extension else further(trials[number], section.budget // 2)
            runs = _run(name, grid, parts, section, steps, dtype, store, report, replicate)
            trials[number] += [_judged(hyper, own, section, extension) for hyper, own in zip(grid, runs, strict=True)]
    return Tuned(
        {number: best(trials[number], name).hyper for number, (name, _) in open_ones.items()},
        trials,
        {number: name for number, (name, _) in open_ones.items()},
        replicate,
        section.criterion,
    )


def grid_fits(parts: Parts, section: TuningSection, steps: int, dtype: str) -> None:
    """Refuse a first grid whose runs would not fit into memory, before any begins."""
    plan, width, seeds = _sized(section, steps, dtype)
    for name, hyper in parts.algorithms:
        if left(name, hyper):
            one = Setting(tried(name, hyper, section)[0], parts.oracle, {})
            fits([one] * section.budget, parts.problem, parts.network, seeds, plan, width)


def _sized(section: TuningSection, steps: int, dtype: str, replicate: int = 0) -> tuple[Plan, Width, list[int]]:
    """How long tuning runs are, what runs together, and the tuning seeds of a replicate."""
    every = (steps, steps) if section.criterion != "rounds" else (max(1, steps // 100), max(1, steps // 10))
    first = section.first_seed + replicate * section.seeds
    return Plan(steps, every, dtype), Width(section.together, 1), list(range(first, first + section.seeds))


def first_grid(name: str, fixed: Hyper, section: TuningSection) -> list[Hyper]:
    """`budget` settings of what is open in an algorithm: of η, and of one number more at most, as `tried` saw to."""
    keys, (low, high) = left(name, fixed), section.eta
    second = keys[1] if len(keys) > 1 else None
    values: Sequence[float] = getattr(section, second) if second else [0.0]
    etas = np.geomspace(low, high, section.budget // len(values)).tolist()
    return [fixed | {"eta": eta} | ({second: value} if second else {}) for value in values for eta in etas]


def on_edge(trials: list[Trial], name: str = "") -> str | None:
    """Where the best setting lies: "eta low", "eta high", "second", or None inside the grid."""
    top = best(trials, name)
    etas = sorted({trial.hyper["eta"] for trial in trials})
    if top.hyper["eta"] in (etas[0], etas[-1]):
        return "eta low" if top.hyper["eta"] == etas[0] else "eta high"
    second = _second(trials)
    if second and _memory(second, top.hyper[second]) == max(_memory(second, trial.hyper[second]) for trial in trials):
        return "second"
    return None


def further(trials: list[Trial], count: int) -> list[Hyper]:
    """`count` more settings: beyond the edge that the best lies on, or around it."""
    top, second, edge = best(trials).hyper, _second(trials), on_edge(trials)
    values = sorted({trial.hyper[second] for trial in trials}) if second else [0.0]
    etas = sorted({trial.hyper["eta"] for trial in trials})
    if second and edge == "second":
        longest = max(_memory(second, value) for value in values)
        columns = np.geomspace(etas[0], etas[-1], count // 2).tolist()
        more = [_of_memory(second, longest * 10 ** (k / 2)) for k in (1, 2)]
        return [top | {"eta": eta, second: value} for value in more for eta in columns]
    values = values[-4:] if second == "beta" else values[:4]
    number, place = count // len(values), etas.index(top["eta"])
    if edge == "eta low":
        step = etas[1] / etas[0]
        new = [etas[0] / step**k for k in range(1, number + 1)]
    elif edge == "eta high":
        step = etas[-1] / etas[-2]
        new = [etas[-1] * step**k for k in range(1, number + 1)]
    else:
        new = np.geomspace(etas[place - 1], etas[place + 1], number + 2)[1:-1].tolist()
    return [top | {"eta": eta} | ({second: value} if second else {}) for value in values for eta in new]


def best(trials: list[Trial], name: str = "") -> Trial:
    """The setting with the least criterion; the first of equals."""
    whole = [trial for trial in trials if trial.value is not None]
    if not whole:
        lost = sum(trial.diverged > 0 for trial in trials)
        raise InputError(
            f"[tuning] no setting of {name or 'an algorithm'} can be chosen: {lost} of {len(trials)} diverged"
            + (
                ": lower the range of eta."
                if lost == len(trials)
                else ", and the others never reached the target or "
                "have no finite criterion: allow more steps, or a target that can be reached."
            )
        )
    return min(whole, key=lambda trial: float(trial.value or 0.0))


def _run(
    name: str,
    grid: list[Hyper],
    parts: Parts,
    section: TuningSection,
    steps: int,
    dtype: str,
    store: Store,
    report: Report,
    replicate: int,
) -> list[list[Row]]:
    """For each setting, its runs on the tuning seeds of the replicate."""
    plan, width, seeds = _sized(section, steps, dtype, replicate)
    rules = [ALGORITHMS[name](**hyper) for hyper in grid]
    runs = compute(
        [Setting(rule, parts.oracle, parts.key_of(rule)) for rule in rules],
        parts.problem,
        parts.network,
        seeds,
        plan,
        width=width,
        store=store,
        report=lambda done, loss: report(f"tuning {name}", done, steps, loss),
        say=saying(report, f"tuning {name}"),
    )
    return [[runs[k, seed] for seed in seeds] for k in range(len(grid))]


def _judged(hyper: Hyper, runs: list[Row], section: TuningSection, extension: int) -> Trial:
    lost = sum(run.diverged >= 0 for run in runs)
    value = float("inf") if lost else float(np.mean([criterion(run, section) for run in runs]))
    return Trial(hyper, value if np.isfinite(value) else None, lost, extension)


def criterion(run: Row, section: TuningSection) -> float:
    """What a run is judged by: the mean over its end, or the round from which on it stays at the target or below."""
    if section.criterion != "rounds":
        return float(run.metrics[section.criterion][ending(run.rounds, int(run.rounds[-1]))].mean())
    reached = arrival(run.rounds, run.metrics["loss"], section.target or 0.0)
    return float("inf") if reached is None else reached


def _second(trials: list[Trial]) -> str | None:
    """The second hyper-parameter, if the grid varies one."""
    hyper = trials[0].hyper
    return next(
        (key for key in SECOND if key in hyper and len({trial.hyper[key] for trial in trials}) > 1),
        None,
    )


def _memory(name: str, value: float) -> float:
    """Over how many rounds a momentum averages, 1/λ or 1/(1 − β); for γ, how slow it makes the gossip."""
    return 1 / (1 - value) if name == "beta" else 1 / value


def _of_memory(name: str, memory: float) -> float:
    return 1 - 1 / memory if name == "beta" else 1 / memory
