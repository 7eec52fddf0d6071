"""Print how fast Gossamer is, as text or, with ``--json``, as numbers for a program to read."""

import argparse
import json
import os
import platform
import sys
import time
from typing import Any

from benchmarks import suites
from benchmarks.agreement import ROUNDS, DisagreementError
from benchmarks.timing import Spread


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print the numbers as JSON")
    as_json = parser.parse_args().json
    began = time.perf_counter()
    try:
        contest = suites.contest()
    except DisagreementError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    if not as_json:
        print_contest(contest)
    grid = suites.grid()
    if not as_json:
        print_grid(grid)
    growth = suites.growth()
    if as_json:
        print(json.dumps(plain({"contest": contest, "grid": grid, "growth": growth}), indent=2))
    else:
        print_growth(growth)
        print(f"\n{time.perf_counter() - began:.0f} s on {os.cpu_count()} cores, {platform.machine()}.")
    return 0


def print_contest(found: dict[str, Any]) -> None:
    apart = ", ".join(f"{value:.1g} in {dtype}" for dtype, value in found["largest_difference"].items())
    print("Biased-DMT on a9a by label, ring of 20, batch 64, float32, no metrics")
    print(f"Same iterates on the same rows after {ROUNDS} rounds: at most {apart} apart.")
    print("Medians over alternating repetitions; in brackets, the quartiles.\n")
    print(f"  {'':<22}{'rounds/s':>26}{'times NumPy':>24}")
    for name, speed in found["rounds_per_second"].items():
        print(f"  {name:<22}{shown(speed, ',.0f'):>26}{shown(found['times_numpy'][name], '.2f'):>24}")
    verdict = "met" if found["aim_met"] else "not met"
    reached = found["times_numpy"]["Gossamer"].median
    print(f"\n  Aim: at least {found['aim']:g} × NumPy: {verdict} ({reached:.2f} ×).")
    print(f"  Numba, written by hand for this task, is {shown(found['numba_times_gossamer'], '.2f')} × Gossamer.")


def print_grid(found: dict[str, Any]) -> None:
    print(f"\n{found['settings']} settings in one block cost {shown(found['times_one'], '.1f')} times one.")


def print_growth(found: list[dict[str, Any]]) -> None:
    print("\nBiased-DMT on random logistic losses, ring, d = 100, batch 16, 50 rows an agent\n")
    heading = f"times {found[0]['agents']} agents"
    print(f"  {'agents':<10}{'µs per agent and round':>26}{heading:>24}")
    for row in found:
        print(f"  {row['agents']:<10,}{shown(row['microseconds'], '.2f'):>26}{shown(row['times_fewest'], '.2f'):>24}")


def plain(found: Any) -> Any:
    """With every spread as an object, whose numbers have names in JSON."""
    if isinstance(found, Spread):
        return found._asdict()
    if isinstance(found, dict):
        return {key: plain(value) for key, value in found.items()}
    return [plain(value) for value in found] if isinstance(found, list) else found


def shown(spread: Spread, form: str) -> str:
    median, low, high = (format(value, form) for value in spread)
    return f"{median} [{low}, {high}]"


if __name__ == "__main__":
    sys.exit(main())
