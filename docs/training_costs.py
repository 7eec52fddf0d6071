"""Write docs/training-costs.md from a finished `make bench`: every time and every number of copies is of that run.

python docs/training_costs.py runs/bench
"""

import json
import sys
from pathlib import Path
from typing import Any

from tables import spread, table

HERE = Path(__file__).parent

PAGE = (HERE / "templates" / "training-costs.txt").read_text(encoding="utf-8")

COLUMNS = {
    "biased-dmt": "Biased-DMT",
    "biased-dmt, late": "Biased-DMT, `overlap=False`",
    "d-psgd": "D-PSGD",
    "d-psgd, one-peer": "D-PSGD, one-peer",
    "decent-dp": "Decent-DP, ring",
}
LEAST_SHOWN = 1_000_000
"""Numbers of the smallest model on the page; the JSON of the benchmark has smaller ones too."""
DECENT = " Decent-DP averages with one neighbour a step on its ring, as D-PSGD does on a one-peer exponential graph."
ROWS = {
    "ddp, adamw": "DDP, AdamW",
    "d-psgd": "D-PSGD",
    "d-psgd, adamw inside": "D-PSGD with AdamW inside",
    "biased-dmt": "Biased-DMT",
    "biased-dmt, overlap=False": "Biased-DMT, `overlap=False`",
}


def page(step: dict[str, Any], memory: dict[str, Any]) -> str:
    """Return the page of these measurements."""
    columns = {name: shown for name, shown in COLUMNS.items() if f"{name} / ddp" in step["rows"][0]["ratios"]}
    times = [
        (row["processes"], f"{row['d']:,}", row["batch"], *(spread(row["ratios"][f"{name} / ddp"]) for name in columns))
        for row in step["rows"]
        if row["d"] >= LEAST_SHOWN
    ]
    largest = max((row for row in step["rows"] if row["d"] < 2e6), key=lambda row: (row["processes"], row["d"]))
    words = {
        "MACHINE": step["machine"],
        "DECENT": DECENT * ("decent-dp" in columns),
        "TIMES": table(["processes", "parameters", "batch", *columns.values()], times),
        "AIMS": aims(step["aims"]),
        "LEAST": f"{largest['ratios']['least / ddp']['median']:.2f}",
        "NUMBERS": f"{memory['numbers']:,}",
        "PROCESSES": str(memory["processes"]),
        "MEMORY": table(
            ["", "between steps", "at the peak of a step"],
            [(shown, *(f"{copies:.1f}" for copies in memory["copies"][name])) for name, shown in ROWS.items()],
        ),
    }
    text = PAGE
    for word, value in words.items():
        text = text.replace(word, value)
    return text


def aims(given: list[dict[str, Any]]) -> str:
    """Say how many aims were met, and list those that were missed."""
    missed = [one for one in given if not one["met"]]
    text = f"{len(given) - len(missed)} of {len(given)} aims of the benchmark were met."
    rest = "; ".join(f"{one['text']}: {spread(one['ratio'])}, aim {one['bound']:g}" for one in missed)
    return f"{text} Missed: {rest}." if missed else text


if __name__ == "__main__":
    if len(sys.argv) != 2 or not all((Path(sys.argv[1]) / f"{name}.json").is_file() for name in ("step", "memory")):
        sys.exit(
            "usage: python docs/training_costs.py DIRECTORY, where `make bench` has written step.json and memory.json"
        )
    read = (json.loads((Path(sys.argv[1]) / f"{name}.json").read_text()) for name in ("step", "memory"))
    (HERE / "training-costs.md").write_text(page(*read))
