"""Check `gossamer.torch` on GPUs: `make gpu`, on a machine with two or more of them.

    python benchmarks/torch_gpu.py [--device cpu]

One process trains on each GPU, with messages by NCCL. Every check prints a line, and the exit code is 1 if one fails:

- equality: iterates on the GPUs are those of the same run on CPUs by gloo, to 1e-10 in float64;
- no synchronisation: `optimizer.step()` runs under ``torch.cuda.set_sync_debug_mode("error")``, and returns while the
  GPU is still busy with earlier work, which that mode alone does not show for NCCL's own calls;
- order: ranks that run apart by random delays, with two optimizers that take turns, end within a minute. A rank posts
  all its messages in one order, so that NCCL, which runs them in the order of its stream, cannot wait in a circle;
- memory: copies of the model at the peak of a step, gradients included.

With ``--device cpu`` the checks that a CPU can show run on two processes: a rehearsal of this script, and no more.
"""

import argparse
import gc
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

STEPS = 30
TOLERANCE = 1e-10
BUSY = 1.0
"""Seconds for which a GPU is kept busy while the host takes a step."""
AIMS = {"biased-dmt": 9, "d-psgd": 5}
"""The most copies of the model that are wanted at the peak of a step."""


class Check(NamedTuple):
    """What was checked on a rank, whether it held, and what was found."""

    what: str
    passed: bool
    found: str


def contestants() -> dict[str, Callable[[Any], Any]]:
    """Return by name what makes an optimizer of parameters."""
    import torch

    import gossamer as gs
    from gossamer.torch import Decentralized

    def ours(rule: Any, **options: Any) -> Callable[[Any], Any]:
        return lambda params: Decentralized(params, rule, "ring", timeout=60, **options)

    dmt, adamw = gs.BiasedDMT(eta=0.1, lam=0.3), partial(torch.optim.AdamW, lr=1e-2)
    return {
        "biased-dmt": ours(dmt),
        "d-psgd": ours(gs.DPSGD(eta=0.1)),
        "biased-dmt, overlap=False": ours(dmt, overlap=False),
        "gnsd": ours(gs.GNSD(eta=0.1)),
        "d-psgd, adamw inside": ours(gs.DPSGD(eta=1.0), inner=adamw, local_steps=2),
        "choco-sgd, top-k": ours(gs.ChocoSGD(0.1, 0.5, gs.compressors.top_k(100))),
    }


def problem(rank: int, device: Any) -> tuple[list[Any], Callable[[], Any]]:
    """Return two parameters in float64 and this rank's quadratic, drawn on the CPU and so the same everywhere."""
    import torch

    draw = torch.Generator().manual_seed(rank)
    shapes = (40, 25), (30,)
    centres = [torch.randn(shape, generator=draw, dtype=torch.float64).to(device) for shape in shapes]
    params = [torch.nn.Parameter(torch.zeros(shape, dtype=torch.float64, device=device)) for shape in shapes]

    def loss() -> Any:
        return sum(((p - c) ** 2).sum() / 2 for p, c in zip(params, centres, strict=True))

    return params, loss


def step(optimizer: Any, loss: Callable[[], Any]) -> None:
    optimizer.zero_grad()
    loss().backward()
    optimizer.step()


def check_equality(rank: int, device: Any, make: Callable[[Any], Any]) -> tuple[bool, str]:
    """Compare the iterates of a run with those of the same run on CPUs."""
    ends = []
    for where in ("cpu", device):
        params, loss = problem(rank, where)
        optimizer = make(params)
        for _ in range(STEPS):
            step(optimizer, loss)
        optimizer.finish()
        ends.append([p.detach().cpu() for p in params])
    apart = max(float((a - b).abs().max()) for a, b in zip(*ends, strict=True))
    return apart <= TOLERANCE, f"apart by {apart:.1e} after {STEPS} steps"


def check_synchronisation(rank: int, device: Any, make: Callable[[Any], Any]) -> tuple[bool, str]:
    """Take steps that may not synchronise, and one while the GPU is busy."""
    import torch

    params, loss = problem(rank, device)
    optimizer = make(params)
    for _ in range(10):  # what is compared and connected at the start
        step(optimizer, loss)
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        for _ in range(5):
            step(optimizer, loss)
    except RuntimeError as error:
        return False, f"a step synchronises: {str(error).splitlines()[0]}"
    finally:
        torch.cuda.set_sync_debug_mode("default")
    torch.cuda.synchronize()
    clock = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    clock[0].record()
    torch.cuda._sleep(1 << 28)
    clock[1].record()
    torch.cuda.synchronize()
    torch.cuda._sleep(int((1 << 28) * BUSY * 1000 / clock[0].elapsed_time(clock[1])))
    began = time.monotonic()
    step(optimizer, loss)
    seconds = time.monotonic() - began
    torch.cuda.synchronize()
    return seconds < BUSY / 2, f"the host took {seconds * 1000:.0f} ms for a step while the GPU was busy for {BUSY:g} s"


def check_order(rank: int, device: Any, make: Callable[[Any], Any]) -> tuple[bool, str]:
    """Let ranks run apart by random delays, two optimizers on each."""
    pairs, draw = [], random.Random(rank)
    for _ in range(2):
        params, loss = problem(rank, device)
        pairs.append((make(params), loss))
    began = time.monotonic()
    for _ in range(STEPS):
        for pair in pairs:
            time.sleep(draw.random() * 0.01)
            step(*pair)
    for optimizer, _ in pairs:
        optimizer.finish()
    seconds = time.monotonic() - began
    return seconds < 60, f"{2 * STEPS} steps of two optimizers in {seconds:.1f} s"


def check_memory(rank: int, device: Any, name: str, make: Callable[[Any], Any]) -> tuple[bool, str]:
    """Count copies of a model of 16 million numbers at the peak of a step, gradients included."""
    import torch

    gc.collect()
    torch.cuda.empty_cache()
    before, side = torch.cuda.memory_allocated(), 4000
    model = torch.nn.Linear(side, side, bias=False, device=device)
    optimizer, inputs, peak = make(model.parameters()), torch.randn(1, side, device=device), 0
    for k in range(6):
        torch.cuda.reset_peak_memory_stats()
        step(optimizer, lambda: model(inputs).square().mean())
        torch.cuda.synchronize()
        peak = max(peak, torch.cuda.max_memory_allocated() - before) if k > 1 else 0
    optimizer.finish()
    copies = peak / (4 * side * side)
    return copies <= AIMS[name], f"{copies:.1f} copies at the peak of a step, aim {AIMS[name]}"


def check_all(rank: int, size: int, device: str) -> list[Check]:
    """Run all checks that the device allows, on this rank, whose process group is there."""
    checks: dict[str, Callable[[str, Callable[[Any], Any]], tuple[bool, str]]] = {
        "equality": lambda _, make: check_equality(rank, device, make),
        "order": lambda _, make: check_order(rank, device, make),
    }
    if device != "cpu":
        checks["no synchronisation"] = lambda _, make: check_synchronisation(rank, device, make)
        checks["memory"] = lambda name, make: check_memory(rank, device, name, make)
    found = []
    for kind, check in checks.items():
        for name, make in contestants().items():
            if kind == "memory" and name not in AIMS:
                continue
            if kind == "no synchronisation" and "top-k" in name:
                continue  # lengths of its messages are known to the host alone
            found.append(Check(f"{kind}: {name}", *check(name, make)))
    return found


def main() -> int:
    import torch

    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="cpu: a rehearsal of the script")
    options = parser.parse_args()
    count = torch.cuda.device_count() if options.device == "cuda" else 2
    if "RANK" in os.environ:
        return of_rank(options.device)
    if count < 2:
        print(
            f"make gpu needs two GPUs of NVIDIA on this machine, but PyTorch {torch.__version__} sees {count}"
            + ("" if torch.version.cuda else " (it was built without CUDA)")
            + ". On CPUs the tests show the same code; --device cpu rehearses this script.",
            file=sys.stderr,
        )
        return 2
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={count}"]
    call = [*torchrun, str(Path(__file__).resolve()), f"--device={options.device}"]
    return subprocess.run(call, timeout=1800, check=False).returncode


def of_rank(kind: str) -> int:
    """Run all checks in one of the processes; rank 0 prints what all found."""
    import torch
    import torch.distributed as dist

    rank, device = int(os.environ["LOCAL_RANK"]), kind
    if kind == "cuda":
        torch.cuda.set_device(rank)
        device = f"cuda:{rank}"
    dist.init_process_group("cpu:gloo,cuda:nccl" if kind == "cuda" else "gloo")
    found = check_all(rank, dist.get_world_size(), device)
    everybody: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(everybody, found)
    failed = 0
    for checks in zip(*everybody, strict=True):
        worst = min(checks, key=lambda check: check.passed)
        failed += not worst.passed
        if rank == 0:
            print(f"{'passed' if worst.passed else 'FAILED':<8}{worst.what:<56}{worst.found}")
    if rank == 0:
        names = [torch.cuda.get_device_name(k) for k in range(len(everybody))] if kind == "cuda" else ["CPU"]
        print(f"\n{failed} of {len(found)} checks failed; PyTorch {torch.__version__}, {', '.join(sorted({*names}))}")
    dist.destroy_process_group()
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
