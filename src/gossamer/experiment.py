"""Run a spec: one result, or a study of several variants, through a store that an interrupted run goes on from."""

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
import polars as pl

from gossamer.algorithms import ALGORITHMS
from gossamer.core import InputError, parts
from gossamer.engines.rows import Plan, Row, Setting, Width, compute
from gossamer.engines.simulator import planned, result_of
from gossamer.files import sweep, write
from gossamer.problems import Empirical
from gossamer.progress import Report, Tally, reporting
from gossamer.results import Result
from gossamer.spec import Parts, Spec
from gossamer.store import Nowhere, Store
from gossamer.study import Study
from gossamer.tuning import FIRST_SEED, Tuned, search


class Wanted(NamedTuple):
    """One algorithm in one variant, its hyper-parameters chosen."""

    variant: str
    rule: Any
    parts: Parts


def run(spec: Spec, out: str | Path | None = None, *, name: str = "run", progress: bool | Report = True) -> Study:
    """Run a spec. With `out`, in a directory: every run is kept when it is done, so that the same call after an
    interruption goes on, and one with more rounds or seeds computes only what is missing."""
    made = {variant: one.parts() for variant, one in spec.variants().items()}
    plan, seeds = planned(spec.run.steps, spec.run.every, spec.run.seeds, spec.run.dtype)
    store = Nowhere()
    if out is not None:
        _claim(spec, Path(out))
        store = Store(Path(out) / "cells")
    with reporting(progress) as report:
        tuned = {variant: _tuned(parts, spec, store, report) for variant, parts in made.items()}
        wanted = [
            Wanted(variant, ALGORITHMS[algorithm](**(hyper | tuned[variant].chosen.get(number, {}))), parts)
            for variant, parts in made.items()
            for number, (algorithm, hyper) in enumerate(parts.algorithms)
        ]
        results = _evaluated(wanted, spec, plan, seeds, store, report, name)
    joined = {variant: Result.joined([results[variant, k] for k in range(len(spec.algorithm))]) for variant in made}
    facts = {variant: facts_of(parts, joined[variant]) for variant, parts in made.items()}
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
    made = {variant: one.parts() for variant, one in spec.variants().items()}
    _claim(spec, Path(out))
    with reporting(progress) as report:
        store = Store(Path(out) / "cells")
        found = {variant: _tuned(parts, spec, store, report) for variant, parts in made.items()}
    table = Tuned.table_of(found)
    if table is None:
        raise InputError("every algorithm of the spec has all its hyper-parameters: leave out what is to be tuned.")
    return table


def _tuned(parts: Parts, spec: Spec, store: Store, report: Report) -> Tuned:
    if spec.tuning is None:
        return Tuned({}, {}, {})
    _, seeds = planned(spec.run.steps, spec.run.every, spec.run.seeds, spec.run.dtype)
    if max(seeds) >= FIRST_SEED:
        raise InputError(f"[run] seeds from {FIRST_SEED:,} on are for tuning: choose others.")
    return search(parts, spec.tuning, spec.tuning.steps or spec.run.steps, spec.run.dtype, store, report)


def _evaluated(
    wanted: list[Wanted], spec: Spec, plan: Plan, seeds: list[int], store: Store, report: Report, name: str
) -> dict[tuple[str, int], Result]:
    """The result of each algorithm in each variant. Those that differ in numbers only run in common blocks."""
    width = Width(spec.run.together, spec.run.seeds_together or len(seeds))
    results: dict[tuple[str, int], Result] = {}
    groups: dict[tuple[Any, ...], list[tuple[int, Wanted]]] = {}
    for number, one in enumerate(wanted):
        groups.setdefault(_alike(one), []).append((number % len(spec.algorithm), one))
    tally = Tally(name, len(wanted) * len(seeds))
    for some in groups.values():
        began, (_, first) = time.perf_counter(), some[0]
        algorithm = first.rule.name

        def told(done: int, loss: float | None, algorithm: str = algorithm) -> None:
            report(tally.label(algorithm) if spec.is_study else algorithm, done, plan.steps, loss)

        runs = compute(
            [Setting(one.rule, one.parts.oracle, one.parts.key_of(one.rule)) for _, one in some],
            first.parts.problem,
            first.parts.network,
            seeds,
            plan,
            width=width,
            store=store,
            report=told,
            ended=tally.add,
        )
        seconds = (time.perf_counter() - began) / len(some)
        for k, (number, one) in enumerate(some):
            mine: dict[int, Row] = {seed: runs[k, seed] for seed in seeds}
            parts = one.parts
            result = result_of(one.rule, mine, parts.problem, parts.network, parts.oracle, plan, seconds)
            results[one.variant, number] = result
    return results


def _alike(one: Wanted) -> tuple[Any, ...]:
    """The same for what can share a compiled block."""
    structure = str(jax.tree.structure((one.parts.oracle, parts(one.rule))))
    return structure, id(one.parts.problem), id(one.parts.network), type(one.rule)


def facts_of(parts: Parts, result: Result) -> dict[str, Any]:
    """What a reader should know of a variant, besides its runs."""
    problem, network = parts.problem, parts.network
    facts: dict[str, Any] = {
        "agents": network.agents,
        "network": network.name,
        "gap": network.gap if network.agents <= 1_000 or not network.changes else None,  # there it takes long
        "links": network.links,
        "edges": _edges(parts) if network.agents <= 200 else None,
        "smoothness": problem.smoothness,
        "heterogeneity": problem.heterogeneity(problem.start),
    }
    if isinstance(problem, Empirical):
        held = [problem.own_targets(agent) for agent in range(problem.agents)]
        classes = np.unique(np.concatenate(held))
        facts["classes"] = [str(value) for value in classes]
        facts["counts"] = [[int((own == value).sum()) for value in classes] for own in held]
    if result.mean_bias is not None:
        facts["bias_sq"] = float((result.mean_bias**2).sum(1).mean())
    return facts


def _edges(parts: Parts) -> list[list[int]]:
    network = parts.network
    pairs: Iterable[tuple[int, int]] = (
        (agent, int(other)) for agent in range(network.agents) for other in network.neighbors(agent)
    )
    return [list(pair) for pair in sorted({(min(pair), max(pair)) for pair in pairs})]


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
    elif folder.exists() and any(folder.iterdir()):
        raise InputError(f"{folder} is not empty and holds no run: choose another directory.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        sweep(folder)
        write(stored, spec.toml().encode())
    except OSError as error:
        raise InputError(f"cannot write into {folder}: {error.strerror or error}.") from error


def extends(spec: Spec, old: Spec) -> bool:
    """Whether a spec is another with as many or more rounds and the same or more seeds."""
    (plan, seeds), (old_plan, old_seeds) = (
        planned(one.run.steps, one.run.every, one.run.seeds, one.run.dtype) for one in (spec, old)
    )
    longer = plan.steps >= old_plan.steps and set(old_seeds) <= set(seeds)
    update = {"steps": spec.run.steps, "seeds": spec.run.seeds}
    same = old.model_copy(update={"run": old.run.model_copy(update=update)}).model_dump() == spec.model_dump()
    return longer and same
