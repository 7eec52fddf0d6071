"""What a step of `gossamer.torch` costs, against local SGD, DistributedDataParallel, Decent-DP and bare messages.

    python benchmarks/torch_step.py [--quick] [--out DIRECTORY]

It starts 2 and then 4 processes on this machine. Contestants take turns in one run, and every ratio is of neighbours in
time: read the ratios, not the milliseconds. All messages go by gloo over the loopback interface. Decent-DP is measured
where it is installed: `pip install -e '.[peers]'`. At last it compares how long `gossamer.torch` takes to import with
PyTorch alone.
"""

import argparse
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.timing import Aim, Spread, take_turns

SIZES = ((100, 32), (316, 32), (1000, 32), (1000, 512), (3162, 32))
"""Sides of the square layer, of about 1e4, 1e5, 1e6 and 1e7 parameters, and rows of a batch."""
REPETITIONS = {100: 30, 316: 30, 1000: 15, 3162: 6}
IN_A_ROW = {100: 10, 316: 10, 1000: 5, 3162: 3}
"""Steps in one turn: messages that overlap gradients must not travel in the turns of others."""
AIMS = {
    ("biased-dmt", "ddp", 316, 32): 1.0,
    ("biased-dmt", "ddp", 1000, 32): 1.6,
    ("biased-dmt", "ddp", 1000, 512): 1.25,
    ("d-psgd", "ddp", 316, 32): 0.8,
    ("d-psgd", "ddp", 1000, 32): 1.0,
    ("d-psgd", "ddp", 1000, 512): 0.95,
}
"""Of whom, in steps of whom, for which side and batch: what a step on 4 processes should cost at most."""
IMPORT = 1.2
"""What importing `gossamer.torch` should cost at most, in imports of PyTorch."""
PAIRS = [
    ("biased-dmt", "ddp"),
    ("biased-dmt, late", "ddp"),
    ("d-psgd", "ddp"),
    ("d-psgd, one-peer", "ddp"),
    ("decent-dp", "ddp"),
    ("d-psgd, one-peer", "decent-dp"),
    ("ddp", "local"),
    ("exchange", "bare with sums"),
    ("least", "ddp"),
]
"""The ratios that are shown."""


def ranks(target: str) -> None:
    """In each process: measure all sizes; rank 0 writes what it found."""
    import torch.distributed as dist

    dist.init_process_group("gloo")
    found = [measured(side, batch) for side, batch in json.loads(os.environ["BENCH_SIDES"])]
    if dist.get_rank() == 0:
        Path(target).write_text(json.dumps(found))
    dist.destroy_process_group()


def measured(side: int, batch: int) -> dict[str, Any]:
    import torch
    import torch.distributed as dist

    import gossamer as gs
    from gossamer.torch import Decentralized
    from gossamer.torch.exchange import Counters, Exchange

    rank, world = dist.get_rank(), dist.get_world_size()
    inputs = torch.randn(batch, side, generator=torch.Generator().manual_seed(rank))

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

    def ours(rule: Any, network: str = "ring", **options: Any) -> Any:
        return lambda model: (model, Decentralized(model.parameters(), rule, network, **options))

    def decent(model: Any) -> Any:
        """Its ring has one neighbour in each step; it steps in the backward pass."""
        importlib.import_module("loguru").logger.remove()
        wrap = importlib.import_module("decent_dp.ddp").DecentralizedDataParallel
        wrapped = wrap(model, lambda named: torch.optim.SGD([p for _, p in named], 1e-3), None, "ring")
        wrapped.train()
        return wrapped, Nothing()

    dmt, psgd = gs.BiasedDMT(eta=1e-3, lam=0.1), gs.DPSGD(eta=1e-3)
    step, optimizer = stepping(ours(dmt))
    contestants = {
        "local": stepping(sgd)[0],
        "ddp": stepping(ddp)[0],
        "biased-dmt": step,
        "biased-dmt, late": stepping(ours(dmt, overlap=False))[0],
        "d-psgd": stepping(ours(psgd))[0],
        "d-psgd, one-peer": stepping(ours(psgd, "one-peer-exponential"))[0],
    }
    if importlib.util.find_spec("decent_dp"):
        contestants["decent-dp"] = stepping(decent)[0]
    d = side * side + side
    x, v = torch.randn(d), torch.randn(d)

    # another of the same ranks, apart from what the optimizer has under way
    exchange = Exchange(optimizer.world, optimizer.network, Counters())

    def exchanged() -> None:
        messages = exchange.post((x, v), "W", 0)
        exchange.mix(messages, 0, d)
        exchange.release(messages)

    contestants["exchange"] = exchanged
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
    # a gradient and the bytes of Biased-DMT by gloo, with nothing beside: what no arithmetic of ours can change
    seconds["least"] = seconds["local"] + seconds["bare"]
    pairs = [(a, b) for a, b in PAIRS if {a, b} <= {*seconds}]
    ratios = {f"{a} / {b}": Spread.of(seconds[a] / seconds[b])._asdict() for a, b in pairs}
    milliseconds = {name: Spread.of(1e3 * values / IN_A_ROW[side]).median for name, values in seconds.items()}
    return {"processes": world, "d": d, "batch": batch, "milliseconds": milliseconds, "ratios": ratios}


class Nothing:
    """The optimizer of who steps in the backward pass."""

    def zero_grad(self) -> None:
        pass

    def step(self) -> None:
        pass


def imports(repetitions: int) -> Spread:
    """The seconds of CPU that an import of `gossamer.torch` takes, in those of PyTorch with its distributed part."""

    def importing(what: str) -> float:
        code = f"import {what}, resource; print(sum(resource.getrusage(resource.RUSAGE_SELF)[:2]))"
        return float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)

    importing("gossamer.torch")
    pairs = [(importing("gossamer.torch"), importing("torch.distributed")) for _ in range(repetitions)]
    return Spread.of(np.array([ours / theirs for ours, theirs in pairs]))


def repeated(call: Any, times: int) -> Any:
    def calls() -> None:
        for _ in range(times):
            call()

    return calls


def main() -> int:
    import tempfile

    from gossamer.torch.launch import command, environment

    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a third of the repetitions, and no 1e7")
    parser.add_argument("--out", type=Path, default=Path("runs/bench"), help="where step.json goes")
    options = parser.parse_args()
    found = []
    for processes in (2, 4):
        with tempfile.TemporaryDirectory() as folder:
            target = Path(folder) / "found.json"
            sides = SIZES[:4] if options.quick else SIZES
            env = environment(processes) | {"BENCH_RANKS": str(target), "BENCH_SIDES": json.dumps(sides)}
            env |= {"BENCH_QUICK": "3" if options.quick else "1", "OMP_NUM_THREADS": "1"}
            code = subprocess.run(command(processes, Path(__file__), folder=folder), env=env, timeout=1800).returncode
            if code:
                return code
            found += json.loads(target.read_text())
    met = [*aims(found), Aim("import of gossamer.torch / PyTorch", imports(5), IMPORT, least=False)]
    print_found(found, met)
    options.out.mkdir(parents=True, exist_ok=True)
    content = {
        "machine": f"{os.cpu_count()} cores",
        "rows": found,
        "aims": [*map(Aim.asdict, met)],
    }
    (options.out / "step.json").write_text(json.dumps(content, indent=2) + "\n")
    return 0


def print_found(found: list[dict[str, Any]], met: list[Aim]) -> None:
    print(f"One step of a square layer, float32, on one machine with {os.cpu_count()} cores.")
    print("Medians of ratios of neighbours in time; in brackets, the quartiles.\n")
    columns = [f"{row['processes']} × {row['d']:,} / {row['batch']}" for row in found]
    print(f"{'':<32}" + "".join(f"{column:>21}" for column in columns))
    for name in found[0]["ratios"]:
        ratios = [row["ratios"][name] for row in found]
        print(
            f"{name:<32}" + "".join(f"{r['median']:>9.2f} [{r['low']:.2f}, {r['high']:.2f}]".rjust(21) for r in ratios)
        )
    print("", *met, sep="\n")


def aims(found: list[dict[str, Any]]) -> Iterator[Aim]:
    """The aims, each with what was found."""
    for (ours, theirs, side, batch), bound in AIMS.items():
        wanted = 4, side * side + side, batch
        row = next(row for row in found if (row["processes"], row["d"], row["batch"]) == wanted)
        text = f"{ours} / {theirs}, 4 processes, {row['d']:,} numbers, batch {batch}"
        yield Aim(text, Spread(**row["ratios"][f"{ours} / {theirs}"]), bound, least=False)


if __name__ == "__main__":
    if "BENCH_RANKS" in os.environ:
        ranks(os.environ["BENCH_RANKS"])
    else:
        sys.exit(main())
