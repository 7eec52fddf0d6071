"""Reproduce a paper: run its experiments, judge its claims and write the report."""

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

from gossamer import report
from gossamer.basics.progress import Lines, Report
from gossamer.basics.text import format_duration
from gossamer.core import InputError
from gossamer.experiments import directory, running
from gossamer.papers.paper import DEFAULT, OWN, Paper, Run, choose, installed
from gossamer.papers.verdicts import Verdicts
from gossamer.results.study import Study
from gossamer.specs.catalogue import load_file
from gossamer.specs.spec import Spec


def reproduce(
    paper: str | Paper = DEFAULT,
    names: Sequence[str] = (),
    out: Path = Path("runs/reproduction"),
    *,
    quick: bool = False,
    reseed: int = 0,
    processes: int = 1,
    own: Sequence[Path] = (),
    progress: bool | Report = True,
    say: Callable[[str], None] = print,
) -> Verdicts:
    """Run experiments of a paper (all if none is named), judge its claims and write the report.

    The same call after an interruption goes on from what was finished, and ends with the same verdicts and tables.
    Experiments may run side by side in several `processes`, with progress in lines, which changes no number; each
    process loads the user's `own` files first. `reseed` is added to all seeds.
    """
    paper = paper if isinstance(paper, Paper) else choose([paper])[0]
    headlines = [name for name, one in paper.experiments.items() if one.quick is not None] if quick else []
    began, chosen = time.monotonic(), list(names) or headlines or list(paper.experiments)
    assert paper.claims  # what is wrong with them is said before any experiment runs
    runs = {run.name: run for run in paper.runs(chosen, quick=quick, reseed=reseed)}
    resumed = any((out / name / "cells").exists() for name in runs)
    for name, run in runs.items():
        directory.check(out / name, run.spec)  # or else the last one's refusal would come after all others had run
    side_by_side = min(len(runs), processes)
    # what is read back takes no time, so that nothing can be learnt from it about the rest
    countdown = Countdown(list(runs.values()), side_by_side, timed=not resumed)
    say(f"{countdown}; " + "; ".join(f"{name}, {run.spec.title}" for name, run in runs.items()))
    if side_by_side > 1:
        _run_all(sorted(runs.values(), key=lambda run: -run.seconds), out, side_by_side, own, reseed, countdown, say)
        studies = {name: Study.load(out / name) for name in runs}
    else:
        studies = {}
        for name, run in runs.items():
            started = time.monotonic()
            studies[name] = run_one(run, out, progress)
            countdown.add(name, time.monotonic() - started)
            say(f"{name}: done; {countdown}")
    named = "" if paper.name == DEFAULT else f"{paper.name if paper.folder.parent == OWN else paper.folder} "
    options = " --quick" * quick + f" --reseed {reseed}" * bool(reseed)
    how = f"gossamer reproduce {named}{' '.join(chosen)}{options} --out {out}"
    took = format_duration(time.monotonic() - began) + ", going on from what was finished before" * resumed
    wanted = () if names else tuple(paper.experiments)
    title = f"{'Biased-DMT' if paper.name == DEFAULT else paper.about.title}, reproduced"
    found = {study.name: runs[name] for name, study in studies.items()}
    return write(studies, found, out, wanted, title, how, {"Took": took}, drawn=side_by_side > 1)


def run_one(run: Run, out: Path, progress: bool | Report) -> Study:
    """Run one reading of an experiment into its folder."""
    return running.run(run.spec, out / run.name, name=run.name, progress=progress)


class Countdown:
    """A count of experiments that are done, and an estimate of how long the others take."""

    def __init__(self, runs: Sequence[Run], processes: int, *, timed: bool):
        self.share = {run.name: run.seconds for run in runs}
        self.processes, self.timed = processes, timed
        self.taken: dict[str, float] = {}
        self._began = time.monotonic()

    def add(self, name: str, seconds: float) -> None:
        """Count an experiment that took so long in its process."""
        self.taken[name] = seconds

    def __str__(self) -> str:
        text = f"{len(self.taken)} of {len(self.share)} experiments done"
        if not self.timed or len(self.taken) == len(self.share):
            return text
        # a busy or a slow machine shows in what is done; one long experiment may outlast all others together
        share = self.share
        pace = sum(self.taken.values()) / sum(share[name] for name in self.taken) if self.taken else 1.0
        whole = pace * max(sum(share.values()) / self.processes, *share.values())
        left = max(whole - (time.monotonic() - self._began), 1.0)
        return f"{text}, about {format_duration(round(left))} left"


Named = tuple[Path, str, bool, int]
"""A run as it is sent to a worker: the folder of its paper, its name, if it is quick, and what is added to seeds."""


def _run_timed(named: Named, out: Path, own: Sequence[Path]) -> float:
    """Run one experiment in a worker and return its seconds; its study stays on disk, and is not sent back."""
    began = time.monotonic()
    for file in own:
        load_file(file)
    run_one(_find(named), out, Lines())
    return time.monotonic() - began


def _find(named: Named) -> Run:
    folder, name, quick, reseed = named
    return next(run for run in Paper.load(folder).runs(quick=quick, reseed=reseed) if run.name == name)


def _run_all(
    runs: Sequence[Run],
    out: Path,
    processes: int,
    own: Sequence[Path],
    reseed: int,
    countdown: Countdown,
    say: Callable[[str], None],
) -> None:
    """Run experiments in at most this many `processes` at a time, each into its folder below `out`, and draw them.

    Figures take about a second each: they are drawn last, when a process has no other experiment to run. The first
    error ends the others. A worker whose parent is gone ends by itself.
    """
    # spawn: a fork would copy JAX's threads in the middle of what they do
    with ProcessPoolExecutor(
        processes, mp_context=get_context("spawn"), initializer=_end_with_parent, initargs=(os.getpid(),)
    ) as pool:
        pending = {
            pool.submit(_run_timed, (run.paper.folder, run.name, run.quick, reseed), out, own): run.name for run in runs
        }
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


def which(study: Study) -> Run | None:
    """Return the run of an installed paper that a study is, from its spec; None if it is no experiment.

    A copy of the spec keeps the name when somebody changes it, so the rest must be the experiment's, too.
    """
    name, _, experiment = study.experiment.rpartition("/")
    paper = installed().get(name or DEFAULT)
    if paper is None or experiment not in paper.experiments:
        return None
    try:
        contents = Spec.of(tomllib.loads(study.spec)).model_dump(exclude={"title"})
    except InputError:
        return None
    runs = [run for quick in (False, True) for run in paper.runs([experiment], quick=quick)]
    return next((run for run in runs if run.spec.model_dump(exclude={"title"}) == contents), None)


def finish(studies: dict[str, Study], out: Path, title: str, how: str) -> Verdicts:
    """Judge the studies that are experiments of installed papers, and write `verdicts.json`, the report and figures."""
    return write(studies, {study.name: run for study in studies.values() if (run := which(study))}, out, (), title, how)


def write(
    studies: dict[str, Study],
    found: Mapping[str, Run],
    out: Path,
    wanted: Sequence[str],
    title: str,
    how: str,
    noted: Mapping[str, str] | None = None,
    *,
    drawn: bool = False,
) -> Verdicts:
    """Judge the studies that were `found` to be runs of papers, and write `verdicts.json`, the report and figures.

    A claim about an experiment that is `wanted` but not among the studies gets the verdict "not run". What is `noted`
    stands below the report's title. Figures are left as they are where they were `drawn` before.
    """
    named = {study.name: study for study in studies.values()}
    verdicts, lines = Verdicts(), {}
    for paper in dict.fromkeys(run.paper.folder for run in found.values()):
        mine = {name: run for name, run in found.items() if run.paper.folder == paper}
        of = next(iter(mine.values())).paper
        # the report names studies, which a user may have renamed, and not experiments
        shown = {run.name: name for name, run in mine.items()}
        for run in of.runs():
            if run.name in shown or run.experiment in wanted:
                study = named.get(shown.get(run.name, ""))
                place = shown.get(run.name, run.name)
                verdicts += [dataclasses.replace(verdict, experiment=place) for verdict in run.judge(study)]
        lines |= _head(of, list(mine.values()))
    rows = [verdict.asdict() for verdict in verdicts]
    report.write_all(list(studies.values()), rows, out, title, how, lines | dict(noted or {}), drawn=drawn)
    return verdicts


def _head(paper: Paper, runs: Sequence[Run]) -> dict[str, str]:
    """Return what stands below the title of a report on a paper: what was run, and what differs from the authors'."""
    parts = {"whole": [], "quick, with less of everything": [], "not run": []}
    for name in paper.experiments:
        quick = next((run.quick for run in runs if run.experiment == name), None)
        parts["not run" if quick is None else "quick, with less of everything" if quick else "whole"].append(name)
    text = "; ".join(f"{form}: {', '.join(names)}" for form, names in parts.items() if names)
    return {"Paper": paper.citation, "Experiments": text}
