"""Write docs/performance.md from a finished `make bench`: every number and figure on it comes from the run.

python docs/performance.py runs/bench
"""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
FIGURE = HERE / "assets" / "performance" / "bench.svg"

HEAD = """# Performance

<!-- Written by docs/performance.py from a run of `make bench`: change that file, not this page. -->

How fast Gossamer is, measured by `make bench` on {machine}. Contestants take turns in one run, and every ratio is of
neighbours in time: the median, and in brackets the quartiles. Before they are timed, all must reach the same iterates
on the same samples. Run it on your own machine: `make bench`, or `make bench-quick` in two minutes.

Unless another is named, the task is Biased-DMT on a9a sorted by label, a ring of 20 agents, batches of 64, float32, no
metrics. *Native* is with kernels that a C++ compiler made on first use.

Every ratio is of the same work: a single run against single runs, and 32 settings at once against 32 settings at once.
The reference is the fastest of the loops that we wrote by hand and tuned, and is named in the head of each table. Both
take one setting or many, on samples that all settings share and on one core, as the simulator does:

- *NumPy* makes dense products of the mini-batches, which are gathered as bytes.
- *SciPy* makes products of CSR matrices, by the kernels inside SciPy, and assumes features of 0 and 1.

PyTorch is a loop with autograd, as one would write it. Numba is a kernel written by hand for this very task, which
assumes features of 0 and 1, rows of at most 14 ones, and a ring.

![How fast, and how the cost grows](assets/performance/bench.svg)
"""

WHY = """
## Why it is as fast as it is

- A round is one loop body of two dozen kernels. Random numbers are JAX's own threefry, written out so that XLA fuses
  it, and made once a round; `tests/test_thunks.py` fails if a new XLA undoes that.
- Kernels are not split over cores: they take microseconds, and handing them out costs more. Cores are used by running
  seeds, settings or agents [on several devices](devices.md), or experiments in several processes.
- Features that are 0 or 1 are held as bits, others that are mostly zeros as lists of their columns: more of them stay
  in the cache. Losses do not know. Where all rows are read, as for metrics, they are widened a block at a time.
- The settings of a grid see the same samples, so that a mini-batch is gathered once for all; the seeds of a run go one
  after the other, so that what one works on stays in the cache.
- Schedules and the number of rounds are arguments: another value needs no new compilation. The command line keeps
  compiled programs in `~/.cache/gossamer` (`$XDG_CACHE_HOME/gossamer` where that is set; `--no-cache` leaves it alone).
  A program that was damaged or cut off there is recognised by its digest, and compiled again.
"""


def page(bench: dict[str, Any]) -> str:
    parts = [HEAD.format(machine=bench["machine"])]
    parts.append("## Aims\n")
    parts.append(
        _table(
            ["", "measured", "aim", ""],
            [
                [
                    aim["text"],
                    _spread(aim["ratio"]),
                    f"{'at least' if aim['least'] else 'at most'} {aim['bound']:g}",
                    "met" if aim["met"] else "**missed**",
                ]
                for aim in bench["aims"]
            ],
        )
    )
    parts.append("## Contests\n")
    for contest in bench["contests"]:
        rows = [
            [name, _spread(speed, ",.0f"), _spread(contest["against"][name])]
            for name, speed in contest["speed"].items()
        ]
        title = contest["title"]
        parts.append(
            _table([title[0].upper() + title[1:], f"{contest['unit']}/s", f"times {contest['reference']}"], rows)
        )
    parts.append("## Where the time goes\n")
    parts.append("The native kernels of a round, as XLA calls them, by JAX's profiler.\n")
    kernels = bench["anatomy"]["kernels"]
    parts.append(_table(["kernel", "µs"], [[f"`{name}`", f"{value:.1f}"] for name, value in kernels.items()]))
    rounds = bench["anatomy"]["rounds"]
    parts.append(_table(["", "in rounds"], [[name, _spread(value, ",.0f")] for name, value in rounds.items()]))
    parts.append("## How it grows\n\nMicroseconds of a round on random logistic losses, batch 16, 50 rows an agent.\n")
    for growth in bench["growths"]:
        rows = [
            [f"{size:,}", _spread(time, ",.0f")]
            for size, time in zip(growth["values"], growth["microseconds"], strict=True)
        ]
        parts.append(_table([f"{growth['size']} (log-log slope {growth['slope']:.2f})", "µs"], rows))
    parts.append("## Starting\n\nSeconds of CPU, each in a process of its own, from its start to its end.\n")
    parts.append(_table(["", "CPU s"], [[name, _spread(value)] for name, value in bench["starts"].items()]))
    return "\n".join(parts) + WHY


def _spread(spread: dict[str, float], form: str = ".2f") -> str:
    median, low, high = (format(spread[key], form) for key in ("median", "low", "high"))
    return f"{median} [{low}, {high}]"


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


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
