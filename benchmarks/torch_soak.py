"""Kill and stop ranks again and again: every run must end with the parameters of an undisturbed one, to the bit.

    python benchmarks/torch_soak.py [--times 10] [--seed 0]

Each trial starts four processes by torchrun; one of them, at a random step, kills (or stops) itself. Its neighbours
must name it within the timeout, torchrun starts all again, they resume from the last common checkpoint, and no process
may be left behind.

Then the same where the others go on (elastic=True): one of four processes kills itself, at a random step or in the
middle of an exchange; it is started again and joins the others, and all must settle at the optimum of all four.
"""

import argparse
import itertools
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.torch_engine import forked
from tests.torch_engine.failing_run import STEPS, TIMEOUT

SCRIPT = Path(__file__).parents[1] / "tests" / "torch_engine" / "failing_run.py"
ELASTIC = SCRIPT.with_name("elastic_run.py")
LIMIT = 300
"""Seconds after which a trial has failed."""
MARGIN = 3.0
"""Seconds that a busy machine may take beyond the timeout until an error is raised."""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--times", type=int, default=10, help="trials of each kind")
    parser.add_argument("--seed", type=int, default=0, help="of the ranks and steps that are hit")
    options = parser.parse_args()
    draw = random.Random(options.seed)
    expected = trial([]).parameters
    failures = 0
    kinds = [(False, "SIGKILL"), (False, "SIGSTOP"), (True, "SIGKILL"), (True, "in an exchange")]
    for (elastic, kind), number in itertools.product(kinds, range(options.times)):
        rank, step = draw.randrange(4), draw.randrange(1, 60) if elastic else draw.randrange(STEPS)
        began = time.monotonic()
        if elastic:
            problems = elastic_problems(rank, step, kind)
        else:
            problems = problems_of(trial([(rank, step, kind)]), expected, rank)
        failures += bool(problems)
        outcome = "; ".join(problems) or "as it should be"
        what = f"{'elastic, ' * elastic}{kind} {number + 1}: rank {rank}, step {step}"
        print(f"{what}, {time.monotonic() - began:.0f} s: {outcome}", flush=True)
    print(f"{failures} of {4 * options.times} trials failed.")
    return min(failures, 1)


def elastic_problems(rank: int, step: int, kind: str) -> list[str]:
    """What went wrong where this rank was lost, and another process took its place."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        launch = [sys.executable, "-m", "gossamer", "launch", "--elastic", "--processes", "4", "--max-restarts", "1"]
        done = subprocess.run(
            [*launch, str(ELASTIC), name, json.dumps([rank, step, kind])],
            env=os.environ | {"OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            timeout=LIMIT,
        )
        ends = [json.loads(path.read_text()) for path in sorted(folder.glob("result-*"))]
        pids = [int(path.name.removeprefix("pid-")) for path in folder.glob("pid-*")]
    wrong = {
        f"exit code {done.returncode}: {done.stderr[-2000:]}": done.returncode != 0,
        f"rank {rank} was not lost": f"[agent {rank}] ended with SIGKILL" not in done.stderr,
        "places other than all": sorted(end["place"] for end in ends) != [0, 1, 2, 3],
        "nobody went on alone": not any(len(left) == 3 for end in ends for left in end["left"]),
        f"{max((end['apart'] for end in ends), default=9):.1e} from the optimum": any(e["apart"] > 1e-9 for e in ends),
        "processes left behind": any(map(forked.runs, pids)),
    }
    return [problem for problem, is_so in wrong.items() if is_so]


class Trial(NamedTuple):
    """How a run ended."""

    parameters: list[str]
    """Of all ranks."""
    said: str
    """On standard error."""
    noticed: list[float]
    """Seconds after the fault at which a rank raised an error."""
    left: list[int]
    """Processes that still run."""


def problems_of(found: Trial, expected: list[str], rank: int) -> list[str]:
    late = [after for after in found.noticed if after > TIMEOUT + MARGIN]
    # torchrun looks every 0.5 s, and may end the others before they can say whom they lost
    first = f"exitcode: -9) local_rank: {rank} " in found.said
    wrong = {
        "other parameters than undisturbed": found.parameters != expected,
        f"rank {rank} was not named": not (first or re.search(rf"lost its neighbour.* rank {rank}\b", found.said)),
        "nobody noticed": not (first or found.noticed),
        f"noticed after {max(found.noticed, default=0):.1f} s": bool(late),
        f"processes left behind: {found.left}": bool(found.left),
    }
    return [problem for problem, is_so in wrong.items() if is_so]


def trial(faults: list[tuple[int, int, str]]) -> Trial:
    """A whole run with these faults, one for each life."""
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
        happened = [float(path.read_text()) for path in folder.glob("fault")]
        noticed = [float(path.read_text()) - happened[0] for path in folder.glob("noticed-*")]
    return Trial(results, done.stderr, noticed, [pid for pid in pids if forked.runs(pid)])


if __name__ == "__main__":
    sys.exit(main())
