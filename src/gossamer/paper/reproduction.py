"""Reproduce the paper: run its experiments, judge its claims and write the report."""

import dataclasses
import os
import signal
import threading
import time
import tomllib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from gossamer import report
from gossamer.basics.progress import Lines, Report
from gossamer.basics.text import format_duration
from gossamer.core import InputError
from gossamer.experiments import running
from gossamer.paper.claims import judge
from gossamer.paper.experiments import EXPERIMENTS, QUICK, text_of
from gossamer.paper.verdicts import Verdicts
from gossamer.results.study import Study
from gossamer.specs.spec import Spec

PAPER = (
    "Q. Xu, Y. Liao, W. Fan, X. You and S. Dian, “Improved convergence for decentralized stochastic optimization with "
    "biased gradients”, 2026, arXiv 2604.08236"
)
"""The paper that is reproduced."""

LONGEST_FIRST = ("horizon", "start", "descent", "speedup", "heterogeneity", "fig1", "fig2", "sensitivity")
"""The order in which processes take experiments, so that none is left with a long one at the end; others come last."""


def spec_of(name: str, quick: bool = False) -> Spec:
    """Return the spec of an experiment, whole or quick."""
    spec = Spec.of(tomllib.loads(text_of(name)))
    return shorten(name, spec) if quick else spec


def shorten(name: str, spec: Spec) -> Spec:
    """Return the quick form of an experiment: fewer methods, magnitudes, settings and replicates.

    Its blocks have one width, so that each compiles once.
    """
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
        ordered = sorted(specs, key=lambda name: (*LONGEST_FIRST, *EXPERIMENTS).index(name))
        _run_all(ordered, quick, out, side_by_side, say)
        studies = {name: Study.load(out / name) for name in specs}
    else:
        studies = {}
        for number, (name, spec) in enumerate(specs.items(), 1):
            say(f"{number} of {len(specs)}: {name}, {spec.title}")
            studies[name] = run_one(name, quick, out / name, progress)
    how = f"gossamer reproduce {' '.join(chosen)}{' --quick' if quick else ''} --out {out}"
    took = format_duration(time.monotonic() - began) + ", going on from what was finished before" * resumed
    wanted = () if names else EXPERIMENTS
    return finish(studies, out, wanted, "Biased-DMT, reproduced", how, {"Took": took}, drawn=side_by_side > 1)


def run_one(name: str, quick: bool, folder: Path, progress: bool | Report) -> Study:
    """Run one experiment into a directory."""
    return running.run(spec_of(name, quick), folder, name=name, progress=progress)


def _run_all(names: Sequence[str], quick: bool, out: Path, processes: int, say: Callable[[str], None]) -> None:
    """Run experiments in at most this many `processes` at a time, each into its folder below `out`, and draw them.

    Figures take about a second each: they are drawn last, when a process has no other experiment to run. The first
    error ends the others. A worker whose parent is gone ends by itself.
    """
    # spawn: a fork would copy JAX's threads in the middle of what they do
    with ProcessPoolExecutor(
        processes, mp_context=get_context("spawn"), initializer=_end_with_parent, initargs=(os.getpid(),)
    ) as pool:
        pending = {pool.submit(run_one, name, quick, out / name, Lines()): name for name in names}
        drawing = set()
        try:
            while pending or drawing:
                for done in wait([*pending, *drawing], return_when=FIRST_COMPLETED).done:
                    done.result()
                    drawing.discard(done)
                    if name := pending.pop(done, None):
                        say(f"{name}: done")
                        drawing.add(pool.submit(_draw, name, out))
        except BaseException as error:
            workers = list((getattr(pool, "_processes", None) or {}).values())  # what a shutdown forgets
            pool.shutdown(wait=False, cancel_futures=True)
            for worker in workers:
                worker.terminate()
            if isinstance(error, BrokenProcessPool):
                raise InputError(
                    "a process that ran an experiment ended by itself, perhaps for want of memory: the same command "
                    "goes on from what was finished, and with one process at a time it needs less."
                ) from error
            raise


def _draw(name: str, out: Path) -> None:
    report.draw(Study.load(out / name), out, name)


def _end_with_parent(parent: int) -> None:
    """Leave Ctrl-C to the parent of this worker, and end the worker as soon as the parent has ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.2)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def which(study: Study) -> tuple[str, bool] | None:
    """Return the experiment that a study's spec names, and True if it is the quick form; None if it is no experiment.

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
    found = {study.name: one for study in studies.values() if (one := which(study))}
    verdicts = judge({found[study.name][0]: study for study in studies.values() if study.name in found}, wanted)
    # the report names studies, which a user may have renamed, and not experiments
    shown = {name: study for study, (name, _) in found.items()}
    verdicts = Verdicts(
        dataclasses.replace(verdict, experiment=shown.get(verdict.experiment, verdict.experiment))
        for verdict in verdicts
    )
    rows = [verdict.asdict() for verdict in verdicts]
    lines = {}
    if found:
        parts = {"whole": [], "quick, with less of everything": [], "not run": []}
        for name in EXPERIMENTS:
            quick = dict(found.values()).get(name)
            parts["not run" if quick is None else "quick, with less of everything" if quick else "whole"].append(name)
        text = "; ".join(f"{form}: {', '.join(names)}" for form, names in parts.items() if names)
        lines = {"Paper": PAPER, "Experiments": text}
    lines |= noted or {}
    report.write_all(list(studies.values()), rows, out, title, how, lines, drawn=drawn)
    return verdicts
