"""Tuning: every algorithm gets the same number of settings, on the same samples, judged by the same criterion.

The first grid spans the step sizes that the spec names, and the values of one hyper-parameter more where an algorithm
has one, such as λ or β: those that the spec gives, or that the annotation of the hyper-parameter names. An algorithm
with a step size alone gets as many settings as a finer grid of it. If some algorithm's best setting lies on an edge of
its grid, all algorithms get half as many settings again: beyond the edge, or around the best for one that lies inside.
That happens at most twice. λ = 1 and β = 0 are no edges, for there is nothing beyond; nor is a setting whose neighbour
diverged. After that, each of the spec's `refinements` gives all algorithms half as many settings again, between their
best setting and its neighbours, so that the step of the grid does not decide a comparison.

With `safety` above 1, a setting is not chosen where a step size larger by up to that factor failed: a step at the edge
of stability is luck on the tuning seeds, and fails on others.

A setting is judged by a metric, its mean over the last tenth of the rounds of its runs, or by the rounds that it takes
to a target. One that diverged, never got there or has no finite criterion is never chosen. Tuning may be repeated in
*replicates*, each on tuning seeds of its own, so that what a choice owes to chance shows in the intervals of what was
chosen.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from gossamer.basics.progress import Report, reporting, saying
from gossamer.core import InputError, Rule, setting
from gossamer.engines.runs import Row, RunPlan, Setting, Width, compute, fits
from gossamer.engines.simulator import check, network_for, planned, timed_by
from gossamer.experiments.grids import Trial, around, best, extended, first_grid, further
from gossamer.experiments.tried import column_of, tuning_html, tuning_line
from gossamer.metrics import METRICS, targets
from gossamer.oracles import Oracle, completed
from gossamer.problems import Problem
from gossamer.results.statistics import arrival, ending
from gossamer.results.store import NullStore, Store
from gossamer.results.study import TUNING
from gossamer.specs.candidates import Candidate, Values, check_grids
from gossamer.specs.making import explained
from gossamer.specs.parts import Parts
from gossamer.specs.sections import TuningSection


@dataclass(frozen=True)
class Tuned:
    """The hyper-parameters that were chosen, by the number of the algorithm in the spec, and all that were tried."""

    candidates: dict[int, Candidate]
    trials: dict[int, list[Trial]]
    replicate: int = 0
    criterion: str = "loss"
    safety: float = 1.0

    def __repr__(self) -> str:
        return tuning_line(self.table())

    def _repr_html_(self) -> str:
        return tuning_html(self.table(), {candidate.title: candidate for candidate in self.candidates.values()})

    @property
    def chosen(self) -> dict[int, Values]:
        """What was chosen for each algorithm."""
        return {
            number: best(candidate, self.trials[number], self.safety).values
            for number, candidate in self.candidates.items()
        }

    @property
    def rules(self) -> list[Rule]:
        """The algorithms with the hyper-parameters that were chosen, for `simulate`."""
        return [self.candidates[number].rule(values) for number, values in self.chosen.items()]

    def table(self, variant: str = "") -> pl.DataFrame:
        """One row for each setting that was tried. The step size is in the column eta, whatever the rule calls it."""
        chosen = self.chosen
        rows = [
            {
                "variant": variant,
                "replicate": self.replicate,
                "algorithm": candidate.title,
                "setting": setting(candidate.rule(trial.values)),
                **_columns(candidate, trial.values),
                "criterion": self.criterion,
                "value": trial.value,
                "diverged": trial.diverged,
                "extension": trial.extension,
                "chosen": trial.values == chosen[number],
            }
            for number, candidate in self.candidates.items()
            for trial in self.trials[number]
        ]
        names = {name: pl.Float64 for row in rows for name in row if name not in TUNING}
        return pl.DataFrame(rows, schema_overrides=names | {"value": pl.Float64}, infer_schema_length=None)

    @staticmethod
    def table_of(tuned: dict[str, list["Tuned"]]) -> pl.DataFrame | None:
        """The rows of all variants and replicates; None if nothing was tuned."""
        tables = [each.table(variant) for variant, several in tuned.items() for each in several if each.trials]
        return pl.concat(tables, how="diagonal") if tables else None


def _columns(candidate: Candidate, values: Values) -> dict[str, Any]:
    """The numbers of a setting, by names that are none of `TUNING`."""
    numbers = {key: value for key, value in (candidate.fixed | values).items() if isinstance(value, (int, float))}
    return {column_of(key, candidate): value for key, value in numbers.items()}


def tune(
    algorithms: Sequence[Any],
    problem: Problem,
    network: Any,
    oracle: Oracle | None = None,
    *,
    steps: int,
    eta: tuple[float, float],
    seeds: int = 2,
    dtype: str = "float32",
    clock: Any = None,
    progress: bool | Report = True,
    **section: Any,
) -> Tuned:
    """Choose the hyper-parameters of several algorithms, with the same budget for each.

    Args:
        algorithms: classes, such as ``gs.BiasedDMT`` or one's own, or names.
        problem: what is minimised.
        network: who talks to whom, as in `simulate`.
        oracle: where gradients come from; the exact ones if it is not given.
        steps: rounds of a tuning run.
        eta: the lowest and the highest step size of the first grid.
        seeds: how many tuning seeds; they start at 1,000,000, so that they are not those of a later run.
        dtype: "float32" or "float64".
        clock: who wakes when, on an asynchronous network.
        progress: as in `simulate`.
        section: other keys of a spec's ``[tuning]``: `budget`, `extensions`, `criterion` (any metric, or "rounds" with
            a `target` or `until`), `safety`, `together`; and hyper-parameters by their names with the values to try,
            such as ``lam=[1.0, 0.1]``.
    """
    several = algorithms if isinstance(algorithms, (list, tuple)) else [algorithms]
    candidates = [Candidate.of(algorithm) for algorithm in several]
    oracle, network = completed(oracle), network_for(problem, network)
    _, network = timed_by(clock, network)
    plan, _ = planned(steps, None, seeds, dtype)
    with explained(list(TuningSection.model_fields), "tune: "):
        given = {key: list(value) if isinstance(value, tuple) else value for key, value in section.items()}
        ends = list(eta) if isinstance(eta, tuple) else eta
        grid = TuningSection.model_validate({"eta": ends, "seeds": seeds, **given})
    check_grids(grid, candidates)
    check([], problem, network, oracle, tuned=len(candidates))
    for candidate in candidates:
        check(candidate.tried(grid)[:1], problem, network, oracle)
    parts = Parts(candidates, problem, network, oracle, {})
    trying = Trying(parts, grid, plan.steps, dtype)
    trying.fits()
    with reporting(progress) as report:
        return trying.search(NullStore(), report)


class Trying(NamedTuple):
    """What is to be tuned, and how long its runs are."""

    parts: Parts
    section: TuningSection
    steps: int
    dtype: str

    def search(self, store: Store, report: Report, replicate: int = 0) -> Tuned:
        """Choose what the candidates leave open, on the tuning seeds of one replicate."""
        section = self.section
        open_ones = {number: candidate for number, candidate in enumerate(self.parts.candidates) if candidate.open}
        trials: dict[int, list[Trial]] = {number: [] for number in open_ones}
        for extension in range(section.extensions + 1):
            if extension and not any(extended(candidate, trials[number]) for number, candidate in open_ones.items()):
                break
            for number, candidate in open_ones.items():
                if extension:
                    grid = further(candidate, trials[number], section.budget // 2)
                else:
                    grid = first_grid(candidate, section)
                trials[number] += self._tried(candidate, grid, extension, store, report, replicate)
        for refinement in range(section.refinements):
            for number, candidate in open_ones.items():
                grid = around(candidate, trials[number], section.budget // 2, section.safety)
                number_of_grid = section.extensions + 1 + refinement
                trials[number] += self._tried(candidate, grid, number_of_grid, store, report, replicate)
        return Tuned(open_ones, trials, replicate, section.criterion, section.safety)

    def _tried(
        self, candidate: Candidate, grid: list[Values], extension: int, store: Store, report: Report, replicate: int
    ) -> list[Trial]:
        """Run the settings of a grid and judge each."""
        runs = self._runs(candidate, grid, store, report, replicate)
        return [_judged(values, own, self.section, extension) for values, own in zip(grid, runs, strict=True)]

    def fits(self) -> None:
        """Refuse a first grid whose runs would not fit into memory, before any begins."""
        plan, width, seeds = self._sized()
        for candidate in self.parts.candidates:
            if candidate.open:
                first = Setting(candidate.tried(self.section)[0], self.parts.oracle)
                fits([first] * self.section.budget, self.parts.problem, self.parts.network, seeds, plan, width)

    def _sized(self, replicate: int = 0) -> tuple[RunPlan, Width, list[int]]:
        """How long tuning runs are, what runs together, and the tuning seeds of a replicate."""
        section, steps = self.section, self.steps
        # rounds to a target are read between two marks, so these are dense where fast methods arrive
        every = (steps, steps) if section.criterion != "rounds" else (max(1, steps // 500), max(1, steps // 10))
        first = section.first_seed + replicate * section.seeds
        plan = RunPlan(steps, every, self.dtype, until=targets(section.until), metrics=_judged_by(section))
        return plan, Width(section.together, 1), list(range(first, first + section.seeds))

    def _runs(
        self, candidate: Candidate, grid: list[Values], store: Store, report: Report, replicate: int
    ) -> list[list[Row]]:
        """For each setting, its runs on the tuning seeds of the replicate."""
        plan, width, seeds = self._sized(replicate)
        rules = [candidate.rule(values) for values in grid]
        runs = compute(
            [Setting(rule, self.parts.oracle, partial(self.parts.key_of, rule)) for rule in rules],
            self.parts.problem,
            self.parts.network,
            seeds,
            plan,
            width=width,
            store=store,
            report=lambda done, loss: report(f"tuning {candidate.title}", done, self.steps, loss),
            say=saying(report, f"tuning {candidate.title}"),
        )
        return [[runs[k, seed] for seed in seeds] for k in range(len(grid))]


def _judged_by(section: TuningSection) -> tuple[str, ...]:
    """The metrics that tuning measures: by either of the first two the same runs are judged."""
    if section.criterion == "rounds":
        return tuple(sorted({"loss", *(section.until or ())}))
    return tuple(sorted({"loss", "grad_norm_sq", section.criterion}))


def _judged(values: Values, runs: list[Row], section: TuningSection, extension: int) -> Trial:
    lost = sum(run.diverged >= 0 for run in runs)
    value = float("inf") if lost else float(np.mean([criterion(run, section) for run in runs]))
    better = "lower" if section.criterion == "rounds" else METRICS[section.criterion].label.better
    return Trial(values, value if np.isfinite(value) else None, lost, extension, better)


def criterion(run: Row, section: TuningSection) -> float:
    """What a run is judged by: the mean of a metric over its end, the round from which on its loss stays at the target
    or below, or the round at which it came to all that `until` names."""
    if section.criterion != "rounds":
        if section.criterion not in run.metrics:
            raise InputError(
                f"[tuning] the criterion {section.criterion} is not measured in these runs "
                f"({METRICS[section.criterion].label.about}): take one of {', '.join(run.metrics)}, or rounds."
            )
        return float(run.metrics[section.criterion][ending(run.rounds, int(run.rounds[-1]))].mean())
    if section.until is not None:
        return float(run.reached) if run.reached >= 0 else float("inf")
    reached = arrival(run.rounds, run.metrics["loss"], section.target or 0.0)
    return float("inf") if reached is None else reached
