"""Run a spec: one result, or a study of several variants, through a store that an interrupted run goes on from."""

from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
import polars as pl

from gossamer.basics.progress import Report, Tally, reporting, saying
from gossamer.core import InputError, Rule, parts, setting
from gossamer.engines import processes
from gossamer.engines.program import Form
from gossamer.engines.runs import Row, RunPlan, Setting, Width, compute
from gossamer.engines.simulator import result_of, warn_of_drift
from gossamer.experiments.directory import claim
from gossamer.experiments.facts import facts_of
from gossamer.experiments.tuning import Tuned
from gossamer.experiments.variants import Variant
from gossamer.results.result import Result
from gossamer.results.statistics import unsettled
from gossamer.results.store import NullStore, Store
from gossamer.results.study import TUNED, Study
from gossamer.specs.parts import Parts
from gossamer.specs.spec import Spec


class Wanted(NamedTuple):
    """One algorithm of one variant, its hyper-parameters chosen, and the seeds that they were chosen for."""

    variant: str
    number: int
    """Which `[[algorithm]]` of the spec it is."""
    rule: Rule
    seeds: list[int]
    parts: Parts
    plan: RunPlan
    width: Width


Place = tuple[str, int]
"""A variant and the number of an algorithm."""


def run(spec: Spec, out: str | Path | None = None, *, name: str = "run", progress: bool | Report = True) -> Study:
    """Run a spec. With `out`, in a directory: every run is kept when it is done, so that the same call after an
    interruption goes on, and one with more rounds or seeds computes only what is missing."""
    variants = spec.each(Variant.of)
    store = NullStore()
    if out is not None:
        processes.run_on_first(partial(claim, spec, Path(out)))
        store = processes.open_store(Path(out) / "cells")
    study = studied(variants, store, name, spec.title or name, spec.toml(), progress)
    if out is None or not processes.is_first():
        return study
    try:
        study.save(Path(out), anew=store.written > 0)
    except OSError as error:
        raise InputError(f"cannot write into {out}: {error.strerror or error}.") from error
    return study if store.written else Study.load(out)  # with the seconds and versions of the computation


def studied(
    variants: dict[str, Variant], store: Store, name: str, title: str, spec: str, progress: bool | Report
) -> Study:
    """Tune what is open in each variant, run all, and put together what it gives."""
    with reporting(progress) as report:
        tuned = {label: _tuned(variant, store, report) for label, variant in variants.items()}
        wanted = [each for label in variants for each in _wanted(label, variants[label], tuned[label])]
        warn_of_drift([(each.rule, each.plan) for each in wanted])
        alone = list(variants) == [""] and variants[""].tuning is None
        tally = Tally(name, sum(len(each.seeds) for each in wanted), several=not alone)
        results = _evaluated(variants, wanted, store, report, tally)
    numbers = {label: range(len(variant.parts.candidates)) for label, variant in variants.items()}
    joined = {label: Result.join([results[label, k] for k in numbers[label]]) for label in variants}
    facts = {label: facts_of(variant.parts, joined[label]) for label, variant in variants.items()}
    return Study(name, title, spec, joined, Tuned.table_of(tuned), facts)


def tuned(spec: Spec, out: str | Path, *, progress: bool | Report = True) -> pl.DataFrame:
    """Only the tuning of a spec: one row for each setting that was tried, the chosen ones marked."""
    if spec.tuning is None:
        raise InputError("the spec has no [tuning] section: add one with eta = [lowest, highest].")
    variants = spec.each(Variant.of)
    if not any(candidate.open for variant in variants.values() for candidate in variant.parts.candidates):
        raise InputError("every algorithm of the spec has all its hyper-parameters: leave out what is to be tuned.")
    processes.run_on_first(partial(claim, spec, Path(out)))
    with reporting(progress) as report:
        store = processes.open_store(Path(out) / "cells")
        table = Tuned.table_of({label: _tuned(variant, store, report) for label, variant in variants.items()})
    assert table is not None
    return table


def _tuned(variant: Variant, store: Store, report: Report) -> list[Tuned]:
    """What was chosen in each replicate."""
    if (trying := variant.trying) is None:
        return [Tuned({}, {})]
    return [trying.search(store, report, replicate) for replicate in range(len(variant.shares))]


def _wanted(label: str, variant: Variant, tuned: list[Tuned]) -> list[Wanted]:
    """What is to be run in a variant: an algorithm that leaves nothing open on all seeds at once."""
    wanted = []
    choices = [choice.chosen for choice in tuned]
    for number, candidate in enumerate(variant.parts.candidates):
        for share, chosen in zip(variant.shares, choices, strict=True) if candidate.open else [(variant.seeds, {})]:
            rule = candidate.rule(chosen[number]) if candidate.open else candidate.whole
            wanted.append(Wanted(label, number, rule, share, variant.parts, variant.plan, variant.width))
    return wanted


def _evaluated(
    variants: dict[str, Variant], wanted: list[Wanted], store: Store, report: Report, tally: Tally
) -> dict[Place, Result]:
    """The result of each algorithm in each variant; runs that have not settled go on where the spec says so."""
    runs: dict[Place, dict[int, Row]] = {}
    going = wanted
    while going:
        for place, by_seed in _computed(going, store, report, tally).items():
            runs[place] = runs.get(place, {}) | by_seed
        going = [
            task._replace(plan=task.plan.doubled())
            for task in going
            if task.plan.last * 2 <= (variants[task.variant].run.settle or 0)
            and not _settled(runs[task.variant, task.number], variants[task.variant])
        ]
        tally.more(sum(len(task.seeds) for task in going))
    titles = _titles(wanted)
    results = {}
    for label, number in runs:
        several = [task for task in wanted if (task.variant, task.number) == (label, number)]
        results[label, number] = _result(several, titles[label, number], runs[label, number], variants[label])
    return results


def _titles(wanted: list[Wanted]) -> dict[Place, str]:
    """What the setting of each algorithm is called. Tuning may choose what another `[[algorithm]]` of the variant has:
    then each but the first says which it is."""
    titles: dict[Place, str] = {}
    taken = set()
    for place, group in groupby(wanted, key=lambda task: (task.variant, task.number)):
        several = list(group)
        first = several[0]
        rule, start = first.rule, first.parts.candidates[first.number].start
        title = setting(rule)
        if len(several) > 1:
            title = f"{TUNED} {len(several)} replicates" + f", {start}" * bool(start)
        if (place[0], rule.name, title) in taken:
            title += f", as [[algorithm]] number {place[1] + 1}"
        taken.add((place[0], rule.name, title))
        titles[place] = title
    return titles


def _result(several: list[Wanted], told: str, runs: dict[int, Row], variant: Variant) -> Result:
    """The result of one algorithm; several settings, each of a replicate of its own, are one method: tuned."""
    first = several[0]
    parts, plan = variant.parts, variant.plan
    ordered = {seed: runs[seed] for seed in variant.seeds}
    seconds = sum(run.seconds for run in runs.values())
    replicates = _replicates(variant) if len(variant.shares) > 1 else None
    made_of = parts.problem, parts.network, parts.oracle
    return result_of(first.rule, ordered, *made_of, plan, seconds, told, replicates, variant.clock)


def _replicates(variant: Variant) -> dict[int, int]:
    return {seed: replicate for replicate, share in enumerate(variant.shares) for seed in share}


def _settled(runs: dict[int, Row], variant: Variant) -> bool:
    """Tell if the mean of ‖∇F‖² has settled over all replicates; a run that diverged never will.

    Where the agents' mean bias ē is constant, ‖ē‖² + ‖∇F + ē‖² must have settled as well: floors are read from it.
    """
    if any(run.diverged >= 0 for run in runs.values()):
        return True
    first = next(iter(runs.values()))
    rounds = first.rounds
    shares = variant.shares if len(variant.shares) > 1 else [[seed] for seed in variant.seeds]

    def mean(metric: str) -> np.ndarray:
        return np.array([np.mean([runs[seed].metrics[metric] for seed in share], axis=0) for share in shares])

    readings = [mean("grad_norm_sq")]
    biases = {seed: run.bias.mean(0) for seed, run in runs.items() if run.bias is not None}
    if biases and "stationarity" in first.metrics:
        levels = np.array([np.mean([(biases[seed] ** 2).sum() for seed in share]) for share in shares])
        readings.append(levels[:, None] + mean("stationarity"))
    return all(unsettled(rounds, values, mean("loss")) is None for values in readings)


def _computed(wanted: list[Wanted], store: Store, report: Report, tally: Tally) -> dict[Place, dict[int, Row]]:
    """The runs by seed. What differs in numbers only runs in common blocks."""
    groups: dict[tuple[Any, ...], list[Wanted]] = {}
    for task in wanted:
        groups.setdefault(_alike(task), []).append(task)
    computed: dict[Place, dict[int, Row]] = {}
    for group in groups.values():
        first = group[0]

        def told(done: int, loss: float | None, first: Wanted = first) -> None:
            report(tally.label(first.rule.name), done, first.plan.last, loss)

        runs = compute(
            [Setting(task.rule, task.parts.oracle, partial(task.parts.key_of, task.rule)) for task in group],
            first.parts.problem,
            first.parts.network,
            first.seeds,
            first.plan,
            width=first.width,
            store=store,
            report=told,
            ended=tally.add,
            say=saying(report, first.rule.name),
            forecast=first.plan.doublings > 0,  # the plan of the spec was checked when it was read
        )
        for k, task in enumerate(group):
            computed.setdefault((task.variant, task.number), {}).update({seed: runs[k, seed] for seed in task.seeds})
    return computed


def _alike(task: Wanted) -> tuple[Any, ...]:
    """The same for what can share a compiled block."""
    structure = str(jax.tree.structure((task.parts.oracle, parts(task.rule))))
    where = id(task.parts.problem), id(task.parts.network)
    return structure, *where, Form.of(task.rule), tuple(task.seeds), task.plan, task.width
