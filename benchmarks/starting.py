"""What it costs to begin: seconds of CPU until something is there, each in a process of its own."""

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.timing import Aim, Spread

COMPILED = "gossamer run, compiled before"

COMPUTING = f"{COMPILED}, until it computes"

UNTIL = """
import atexit, sys, time
from gossamer.cli import main
from gossamer.basics import cache
cache.remember(cache.place())
atexit.register(cache.seal)
from gossamer.engines.block import Block
whole = Block.advance
def first(*given):
    made = whole(*given)
    print("TOLD", time.process_time(), file=sys.stderr)
    Block.advance = whole
    return made
Block.advance = first
main()
"""
"""`gossamer run`, which says how much CPU it has taken when its first round is there."""

TOLD = "computed after"

SIMULATE = """
import gossamer as gs
from gossamer import networks, oracles, problems
gs.simulate(gs.BiasedDMT(eta=0.1, lam=0.05), problems.logistic("a9a", 20), networks.ring(20),
            oracles.minibatch(64), steps={steps}, every={steps}, progress=False)
"""

SPEC = """
[problem]
name = "logistic"
data = "a9a"
agents = 20
[network]
name = "ring"
[oracle]
batch = 64
[run]
steps = 1
[[algorithm]]
name = "biased-dmt"
eta = 0.1
lam = 0.05
"""


def starts(quick: bool) -> dict[str, Spread]:
    """Seconds of CPU by what is started."""
    repetitions = 1 if quick else 5
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "a.toml").write_text(SPEC)
        run = ["-m", "gossamer", "run", str(place / "a.toml"), "--out"]
        commands = {
            "import jax": lambda k: ["-c", "import jax"],
            "import gossamer": lambda k: ["-c", "import gossamer"],
            "gossamer --help": lambda k: ["-m", "gossamer", "--help"],
            "the first simulate on a9a": lambda k: ["-c", SIMULATE.format(steps=1)],
            "gossamer run, not compiled before": lambda k: [*run, str(place / f"new{k}"), "--no-cache"],
            COMPILED: lambda k: [*run, str(place / f"again{k}")],
            f"{COMPILED}, native": lambda k: [*run, str(place / f"native{k}")],
            COMPUTING: lambda k: ["-c", UNTIL.replace("TOLD", TOLD), *run[2:], str(place / f"until{k}")],
        }
        seconds = {name: np.empty(repetitions) for name in commands}
        for name in (COMPILED, f"{COMPILED}, native"):
            _cpu(commands[name](-1), place, native=name.endswith("native"))  # compiles
        for k in range(repetitions):
            for name, command in commands.items():
                seconds[name][k] = _cpu(command(k), place, native=name.endswith("native"))
    return {name: Spread.of(taken) for name, taken in seconds.items()}


def aims(starts: dict[str, Spread]) -> list[Aim]:
    return [Aim("seconds of CPU until a run that was compiled before computes", starts[COMPUTING], 3, least=False)]


def _cpu(command: list[str], home: Path, *, native: bool = False) -> float:
    """Seconds of CPU that a process of Python takes, from its start to its end, or to where it says so."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("JAX_", "OPENBLAS_"))}
    environment |= {"GOSSAMER_NATIVE": str(int(native))}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment["XDG_CACHE_HOME"] = str(home)
    ended = subprocess.run([sys.executable, *command], check=True, capture_output=True, env=environment, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if TOLD in ended.stderr:
        return float(ended.stderr.split(TOLD)[1].split()[0])
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
