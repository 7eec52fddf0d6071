"""Time and memory of worst cases as T and n grow, and times of certificates: python -m benchmarks.worst [--quick]

They stand beside the forecasts. Each cell of worst cases is a process of its own, so that its memory is its own. A
forecast that is exceeded twofold would break a budget: the benchmark then ends with exit code 1.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from typing import Any, NamedTuple

import gossamer as gs

FACTOR = 2.0
"""The most that a cell may take over its forecast, in time and memory, besides what a start takes."""

START_SECONDS, START_BYTES = 0.5, 3e8

CELLS = [  # network, biased, T
    *(("ring(2)", False, steps) for steps in (5, 10, 13)),
    *(("ring(2)", True, steps) for steps in (5, 8)),
    *(("ring(20)", False, steps) for steps in (4, 8)),
    *(("ring(20)", True, steps) for steps in (3, 5)),
    *(("ring(100)", False, steps) for steps in (3, 5)),
    *(("path(3)", False, steps) for steps in (4, 6)),
    *(("path(5)", False, steps) for steps in (3, 5)),
    *(("path(5)", True, steps) for steps in (3, 4)),
]


class Cell(NamedTuple):
    """A worst case, its forecast and what it took."""

    network: str
    biased: bool
    steps: int
    forecast: float
    seconds: float
    forecast_bytes: float
    bytes: float
    orders: int
    multipliers: int

    @property
    def kept(self) -> bool:
        """True if time and memory are within the forecast."""
        in_time = self.seconds <= FACTOR * self.forecast + START_SECONDS
        return in_time and self.bytes <= FACTOR * self.forecast_bytes + START_BYTES

    def __str__(self) -> str:
        about = f"{self.network:<10}{'biased' if self.biased else '':<7} T = {self.steps:<3}"
        size = f"{self.orders:>5} rows {self.multipliers:>6,} multipliers"
        took = f"{self.seconds:>8.2f} s, forecast {self.forecast:>8.2f} s; {self.bytes / 1e6:>6.0f} MB more"
        return f"{about}{size}{took}, forecast {self.forecast_bytes / 1e6:>6.0f}{'' if self.kept else '  EXCEEDED'}"


def measure(name: str, biased: bool, steps: int) -> Cell:
    """Solve a worst case in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.worst", "--cell", json.dumps([name, biased, steps])]
    return Cell(*json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))


def solve(name: str, biased: bool, steps: int) -> Cell:
    """Solve a worst case here."""
    kind, agents = name.rstrip(")").split("(")
    network = getattr(gs.networks, kind)(int(agents))
    rule, bias = gs.BiasedDMT(eta=0.2 * min(1.0, network.gap or 1.0), lam=0.5), (0.1, 0.1) if biased else None
    gs.worst_case(rule, network, steps=1, bias=bias)  # imports
    before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.perf_counter()
    found = gs.worst_case(rule, network, steps=steps, bias=bias)
    seconds, size = time.perf_counter() - began, found.size
    more = 1024.0 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    about = size.seconds, seconds, size.memory, more, max(size.blocks), size.multipliers
    return Cell(name, biased, steps, *about)


def growth(quick: bool, show: Any = print) -> list[Cell]:
    """Measure all cells, or the smaller half of them."""
    cells = []
    for name, biased, steps in CELLS:
        if not quick or steps <= 5:
            cells.append(measure(name, biased, steps))
            show(cells[-1])
    return cells


def certify(quick: bool, show: Any = print) -> list[dict[str, Any]]:
    """Measure the seconds of certificates for every number of rounds, with bias and noise, and of their checks."""
    found = []
    for agents in (2, 5, 20) if quick else (2, 5, 20, 40, 80):
        network = gs.networks.ring(agents)
        rule, bound = gs.BiasedDMT(eta=0.3 * (network.gap or 1.0), lam=0.1), {"bias": (0.1, 0.1), "noise": 1.0}
        one = gs.certificate(rule, network, **bound)
        began = time.perf_counter()
        one.check()
        row = {"agents": agents, "seconds": one.seconds, "check": time.perf_counter() - began, "floor": one.floor}
        found.append(row)
        show(f"ring({agents}): proved in {row['seconds']:.2f} s, checked again in {row['check']:.2f} s")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.worst", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small cells only")
    parser.add_argument("--cell", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.cell:
        print(json.dumps(solve(*json.loads(given.cell))))
        return 0
    certify(given.quick)
    return int(not all(cell.kept for cell in growth(given.quick)))


if __name__ == "__main__":
    sys.exit(main())
