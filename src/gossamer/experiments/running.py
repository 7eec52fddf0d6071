"""Run a spec: one result, or a study of several variants, through a store that an interrupted run goes on from."""

import json
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
import polars as pl

from gossamer.algorithms import ALGORITHMS
from gossamer.basics.progress import Report, Tally, reporting, saying
from gossamer.core import InputError, brief, parts, setting
from gossamer.engines.runs import Plan, Row, Setting, Width, compute, fits
from gossamer.engines.simulator import planned, result_of
from gossamer.experiments.facts import facts_of
from gossamer.experiments.tuning import Tuned, grid_fits, search
from gossamer.results.files import FORMAT, sweep, write
from gossamer.results.result import Result
from gossamer.results.statistics import unsettled
from gossamer.results.store import Nowhere, Store
from gossamer.results.study import TUNED, Study
from gossamer.specs.making import placed
from gossamer.specs.spec import Parts, Spec, left, tried


class Variant(NamedTuple):
    """One variant of a spec: all that it names, made and checked, and how long it runs on which seeds."""

    spec: Spec
    parts: Parts
    plan: Plan
    seeds: list[int]

    @staticmethod
    def of(spec: Spec) -> "Variant":
        parts = spec.parts()
        plan, seeds = planned(spec.run.steps, spec.run.every, spec.run.seeds, spec.run.dtype, spec.run.until)
        one = Variant(spec, parts, plan, seeds)
        for name, hyper in parts.algorithms:
            rule = (
                tried(name, hyper, spec.tuning)[0] if spec.tuning and left(name, hyper) else ALGORITHMS[name](**hyper)
            )
            fits([Setting(rule, parts.oracle, {})], parts.problem, parts.network, seeds, plan, one.width)
        if spec.tuning:
            with placed("[tuning]"):
                grid_fits(parts, spec.tuning, spec.tuning.steps or plan.steps, plan.dtype)
        return one

    @property
    def width(self) -> Width:
        """The size of a block of its runs."""
        return Width(self.spec.run.together, self.spec.run.seeds_together or len(self.shares[0]))

    @property
    def shares(self) -> list[list[int]]:
        """The seeds of each tuning replicate; all in one where nothing is tuned."""
        size = len(self.seeds) // (self.spec.tuning.replicates if self.spec.tuning else 1)
        return [self.seeds[k : k + size] for k in range(0, len(self.seeds), size)]


class Wanted(NamedTuple):
    """One algorithm of one variant, its hyper-parameters chosen, and the seeds that they were chosen for."""

    variant: str
    number: int
    """Which `[[algorithm]]` of the spec it is."""
    rule: Any
    seeds: list[int]
    parts: Parts
    plan: Plan
    width: Width


Place = tuple[str, int]
"""A variant and the number of an algorithm."""


def run(spec: Spec, out: str | Path | None = None, *, name: str = "run", progress: bool | Report = True) -> Study:
    """Run a spec. With `out`, in a directory: every run is kept when it is done, so that the same call after an
    interruption goes on, and one with more rounds or seeds computes only what is missing."""
    made = spec.each(Variant.of)
    store = Nowhere()
    if out is not None:
        _claim(spec, Path(out))
        store = Store(Path(out) / "cells")
    with reporting(progress) as report:
        tuned = {variant: _tuned(one, store, report) for variant, one in made.items()}
        wanted = [one for variant in made for one in _wanted(variant, made[variant], tuned[variant])]
        tally = Tally(name, sum(len(one.seeds) for one in wanted), several=spec.is_study)
        results = _evaluated(made, wanted, store, report, tally)
    joined = {variant: Result.joined([results[variant, k] for k in range(len(spec.algorithm))]) for variant in made}
    facts = {variant: facts_of(one.parts, joined[variant]) for variant, one in made.items()}
    study = Study(name, spec.title or name, spec.toml(), joined, Tuned.table_of(tuned), facts)
    if out is not None:
        try:
            study.save(Path(out), anew=store.written > 0)
        except OSError as error:
            raise InputError(f"cannot write into {out}: {error.strerror or error}.") from error
    if out is not None and not store.written:
        return Study.load(out)  # with the seconds and versions of the computation
    return study


def tuned(spec: Spec, out: str | Path, *, progress: bool | Report = True) -> pl.DataFrame:
    """Only the tuning of a spec: one row for each setting that was tried, the chosen ones marked."""
    if spec.tuning is None:
        raise InputError("the spec has no [tuning] section: add one with eta = [lowest, highest].")
    made = spec.each(Variant.of)
    _claim(spec, Path(out))
    with reporting(progress) as report:
        store = Store(Path(out) / "cells")
        found = {variant: _tuned(one, store, report) for variant, one in made.items()}
    table = Tuned.table_of(found)
    if table is None:
        raise InputError("every algorithm of the spec has all its hyper-parameters: leave out what is to be tuned.")
    return table


def _tuned(one: Variant, store: Store, report: Report) -> list[Tuned]:
    """What was chosen in each replicate."""
    section = one.spec.tuning
    if section is None:
        return [Tuned({}, {}, {})]
    steps, dtype = section.steps or one.plan.steps, one.plan.dtype
    return [search(one.parts, section, steps, dtype, store, report, replicate) for replicate in range(len(one.shares))]


def _wanted(name: str, one: Variant, tuned: list[Tuned]) -> list[Wanted]:
    """What is to be run in a variant: an algorithm that leaves nothing open on all seeds at once."""
    found = []
    for number, (algorithm, hyper) in enumerate(one.parts.algorithms):
        open_one = number in tuned[0].chosen
        for share, choice in zip(one.shares, tuned, strict=True) if open_one else [(one.seeds, tuned[0])]:
            rule = ALGORITHMS[algorithm](**(hyper | choice.chosen.get(number, {})))
            found.append(Wanted(name, number, rule, share, one.parts, one.plan, one.width))
    return found


def _evaluated(
    made: dict[str, Variant], wanted: list[Wanted], store: Store, report: Report, tally: Tally
) -> dict[Place, Result]:
    """The result of each algorithm in each variant; runs that have not settled go on where the spec says so."""
    runs: dict[Place, dict[int, Row]] = {}
    going = wanted
    while going:
        for place, found in _computed(going, store, report, tally).items():
            runs[place] = runs.get(place, {}) | found
        going = [
            one._replace(plan=one.plan.doubled())
            for one in going
            if one.plan.last * 2 <= (made[one.variant].spec.run.settle or 0)
            and not _settled(runs[one.variant, one.number], made[one.variant])
        ]
        tally.more(sum(len(one.seeds) for one in going))
    titles = _titles(wanted)
    results = {}
    for variant, number in runs:
        several = [one for one in wanted if (one.variant, one.number) == (variant, number)]
        results[variant, number] = _result(several, titles[variant, number], runs[variant, number], made[variant])
    return results


def _titles(wanted: list[Wanted]) -> dict[Place, str]:
    """What the setting of each algorithm is called. Tuning may choose what another `[[algorithm]]` of the variant has:
    then each but the first says which it is."""
    titles: dict[Place, str] = {}
    taken = set()
    for place, group in groupby(wanted, key=lambda one: (one.variant, one.number)):
        several = list(group)
        rule = several[0].rule
        title = f"{TUNED} {len(several)} replicates" if len(several) > 1 else setting(rule)
        if (place[0], rule.name, title) in taken:
            title += f", as [[algorithm]] number {place[1]}"
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
    return result_of(
        first.rule,
        ordered,
        parts.problem,
        parts.network,
        parts.oracle,
        plan,
        seconds,
        told,
        replicates,
        variant.spec.modelled(),
    )


def _replicates(variant: Variant) -> dict[int, int]:
    return {seed: replicate for replicate, share in enumerate(variant.shares) for seed in share}


def _settled(runs: dict[int, Row], variant: Variant) -> bool:
    """Whether the mean of ‖∇F‖² has settled over all replicates; a run that diverged never will."""
    if any(run.diverged >= 0 for run in runs.values()):
        return True
    rounds = next(iter(runs.values())).rounds
    shares = variant.shares if len(variant.shares) > 1 else [[seed] for seed in variant.seeds]
    values = np.array([np.mean([runs[seed].metrics["grad_norm_sq"] for seed in share], axis=0) for share in shares])
    return unsettled(rounds, values) is None


def _computed(wanted: list[Wanted], store: Store, report: Report, tally: Tally) -> dict[Place, dict[int, Row]]:
    """The runs by seed. What differs in numbers only runs in common blocks."""
    groups: dict[tuple[Any, ...], list[Wanted]] = {}
    for one in wanted:
        groups.setdefault(_alike(one), []).append(one)
    found: dict[Place, dict[int, Row]] = {}
    for some in groups.values():
        first = some[0]

        def told(done: int, loss: float | None, first: Wanted = first) -> None:
            report(tally.label(first.rule.name), done, first.plan.last, loss)

        runs = compute(
            [Setting(one.rule, one.parts.oracle, one.parts.key_of(one.rule)) for one in some],
            first.parts.problem,
            first.parts.network,
            first.seeds,
            first.plan,
            width=first.width,
            store=store,
            report=told,
            ended=tally.add,
            say=saying(report, first.rule.name),
        )
        for k, one in enumerate(some):
            found.setdefault((one.variant, one.number), {}).update({seed: runs[k, seed] for seed in one.seeds})
    return found


def _alike(one: Wanted) -> tuple[Any, ...]:
    """The same for what can share a compiled block."""
    structure = str(jax.tree.structure((one.parts.oracle, parts(one.rule))))
    where = id(one.parts.problem), id(one.parts.network)
    return structure, *where, type(one.rule), tuple(one.seeds), one.plan, one.width


def _claim(spec: Spec, folder: Path) -> None:
    """Make the directory this run's, or see that it already is, or that this run only extends it."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file; --out is a directory.")
    stored = folder / "spec.toml"
    if stored.is_file():
        if not extends(spec, Spec.read(stored)):
            raise InputError(
                f"{folder} holds another run (its spec.toml differs from yours in more than longer steps or more "
                "seeds): choose another --out, or remove it."
            )
        _refuse_other_format(folder)
    elif folder.exists() and any(folder.iterdir()):
        raise InputError(f"{folder} is not empty and holds no run: choose another directory.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        sweep(folder)
        write(stored, spec.toml().encode())
    except OSError as error:
        raise InputError(f"cannot write into {folder}: {error.strerror or error}.") from error


def _refuse_other_format(folder: Path) -> None:
    """Leave alone what a version wrote whose files this one cannot read."""
    for name in ("study.json", "manifest.json"):
        try:
            known = json.loads((folder / name).read_bytes())
        except (OSError, ValueError, RecursionError):
            continue  # not there, or damaged, and so written anew
        number = known.get("format", FORMAT) if isinstance(known, dict) else FORMAT
        if number != FORMAT:
            raise InputError(
                f"{folder / name} is of format {brief(number)}; this version knows format {FORMAT}: choose another "
                "--out, remove it, or use the version that wrote it."
            )


def extends(spec: Spec, old: Spec) -> bool:
    """Whether a spec is another with as many or more rounds and the same or more seeds."""
    (plan, seeds), (old_plan, old_seeds) = (
        planned(one.run.steps, one.run.every, one.run.seeds, one.run.dtype) for one in (spec, old)
    )
    longer = plan.steps >= old_plan.steps and set(old_seeds) <= set(seeds)
    update = {"steps": spec.run.steps, "seeds": spec.run.seeds}
    update = {"run": old.run.model_copy(update=update), "links": spec.links}  # links only change what is shown
    same = old.model_copy(update=update).model_dump() == spec.model_dump()
    return longer and same
