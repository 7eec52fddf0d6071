"""How many copies of the model a process holds under `gossamer.torch`, between steps and at the peak of one.

    python benchmarks/torch_memory.py [--out DIRECTORY]

It starts 4 processes on a ring on this machine, each with a layer of 4 million parameters in float32. Copies are
resident memory beyond that of the process before it had a model, parameters and gradients included, divided by the size
of the model; the largest of the four processes counts. Linux only, since it asks /proc.
"""

import argparse
import gc
import json
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

SIDE = 2000
STEPS = 6
PROCESSES = 4


class Aim(NamedTuple):
    """The most copies that are wanted."""

    between: float
    peak: float


AIMS = {"biased-dmt": Aim(8, 9), "d-psgd": Aim(4, 5)}


def contestants() -> dict[str, Callable[[Any], tuple[Any, Any]]]:
    """By name, what wraps a model and makes its optimizer."""
    import torch
    from torch.nn.parallel import DistributedDataParallel

    import gossamer as gs
    from gossamer.torch import Decentralized

    adamw = partial(torch.optim.AdamW, lr=1e-4)

    def ddp(model: Any) -> tuple[Any, Any]:
        return DistributedDataParallel(model), adamw(model.parameters())

    def ours(rule: Any, **options: Any) -> Callable[[Any], tuple[Any, Any]]:
        return lambda model: (model, Decentralized(model.parameters(), rule, "ring", **options))

    dmt = gs.BiasedDMT(eta=1e-4, lam=0.1)
    return {
        "ddp, adamw": ddp,
        "d-psgd": ours(gs.DPSGD(eta=1e-4)),
        "biased-dmt": ours(dmt),
        "biased-dmt, overlap=False": ours(dmt, overlap=False),
        "d-psgd, adamw inside": ours(gs.DPSGD(eta=1.0), inner=adamw),
    }


def ranks(target: str) -> None:
    """In each process: measure all contestants; rank 0 writes the largest of all processes."""
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo")
    names = list(contestants())
    measured(contestants()[names[1]], 20)  # what is loaded and connected only once
    found = torch.tensor([measured(make, SIDE) for make in contestants().values()])
    dist.all_reduce(found, dist.ReduceOp.MAX)
    if dist.get_rank() == 0:
        Path(target).write_text(json.dumps(dict(zip(names, found.tolist(), strict=True))))
    dist.destroy_process_group()


def measured(make: Callable[[Any], tuple[Any, Any]], side: int) -> tuple[float, float]:
    """Copies between steps and at the peak of one, each the largest after the first two steps."""
    import torch
    import torch.distributed as dist

    gc.collect()
    dist.barrier()
    before = resident("VmRSS")
    model = torch.nn.Linear(side, side, bias=False)
    wrapped, optimizer = make(model)
    inputs = torch.randn(1, side)
    between = peak = 0.0
    for step in range(STEPS):
        Path("/proc/self/clear_refs").write_text("5")  # the peak so far is forgotten
        optimizer.zero_grad()
        wrapped(inputs).square().mean().backward()
        optimizer.step()
        dist.barrier()
        if step > 1:
            between, peak = max(between, resident("VmRSS") - before), max(peak, resident("VmHWM") - before)
    if hasattr(optimizer, "exchange"):
        optimizer.exchange.drain()  # messages on their way would be freed while the next one is measured
    dist.barrier()
    size = 4 * side * side
    return between / size, peak / size


def resident(what: str) -> float:
    """A line of /proc/self/status, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(float(line.split()[1]) for line in lines if line.startswith(what))


def verdict(value: float, bound: float) -> str:
    return f"{value:5.1f} (aim {bound:g}: {'met' if round(value, 1) <= bound else 'missed'})"


def main() -> int:
    import subprocess
    import tempfile

    from gossamer.torch.launch import command, environment

    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("runs/bench"), help="where memory.json goes")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "found.json"
        env = environment(PROCESSES) | {"BENCH_RANKS": str(target), "OMP_NUM_THREADS": "1"}
        # memory that is freed goes back at once, also that of a span (1 MB), or else it could not be seen
        env = {key: value for key, value in env.items() if not key.startswith("MALLOC_")}
        env |= {"MALLOC_MMAP_THRESHOLD_": str(1 << 19), "MALLOC_TRIM_THRESHOLD_": str(1 << 19)}
        code = subprocess.run(command(PROCESSES, Path(__file__), folder=folder), env=env, timeout=1800).returncode
        if code:
            return code
        found = json.loads(target.read_text())
    print(
        f"Copies of a model of {SIDE * SIDE:,} numbers, {PROCESSES} processes on a ring: between steps, at the peak.\n"
    )
    for name, (between, peak) in found.items():
        aim = AIMS.get(name)
        shown = (verdict(between, aim.between), verdict(peak, aim.peak)) if aim else (f"{between:5.1f}", f"{peak:5.1f}")
        print(f"{name:<28}{shown[0]:<24}{shown[1]}")
    options.out.mkdir(parents=True, exist_ok=True)
    content = {"numbers": SIDE * SIDE, "processes": PROCESSES, "copies": found, "aims": AIMS}
    (options.out / "memory.json").write_text(json.dumps(content, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    if "BENCH_RANKS" in os.environ:
        ranks(os.environ["BENCH_RANKS"])
    else:
        sys.exit(main())
