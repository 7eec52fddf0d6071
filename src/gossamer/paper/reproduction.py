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
from gossamer.experiments import directory, running
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

SECONDS = {
    "fig1": (60, 35),
    "descent": (120, 60),
    "horizon": (280, 18),
    "sensitivity": (70, 21),
    "fig2": (120, 22),
    "heterogeneity": (80, 60),
    "speedup": (70, 60),
    "corollary": (40, 40),
    "topology": (30, 20),
    "start": (200, 150),
}
"""About how long each experiment takes on an idle core, whole and quick. Long ones begin first, lest one is left alone
at the end, and with the first that is done these numbers say how long the others will take on this machine."""

HEADLINES: dict[str, dict[str, Any]] = {
    "horizon": {
        "algorithms": ("biased-dsgd",),
        "variants": ("T = 32,000",),
        "replicates": 4,
        "tuning": {"budget": 4, "together": 4},
    },
    "sensitivity": {
        "algorithms": ("biased-dmt", "gt-dsgd"),
        "variants": (),
        "replicates": 6,
        "tuning": {"eta": [0.1, 8.0], "budget": 20, "together": 10},
    },
    "fig2": {
        "algorithms": ("biased-dmt",),
        "variants": ("unbiased", "once-1", "once-2", "once-3", "once-4", "once-5", "once-5-minus"),
        "replicates": 4,
        "tuning": {},
    },
}
"""The least of each experiment that decides its headline claim: that Biased-DSGD stalls, where Biased-DMT settles, and
how large a step it bears. Rounds stay as they are: shorter runs decide nothing about floors and horizons. A step size
is known to a step of its grid, so that grid is as fine as that of the whole experiment, and shorter below."""


def spec_of(name: str, quick: bool = False) -> Spec:
    """Return the spec of an experiment, whole or quick."""
    spec = Spec.of(tomllib.loads(text_of(name)))
    return shorten(name, spec) if quick else spec


def shorten(name: str, spec: Spec) -> Spec:
    """Return the quick form of an experiment: of a headline claim what `HEADLINES` says, of others fewer replicates."""
    grids = {"lam": [1.0, 0.1], "beta": [0.0, 0.9]}
    least = HEADLINES.get(name, {"replicates": 4, "tuning": {"budget": 16, "together": 8, "grids": grids}})
    seeds = {"seeds": least["replicates"]}
    update: dict[str, Any] = {"run": spec.run.model_copy(update=seeds | {"seeds_together": 1})}
    if spec.tuning:
        fewer = {"replicates": least["replicates"], "refine": False} | least["tuning"]
        update["tuning"] = spec.tuning.model_copy(update=fewer)
    if name in HEADLINES:
        kept = [options for options in spec.algorithm if options["name"] in least["algorithms"]]
        # beside settings that are tuned, those that are given belong to another claim
        update["algorithm"] = [options for options in kept if not (spec.tuning and "eta" in options)]
        update["variant"] = [variant for variant in spec.variant if variant.name in least["variants"]]
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
    for name, spec in specs.items():
        directory.check(out / name, spec)  # or else the last experiment's refusal would come after all others had run
    side_by_side = min(len(specs), processes)
    # what is read back takes no time, so that nothing can be learnt from it about the rest
    countdown = Countdown(list(specs), quick, side_by_side, timed=not resumed)
    say(f"{countdown}; " + "; ".join(f"{name}, {spec.title}" for name, spec in specs.items()))
    if side_by_side > 1:
        _run_all(sorted(specs, key=lambda name: -SECONDS[name][quick]), quick, out, side_by_side, countdown, say)
        studies = {name: Study.load(out / name) for name in specs}
    else:
        studies = {}
        for name in specs:
            started = time.monotonic()
            studies[name] = run_one(name, quick, out / name, progress)
            countdown.add(name, time.monotonic() - started)
            say(f"{name}: done; {countdown}")
    how = f"gossamer reproduce {' '.join(chosen)}{' --quick' if quick else ''} --out {out}"
    took = format_duration(time.monotonic() - began) + ", going on from what was finished before" * resumed
    wanted = () if names else EXPERIMENTS
    return finish(studies, out, wanted, "Biased-DMT, reproduced", how, {"Took": took}, drawn=side_by_side > 1)


def run_one(name: str, quick: bool, folder: Path, progress: bool | Report) -> Study:
    """Run one experiment into a directory."""
    return running.run(spec_of(name, quick), folder, name=name, progress=progress)


class Countdown:
    """A count of experiments that are done, and an estimate of how long the others take."""

    def __init__(self, names: list[str], quick: bool, processes: int, *, timed: bool):
        self.names, self.quick, self.processes, self.timed = names, quick, processes, timed
        self.taken: dict[str, float] = {}
        self._began = time.monotonic()

    def add(self, name: str, seconds: float) -> None:
        """Count an experiment that took so long in its process."""
        self.taken[name] = seconds

    def __str__(self) -> str:
        text = f"{len(self.taken)} of {len(self.names)} experiments done"
        if not self.timed or len(self.taken) == len(self.names):
            return text
        # a busy or a slow machine shows in what is done; one long experiment may outlast all others together
        share = {name: SECONDS[name][self.quick] for name in self.names}
        pace = sum(self.taken.values()) / sum(share[name] for name in self.taken) if self.taken else 1.0
        whole = pace * max(sum(share.values()) / self.processes, *share.values())
        left = max(whole - (time.monotonic() - self._began), 1.0)
        return f"{text}, about {format_duration(round(left))} left"


def _run_timed(name: str, quick: bool, folder: Path) -> float:
    """Run one experiment in a worker and return its seconds; its study stays on disk, and is not sent back."""
    began = time.monotonic()
    run_one(name, quick, folder, Lines())
    return time.monotonic() - began


def _run_all(
    names: Sequence[str], quick: bool, out: Path, processes: int, countdown: Countdown, say: Callable[[str], None]
) -> None:
    """Run experiments in at most this many `processes` at a time, each into its folder below `out`, and draw them.

    Figures take about a second each: they are drawn last, when a process has no other experiment to run. The first
    error ends the others. A worker whose parent is gone ends by itself.
    """
    # spawn: a fork would copy JAX's threads in the middle of what they do
    with ProcessPoolExecutor(
        processes, mp_context=get_context("spawn"), initializer=_end_with_parent, initargs=(os.getpid(),)
    ) as pool:
        pending = {pool.submit(_run_timed, name, quick, out / name): name for name in names}
        drawing = set()
        try:
            while pending or drawing:
                for done in wait([*pending, *drawing], return_when=FIRST_COMPLETED).done:
                    seconds = done.result()
                    drawing.discard(done)
                    if name := pending.pop(done, None):
                        countdown.add(name, seconds)
                        say(f"{name}: done; {countdown}")
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
