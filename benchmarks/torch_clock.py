"""Does `gs.clock` tell the truth? Real processes of `gossamer.torch` with injected delays, against its prediction.

    python benchmarks/torch_clock.py [--quick] [--times 3] [--out FOLDER]

4 and then 8 processes train on this machine. A gradient sleeps for as long as the clock draws, and a message for as
long as the clock says that its link takes: from 60 ms on, so that the cores decide little. The seconds in which the
last process has the model of each round are compared with those that `gs.simulate(…, clock=…)` gives; where nobody
waits, those in which as many events have happened as there are processes.
"""

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
import gossamer as gs
from benchmarks.timing import Spread

WITHIN = 0.1
"""How far the median of measured over predicted seconds may be from 1."""
DIM = 1000
"""Numbers of the model, in single precision."""
ROUNDS = 20


class Case(NamedTuple):
    """What is run, and under which clock."""

    name: str
    processes: int
    rule: Any
    network: Any
    clock: Any


def cases(processes: int) -> list[Case]:
    """All that is tried with so many processes. A clock has one seed: that of its draws."""
    uniform, log_normal = gs.clocks.uniform, gs.clocks.log_normal
    even = gs.clock(uniform(0.08), compute=0.16, seeds=1)
    far = gs.clock(uniform(0.2), compute=0.12, seeds=1)
    random = gs.clock(uniform(0.08), compute=log_normal(mean=0.2, sigma=0.5), seeds=1, seed=7)
    slow = gs.clock(uniform(0.08), compute=0.1, slow={"agents": 1, "factor": 4.0}, seeds=1)
    shared = gs.clock(uniform(0.06, uplink=1e5), compute=0.12, seeds=1)  # 40 ms of 4 kB to each neighbour
    apart = gs.clock(uniform(0.06), compute=log_normal(mean=0.2, sigma=0.3), slow={"agents": 1, "factor": 4.0}, seeds=1)
    dmt, ring = gs.BiasedDMT(eta=0.1, lam=0.1), gs.networks.ring(processes)
    made = [
        ("Biased-DMT, ring, equal agents", dmt, ring, even),
        ("Biased-DMT, ring, links slower than gradients", dmt, ring, far),
        ("Biased-DMT, ring, random gradients", dmt, ring, random),
        ("Biased-DMT, ring, one agent 4 times slower", dmt, ring, slow),
        ("GT-DSGD, ring, random gradients", gs.GTDSGD(eta=0.1), ring, random),
        ("D-PSGD, star, a hub that shares its uplink", gs.DPSGD(eta=0.1), gs.networks.star(processes), shared),
        ("asynchronous Biased-DMT, ring, one 4 times slower", dmt, gs.networks.asynchronous(ring), apart),
    ]
    return [Case(name, processes, rule, network, clock) for name, rule, network, clock in made]


def predicted(case: Case) -> list[float]:
    """The seconds of each round, by the clock."""
    problem = gs.problems.quadratic(np.eye(DIM, dtype=np.float32), np.zeros((case.processes, DIM), np.float32))
    result = gs.simulate(
        case.rule, problem, case.network, steps=ROUNDS, every=1, clock=case.clock, dtype="float32", progress=False
    )
    return result.frame().sort("round")["seconds"].to_list()[1:]


def ranks(target: str) -> None:
    """In each process: run the cases, several times; rank 0 writes the seconds of the rounds."""
    import torch.distributed as dist

    dist.init_process_group("gloo")
    rank, size, told = dist.get_rank(), dist.get_world_size(), json.loads(os.environ["BENCH_TOLD"])
    turns = range(int(os.environ["BENCH_REPETITIONS"]))
    found = {case.name: [measured(case, rank, told[case.name][-1]) for _ in turns] for case in cases(size)}
    if rank == 0:
        Path(target).write_text(json.dumps(found))
    dist.destroy_process_group()


def measured(case: Case, rank: int, told: float) -> list[float]:
    """The seconds of each round, from when the last process was ready; `told` are those of all, by the clock."""
    import torch

    from benchmarks.slow_links import SlowLinks
    from gossamer.torch import Decentralized

    # where nobody waits, those that are fast step more often
    steps, enough = (4 * ROUNDS, 1.5 * told) if case.network.asynchronous else (ROUNDS + 1, np.inf)
    times = case.clock.times(0, 0, steps, case.processes)[:, rank]
    links = SlowLinks(case.clock, case.network, rank)
    links.slow_down()
    x = torch.nn.Parameter(torch.ones(DIM))
    optimizer = Decentralized([x], case.rule, case.network, timeout=60)
    began, before, after = time.monotonic(), [], []
    for seconds in times:
        end = time.monotonic() + seconds
        optimizer.zero_grad()
        (x.square().sum() / 2 * (1 + rank)).backward()
        time.sleep(max(0.0, end - time.monotonic()))
        before.append(time.monotonic())
        optimizer.step()
        after.append(time.monotonic())
        if after[-1] - began > enough:
            break
    optimizer.finish()
    links.undo()
    if case.network.asynchronous:
        return events(began, after[1:], steps)
    # where messages travel while gradients are computed a step ends a round; else the gradient does, and the step that
    # takes it begins the next one
    last = gathered([began, *(after[:ROUNDS] if optimizer.overlap else before[1:])]).max(0)
    return (last[1:] - last[0]).tolist()


def events(began: float, ends: list[float], most: int) -> list[float]:
    """When as many events have happened as there are processes, twice as many, …"""
    every = gathered([began, *ends, *[np.inf] * (most - len(ends))])
    return (np.sort(every[:, 1:].ravel())[len(every) - 1 :: len(every)][:ROUNDS] - every[:, 0].max()).tolist()


def gathered(numbers: list[float]) -> np.ndarray:
    """Those of all processes, in rows."""
    import torch
    import torch.distributed as dist

    mine = torch.tensor(numbers, dtype=torch.float64)
    rows = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(rows, mine)
    return torch.stack(rows).numpy()


def main() -> int:
    import subprocess
    import tempfile

    from gossamer.torch.launch import command, environment

    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="each case once, with 4 processes")
    parser.add_argument("--times", type=int, default=3, help="how often each case is run")
    parser.add_argument("--out", type=Path, default=Path("runs/bench"), help="where clock.json goes")
    given = parser.parse_args()
    times, found = 1 if given.quick else given.times, list[dict[str, Any]]()
    for processes in (4,) if given.quick else (4, 8):
        told = {case.name: predicted(case) for case in cases(processes)}
        with tempfile.TemporaryDirectory() as folder:
            target = Path(folder) / "found.json"
            env = environment(processes) | {"BENCH_RANKS": str(target), "OMP_NUM_THREADS": "1", "JAX_PLATFORMS": "cpu"}
            env |= {"BENCH_REPETITIONS": str(times), "BENCH_TOLD": json.dumps(told)}
            code = subprocess.run(command(processes, Path(__file__), folder=folder), env=env, timeout=1800).returncode
            if code:
                return code
            took = json.loads(target.read_text())
        found += [compared(case, told[case.name], took[case.name]) for case in cases(processes)]
    print_found(found)
    given.out.mkdir(parents=True, exist_ok=True)
    content = {"machine": f"{os.cpu_count()} cores", "times": times, "within": WITHIN, "cases": found}
    (given.out / "clock.json").write_text(json.dumps(content, indent=2) + "\n")
    print(given.out / "clock.json")
    return 0


def compared(case: Case, told: list[float], took: list[list[float]]) -> dict[str, Any]:
    """A case's seconds by the clock and by the processes, and the spread of their ratio over repetitions."""
    ratio = Spread.of(np.array(took)[:, -1] / told[-1])
    return {
        "case": case.name,
        "processes": case.processes,
        "predicted": told,
        "measured": np.median(took, axis=0).tolist(),
        "ratio": ratio._asdict(),
        "met": bool(abs(ratio.median - 1) <= WITHIN),
    }


def print_found(found: list[dict[str, Any]]) -> None:
    print(f"Seconds of {ROUNDS} rounds, gloo on one machine with {os.cpu_count()} cores; delays are sleeps.")
    print("Medians over repetitions; in brackets, the quartiles.\n")
    print(f"{'processes':<11}{'case':<52}{'clock':>8}{'measured':>10}   measured / clock")
    for row in found:
        ratio = Spread(**row["ratio"]).shown(".3f")
        print(
            f"{row['processes']:<11}{row['case']:<52}{row['predicted'][-1]:>8.2f}{row['measured'][-1]:>10.2f}   "
            f"{ratio}, {'met' if row['met'] else 'missed'}"
        )
    middle = float(np.median([row["ratio"]["median"] for row in found]))
    print(
        f"\n{'met' if abs(middle - 1) <= WITHIN else 'missed':<7}real processes take what the clock predicts, within "
        f"{WITHIN:.0%} in the median: {middle:.3f}; {sum(row['met'] for row in found)} of {len(found)} cases do"
    )


if __name__ == "__main__":
    if "BENCH_RANKS" in os.environ:
        ranks(os.environ["BENCH_RANKS"])
    else:
        sys.exit(main())
