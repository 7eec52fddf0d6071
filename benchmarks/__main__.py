"""Measure how fast Gossamer is, print it beside the aims, and write it as JSON and as a plot."""

import argparse
import json
import os
import platform
import sys
import time
from pathlib import Path
from typing import Any

import gossamer as gs


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer repetitions and sizes: about two minutes")
    parser.add_argument("--out", type=Path, default=Path("runs/bench"), help="where bench.json and bench.svg go")
    given = parser.parse_args()
    gs.devices(2)  # before JAX starts; what runs on one is not touched by the other
    from benchmarks import scaling, shown, starting, throughput, worst
    from benchmarks.agreement import DisagreementError

    began = time.perf_counter()
    print(f"{shown.WORK}\nMedians over alternating repetitions; in brackets, the quartiles.")
    measured: dict[str, Any] = {"machine": f"{os.cpu_count()} cores, {platform.machine()}", "quick": given.quick}
    try:
        contests = []
        for contest in (throughput.single, throughput.grid, throughput.seeds, throughput.dense):
            contests.append(contest(given.quick))
            print(shown.contest(contests[-1]), flush=True)
    except DisagreementError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    growths = scaling.growths(given.quick)
    print(shown.growths(growths), flush=True)
    print("\nWorst cases, beside the forecast of their time and memory", flush=True)
    worst_cases = worst.growth(given.quick, show=lambda cell: print(f"  {cell}", flush=True))
    certificates = worst.certify(given.quick, show=lambda row: print(f"  {row}", flush=True))
    starts = starting.starts(given.quick)
    aims = [aim for contest in contests for aim in contest.aims] + starting.aims(starts)
    print(shown.spreads("seconds of CPU", starts))
    print("\nAims\n" + "\n".join(f"  {aim}" for aim in aims))
    print(f"\n{time.perf_counter() - began:.0f} s on {measured['machine']}.")
    measured |= {
        "contests": [contest.asdict() for contest in contests],
        "growths": [growth.asdict() for growth in growths],
        "worst_cases": [cell._asdict() for cell in worst_cases],
        "certificates": certificates,
        "starts": {name: spread._asdict() for name, spread in starts.items()},
        "aims": [aim.asdict() for aim in aims],
    }
    given.out.mkdir(parents=True, exist_ok=True)
    (given.out / "bench.json").write_text(json.dumps(measured, indent=2, ensure_ascii=False) + "\n")
    shown.plot(contests, growths, given.out / "bench.svg")
    print(f"{given.out / 'bench.json'}, {given.out / 'bench.svg'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
