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

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
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
from gossamer.engines.runs import Row, RunPlan, Width, compute
from gossamer.engines.simulator import apply_clock, network_for, plan_run
from gossamer.metrics import METRICS, Better
from gossamer.oracles import Oracle, completed
from gossamer.problems import Problem
from gossamer.results.statistics import arrival, ending
from gossamer.results.store import NullStore, Store
from gossamer.results.study import TUNING
from gossamer.specs.schema import RunSection, TuningSection, validate
from gossamer.specs.setup import Candidate, Setup, Values
from gossamer.specs.spec import PATHS, Spec

Edge = Literal["lowest", "highest"]

Chosen = dict[str, dict[str, float]]
"""By algorithm, the columns of the setting that was chosen."""

WIDEST, LONGEST, TOP = 10, 16, 10
"""The most columns and rows of a printed grid, and how many of the best settings stand for a larger one."""


@dataclass(frozen=True)
class Trial:
    """A setting that was tried."""

    values: Values
    """The step size, and at most one number more."""
    value: float | None
    """The criterion, the mean over tuning seeds; None where a seed diverged or has no finite criterion."""
    diverged: int
    """The number of seeds that diverged."""
    extension: int
    """The grid that the setting belongs to: 0 is the first."""
    better: Better = "lower"
    """The direction in which values of the criterion are better."""

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

    def __repr__(self) -> str:
        return tuning_line(self.table())

    def _repr_html_(self) -> str:
        return tuning_html(self.table(), {candidate.title: candidate for candidate in self.candidates.values()})

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
                        "extension": trial.extension,
                        "chosen": trial.values == chosen[number],
                    }
                )
        names = {name: pl.Float64 for row in rows for name in row if name not in TUNING}
        return pl.DataFrame(rows, schema_overrides=names | {"value": pl.Float64}, infer_schema_length=None)

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
    plan, width, seeds = setup.plan_tuning(replicate)
    better = "lower" if section.criterion == "rounds" else METRICS[section.criterion].label.better

    def try_grid(number: int, settings: list[Values], extension: int) -> None:
        candidate, label = open_ones[number], f"tuning {open_ones[number].title}"

        def report_round(done: int, loss: float | None) -> None:
            report(label, done, plan.steps, loss)

        say = saying(report, label)
        by_setting = run_settings(setup, candidate, settings, seeds, plan, width, store, report_round, say)
        for values, runs in zip(settings, by_setting, strict=True):
            diverged = sum(run.diverged >= 0 for run in runs)
            value = float("inf") if diverged else float(np.mean([judge_run(run, section) for run in runs]))
            criterion = value if np.isfinite(value) else None
            trials[number].append(Trial(values, criterion, diverged, extension, better))

    for extension in range(section.extensions + 1):
        if extension and not any(number_to_extend(open_ones[number], trials[number]) for number in open_ones):
            break
        for number, candidate in open_ones.items():
            if extension:
                try_grid(number, extension_grid(candidate, trials[number], section.budget // 2), extension)
            else:
                try_grid(number, first_grid(candidate, section), extension)
    for refinement in range(section.refinements):
        for number, candidate in open_ones.items():
            settings = refinement_grid(candidate, trials[number], section.budget // 2, section.safety)
            try_grid(number, settings, section.extensions + 1 + refinement)
    return Tuned(open_ones, trials, replicate, section.criterion, section.safety)


def judge_run(run: Row, section: TuningSection) -> float:
    """Return the criterion of a run.

    It is the mean of a metric over the end of the run, the round from which on the loss stays at the target or below,
    or the round at which the run reached all of `until`.
    """
    if section.criterion != "rounds":
        return mean_at_end(run, section.criterion)
    if section.until is not None:
        return float(run.reached) if run.reached >= 0 else float("inf")
    reached = arrival(run.rounds, run.metrics["loss"], section.target or 0.0)
    return float("inf") if reached is None else reached


def mean_at_end(run: Row, metric: str) -> float:
    """Return the mean of a metric over the last tenth of the rounds of a run."""
    return float(run.metrics[metric][ending(run.rounds, int(run.rounds[-1]))].mean())


def first_grid(candidate: Candidate, section: TuningSection) -> list[Values]:
    """Return `budget` settings of what a candidate leaves open."""
    low, high = section.eta
    step, second = candidate.step, candidate.second
    if second is None:
        return [{step: eta} for eta in np.geomspace(low, high, section.budget).tolist()]
    values = candidate.second_values(section)
    etas = np.geomspace(low, high, section.budget // len(values)).tolist()
    return [{step: eta, second: value} for value in values for eta in etas]


def find_edges(
    tried: Mapping[str, Collection[float]], chosen: Mapping[str, float], allowed: Mapping[str, Range | Whole]
) -> dict[str, Edge]:
    """Return the numbers whose chosen value is the last of several that were tried, though others lie beyond it.

    λ = 1 and β = 0 have nothing beyond them. Beyond a value whose neighbour diverged lies that neighbour.
    """
    edges: dict[str, Edge] = {}
    for name, values in tried.items():
        match allowed.get(name):
            case Range() as interval:  # an end that is itself not allowed is never chosen
                last: tuple[Any, Any] = interval.low, interval.high
            case Whole() as numbers:
                last = numbers.least, numbers.most
            case _:
                last = None, None
        if len(set(values)) > 1:
            if chosen[name] == min(values) != last[0]:
                edges[name] = "lowest"
            if chosen[name] == max(values) != last[1]:
                edges[name] = "highest"
    return edges


def edges_of(candidate: Candidate, trials: Sequence[Trial]) -> dict[str, Edge]:
    """Return the numbers of a candidate whose best value lies on an edge of its grid."""
    names = [name for name in (candidate.step, candidate.second) if name is not None]
    tried = {name: {trial.values[name] for trial in trials} for name in names}
    return find_edges(tried, best(candidate, trials).values, candidate.open)


def number_to_extend(candidate: Candidate, trials: Sequence[Trial]) -> str | None:
    """Return the number whose grid goes on beyond its edge: the step size, or else the other towards its `beyond`."""
    edges, second = edges_of(candidate, trials), candidate.second
    if candidate.step in edges:
        return candidate.step
    if second in edges and candidate.open[second].beyond == {"lowest": "low", "highest": "high"}[edges[second]]:
        return second
    return None


def extension_grid(candidate: Candidate, trials: Sequence[Trial], count: int) -> list[Values]:
    """Return `count` more settings: beyond the edge that the best lies on, or around the best."""
    top, grown = best(candidate, trials).values, number_to_extend(candidate, trials)
    step, second = candidate.step, candidate.second
    etas = sorted({trial.values[step] for trial in trials})
    values = sorted({trial.values[second] for trial in trials}) if second else []
    allowed = candidate.open[second] if second else None
    if second and grown == second and isinstance(allowed, Range):
        # two values more, each half a decade nearer to the end of the range
        nearest = min(map(allowed.distance, values))
        more = [allowed.at_distance(nearest / 10 ** (k / 2)) for k in (1, 2)]
        columns = np.geomspace(etas[0], etas[-1], count // 2).tolist()
        return [top | {step: eta, second: value} for value in more for eta in columns]
    if isinstance(allowed, Range) and allowed.beyond:
        values = sorted(sorted(values, key=allowed.distance)[:4])
    values = values[:4]  # so that each value keeps some step sizes of the count
    number, place = count // max(1, len(values)), etas.index(top[step])
    if grown != step:  # it lies inside: between its neighbours
        around = etas[max(0, place - 1)], etas[min(place + 1, len(etas) - 1)]
        new = np.geomspace(*around, number + 2)[1:-1].tolist()
    elif place == 0:  # beyond the edge the ratio is that of the grid
        ratio = etas[1] / etas[0]
        new = [etas[0] / ratio**k for k in range(1, number + 1)]
    else:
        ratio = etas[-1] / etas[-2]
        new = [etas[-1] * ratio**k for k in range(1, number + 1)]
    if second is None:
        return [top | {step: eta} for eta in new]
    return [top | {step: eta, second: value} for value in values for eta in new]


def refinement_grid(candidate: Candidate, trials: Sequence[Trial], count: int, safety: float = 1.0) -> list[Values]:
    """Return `count` settings between the best one and its neighbours, in the step size and in the other number.

    The other number takes the middles, in logarithms of the distance from its end, between its best value and the two
    beside it, and the best value itself; a whole number keeps its best value.
    """
    top, step, second = best(candidate, trials, safety).values, candidate.step, candidate.second
    columns = [top[second]] if second else []
    allowed = candidate.open[second] if second else None
    if second and isinstance(allowed, Range):
        tried = sorted({trial.values[second] for trial in trials})
        place = tried.index(top[second])
        for beside in (*tried[max(0, place - 1) : place], *tried[place + 1 : place + 2]):
            ends = [allowed.distance(value) for value in (top[second], beside)]
            if min(ends) > 0:
                columns.append(allowed.at_distance(float(np.sqrt(ends[0] * ends[1]))))
    # the neighbours in step size of those settings that have the best value of the other number
    etas = sorted({trial.values[step] for trial in trials if not second or trial.values[second] == top[second]})
    place = etas.index(top[step])
    low, high = etas[max(0, place - 1)], etas[min(place + 1, len(etas) - 1)]
    shares = [count // len(columns) + (k < count % len(columns)) for k in range(len(columns))] if columns else [count]
    settings = []
    for share, column in zip(shares, columns or [None], strict=True):
        for eta in np.geomspace(low, high, share + 2)[1:-1].tolist():
            settings.append(top | {step: eta} | ({second: column} if second else {}))
    return settings


def best(candidate: Candidate, trials: Sequence[Trial], safety: float = 1.0) -> Trial:
    """Return the setting with the best criterion; the first of equals.

    A setting is passed over if a step size that is larger by at most the factor `safety`, the other numbers being the
    same, failed: on other seeds such a setting may fail as well.
    """
    judged = [trial for trial in trials if trial.value is not None]
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
    step, failed = candidate.step, [trial.values for trial in trials if trial.value is None]
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
            f"[tuning] no setting of {candidate.name} can be chosen: beside each that did well, at a step size larger "
            f"by at most the factor safety = {safety:g}, one failed: lower the range of eta."
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
        """Return the numbers whose chosen value lies on an edge of what was tried."""
        values = {name: self.rows[name].drop_nulls().to_list() for name in self.varied}
        return find_edges(values, self.chosen, self.allowed)


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
    return "eta" if key == candidate.step else f"{key}_" if key in TUNING else key


def numbers_of(rows: pl.DataFrame) -> list[str]:
    """Return the columns of hyper-parameters that these rows have."""
    return [name for name in rows.columns if name not in TUNING and rows[name].null_count() < len(rows)]


def lay_out(search: TrialTable) -> tuple[list[str], list[list[str]]]:
    """Return the head and the rows of a printed table, in which the chosen value has a star.

    It is a grid of one number by another with the criterion's values, or a list of the best settings if there are more
    numbers or values than fit.
    """
    rows, varied = search.rows, search.varied
    across = [name for name in varied if name != "eta"]
    if len(varied) == 2 and len(across) == 1:
        columns, lines = (sorted(rows[name].unique().to_list()) for name in (across[0], "eta"))
        if len(columns) <= WIDEST and len(lines) <= LONGEST:
            cells = {(row["eta"], row[across[0]]): _cell(row) for row in rows.iter_rows(named=True)}
            head = [f"eta \\ {across[0]}", *(f"{column:g}" for column in columns)]
            return head, [[f"{eta:.4g}", *(cells.get((eta, column), "") for column in columns)] for eta in lines]
    known = METRICS.get(rows["criterion"][0])
    higher = known is not None and known.label.better == "higher"
    best_rows = rows.sort("value", descending=higher, nulls_last=True, maintain_order=True).head(TOP)
    cells = [[row["setting"], _cell(row)] for row in best_rows.iter_rows(named=True)]
    return ["setting", rows["criterion"][0]], cells


def warnings(table: pl.DataFrame, candidates: Mapping[str, Candidate] | None = None) -> list[str]:
    """Return a sentence for every number whose best value lies on the edge of what was tried."""
    lines = []
    for search in searches(table, candidates):
        for name, word in search.on_edge().items():
            again = f" in replicate {search.replicate}" if table["replicate"].n_unique() > 1 else ""
            lines.append(
                f"{search.title}: {name} = {search.chosen[name]:.4g} is the {word} value that was tried{again}: the "
                "best may lie beyond it, so widen its grid in [tuning]."
            )
    return lines


def tuning_line(table: pl.DataFrame) -> str:
    """Return a tuning in one line: what was chosen, of how many settings."""
    if table.is_empty():
        return "Tuned(nothing was left open)"
    chosen = ", ".join(f"{search.algorithm}({search.chosen['setting']})" for search in searches(table))
    return f"Tuned({chosen}; by {table['criterion'][0]}, {plural(len(table), 'setting')} tried)"


def tuning_html(table: pl.DataFrame, candidates: Mapping[str, Candidate] | None = None) -> Markup:
    """Return the settings that were chosen as HTML, with all that were tried for each algorithm folded below."""
    if table.is_empty():
        return tag("code", tuning_line(table))
    rows, folded = [], []
    for search in searches(table):
        diverged = int((search.rows["diverged"] > 0).sum())
        chosen = search.chosen
        rows.append([search.title, chosen["setting"], _cell(chosen, star=False), len(search.rows), diverged])
        folded.append(tag("details", tag("summary", f"{search.title}: what was tried"), Table(*lay_out(search)).html()))
    head = ["algorithm", "chosen", table["criterion"][0], "tried", "diverged"]
    notes = [tag("div", "⚠ ", line) for line in warnings(table, candidates)]
    overview = Table(head, rows, [False, False, True, True, True]).html()
    return panel(tag("code", tuning_line(table)), overview, join_markup(*notes, *folded))


def _cell(row: dict[str, Any], star: bool = True) -> str:
    if row["value"] is None:
        return "diverged" if row["diverged"] else "–"
    return f"{row['value']:.5g}" + ("*" if star and row["chosen"] else "")


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
    _fill(given, _choices(table))
    return given


def format_spec(given: dict[str, Any], file: Path, source: str, table: pl.DataFrame) -> str:
    """Return the text of a tuned spec: the origin of its numbers, then the spec with paths as seen from the file."""
    folder = os.path.realpath(file.parent)
    for section in (given["problem"], *(changes.get("problem", {}) for changes in given.get("variant", []))):
        for key in PATHS:
            path = str(section.get(key, ""))
            if os.path.isabs(path) and os.path.commonpath([os.path.realpath(path), folder]) == folder:
                section[key] = os.path.relpath(path, folder)
    heading = [f"Tuned by `gossamer tune {source}`: of what was tried, these were best."]
    for search in searches(table):
        chosen = search.chosen
        heading.append(f"  {search.title}: {chosen['setting']}, {chosen['criterion']} {chosen['value']:.6g}")
    return "".join(f"# {visible(line)}\n" for line in heading) + "\n" + tomlkit.dumps(given)


def _choices(table: pl.DataFrame) -> dict[str, Chosen]:
    """Return what each variant chose, if all its replicates chose the same."""
    choices: dict[str, Chosen] = {}
    for search in searches(table):
        chosen = {name: search.chosen[name] for name in numbers_of(search.rows)}
        if choices.setdefault(search.variant, {}).setdefault(search.algorithm, chosen) != chosen:
            raise InputError(
                f"the replicates of the tuning chose different numbers for {search.title}: one spec with either would "
                "hide how much the choice owes to chance. Run the spec with its [tuning] as it is, or name a replicate."
            )
    return choices


def _fill(given: dict[str, Any], choices: dict[str, Chosen]) -> None:
    """Write the numbers into the algorithms, or, if there is one algorithm, into the variants that differ."""
    several = list(choices.values())
    if all(chosen == several[0] for chosen in several):
        for options in given["algorithm"]:
            options |= _open_numbers(options, several[0])
        return
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


def _open_numbers(options: dict[str, Any], chosen: Chosen) -> dict[str, float | int]:
    """Return the chosen values of what an algorithm leaves open."""
    fixed = {key: value for key, value in options.items() if key != "name"}
    candidate = Candidate(ALGORITHMS[options["name"]], fixed)
    numbers: dict[str, float | int] = {}
    for key, allowed in candidate.open.items():
        value = chosen[candidate.title][column_of(key, candidate)]
        numbers[key] = int(value) if isinstance(allowed, Whole) else value
    return numbers
