"""Run experiments: tune what is open, run all variants through a store, and put the results together."""

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import groupby
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
import polars as pl

from gossamer.basics.progress import Report, StudyProgress, reporting, saying
from gossamer.core import InputError, Rule, is_rule, parts, setting
from gossamer.engines import processes
from gossamer.engines.devices import check_devices
from gossamer.engines.program import RuleForm
from gossamer.engines.runs import Row, RunPlan, compute
from gossamer.engines.simulator import apply_clock, check, network_for, plan_run, result_of, warn_of_drift
from gossamer.experiments.directory import claim, leaving_nothing
from gossamer.experiments.tuning import Tuned, check_tuning_memory, tune_experiment
from gossamer.oracles import Oracle, completed
from gossamer.problems import Empirical, Problem
from gossamer.results.cache_key import Unknown, digest
from gossamer.results.result import Result
from gossamer.results.statistics import unsettled
from gossamer.results.store import NullStore, Store
from gossamer.results.study import TUNED, Study
from gossamer.specs.experiment import Candidate, Experiment, check_grids
from gossamer.specs.sections import RunSection, TuningSection
from gossamer.specs.spec import Spec, check_seeds
from gossamer.specs.tables import located, plain, validate


class Task(NamedTuple):
    """An algorithm of a variant with its hyper-parameters chosen, and the seeds that they were chosen for."""

    variant: str
    number: int
    """The place of the algorithm in the spec."""
    rule: Rule
    seeds: list[int]
    plan: RunPlan
    experiment: Experiment


Place = tuple[str, int]
"""A variant and the number of an algorithm."""


def run(spec: Spec, out: str | Path | None = None, *, name: str = "run", progress: bool | Report = True) -> Study:
    """Run a spec and return its study.

    With a directory `out`, every finished run is stored there. The same call after an interruption goes on, and one
    with more rounds or seeds computes only what is missing.
    """
    experiments = spec.each(build_experiment)
    if out is None:
        return run_experiments(experiments, NullStore(), name, spec.title or name, spec.toml(), progress)
    folder = Path(out)
    with leaving_nothing(folder):
        processes.run_on_first(partial(claim, spec, folder))
        store = processes.open_store(folder / "cells")
        study = run_experiments(experiments, store, name, spec.title or name, spec.toml(), progress)
    if not processes.is_first():
        return study
    try:
        study.save(folder)
    except OSError as error:
        raise InputError(f"cannot write into {folder}: {error.strerror or error}.") from error
    return study if store.written else Study.load(folder)  # with the seconds and versions of the computation


def tune_spec(spec: Spec, out: str | Path, *, progress: bool | Report = True) -> pl.DataFrame:
    """Tune a spec without its final runs: one row for each setting that was tried, the chosen ones marked."""
    if spec.tuning is None:
        raise InputError("the spec has no [tuning] section: add one with eta = [lowest, highest].")
    experiments = spec.each(build_experiment)
    if not any(candidate.open for experiment in experiments.values() for candidate in experiment.candidates):
        raise InputError("every algorithm of the spec has all its hyper-parameters: leave out what is to be tuned.")
    with leaving_nothing(Path(out)), reporting(progress) as report:
        processes.run_on_first(partial(claim, spec, Path(out)))
        store = processes.open_store(Path(out) / "cells")
        table = Tuned.table_of({label: tune_experiment(one, store, report) for label, one in experiments.items()})
    assert table is not None
    return table


def study(
    algorithms: Sequence[Any] | Any,
    problem: Problem,
    network: Any,
    oracle: Oracle | None = None,
    *,
    steps: int,
    tune: Mapping[str, Any] | None = None,
    seeds: int | Sequence[int] = 5,
    every: int | Sequence[int] | None = None,
    settle: int | None = None,
    dtype: str = "float32",
    until: Mapping[str, float] | None = None,
    clock: Any = None,
    name: str = "study",
    out: str | Path | None = None,
    progress: bool | Report = True,
) -> Study:
    """Tune classes, run them and the rules that are given whole, and compare all on the same samples.

    Args:
        algorithms: classes, such as ``gs.BiasedDMT`` or one's own, whose hyper-parameters are tuned; names of
            algorithms, likewise; and rules, such as ``gs.DPSGD(eta=0.1)``, which run as they are.
        problem: what is minimised.
        network: who talks to whom, as in `simulate`.
        oracle: where gradients come from; the exact ones if it is not given.
        steps: rounds.
        tune: the keys of a spec's ``[tuning]``, such as ``{"eta": (0.01, 1.0), "budget": 16}``.
        seeds: how many (0, 1, …), or a list of them; they differ from those of tuning.
        every: measure every so many rounds, as in `simulate`.
        settle: runs go on until ‖∇F‖² has settled, but never beyond this many rounds.
        dtype: "float32" or "float64".
        until: ends a run early, as in `simulate`; runs of tuning are not ended by it.
        clock: how long agents compute and messages travel, as in `simulate`.
        name: the study's name.
        out: a directory to save it in; what was finished there before is not computed again.
        progress: as in `simulate`.
    """
    given = list(algorithms) if isinstance(algorithms, (list, tuple)) else [algorithms]
    candidates = [Candidate.of_rule(one) if is_rule(type(one)) else Candidate.of(one) for one in given]
    oracle, network = completed(oracle), network_for(problem, network)
    plan, chosen_seeds = plan_run(steps, every, seeds, dtype, until)
    if plan.until and settle is not None:
        raise InputError("until ends runs early and settle makes them longer: leave one of them out.")
    check_seeds(len(chosen_seeds))
    clock, network = apply_clock(clock, network)
    section = _tuning_section(tune, [candidate.name for candidate in candidates if candidate.open])
    fixed = [candidate.whole for candidate in candidates if not candidate.open]
    check(fixed, problem, network, oracle, tuned=len(candidates) - len(fixed))
    if section:
        check_grids(section, candidates)
        if len(chosen_seeds) % section.replicates:
            raise InputError(
                f"tune: replicates = {section.replicates} must share the {len(chosen_seeds)} seeds equally: take a "
                f"multiple of {section.replicates} seeds."
            )
        for candidate in candidates:
            if candidate.open:
                check([candidate.example(section)], problem, network, oracle)
    run_section = validate(RunSection, plain({"steps": plan.steps, "settle": settle}), "study: ")
    key = {}
    if out is not None:
        try:  # no spec describes these objects: their key is a hash of all that they hold
            key = {"objects": digest(problem, network, oracle)}
        except Unknown as reason:
            raise InputError(
                f"out=… needs to know what it stores, but {reason}: leave it out, and use `save`."
            ) from None
    made_of = candidates, problem, network, oracle
    experiment = Experiment(*made_of, plan, chosen_seeds, run_section, section, clock, key)
    check_size(experiment)
    if out is None:
        return run_experiments({"": experiment}, NullStore(), name, name, "", progress)
    folder = Path(out)
    with leaving_nothing(folder):
        if folder.exists() and (not folder.is_dir() or (any(folder.iterdir()) and not (folder / "cells").is_dir())):
            raise InputError(f"{folder} is not empty and holds no study: choose another directory.")
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"cannot write into {folder}: {error.strerror or error}.") from error
        store = Store(folder / "cells")
        compared = run_experiments({"": experiment}, store, name, name, "", progress)
    compared.save(folder)
    return compared


def _tuning_section(tune: Mapping[str, Any] | None, left_open: list[str]) -> TuningSection | None:
    if tune is None:
        if left_open:
            raise InputError(
                f"{left_open[0]} is given as a class, so that its hyper-parameters are to be tuned: say how, as in "
                'tune={"eta": (0.01, 1.0)}, or give it whole, as in BiasedDMT(eta=0.1, lam=0.05).'
            )
        return None
    if not left_open:
        raise InputError(
            "tune is given, but every algorithm has all its hyper-parameters: give classes, or leave it out."
        )
    return validate(TuningSection, plain(dict(tune)), "tune: ")


def build_experiment(spec: Spec) -> Experiment:
    """Build a spec without variants, and check that its runs fit into memory."""
    experiment = spec.parts()
    check_size(experiment)
    return experiment


def check_size(experiment: Experiment) -> None:
    """Raise InputError for runs that would not fit into memory, or that the devices cannot share."""
    tuning = experiment.tuning
    settings = tuning.budget if tuning else len(experiment.candidates)
    check_devices(settings * len(experiment.seeds), experiment.problem, experiment.network)
    for candidate in experiment.candidates:
        rule = candidate.example(tuning) if tuning and candidate.open else candidate.whole
        experiment.check_memory([rule], experiment.seeds, experiment.plan, experiment.width)
    with located("[tuning]"):
        check_tuning_memory(experiment)


def run_experiments(
    experiments: dict[str, Experiment], store: Store, name: str, title: str, spec: str, progress: bool | Report
) -> Study:
    """Tune what is open in each variant, run all, and return the study."""
    with reporting(progress) as report:
        tuned = {label: tune_experiment(experiment, store, report) for label, experiment in experiments.items()}
        tasks = [task for label, one in experiments.items() for task in _tasks(label, one, tuned[label])]
        warn_of_drift([(task.rule, task.plan) for task in tasks])
        alone = list(experiments) == [""] and experiments[""].tuning is None
        tally = StudyProgress(name, sum(len(task.seeds) for task in tasks), several=not alone)
        runs: dict[Place, dict[int, Row]] = {}
        going = tasks
        while going:
            for place, by_seed in _compute(going, store, report, tally).items():
                runs[place] = runs.get(place, {}) | by_seed
            going = [
                task._replace(plan=task.plan.double())
                for task in going
                if task.plan.last * 2 <= (task.experiment.run.settle or 0)
                and not _has_settled(runs[task.variant, task.number], task.experiment)
            ]
            tally.extend(sum(len(task.seeds) for task in going))
    results, facts = {}, {}
    titles = _titles(tasks)
    for label, experiment in experiments.items():
        several = [
            _result(titles[label, number], runs[label, number], experiment)
            for number in range(len(experiment.candidates))
        ]
        results[label] = Result.join(several)
        facts[label] = _facts(experiment, results[label])
    return Study(name, title, spec, results, Tuned.table_of(tuned), facts)


def _tasks(label: str, experiment: Experiment, tuned: list[Tuned]) -> list[Task]:
    """Return the final runs of a variant; an algorithm that leaves nothing open runs on all seeds at once."""
    tasks = []
    choices = [choice.chosen for choice in tuned]
    for number, candidate in enumerate(experiment.candidates):
        if candidate.open:
            for share, chosen in zip(experiment.shares, choices, strict=True):
                rule = candidate.rule(chosen[number])
                tasks.append(Task(label, number, rule, share, experiment.plan, experiment))
        else:
            tasks.append(Task(label, number, candidate.whole, experiment.seeds, experiment.plan, experiment))
    return tasks


def _compute(tasks: list[Task], store: Store, report: Report, tally: StudyProgress) -> dict[Place, dict[int, Row]]:
    """Return the runs by seed. Tasks that differ in numbers only share compiled blocks."""
    groups: dict[tuple[Any, ...], list[Task]] = {}
    for task in tasks:
        one = task.experiment
        structure = str(jax.tree.structure((one.oracle, parts(task.rule))))
        form, seeds = RuleForm.of(task.rule), tuple(task.seeds)
        same = structure, id(one.problem), id(one.network), form, seeds, task.plan, one.width
        groups.setdefault(same, []).append(task)
    computed: dict[Place, dict[int, Row]] = {}
    for group in groups.values():
        first = group[0]

        def report_group(done: int, loss: float | None, first: Task = first) -> None:
            report(tally.label(first.rule.name), done, first.plan.last, loss)

        runs = compute(
            [task.experiment.setting(task.rule) for task in group],
            first.experiment.problem,
            first.experiment.network,
            first.seeds,
            first.plan,
            width=first.experiment.width,
            store=store,
            report=report_group,
            ended=tally.add,
            say=saying(report, first.rule.name),
            forecast=first.plan.doublings > 0,  # the plan of the spec was checked before
        )
        for k, task in enumerate(group):
            computed.setdefault((task.variant, task.number), {}).update({seed: runs[k, seed] for seed in task.seeds})
    return computed


def _has_settled(runs: dict[int, Row], experiment: Experiment) -> bool:
    """Return whether the mean of ‖∇F‖² has settled over all replicates; a run that diverged never will.

    Where the agents' mean bias ē is constant, ‖ē‖² + ‖∇F + ē‖² must have settled as well: floors are read from it.
    """
    if any(run.diverged >= 0 for run in runs.values()):
        return True
    first = next(iter(runs.values()))
    rounds = first.rounds
    shares = experiment.shares if len(experiment.shares) > 1 else [[seed] for seed in experiment.seeds]

    def mean(metric: str) -> np.ndarray:
        return np.array([np.mean([runs[seed].metrics[metric] for seed in share], axis=0) for share in shares])

    readings = [mean("grad_norm_sq")]
    biases = {seed: run.bias.mean(0) for seed, run in runs.items() if run.bias is not None}
    if biases and "stationarity" in first.metrics:
        levels = np.array([np.mean([(biases[seed] ** 2).sum() for seed in share]) for share in shares])
        readings.append(levels[:, None] + mean("stationarity"))
    return all(unsettled(rounds, values, mean("loss")) is None for values in readings)


def _titles(tasks: list[Task]) -> dict[Place, tuple[Rule, str]]:
    """Return the first rule of each algorithm, and the title of its setting.

    Tuning may choose what another `[[algorithm]]` of the variant has: the title of each but the first then says which
    algorithm it is.
    """
    titles: dict[Place, tuple[Rule, str]] = {}
    taken = set()
    for place, group in groupby(tasks, key=lambda task: (task.variant, task.number)):
        several = list(group)
        rule, start = several[0].rule, several[0].experiment.candidates[place[1]].start
        title = setting(rule)
        if len(several) > 1:
            title = f"{TUNED} {len(several)} replicates" + f", {start}" * bool(start)
        if (place[0], rule.name, title) in taken:
            title += f", as [[algorithm]] number {place[1] + 1}"
        taken.add((place[0], rule.name, title))
        titles[place] = rule, title
    return titles


def _result(of_rule: tuple[Rule, str], runs: dict[int, Row], one: Experiment) -> Result:
    """Return the result of one algorithm; settings of several replicates are one method."""
    rule, title = of_rule
    ordered = {seed: runs[seed] for seed in one.seeds}
    seconds = sum(run.seconds for run in runs.values())
    replicates = {seed: replicate for replicate, share in enumerate(one.shares) for seed in share}
    by_share = replicates if len(one.shares) > 1 else None
    return result_of(rule, ordered, one.problem, one.network, one.oracle, one.plan, seconds, title, by_share, one.clock)


def _facts(experiment: Experiment, result: Result) -> dict[str, Any]:
    """Return what a reader should know of a variant, besides its runs."""
    problem, network = experiment.problem, experiment.network
    # ρ of an asynchronous network says nothing, and that of a large changing one takes too long
    has_gap = not network.asynchronous and (network.agents <= 1_000 or not network.changes)
    ends = ((agent, int(other)) for agent in range(network.agents) for other in network.neighbors(agent))
    means = next(iter(result.states.values())).mean(1).astype(float)
    facts: dict[str, Any] = {
        "agents": network.agents,
        "network": network.name,
        "gap": network.gap if has_gap else None,
        "links": network.links,
        "edges": [list(pair) for pair in sorted({(min(pair), max(pair)) for pair in ends})]
        if network.agents <= 200
        else None,
        "smoothness": problem.smoothness,
        "heterogeneity": problem.heterogeneity(problem.start),
        "heterogeneity_at_end": (
            float(np.mean([problem.heterogeneity(mean) for mean in means])) if np.isfinite(means).all() else None
        ),
    }
    if isinstance(problem, Empirical):
        targets = [problem.own_targets(agent) for agent in range(problem.agents)]
        classes = np.unique(np.concatenate(targets))
        facts["classes"] = [str(value) for value in classes]
        facts["counts"] = [[int((own == value).sum()) for value in classes] for own in targets]
    if result.mean_bias is not None:
        facts["bias_sq"] = float((result.mean_bias**2).sum(1).mean())
    # JSON has no infinity, which the numbers of an absurd problem may reach
    return {name: None if isinstance(value, float) and not isfinite(value) else value for name, value in facts.items()}
