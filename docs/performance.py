"""Write docs/performance.md from a finished `make bench`: every number and figure on it comes from the run.

python docs/performance.py runs/bench
"""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

from tables import spread, table

HERE = Path(__file__).parent
FIGURE = HERE / "assets" / "performance" / "bench.svg"

HEAD = (HERE / "templates" / "performance-head.txt").read_text(encoding="utf-8")

WHY = (HERE / "templates" / "performance-why.txt").read_text(encoding="utf-8")


def page(bench: dict[str, Any]) -> str:
    parts = [HEAD.format(machine=bench["machine"])]
    missed = [aim for aim in bench["aims"] if not aim["met"]]
    text = f"{len(bench['aims']) - len(missed)} of {len(bench['aims'])} aims were met."
    bounds = [f"{'at least' if aim['least'] else 'at most'} {aim['bound']:g}" for aim in missed]
    lines = [f"{aim['text']}: {spread(aim['ratio'])}, aim {bound}" for aim, bound in zip(missed, bounds, strict=True)]
    parts.append(f"**{text}**" + (f" Missed: {'; '.join(lines)}." if missed else "") + "\n")
    parts.append("## Contests\n")
    for contest in bench["contests"]:
        rows = [
            [name, spread(speed, ",.0f"), spread(contest["against"][name])] for name, speed in contest["speed"].items()
        ]
        title = contest["title"]
        parts.append(
            table(
                [title[0].upper() + title[1:], f"{contest['unit']}/s", f"times {contest['reference']}"],
                rows,
                numbers=True,
            )
        )
    parts.append("## Scaling\n\nMicroseconds of a round on random logistic losses, batch 16, 50 rows an agent.\n")
    rows = [
        [
            growth["size"],
            ", ".join(f"{size:,}" for size in growth["values"]),
            ", ".join(f"{time['median']:,.0f}" for time in growth["microseconds"]),
            f"{growth['slope']:.2f}",
        ]
        for growth in bench["growths"]
    ]
    parts.append(table(["growing", "values", "µs, medians", "log-log slope"], rows, numbers=True))
    parts.append("## Starting\n\nSeconds of CPU of a process from start to end.\n")
    starts = [[name, spread(value)] for name, value in bench["starts"].items()]
    parts.append(table(["", "CPU s"], starts, numbers=True))
    return "\n".join(parts) + WHY


def main() -> None:
    folder = Path(sys.argv[1])
    bench = json.loads((folder / "bench.json").read_text())
    if bench["quick"]:
        raise SystemExit("this is of a quick run: the page shows whole ones, from `make bench`")
    (HERE / "performance.md").write_text(page(bench))
    FIGURE.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(folder / "bench.svg", FIGURE)


if __name__ == "__main__":
    main()
