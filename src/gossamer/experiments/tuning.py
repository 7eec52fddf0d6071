"""Tuning: every algorithm gets the same number of settings, on the same samples, judged by the same criterion.

A [sampler][gossamer.experiments.samplers] says which settings are tried, in stages that all algorithms share. A setting
is judged by a metric, its mean over the last tenth of the rounds of its runs, or by the rounds that it takes to a
target. One that diverged, never got there or has no finite criterion is never chosen. Of a grid, with `safety` above 1,
neither is a setting where a step size larger by up to that factor failed: a step at the edge of stability is luck on
the tuning seeds, and fails on others.

A choice lies on an *edge* if it is the last of the values that were tried, though others lie beyond it; λ = 1 and
β = 0 are no edges. It is *hardly resolved* if the criterion changes by more than the `margin` from the best setting to
its nearest neighbours.

Tuning may be repeated in *replicates*, each on tuning seeds of its own, so that what a choice owes to chance shows in
the intervals of what was chosen.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import polars as pl
import tomlkit

from gossamer.algorithms import ALGORITHMS
from gossamer.basics.html import Markup, join_markup, panel, tag
from gossamer.basics.progress import Report, Say, reporting, saying
from gossamer.basics.table import Table
from gossamer.basics.text import plural, visible
from gossamer.core import InputError, Range, Rule, Whole, brief, hyperparameters, nearest, setting
from gossamer.engines import processes
from gossamer.engines.runs import Row, RunPlan, Width, compute
from gossamer.engines.simulator import apply_clock, network_for, plan_run
from gossamer.experiments.samplers import grid_settings, next_settings, refined_settings, scale_of
from gossamer.metrics import METRICS, Better
from gossamer.oracles import Oracle, completed
from gossamer.problems import Problem
from gossamer.results.statistics import Arrival, arrival, ending
from gossamer.results.store import NullStore, Store
from gossamer.results.study import MARKS, TUNING, format_criterion
from gossamer.specs.schema import RunSection, TuningSection, validate
from gossamer.specs.setup import Candidate, Setup, Values
from gossamer.specs.spec import PATHS, Spec

Edge = Literal["lowest", "highest"]

Chosen = dict[str, dict[str, float]]
"""By algorithm, the columns of the setting that was chosen."""

MARGIN = 0.1
"""The share of the criterion from which on a difference between neighbours matters, unless [tuning] says otherwise."""

WIDEST, LONGEST, TOP = 10, 16, 10
"""The most columns and rows of a printed grid, and how many of the best settings stand for a larger one."""


@dataclass(frozen=True)
class Trial:
    """A setting that was tried."""

    values: Values
    value: float | None
    """The criterion, the mean over tuning seeds; None where a seed diverged or has no finite criterion."""
    diverged: int
    """The number of seeds that diverged."""
    stage: int
    """The stage in which it was tried, from 0 on."""
    better: Better = "lower"
    """The direction in which values of the criterion are better."""
    between: tuple[float, float] | None = None
    """The measured rounds before and after a target, the means over tuning seeds; None for other criteria."""

    @property
    def cost(self) -> float:
        """The criterion, turned so that less is better; infinite where there is none."""
        return float("inf") if self.value is None else self.value if self.better == "lower" else -self.value


@dataclass(frozen=True)
class Tuned:
    """The hyper-parameters that were chosen, by the number of the algorithm in the spec, and all that were tried."""

    candidates: dict[int, Candidate]
    trials: dict[int, list[Trial]]
    replicate: int = 0
    criterion: str = "loss"
    safety: float = 1.0
    margin: float = MARGIN
    rounds: Mapping[int, int] = field(default_factory=dict)
    """By the number of the algorithm, the rounds of a tuning run."""

    def __repr__(self) -> str:
        return tuning_line(self.table())

    def _repr_html_(self) -> str:
        own = {candidate.title: candidate for candidate in self.candidates.values()}
        return tuning_html(self.table(), own, self.margin)

    @property
    def chosen(self) -> dict[int, Values]:
        """The hyper-parameters that were chosen for each algorithm."""
        return {
            number: best(candidate, self.trials[number], self.safety).values
            for number, candidate in self.candidates.items()
        }

    @property
    def rules(self) -> list[Rule]:
        """The algorithms with the hyper-parameters that were chosen, for `simulate`."""
        return [self.candidates[number].rule(values) for number, values in self.chosen.items()]

    def table(self, variant: str = "") -> pl.DataFrame:
        """Return one row for each setting that was tried. The step size is in the column eta, whatever its name."""
        rows, chosen = [], self.chosen
        for number, candidate in self.candidates.items():
            for trial in self.trials[number]:
                known = candidate.fixed | trial.values
                numbers = {key: value for key, value in known.items() if isinstance(value, (int, float))}
                rows.append(
                    {
                        "variant": variant,
                        "replicate": self.replicate,
                        "algorithm": candidate.title,
                        "setting": setting(candidate.rule(trial.values)),
                        **{column_of(key, candidate): value for key, value in numbers.items()},
                        "criterion": self.criterion,
                        "value": trial.value,
                        "diverged": trial.diverged,
                        "stage": trial.stage,
                        "chosen": trial.values == chosen[number],
                        "rounds": self.rounds.get(number),
                    }
                )
                if self.criterion == "rounds":
                    rows[-1] |= dict(zip(MARKS, trial.between or (None, None), strict=True))
        floats = {"value", *MARKS}
        names = {name: pl.Float64 for row in rows for name in row if name in floats or name not in TUNING}
        return pl.DataFrame(rows, schema_overrides=names, infer_schema_length=None)

    @staticmethod
    def table_of(tuned: dict[str, list["Tuned"]]) -> pl.DataFrame | None:
        """Return the rows of all variants and replicates; None if nothing was tuned."""
        tables = [each.table(variant) for variant, several in tuned.items() for each in several if each.trials]
        return pl.concat(tables, how="diagonal") if tables else None


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
        eta: the lowest and the highest step size to begin with.
        seeds: how many tuning seeds; they start at 1,000,000, so that they are not those of a later run.
        dtype: "float32" or "float64".
        clock: who wakes when, on an asynchronous network.
        progress: as in `simulate`.
        section: other keys of a spec's ``[tuning]``: `budget`, `sampler`, `criterion` (any metric, or "rounds" with a
            `target` or `until`), `margin`, `together`; and hyper-parameters by their names with the lowest and the
            highest value, such as ``lam=[0.03, 1.0]``.
    """
    several = algorithms if isinstance(algorithms, (list, tuple)) else [algorithms]
    candidates = [Candidate.of(algorithm) for algorithm in several]
    oracle, network = completed(oracle), network_for(problem, network)
    clock, network = apply_clock(clock, network)
    plan, chosen_seeds = plan_run(steps, None, seeds, dtype)
    given = validate(TuningSection, {"eta": eta, "seeds": seeds, **section}, "tune: ")
    made_of = candidates, problem, network, oracle
    setup = Setup(*made_of, plan, chosen_seeds, RunSection(steps=plan.steps), given, clock)
    setup.check()
    setup.check_size()
    with reporting(progress) as report:
        return _tune_replicate(setup, given, NullStore(), report, 0)


def tune_setup(setup: Setup, store: Store, report: Report) -> list[Tuned]:
    """Choose in each replicate what the candidates leave open."""
    if (section := setup.tuning) is None:
        return [Tuned({}, {})]
    return [_tune_replicate(setup, section, store, report, k) for k in range(len(setup.shares))]


def run_settings(
    setup: Setup,
    candidate: Candidate,
    settings: Sequence[Values],
    seeds: Sequence[int],
    plan: RunPlan,
    width: Width,
    store: Store,
    report: Callable[[int, float | None], None] = lambda done, loss: None,
    say: Say = lambda text, *, aside=False: None,
) -> list[list[Row]]:
    """Run a candidate with each setting under each seed, and return the runs by setting."""
    rules = [setup.setting(candidate.rule(values)) for values in settings]
    world = setup.problem, setup.network
    runs = compute(rules, *world, seeds, plan, width=width, store=store, report=report, say=say)
    return [[runs[k, seed] for seed in seeds] for k in range(len(settings))]


def _tune_replicate(setup: Setup, section: TuningSection, store: Store, report: Report, replicate: int) -> Tuned:
    """Choose what the candidates leave open, on the tuning seeds of one replicate."""
    open_ones = {number: candidate for number, candidate in enumerate(setup.candidates) if candidate.open}
    trials: dict[int, list[Trial]] = {number: [] for number in open_ones}
    better = "lower" if section.criterion == "rounds" else METRICS[section.criterion].label.better

    def try_settings(number: int, settings: list[Values], stage: int) -> None:
        candidate, label = open_ones[number], f"tuning {open_ones[number].title}"
        plan, width, seeds = setup.plan_tuning(replicate, number)

        def report_round(done: int, loss: float | None) -> None:
            report(label, done, plan.steps, loss)

        say = saying(report, label)
        by_setting = run_settings(setup, candidate, settings, seeds, plan, width, store, report_round, say)
        for values, runs in zip(settings, by_setting, strict=True):
            diverged = sum(run.diverged >= 0 for run in runs)
            value = float("inf") if diverged else float(np.mean([judge_run(run, section) for run in runs]))
            criterion, between = (value, None) if np.isfinite(value) else (None, None)
            if criterion is not None and section.criterion == "rounds":
                found = np.array([find_target(run, section) for run in runs], float)
                between = float(found[:, 0].mean()), float(found[:, 1].mean())
            trials[number].append(Trial(values, criterion, diverged, stage, better, between))

    for stage, count in enumerate(section.stages):
        for number, candidate in open_ones.items():
            settings = choose_settings(candidate, section, trials[number], count)
            if processes.are_several():  # the last bits of a machine may decide what is improved most
                settings = json.loads(processes.broadcast(json.dumps(settings).encode()))
            try_settings(number, settings, stage)
    rounds = {number: setup.plan_tuning(replicate, number)[0].steps for number in open_ones}
    return Tuned(open_ones, trials, replicate, section.criterion, section.safety, section.margin, rounds)


def choose_settings(candidate: Candidate, section: TuningSection, trials: Sequence[Trial], count: int) -> list[Values]:
    """Return the settings of the next stage."""
    tried = [trial.values for trial in trials]
    if section.sampler != "grid":
        return next_settings(candidate, section, tried, [trial.cost for trial in trials], count)
    if not tried:
        return grid_settings(candidate, section, count)
    return refined_settings(candidate, tried, best(candidate, trials, section.safety).values, count)


def judge_run(run: Row, section: TuningSection) -> float:
    """Return the criterion of a run.

    It is the mean of a metric over the end of the run, the round from which on the loss stays at the target or below,
    or the round at which the run reached all of `until`.
    """
    if section.criterion != "rounds":
        return mean_at_end(run, section.criterion)
    found = find_target(run, section)
    return float("inf") if found is None else found.estimate


def find_target(run: Row, section: TuningSection) -> Arrival | None:
    """Return where a run came to the target of the section; None if it never did."""
    if section.until is None:
        return arrival(run.rounds, run.metrics["loss"], section.target or 0.0)
    if run.reached < 0:
        return None
    before = run.rounds[run.rounds < run.reached]
    return Arrival(float(before[-1]) if len(before) else 0.0, float(run.reached), float(run.reached))


def mean_at_end(run: Row, metric: str) -> float:
    """Return the mean of a metric over the last tenth of the rounds of a run."""
    return float(run.metrics[metric][ending(run.rounds, int(run.rounds[-1]))].mean())


def best(candidate: Candidate, trials: Sequence[Trial], safety: float = 1.0) -> Trial:
    """Return the setting with the best criterion; the first of equals.

    A setting is passed over if a step size that is larger by at most the factor `safety`, the other numbers being the
    same, failed: on other seeds such a setting may fail as well.
    """
    judged = [trial for trial in trials if trial.value is not None]  # on all of its seeds
    if not judged:
        lost = sum(trial.diverged > 0 for trial in trials)
        raise InputError(
            f"[tuning] no setting of {candidate.name} can be chosen: {lost} of {len(trials)} diverged"
            + (
                ": lower the range of eta."
                if lost == len(trials)
                else ", and the others never reached the target or have no finite criterion: allow more steps, or a "
                "target that can be reached."
            )
        )
    step, failed = candidate.step, [trial.values for trial in trials if trial.value is None and safety > 1]
    safe = [
        trial
        for trial in judged
        if not any(
            trial.values[step] < other[step] <= safety * trial.values[step]
            and other | {step: None} == trial.values | {step: None}
            for other in failed
        )
    ]
    if not safe:
        raise InputError(
            f"[tuning] no setting of {candidate.name} can be chosen: for each that did well, another failed whose step "
            f"size is larger by at most the factor safety = {safety:g}. Lower the range of eta."
        )
    return min(safe, key=lambda trial: trial.cost)  # the first of equals, whatever was tried after it


class TrialTable(NamedTuple):
    """The rows of a tuning table of one algorithm, in one variant and replicate."""

    variant: str
    replicate: int
    algorithm: str
    rows: pl.DataFrame
    allowed: Mapping[str, Range | Whole] = {}
    """The range of each column, as far as the algorithm is known."""

    @property
    def chosen(self) -> dict[str, Any]:
        """The row that was chosen."""
        return self.rows.filter("chosen").row(0, named=True)

    @property
    def varied(self) -> list[str]:
        """The hyper-parameters of which several values were tried."""
        return [name for name in numbers_of(self.rows) if self.rows[name].drop_nulls().n_unique() > 1]

    @property
    def title(self) -> str:
        return f"{self.variant}, {self.algorithm}" if self.variant else self.algorithm

    def on_edge(self) -> dict[str, Edge]:
        """Return the numbers whose chosen value is the last of several that were tried, though others lie beyond it.

        λ = 1 and β = 0 have nothing beyond them. Beyond a value whose neighbour diverged lies that neighbour.
        """
        edges: dict[str, Edge] = {}
        for name in self.varied:
            match self.allowed.get(name):
                case Range(low=low, high=high) | Whole(least=low, most=high):
                    last: tuple[Any, Any] = low, high  # an end that is itself not allowed is never chosen
                case _:
                    last = None, None
            if self.chosen[name] == self.rows[name].min() != last[0]:
                edges[name] = "lowest"
            if self.chosen[name] == self.rows[name].max() != last[1]:
                edges[name] = "highest"
        return edges

    @property
    def change(self) -> float | None:
        """The largest share by which the criterion differs at the nearest neighbours of the chosen setting.

        The neighbours are one more than the numbers that were varied, the nearest on the scales of tuning, each
        measured by the values that were tried. Settings that failed are none; without any there is no change.
        """
        judged = self.rows.filter(pl.col("value").is_not_null())
        others, names = judged.filter(~pl.col("chosen")), self.varied
        if others.is_empty():
            return None
        apart = np.zeros(len(others))
        for name in names:
            allowed = self.allowed.get(name, Range(0, np.inf))
            places = scale_of(allowed, [*others[name], self.chosen[name]])
            apart += ((places[:-1] - places[-1]) / (np.ptp(places) or 1.0)) ** 2
        nearest = np.argsort(apart, kind="stable")[: len(names) + 1]
        best_value = self.chosen["value"]
        most = float(np.abs(others["value"].to_numpy()[nearest] - best_value).max())
        return most / abs(best_value) if best_value else np.inf if most else 0.0


def searches(table: pl.DataFrame, candidates: Mapping[str, Candidate] | None = None) -> Iterator[TrialTable]:
    """Yield the parts of a tuning table; `candidates` are those, by name, that are not in `ALGORITHMS`."""
    groups = table.group_by("variant", "replicate", "algorithm", maintain_order=True)
    for (variant, replicate, algorithm), rows in groups:
        candidate = (candidates or {}).get(str(algorithm))
        name = str(algorithm).partition(" (")[0]  # without how its tracker starts
        if candidate is None and name in ALGORITHMS:
            candidate = Candidate.of(name)
        allowed = {}
        if candidate is not None:
            known = hyperparameters(candidate.kind)
            allowed = {column_of(key, candidate): interval for key, interval in known.items()}
        yield TrialTable(str(variant), int(str(replicate)), str(algorithm), rows, allowed)


def column_of(key: str, candidate: Candidate) -> str:
    """Return the column of a hyper-parameter: eta for the step size, and never a name that is in `TUNING`."""
    step = next((name for name, allowed in hyperparameters(candidate.kind).items() if allowed.step), None)
    return "eta" if key == step else f"{key}_" if key in TUNING else key


def numbers_of(rows: pl.DataFrame) -> list[str]:
    """Return the columns of hyper-parameters that these rows have."""
    return [name for name in rows.columns if name not in TUNING and rows[name].null_count() < len(rows)]


def lay_out(search: TrialTable) -> tuple[list[str], list[list[str]]]:
    """Return the head and the rows of a printed table, in which the chosen value has a star.

    It is a grid of one number by another with the criterion's values, or a list of the best settings if there are more
    numbers or values than fit, or if most of the grid would be empty.
    """
    rows, varied = search.rows, search.varied
    across = [name for name in varied if name != "eta"]
    if len(varied) == 2 and len(across) == 1:
        columns, lines = (sorted(rows[name].unique().to_list()) for name in (across[0], "eta"))
        if len(columns) <= WIDEST and len(lines) <= LONGEST and 2 * len(rows) > len(columns) * len(lines):
            cells = {(row["eta"], row[across[0]]): _cell(row) for row in rows.iter_rows(named=True)}
            head = [f"eta \\ {across[0]}", *(f"{column:g}" for column in columns)]
            return head, [[f"{eta:.4g}", *(cells.get((eta, column), "") for column in columns)] for eta in lines]
    known = METRICS.get(rows["criterion"][0])
    higher = known is not None and known.label.better == "higher"
    best_rows = rows.sort("value", descending=higher, nulls_last=True, maintain_order=True).head(TOP)
    cells = [[row["setting"], _cell(row)] for row in best_rows.iter_rows(named=True)]
    return ["setting", rows["criterion"][0]], cells


def warnings(
    table: pl.DataFrame, candidates: Mapping[str, Candidate] | None = None, margin: float = MARGIN
) -> list[str]:
    """Return a sentence for every best value that is the last of those tried, and for every optimum hardly resolved."""
    lines = []
    for search in searches(table, candidates):
        again = f" in replicate {search.replicate}" if table["replicate"].n_unique() > 1 else ""
        for name, word in search.on_edge().items():
            lines.append(
                f"{search.title}: {name} = {search.chosen[name]:.4g} is the {word} value that was tried{again}: the "
                "best may lie beyond it, so widen its range in [tuning]."
            )
        if search.change is not None and search.change > margin:
            judged = search.chosen["criterion"]
            changes = "rounds to the target change" if judged == "rounds" else f"{judged} changes"
            lines.append(
                f"{search.title}: hardly resolved{again}: the {changes} by "
                f"{format_change(search.change)} from the best setting to its nearest neighbours, and margin = "
                f"{100 * margin:g} %: give a larger budget, or narrower ranges around {search.chosen['setting']}."
            )
    return lines


def format_change(change: float | None) -> str:
    """Return a share as text, in per cent or as a factor."""
    if change is None:
        return "–"
    return f"{100 * change:.2g} %" if change < 1 else f"a factor of {1 + change:.3g}"


def tuning_line(table: pl.DataFrame) -> str:
    """Return a tuning in one line: what was chosen, of how many settings."""
    if table.is_empty():
        return "Tuned(nothing was left open)"
    chosen = ", ".join(f"{search.algorithm}({search.chosen['setting']})" for search in searches(table))
    return f"Tuned({chosen}; by {table['criterion'][0]}, {plural(len(table), 'setting')} tried)"


def tuning_html(
    table: pl.DataFrame, candidates: Mapping[str, Candidate] | None = None, margin: float = MARGIN
) -> Markup:
    """Return the settings that were chosen as HTML, with all that were tried for each algorithm folded below."""
    if table.is_empty():
        return tag("code", tuning_line(table))
    folded = [
        tag("details", tag("summary", f"{search.title}: what was tried"), Table(*lay_out(search)).html())
        for search in searches(table)
    ]
    notes = [tag("div", "⚠ ", line) for line in warnings(table, candidates, margin)]
    head, rows = overview(table, candidates)
    shown = Table(head, rows, [False, False, *[True] * (len(head) - 2)]).html()
    return panel(tag("code", tuning_line(table)), shown, join_markup(*notes, *folded))


def overview(
    table: pl.DataFrame, candidates: Mapping[str, Candidate] | None = None
) -> tuple[list[str], list[list[Any]]]:
    """Return the head and the rows of the table of what was chosen.

    The last column is by how much the criterion changes from the best setting to its nearest neighbours.
    """
    several, rows = table["replicate"].n_unique() > 1, []
    for search in searches(table, candidates):
        best, lost = search.chosen, int((search.rows["diverged"] > 0).sum())
        where = [search.title, *([search.replicate] if several else [])]
        shown = [best["setting"], format_criterion(best), len(search.rows), lost, format_change(search.change)]
        rows.append([*where, *shown])
    head = ["algorithm", *(["replicate"] if several else []), "chosen", table["criterion"][0], "tried", "diverged"]
    return [*head, "resolved to"], rows


def _cell(row: dict[str, Any]) -> str:
    if row["value"] is None:
        return "diverged" if row["diverged"] else "–"
    return format_criterion(row) + "*" * row["chosen"]


def apply_tuning(
    spec: Spec, table: pl.DataFrame, *, variant: str | None = None, replicate: int | None = None
) -> dict[str, Any]:
    """Return the spec as a dictionary with the numbers that tuning chose, and without its [tuning].

    A spec holds one number for one algorithm. Where variants, or replicates of the tuning, chose different numbers, one
    of them must be named. The exception is a spec with one algorithm: there each variant carries its own numbers.

    Args:
        spec: what was tuned.
        table: what was tried, as `gossamer.experiments.running.tune_spec` returns it.
        variant: only this one, which the spec then is; needed where variants chose different numbers.
        replicate: the choice of this one, with its own seeds; needed where replicates chose different numbers.
    """
    if variant is not None:
        known = spec.variants()
        if variant not in known or not spec.variant:
            raise InputError(f"the spec has no variant {brief(variant)}; {nearest(variant, known)}")
        spec, table = known[variant], table.filter(pl.col("variant") == variant)
    given = spec.model_dump(exclude_unset=True)
    given.pop("tuning", None)
    if not given.get("variant"):
        given.pop("variant", None)
    for changes in given.get("variant", []):
        changes.pop("tuning", None)
    if replicate is not None:
        count = spec.tuning.replicates if spec.tuning else 1
        if not 0 <= replicate < count:
            raise InputError(f"there is no replicate {replicate}: the tuning has {count}, counted from 0.")
        if spec.variant:
            raise InputError(
                "the spec has variants, each with seeds of its own: name a variant as well as a replicate."
            )
        table = table.filter(pl.col("replicate") == replicate)
        _, seeds = plan_run(spec.run.steps, spec.run.every, spec.run.seeds, spec.run.dtype)
        size = len(seeds) // count
        given["run"]["seeds"] = seeds[replicate * size : (replicate + 1) * size]
    choices: dict[str, Chosen] = {}
    for search in searches(table):
        chosen = {name: search.chosen[name] for name in numbers_of(search.rows)}
        if choices.setdefault(search.variant, {}).setdefault(search.algorithm, chosen) != chosen:
            raise InputError(
                f"the replicates of the tuning chose different numbers for {search.title}: one spec with either would "
                "hide how much the choice owes to chance. Run the spec with its [tuning] as it is, or name a replicate."
            )
    several = list(choices.values())
    if all(chosen == several[0] for chosen in several):
        for options in given["algorithm"]:
            options |= _open_numbers(options, several[0])
        return given
    if len(given["algorithm"]) > 1:
        differ = next(name for name in several[0] if any(chosen.get(name) != several[0][name] for chosen in several))
        raise InputError(
            f"the variants chose different numbers for {differ}, and a spec gives an algorithm the same ones in all "
            f"its variants: name one of them, {', '.join(map(repr, choices))}."
        )
    fixed = given["algorithm"][0]
    for changes in given["variant"]:
        own = changes.get("algorithm", {})
        changes["algorithm"] = own | _open_numbers(fixed | own, choices.get(changes["name"], {}))
    return given


def format_spec(given: dict[str, Any], file: Path, source: str, table: pl.DataFrame) -> str:
    """Return the text of a tuned spec: the origin of its numbers, then the spec with paths as seen from the file."""
    folder = os.path.realpath(file.parent)
    for section in (given["problem"], *(changes.get("problem", {}) for changes in given.get("variant", []))):
        for key in PATHS:
            path = str(section.get(key, ""))
            if os.path.isabs(path) and os.path.commonpath([os.path.realpath(path), folder]) == folder:
                section[key] = os.path.relpath(path, folder)
    heading = [f"Tuned by `gossamer tune {source}`. The best of the settings that were tried:"]
    for search in searches(table):
        chosen = search.chosen
        heading.append(f"  {search.title}: {chosen['setting']}, {chosen['criterion']} {format_criterion(chosen)}")
    return "".join(f"# {visible(line)}\n" for line in heading) + "\n" + tomlkit.dumps(given)


def _open_numbers(options: dict[str, Any], chosen: Chosen) -> dict[str, float | int]:
    """Return the chosen values of what an algorithm leaves open."""
    fixed = {key: value for key, value in options.items() if key != "name"}
    candidate = Candidate(ALGORITHMS[options["name"]], fixed)
    numbers: dict[str, float | int] = {}
    for key, allowed in candidate.open.items():
        value = chosen[candidate.title][column_of(key, candidate)]
        numbers[key] = int(value) if isinstance(allowed, Whole) else value
    return numbers
