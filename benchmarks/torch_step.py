"""What a step of `gossamer.torch` costs, against local SGD, DistributedDataParallel and bare messages.

    python benchmarks/torch_step.py [--quick] [--json FILE]

It starts 2 and then 4 processes on this machine. Contestants take turns in one run, and every ratio is of neighbours in
time: read the ratios, not the milliseconds.
"""

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.timing import Spread, take_turns

SIZES = (100, 316, 1000, 3162)
"""Sides of the square layer: about 1e4, 1e5, 1e6 and 1e7 parameters."""
BATCH = 32
REPETITIONS = {100: 30, 316: 30, 1000: 15, 3162: 6}
IN_A_ROW = {100: 10, 316: 10, 1000: 5, 3162: 3}
"""Steps in one turn: messages that overlap gradients must not travel in the turns of others."""
AIMS = {316: 0.8, 1000: 1.2}
"""By side: what a step of Biased-DMT on 4 processes should cost at most, in steps of DDP."""


def ranks(target: str) -> None:
    """In each process: measure all sizes; rank 0 writes what it found."""
    import torch.distributed as dist

    dist.init_process_group("gloo")
    found = [measured(side) for side in json.loads(os.environ["BENCH_SIDES"])]
    if dist.get_rank() == 0:
        Path(target).write_text(json.dumps(found))
    dist.destroy_process_group()


def measured(side: int) -> dict[str, Any]:
    import torch
    import torch.distributed as dist

    import gossamer as gs
    from gossamer.torch import Decentralized
    from gossamer.torch.fused import computed

    rank, world = dist.get_rank(), dist.get_world_size()
    inputs = torch.randn(BATCH, side, generator=torch.Generator().manual_seed(rank))

    def stepping(make: Any) -> Any:
        model = torch.nn.Linear(side, side)
        wrapped, optimizer = make(model)

        def step() -> None:
            optimizer.zero_grad()
            wrapped(inputs).square().mean().backward()
            optimizer.step()

        return step, optimizer

    def sgd(model: Any) -> Any:
        return model, torch.optim.SGD(model.parameters(), lr=1e-3)

    def ddp(model: Any) -> Any:
        wrapped = torch.nn.parallel.DistributedDataParallel(model)
        return wrapped, torch.optim.SGD(wrapped.parameters(), lr=1e-3, momentum=0.9)

    def ours(rule: Any, overlap: bool | None = None) -> Any:
        return lambda model: (model, Decentralized(model.parameters(), rule, "ring", overlap=overlap))

    dmt, optimizer = stepping(ours(gs.BiasedDMT(eta=1e-3, lam=0.1), False))
    contestants = {
        "local": stepping(sgd)[0],
        "ddp": stepping(ddp)[0],
        "biased-dmt": stepping(ours(gs.BiasedDMT(eta=1e-3, lam=0.1)))[0],
        "biased-dmt in phase": dmt,
        "d-psgd": stepping(ours(gs.DPSGD(eta=1e-3)))[0],
    }
    d = side * side + side
    x, v = torch.randn(d), torch.randn(d)
    contestants["exchange"] = lambda: computed(optimizer.exchange.post((x, v), "WW", 0)(), last=True)
    neighbours = sorted({(rank - 1) % world, (rank + 1) % world})
    message, buffers = torch.randn(2 * d), [torch.empty(2 * d) for _ in neighbours]

    def bare() -> None:
        ops = [dist.P2POp(dist.isend, message, peer) for peer in neighbours]
        ops += [dist.P2POp(dist.irecv, buffer, peer) for buffer, peer in zip(buffers, neighbours, strict=True)]
        for work in dist.batch_isend_irecv(ops):
            work.wait()

    def summed() -> None:
        """Bare messages, and what any gossip of two vectors adds to them: one packing and one weighted sum."""
        torch.cat([x, v], out=message)
        bare()
        mixed = message * 0.5
        for buffer in buffers:
            mixed.add_(buffer, alpha=0.5)

    contestants |= {"bare": bare, "bare with sums": summed}
    contestants = {name: repeated(call, IN_A_ROW[side]) for name, call in contestants.items()}
    seconds = take_turns(contestants, max(3, REPETITIONS[side] // int(os.environ["BENCH_QUICK"])))
    pairs = [("biased-dmt", "ddp"), ("biased-dmt in phase", "ddp"), ("d-psgd", "ddp"), ("ddp", "local")]
    pairs += [("biased-dmt", "local"), ("exchange", "bare"), ("exchange", "bare with sums")]
    # a gradient and the bytes of Biased-DMT by gloo, with nothing beside: what no arithmetic of ours can change
    seconds["least"] = seconds["local"] + seconds["bare"]
    ratios = {f"{a} / {b}": Spread.of(seconds[a] / seconds[b])._asdict() for a, b in [*pairs, ("least", "ddp")]}
    milliseconds = {name: Spread.of(1e3 * values / IN_A_ROW[side]).median for name, values in seconds.items()}
    return {"processes": world, "d": d, "milliseconds": milliseconds, "ratios": ratios}


def repeated(call: Any, times: int) -> Any:
    def calls() -> None:
        for _ in range(times):
            call()

    return calls


def main() -> int:
    import subprocess
    import tempfile

    from gossamer.torch.launch import command, environment

    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a third of the repetitions, and no 1e7")
    parser.add_argument("--json", metavar="FILE", help="write the numbers there")
    options = parser.parse_args()
    found = []
    for processes in (2, 4):
        with tempfile.TemporaryDirectory() as folder:
            target = Path(folder) / "found.json"
            sides = SIZES[:3] if options.quick else SIZES
            env = environment(processes) | {"BENCH_RANKS": str(target), "BENCH_SIDES": json.dumps(sides)}
            env |= {"BENCH_QUICK": "3" if options.quick else "1", "OMP_NUM_THREADS": "1"}
            code = subprocess.run(command(processes, Path(__file__), folder=folder), env=env, timeout=1800).returncode
            if code:
                return code
            found += json.loads(target.read_text())
    print_found(found)
    if options.json:
        Path(options.json).write_text(json.dumps(found, indent=2))
    return 0


def print_found(found: list[dict[str, Any]]) -> None:
    print(f"One step of a square layer, batch {BATCH}, float32, gloo on one machine with {os.cpu_count()} cores.")
    print("Medians of ratios of neighbours in time; in brackets, the quartiles.\n")
    names = list(found[0]["ratios"])
    print(f"{'processes':<11}{'d':<12}{'local ms':>9}" + "".join(f"{name:>28}" for name in names))
    for row in found:
        shown = [f"{r['median']:.2f} [{r['low']:.2f}, {r['high']:.2f}]" for r in row["ratios"].values()]
        print(
            f"{row['processes']:<11}{row['d']:<12,}{row['milliseconds']['local']:>9.2f}"
            + "".join(f"{s:>28}" for s in shown)
        )
    worst, fair = (
        max(row["ratios"][f"exchange / {of}"]["median"] for row in found) for of in ("bare", "bare with sums")
    )
    small = max(row["ratios"]["biased-dmt / ddp"]["median"] for row in found if row["d"] < 2e5)
    print(f"\nAim: an exchange within 1.2 × of bare messages: {'met' if worst <= 1.2 else 'not met'} ({worst:.2f} ×);")
    print(f"against bare messages that are also packed and summed up: {fair:.2f} ×.")
    print(f"Aim: a step no slower than DDP up to d = 1e5: {'met' if small <= 1 else 'not met'} ({small:.2f} ×).")
    for side, aim in AIMS.items():
        row = next(row for row in found if (row["processes"], row["d"]) == (4, side * side + side))
        ours, least = (row["ratios"][f"{who} / ddp"]["median"] for who in ("biased-dmt", "least"))
        print(
            f"Aim: Biased-DMT on 4 processes with d = {row['d']:,} at most {aim} × DDP: "
            f"{'met' if ours <= aim else 'not met'} ({ours:.2f} ×; a gradient and bare messages: {least:.2f} ×)."
        )


if __name__ == "__main__":
    if "BENCH_RANKS" in os.environ:
        ranks(os.environ["BENCH_RANKS"])
    else:
        sys.exit(main())
