"""Run experiments: tune what is open, run all variants through a store, and put the results together."""

from collections.abc import Mapping, Sequence
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
from gossamer.engines.program import RuleForm
from gossamer.engines.runs import Row, RunPlan, compute
from gossamer.engines.simulator import apply_clock, network_for, plan_run, result_of, warn_of_drift
from gossamer.experiments.directory import open_directory
from gossamer.experiments.tuning import Tuned, tune_setup
from gossamer.networks import Network
from gossamer.oracles import Oracle, completed
from gossamer.problems import Empirical, Problem
from gossamer.results.cache_key import Unknown, digest
from gossamer.results.exports import keeping_log
from gossamer.results.result import Result
from gossamer.results.statistics import unsettled
from gossamer.results.store import Store
from gossamer.results.study import TUNED, Study
from gossamer.specs.schema import RunSection, TuningSection, errors_at, validate
from gossamer.specs.setup import Candidate, Setup
from gossamer.specs.spec import Spec


class Task(NamedTuple):
    """An algorithm of a variant with its hyper-parameters chosen, and the seeds that they were chosen for."""

    variant: str
    number: int
    """The place of the algorithm in the spec."""
    rule: Rule
    seeds: list[int]
    plan: RunPlan
    setup: Setup


Place = tuple[str, int]
"""A variant and the number of an algorithm."""


def run(
    spec: Spec, out: str | Path | None = None, *, name: str = "run", log: Any = None, progress: bool | Report = True
) -> Study:
    """Run a spec and return its study.

    With a directory `out`, every finished run is stored there. The same call after an interruption goes on, and one
    with more rounds or seeds computes only what is missing. A `log`, as in `simulate`, gets all rows at the end.
    """
    setups = spec.each(build_setup)
    folder = None if out is None else Path(out)
    with keeping_log(log if processes.is_first() else None) as note:
        with open_directory(folder, spec) as store:
            study = run_setups(setups, store, name, spec.title or name, spec.toml(), progress)
            if folder is not None and processes.is_first():
                study.save(folder)
        if folder is not None and processes.is_first() and not store.written:
            study = Study.load(folder)  # with the seconds and versions of the computation
        note(study)
    return study


def tune_spec(spec: Spec, out: str | Path, *, progress: bool | Report = True) -> pl.DataFrame:
    """Tune a spec without its final runs: one row for each setting that was tried, the chosen ones marked."""
    if spec.tuning is None:
        raise InputError("the spec has no [tuning] section: add one with eta = [lowest, highest].")
    setups = spec.each(build_setup)
    if not any(candidate.open for setup in setups.values() for candidate in setup.candidates):
        raise InputError("every algorithm of the spec has all its hyper-parameters: leave out what is to be tuned.")
    with open_directory(Path(out), spec) as store, reporting(progress) as report:
        table = Tuned.table_of({label: tune_setup(setup, store, report) for label, setup in setups.items()})
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
    apart: tuple[float, float] | None = None,
    equal: str = "rounds",
    clock: Any = None,
    name: str = "study",
    out: str | Path | None = None,
    log: Any = None,
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
        apart: a pair (low, high), by which agents start apart, as in `simulate`.
        equal: "queries", "bytes", "seconds" or "joules": every method runs, and is tuned, until it has paid what the
            cheapest of them pays in `steps` rounds.
        clock: how long agents compute and messages travel, as in `simulate`.
        name: the study's name.
        out: a directory to save it in; what was finished there before is not computed again.
        log: gets the rows of the study's `frame` at the end, as in `simulate`.
        progress: as in `simulate`.
    """
    given = list(algorithms) if isinstance(algorithms, (list, tuple)) else [algorithms]
    candidates = [Candidate.of_rule(one) if is_rule(type(one)) else Candidate.of(one) for one in given]
    oracle, network = completed(oracle), network_for(problem, network)
    plan, chosen_seeds = plan_run(steps, every, seeds, dtype, until, apart)
    clock, network = apply_clock(clock, network)
    left_open = [candidate.name for candidate in candidates if candidate.open]
    if tune is None and left_open:
        raise InputError(
            f"{left_open[0]} is given as a class, so that its hyper-parameters are to be tuned: say how, as in "
            'tune={"eta": (0.01, 1.0)}, or give it whole, as in BiasedDMT(eta=0.1, lam=0.05).'
        )
    if tune is not None and not left_open:
        raise InputError(
            "tune is given, but every algorithm has all its hyper-parameters: give classes, or leave it out."
        )
    section = None if tune is None else validate(TuningSection, tune, "tune: ")
    run_section = validate(RunSection, {"steps": plan.steps, "settle": settle, "equal": equal}, "study: ")
    key = {}
    if out is not None:
        try:  # no spec describes these objects: their key is a hash of all that they hold
            key = {"objects": digest(problem, network, oracle)}
        except Unknown as reason:
            raise InputError(
                f"out=… needs to know what it stores, but {reason}: leave it out, and use `save`."
            ) from None
    made_of = candidates, problem, network, oracle
    setup = Setup(*made_of, plan, chosen_seeds, run_section, section, clock, key)
    setup.check()
    setup.check_size()
    folder = None if out is None else Path(out)
    with keeping_log(log) as note, open_directory(folder, None) as store:
        compared = run_setups({"": setup}, store, name, name, "", progress)
        if folder is not None:
            compared.save(folder)
        note(compared)
    return compared


def build_setup(spec: Spec) -> Setup:
    """Build a spec without variants, and check that its runs fit into memory."""
    setup = spec.parts()
    setup.check_size()
    if spec.verdict.metric is not None:
        first = setup.candidates[0]
        with errors_at("[verdict]"):
            rule = first.example(setup.tuning) if setup.tuning and first.open else first.whole
            setup.check_measured(rule, spec.verdict.metric)
    return setup


def run_setups(
    setups: dict[str, Setup], store: Store, name: str, heading: str, spec: str, progress: bool | Report
) -> Study:
    """Tune what is open in each variant, run all, and return the study."""
    with reporting(progress) as report:
        tuned = {label: tune_setup(setup, store, report) for label, setup in setups.items()}
        tasks = []
        for label, setup in setups.items():
            choices = [choice.chosen for choice in tuned[label]]
            for number, candidate in enumerate(setup.candidates):
                if candidate.open:
                    rules, shares = [candidate.rule(chosen[number]) for chosen in choices], setup.shares
                else:  # an algorithm that leaves nothing open runs on all seeds at once
                    rules, shares = [candidate.whole], [setup.seeds]
                pairs = zip(rules, shares, strict=True)
                tasks += [Task(label, number, rule, seeds, setup.plans[number], setup) for rule, seeds in pairs]
        warn_of_drift([(task.rule, task.plan) for task in tasks])
        alone = list(setups) == [""] and setups[""].tuning is None
        tally = StudyProgress(name, sum(len(task.seeds) for task in tasks), several=not alone)
        runs: dict[Place, dict[int, Row]] = {}
        going = tasks
        while going:
            for place, by_seed in _compute(going, store, report, tally).items():
                runs[place] = runs.get(place, {}) | by_seed
            going = [
                task._replace(plan=task.plan.double())
                for task in going
                if task.plan.last * 2 <= (task.setup.run.settle or 0)
                and not is_settled(runs[task.variant, task.number], task.setup)
            ]
            tally.extend(sum(len(task.seeds) for task in going))
    by_place = {place: list(group) for place, group in groupby(tasks, key=lambda task: (task.variant, task.number))}
    results, facts = {}, {}
    for label, setup in setups.items():
        own, taken = [], set()
        for number, candidate in enumerate(setup.candidates):
            several, by_seed = by_place[label, number], {seed: runs[label, number][seed] for seed in setup.seeds}
            rule, seconds = several[0].rule, sum([run.seconds for run in by_seed.values()])
            title = setting(rule)
            if len(several) > 1:
                title = f"{TUNED} {len(several)} replicates" + f", {candidate.start}" * bool(candidate.start)
            # tuning may choose what another [[algorithm]] has: the title of the later one then says which it is
            title += f", as [[algorithm]] number {number + 1}" * ((rule.name, title) in taken)
            taken.add((rule.name, title))
            # seeds that share what was tuned are one replicate; settings of several replicates are one method
            shares = {seed: replicate for replicate, share in enumerate(setup.shares) for seed in share}
            replicates = shares if len(setup.shares) > 1 else None
            world = setup.problem, setup.network, setup.oracle, setup.plan
            own.append(result_of(rule, by_seed, *world, seconds, title, replicates, setup.clock))
        results[label] = Result.join(own)
        facts[label] = _facts(setup, results[label])
    return Study(name, heading, spec, results, Tuned.table_of(tuned), facts)


def _compute(tasks: list[Task], store: Store, report: Report, tally: StudyProgress) -> dict[Place, dict[int, Row]]:
    """Return the runs by seed. Tasks that differ in numbers only share compiled blocks."""
    groups: dict[tuple[Any, ...], list[Task]] = {}
    for task in tasks:
        one = task.setup
        # oracles and parts of equal structure differ in numbers only, which are arguments of the program
        structure = str(jax.tree.structure((one.oracle, parts(task.rule)))), RuleForm.of(task.rule)
        world = id(one.problem), id(one.network)
        groups.setdefault((*structure, *world, tuple(task.seeds), task.plan, one.width), []).append(task)
    computed: dict[Place, dict[int, Row]] = {}
    for group in groups.values():
        first = group[0]

        def report_group(done: int, loss: float | None, first: Task = first) -> None:
            report(tally.label(first.rule.name), done, first.plan.last, loss)

        runs = compute(
            [task.setup.setting(task.rule) for task in group],
            first.setup.problem,
            first.setup.network,
            first.seeds,
            first.plan,
            width=first.setup.width,
            store=store,
            report=report_group,
            ended=tally.add,
            say=saying(report, first.rule.name),
            forecast=first.plan.doublings > 0,  # the plan of the spec was checked before
        )
        for k, task in enumerate(group):
            computed.setdefault((task.variant, task.number), {}).update({seed: runs[k, seed] for seed in task.seeds})
    return computed


def is_settled(runs: dict[int, Row], setup: Setup) -> bool:
    """Return whether the mean of ‖∇F‖² has settled over all replicates; a run that diverged never will.

    Where the agents' mean bias ē is constant, ‖ē‖² + ‖∇F + ē‖² must have settled as well: floors are read from it.
    """
    if any(run.diverged >= 0 for run in runs.values()):
        return True  # more rounds would bring nothing
    first = next(iter(runs.values()))
    rounds = first.rounds
    shares = setup.shares if len(setup.shares) > 1 else [[seed] for seed in setup.seeds]

    def mean(metric: str) -> np.ndarray:
        return np.array([np.mean([runs[seed].metrics[metric] for seed in share], axis=0) for share in shares])

    readings = [mean("grad_norm_sq")]
    biases = {seed: run.bias.mean(0) for seed, run in runs.items() if run.bias is not None}
    if biases and "stationarity" in first.metrics:
        levels = np.array([np.mean([(biases[seed] ** 2).sum() for seed in share]) for share in shares])
        readings.append(levels[:, None] + mean("stationarity"))
    return all(unsettled(rounds, values, mean("loss")) is None for values in readings)


def edges_of(network: Network) -> list[list[int]]:
    """Return the links of a network, each once."""
    links = set()
    for agent in range(network.agents):
        links |= {(min(agent, other), max(agent, other)) for other in network.neighbors(agent).tolist()}
    return [list(pair) for pair in sorted(links)]


def _facts(setup: Setup, result: Result) -> dict[str, Any]:
    """Return what a reader should know of a variant, besides its runs."""
    problem, network = setup.problem, setup.network
    # ρ of an asynchronous network says nothing, and that of a large changing one takes too long
    has_gap = not network.asynchronous and (network.agents <= 1_000 or not network.changes)
    # at the models of the first method, which stand for where methods end
    means = next(iter(result.states.values())).mean(1).astype(float)
    facts: dict[str, Any] = {
        "agents": network.agents,
        "network": network.name,
        "gap": network.gap if has_gap else None,
        "links": network.links,
        "edges": edges_of(network) if network.agents <= 200 else None,  # more could not be drawn
        "smoothness": problem.smoothness,
        "heterogeneity": problem.heterogeneity(problem.start),
        "heterogeneity_at_end": (
            float(np.mean([problem.heterogeneity(mean) for mean in means])) if np.isfinite(means).all() else None
        ),
    }
    if problem.agent_names is not None:
        facts["agent_names"] = list(problem.agent_names)
    if isinstance(problem, Empirical):
        targets = [problem.own_targets(agent) for agent in range(problem.agents)]
        classes = np.unique(np.concatenate(targets))
        names = problem.class_names or ()
        facts["classes"] = list(names) if len(names) == len(classes) else [str(value) for value in classes]
        facts["counts"] = [[int((own == value).sum()) for value in classes] for own in targets]
    if result.mean_bias is not None:
        facts["bias_sq"] = float((result.mean_bias**2).sum(1).mean())
    # JSON has no infinity, which the numbers of an absurd problem may reach
    return {name: None if isinstance(value, float) and not isfinite(value) else value for name, value in facts.items()}
