"""Kill and stop ranks again and again: every run must end with the parameters of an undisturbed one, to the bit.

    python benchmarks/torch_soak.py [--times 10] [--seed 0]

Each trial starts four processes by torchrun; one of them, at a random step, kills (or stops) itself. Its neighbours
must name it within the timeout, torchrun starts all again, they resume from the last common checkpoint, and no process
may be left behind.
"""

import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SCRIPT = Path(__file__).parents[1] / "tests" / "torch_engine" / "failing_run.py"
STEPS = 24
LIMIT = 300
"""Seconds after which a trial has failed."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--times", type=int, default=10, help="trials of each kind")
    parser.add_argument("--seed", type=int, default=0, help="of the ranks and steps that are hit")
    options = parser.parse_args()
    draw = random.Random(options.seed)
    expected, _, _ = trial([])
    failures = 0
    for kind in ("SIGKILL", "SIGSTOP"):
        for number in range(options.times):
            rank, step = draw.randrange(4), draw.randrange(STEPS)
            began = time.monotonic()
            found, said, left = trial([(rank, step, kind)])
            problems = ["other parameters than undisturbed"] if found != expected else []
            problems += (
                [f"rank {rank} was not named"] if not re.search(rf"lost its neighbour.* rank {rank}\b", said) else []
            )
            problems += [f"processes left behind: {left}"] if left else []
            failures += bool(problems)
            outcome = "; ".join(problems) or "as it should be"
            print(
                f"{kind} {number + 1}: rank {rank}, step {step}, {time.monotonic() - began:.0f} s: {outcome}",
                flush=True,
            )
    print(f"{failures} of {2 * options.times} trials failed.")
    return min(failures, 1)


def trial(faults: list[tuple[int, int, str]]) -> tuple[list[str], str, list[int]]:
    """The parameters that all ranks ended with, what they printed, and which processes still run."""
    from gossamer.torch.launch import command, environment

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        done = subprocess.run(
            command(4, SCRIPT, [name, json.dumps(faults)], folder=name, max_restarts=len(faults)),
            env=environment(4) | {"OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            timeout=LIMIT,
        )
        results = [path.read_text() for path in sorted(folder.glob("result-*"))]
        pids = [int(path.read_text()) for path in folder.glob("pid-*")]
    return results, done.stderr, [pid for pid in pids if runs(pid)]


def runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
