"""Where the time goes: the kernels of a round by JAX's profiler, and what a measurement and a compilation cost."""

import tempfile
import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np

from benchmarks import task
from benchmarks.compiled import Compiled
from benchmarks.timing import Spread, take_turns

PROFILED = 200
"""Rounds under the profiler."""


class Anatomy(NamedTuple):
    """Where the time of a single run goes."""

    kernels: dict[str, float]
    """Microseconds of a round in each kernel, by XLA's name for it, from the longest; those below a twentieth of the
    whole are together."""
    rounds: dict[str, Spread]
    """What else takes time, in rounds."""

    def asdict(self) -> dict[str, object]:
        return {"kernels": self.kernels, "rounds": {name: spread._asdict() for name, spread in self.rounds.items()}}


def anatomy(quick: bool) -> Anatomy:
    work, repetitions, rounds = task.a9a(), *((7, 200) if quick else (21, 500))
    whole, measured = Compiled(work), Compiled(work)
    turns = {"whole": partial(whole.advance, rounds), "measure": partial(_measure, measured)}
    seconds = take_turns(turns, repetitions)
    each = seconds["whole"] / rounds
    costs = {
        "a measurement": Spread.of(seconds["measure"] / each),
        "compiling": Spread.of(np.array([_compiling(work) / np.median(each)])),
    }
    return Anatomy(_kernels(whole), costs)


def _kernels(run: Compiled) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            run.advance(PROFILED)
        (file,) = Path(folder).rglob("*.xplane.pb")
        profile = jax.profiler.ProfileData.from_file(str(file))
        taken, runs = Counter[str](), Counter[str]()
        for plane in profile.planes:
            for line in plane.lines:
                for event in line.events:
                    taken[event.name] += event.duration_ns
                    runs[event.name] += 1
    # what ran once a round is a kernel of it; what the profiler saw of Python begins with a dollar
    kernels = {
        name: time / PROFILED / 1000
        for name, time in taken.most_common()
        if runs[name] == PROFILED and not name.startswith("$")
    }
    whole = sum(kernels.values())
    large = {name: time for name, time in kernels.items() if time >= whole / 20}
    return large | {f"{len(kernels) - len(large)} others": whole - sum(large.values())}


def _measure(run: Compiled) -> None:
    run.block.advance(0, [0], [True])


def _compiling(work: task.Task) -> float:
    """Seconds until a block that was never compiled has gone a round."""
    jax.clear_caches()
    began = time.perf_counter()
    Compiled(work).advance(1)
    return time.perf_counter() - began
