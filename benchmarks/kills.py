"""Kill a process of a launched run at a random moment, again and again: the others must end, and the run go on.

    python benchmarks/kills.py [KILLS] [SEED]

Every time two processes share the agents of a run, one of them is killed at a moment that is drawn, and the same
command is given again. It must end as if nothing had happened: all numbers are compared, bit by bit, with those of one
process that has both devices.
"""

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from gossamer.engines.processes import LOST
from gossamer.results.result import Result

SPEC = """
[problem]
name = "quadratic"
A = [[2.0, 0.5], [0.5, 1.0]]
b = [[1.0, 0.0], [2.0, 1.0], [3.0, 0.0], [4.0, 1.0]]

[network]
name = "ring"
links_down = 0.2

[oracle]
stages = [{ kind = "additive-bias", mean = 0.0, std = 0.1, redraw = true }]

[run]
steps = STEPS
every = 1000
seeds = 2
dtype = "float64"

[[algorithm]]
name = "biased-dmt"
eta = 0.01
lam = 0.1
"""

SHARED = ("--devices", "2", "--split", "agents")

PATIENCE = 15.0
"""Seconds within which all must have ended after one was killed."""


def command(verb: Sequence[str], spec: Path, out: Path) -> list[str]:
    return [sys.executable, "-m", "gossamer", *verb, str(spec), *SHARED, "--out", str(out)]


def launched(spec: Path, out: Path) -> "subprocess.Popen[bytes]":
    """A run in two processes; what they say is kept beside its directory."""
    with said(out).open("ab") as kept:
        return subprocess.Popen(
            command(("launch", "--processes", "2"), spec, out), stdout=subprocess.DEVNULL, stderr=kept
        )


def said(out: Path) -> Path:
    return out.with_name(f"{out.name}.said")


def undisturbed(folder: Path, steps: int = 15000) -> tuple[Path, Path]:
    """The spec, and the directory of a run that nobody disturbs."""
    spec, out = folder / "spec.toml", folder / "undisturbed"
    spec.write_text(SPEC.replace("STEPS", str(steps)))
    subprocess.run(command(("run",), spec, out), check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return spec, out


def killed(spec: Path, out: Path, chance: random.Random) -> tuple[int, float, int]:
    """Kill a process of a run after its first cell is there: which one, how long all took to end, and the cells."""
    run = launched(spec, out)
    try:
        cells = out / "cells"
        while not (cells.is_dir() and any(cells.glob("*.cell"))) and run.poll() is None:
            time.sleep(0.02)
        time.sleep(chance.uniform(0, 1))
        children = Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text().split()
        if len(children) != 2:
            raise RuntimeError("the run ended before a process could be killed: make it longer")
        which = chance.randrange(2)
        os.kill(int(children[which]), signal.SIGKILL)
        since = time.perf_counter()
        code = run.wait(PATIENCE)
        left = [child for child in children if Path(f"/proc/{child}").exists()]
        if code != LOST or left:
            raise RuntimeError(
                f"process {which} was killed, and the run ended with code {code}, where {LOST} is due; still there: "
                f"{left or 'none'}\n{said(out).read_text(errors='replace')}"
            )
        return which, time.perf_counter() - since, len(list(cells.glob("*.cell")))
    finally:
        run.kill()
        run.wait()


def same(one: Path, other: Path) -> bool:
    """Whether two runs gave the same numbers, bit by bit."""
    a, b = (Result.load(next(folder.rglob("manifest.json")).parent) for folder in (one, other))
    alike = all(np.array_equal(a.states[key], b.states[key]) for key in a.states)
    return alike and a.states.keys() == b.states.keys() and a.frame().equals(b.frame())


def main(kills: int = 10, seed: int = 0) -> None:
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory() as place:
        spec, reference = undisturbed(Path(place))
        for number in range(kills):
            out = Path(place) / str(number)
            which, seconds, cells = killed(spec, out, chance)
            code = launched(spec, out).wait()
            verdict = "the same bits" if code == 0 and same(reference, out) else f"NOT THE SAME (code {code})"
            print(f"kill {number}: process {which}, all ended in {seconds:.2f} s with {cells} of 6 cells; {verdict}")
            if "NOT" in verdict:
                sys.exit(said(out).read_text(errors="replace"))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
