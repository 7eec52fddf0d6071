"""Reproduce the paper: run its experiments, judge its claims and write the report."""

import dataclasses
import json
import time
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gossamer import report
from gossamer.basics.keys import keys_of
from gossamer.basics.progress import Report
from gossamer.basics.text import format_duration
from gossamer.core import InputError
from gossamer.engines.agents import each
from gossamer.engines.simulator import plan_run
from gossamer.experiments import running
from gossamer.oracles import AdditiveBias, Oracle, Site, Stage
from gossamer.paper.claims import judge
from gossamer.paper.experiments import EXPERIMENTS, QUICK, text_of
from gossamer.paper.processes import run_all
from gossamer.paper.verdicts import Verdicts
from gossamer.problems import Problem, settling_point
from gossamer.problems.problem import cast
from gossamer.results.study import Study
from gossamer.specs.setup import Setup
from gossamer.specs.spec import Spec


def spec_of(name: str, quick: bool = False) -> Spec:
    """The spec of an experiment, whole or quick."""
    spec = Spec.of(tomllib.loads(text_of(name)))
    return _shortened(name, spec) if quick else spec


PAPER = (
    "Q. Xu, Y. Liao, W. Fan, X. You and S. Dian, “Improved convergence for decentralized stochastic optimization with "
    "biased gradients”, 2026, arXiv 2604.08236"
)
"""The paper that is reproduced."""

RESUMED = ", going on from what was finished before"

LONGEST_FIRST = (
    "horizon",
    "start",
    "descent",
    "speedup",
    "heterogeneity",
    "fig1",
    "fig2",
    "sensitivity",
    "topology",
    "corollary",
)
"""The order in which processes take experiments, so that none is left with a long one at the end."""


def reproduce(
    names: list[str] | None,
    out: Path,
    *,
    quick: bool = False,
    processes: int = 1,
    progress: bool | Report = True,
    say: Callable[[str], None] = print,
) -> Verdicts:
    """Run experiments (all if none is named), judge the paper's claims and write the report.

    The same call after an interruption goes on from what was finished, and ends with the same verdicts and tables.
    Experiments may run side by side in several `processes`, with progress in lines, which changes no number.
    """
    began, chosen = time.monotonic(), names or list(QUICK if quick else EXPERIMENTS)
    resumed = any((out / name / "cells").exists() for name in chosen)
    specs = {name: spec_of(name, quick) for name in chosen}
    if (side_by_side := min(len(specs), processes)) > 1:
        say(f"{side_by_side} at a time: " + "; ".join(f"{name}, {spec.title}" for name, spec in specs.items()))
        ordered = sorted(specs, key=LONGEST_FIRST.index)
        run_all(ordered, quick, out, side_by_side, say)
        studies = {name: Study.load(out / name) for name in specs}
    else:
        studies = {}
        for number, (name, spec) in enumerate(specs.items(), 1):
            say(f"{number} of {len(specs)}: {name}, {spec.title}")
            studies[name] = run_one(name, quick, out / name, progress)
    return finish(
        studies,
        out,
        () if names else EXPERIMENTS,
        "Biased-DMT, reproduced",
        f"gossamer reproduce {' '.join(chosen)}{' --quick' if quick else ''} --out {out}",
        {"Took": f"{format_duration(time.monotonic() - began)}{RESUMED if resumed else ''}"},
        drawn=side_by_side > 1,
    )


def run_one(name: str, quick: bool, folder: Path, progress: bool | Report) -> Study:
    """Run one experiment, provided that methods can settle under its bias."""
    spec = spec_of(name, quick)
    if not (folder / "spec.toml").exists():
        refuse_runaways(name, spec)
    return running.run(spec, folder, name=name, progress=progress)


def which(study: Study) -> str | None:
    """Return the experiment that a study's spec names, whole or quick; None if the study is no experiment."""
    found = _experiment(study)
    return found and found[0]


def _experiment(study: Study) -> tuple[str, bool] | None:
    """Return the experiment that a study's spec names, and True if it is the quick form.

    A copy of the spec keeps the name when somebody changes it, so the rest must be the experiment's, too.
    """
    if (name := study.experiment) not in EXPERIMENTS:
        return None
    try:
        contents = Spec.of(tomllib.loads(study.spec)).model_dump(exclude={"title"})
    except InputError:
        return None
    same = (quick for quick in (False, True) if spec_of(name, quick).model_dump(exclude={"title"}) == contents)
    return next(((name, quick) for quick in same), None)


def about(found: Sequence[tuple[str, bool]]) -> dict[str, str]:
    """Return the first lines of a report on these experiments, each whole or quick: the paper, and how much of it."""
    if not found:
        return {}
    whole, quick = ([name for name, short in found if short == form] for form in (False, True))
    parts = [
        f"whole: {', '.join(whole)}" if whole else "",
        f"quick, with less of everything: {', '.join(quick)}" if quick else "",
    ]
    missing = [name for name in EXPERIMENTS if name not in {*whole, *quick}]
    parts.append(f"not run: {', '.join(missing)}" if missing else "")
    return {"Paper": PAPER, "Experiments": "; ".join(filter(None, parts))}


def finish(
    studies: dict[str, Study],
    out: Path,
    wanted: Sequence[str],
    title: str,
    how: str,
    noted: Mapping[str, str] | None = None,
    *,
    drawn: bool = False,
) -> Verdicts:
    """Judge the studies that are experiments of the paper, and write `verdicts.json`, the report, figures and tables.

    A claim about an experiment that is `wanted` but not among the studies gets the verdict "not run". What is `noted`
    stands below the report's title. Figures are left as they are where they were `drawn` before.
    """
    found = {study.name: one for study in studies.values() if (one := _experiment(study))}
    verdicts = judge({found[study.name][0]: study for study in studies.values() if study.name in found}, wanted)
    shown = {name: study for study, (name, _) in found.items()}
    verdicts = Verdicts(
        dataclasses.replace(verdict, experiment=shown.get(verdict.experiment, verdict.experiment))
        for verdict in verdicts
    )
    rows = [verdict.asdict() for verdict in verdicts]
    lines = about([*found.values()]) | dict(noted or {})
    report.write_all(list(studies.values()), rows, out, title, how, lines, drawn=drawn)
    return verdicts


def refuse_runaways(name: str, spec: Spec) -> None:
    """Refuse a bias under which no method can settle: solve ∇F = −ē for every seed, at the largest biases of the spec.

    The steps of a ladder of biases are multiples of one draw, so the largest pulls hardest in every coordinate. Another
    split of the data into equal parts leaves F as it is.
    """
    staged = [variant for variant in spec.variants().values() if variant.oracle.stages]
    biased = [(variant, parts) for variant in staged if _bias_size((parts := variant.parts()).oracle) > 0]
    most = max((_bias_size(parts.oracle) for _, parts in biased), default=0.0)
    solved: set[tuple[str, bytes]] = set()
    start = None
    for variant, parts in biased:
        if _bias_size(parts.oracle) < most:
            continue
        objective = json.dumps({key: value for key, value in variant.problem.items() if key != "split"}, sort_keys=True)
        for seed, mean in _mean_biases(variant, parts).items():
            if (known := (objective, mean.tobytes())) not in solved:
                solved.add(known)
                try:
                    start = settling_point(parts.problem, mean, start=start)
                except InputError as error:
                    raise InputError(f"{name}, seed {seed}: {error}") from error


def _mean_biases(variant: Spec, parts: Setup) -> dict[int, np.ndarray]:
    """The agents' mean bias ē for every seed of a variant."""
    plan, seeds = plan_run(1, None, variant.run.seeds, variant.run.dtype)
    with jax.enable_x64(plan.dtype == "float64"):
        problem, oracle = cast(parts.problem, plan.dtype), cast(parts.oracle, plan.dtype)
        biases = _biases(problem, oracle, keys_of(seeds, problem.agents)[:, 0])
    means = np.zeros((len(seeds), problem.dim)) if biases is None else np.asarray(biases).mean(1)
    return dict(zip(seeds, means, strict=True))


@jax.jit
def _biases(problem: Problem, oracle: Oracle, keys: Any) -> Any:
    """The constant bias of every agent for every seed, [seeds, agents, d]; None where there is none."""

    def of_agent(agent: Any, key: Any) -> Any:
        site = Site(problem, agent, key, jnp.int32(0))
        return oracle.bias(site, oracle.init(site))

    return jax.vmap(lambda keys: each(of_agent, problem.agents, keys))(keys)


def _bias_size(oracle: Oracle | None) -> float:
    """A measure of the absolute bias of an oracle that orders the steps of a ladder."""
    if not isinstance(oracle, Stage):
        return 0.0
    size = float(np.abs(oracle.mean).max() + oracle.std) if isinstance(oracle, AdditiveBias) else 0.0
    return size + _bias_size(oracle.inner)


def _shortened(name: str, spec: Spec) -> Spec:
    """The quick form: fewer methods, magnitudes, settings and replicates, in blocks that compile once."""
    changed: dict[str, Any] = {"seeds": 5, "together": 8, "seeds_together": 1}
    if name == "fig1":
        changed |= {"steps": 1500, "every": [4, 300]}
    if name == "fig2":
        changed |= {"steps": 4000, "every": [2, 200], "settle": 4000}
    update: dict[str, Any] = {"run": spec.run.model_copy(update=changed)}
    if spec.tuning:
        fewer: dict[str, Any] = {"budget": 16, "grids": {"lam": [1.0, 0.1], "beta": [0.0, 0.9]}, "extensions": 0}
        fewer |= {"replicates": 5, "together": 8, "refinements": 0}
        update["tuning"] = spec.tuning.model_copy(update=fewer)
    if name == "fig1":
        kept = ("biased-dmt", "biased-dsgd", "dsgdm", "gt-dsgd")
        update["algorithm"] = [options for options in spec.algorithm if options["name"] in kept]
    if name == "fig2":
        once = [variant for variant in spec.variant if not variant.name.startswith("redrawn")]
        update["variant"] = [variant.model_copy(update={"run": {}}) for variant in once]
    return spec.model_copy(update=update)
