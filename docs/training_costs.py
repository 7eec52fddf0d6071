"""Write docs/training-costs.md from a finished `make bench`: every time and every number of copies is of that run.

python docs/training_costs.py runs/bench
"""

import json
import sys
from pathlib import Path
from typing import Any

from findings import table

HERE = Path(__file__).parent

PAGE = r"""# What training costs

<!-- Written by docs/training_costs.py from a run of `make bench`: change that file, not this page. -->

Bytes, time and memory of `gossamer.torch`, against DistributedDataParallel. Times and memory are those that
`python benchmarks/torch_step.py` and `python benchmarks/torch_memory.py` measured (`make bench` runs both); whether a
whole training is worth it is on the page of [a language model](language.md).

## Bytes

A rank that gossips $k$ vectors of $d$ numbers of $s$ bytes to $\deg$ neighbours sends $k \deg d s$ bytes a step; a ring
all-reduce on $n$ ranks sends $2 d s (n-1)/n$, in $2(n-1)$ messages that wait for each other.

| | bytes a rank and step | $d$ = 1e6, float32, 8 ranks | messages one after the other |
| --- | --- | --- | --- |
| all-reduce (DDP) | $2 d s (n-1)/n$ | 7 MB | 14 |
| D-PSGD, ring | $2 d s$ | 8 MB | 1, during the gradient |
| D-PSGD, one-peer exponential | $d s$ | 4 MB | 1 |
| Biased-DMT, ring | $4 d s$ | 16 MB | 1, during the gradient |
| Biased-DMT, one-peer exponential | $2 d s$ | 8 MB | 1 |
| CHOCO-SGD, ring, top-k with $k = d/100$ | $2 k (s + 4)$ | 0.16 MB | 1 |

`optimizer.counters` has the bytes and messages that were really sent, and the seconds spent waiting for them.
Compressed messages are encoded on the wire: top-k as numbers and places, rand-k as numbers and a seed, signs as bits,
levels packed into 1 to 32 bits. Identity, rounding to a fixed step and compressors of your own travel as whole numbers,
and save nothing. With [local steps](training.md#adamw-inside-and-local-steps) a message goes out after every $H$ steps:
divide by $H$.

So gossip at every step does not send less than all-reduce. It pays where latency or waiting is what hurts: many hops,
slow or uneven ranks, links that come and go, data that cannot move. It does not pay between the GPUs of one machine.

## Time of a step

D-PSGD and Biased-DMT hide their messages: all that D-PSGD sends is known before the gradient is computed, and so it is
for Biased-DMT in another phase, with the same iterates; it leaves right after a step and travels meanwhile. This is the
default; `overlap=False` sends with the next step, and `overlap="backward"` mixes, moves and sends each bucket as soon
as backward has made its gradient.

Measured on one machine with MACHINE, a square layer, float32; medians of the times of one step relative to
DistributedDataParallel in the same run (below 1 is faster), and in brackets the quartiles. All send by gloo over the
loopback interface. Decent-DP 0.2.3 averages with one neighbour in each step on its ring, as D-PSGD does on a one-peer
exponential graph:

TIMES
AIMS
Where the quartiles lie on both sides of 1, read nothing into it. With four processes on two cores everything is paid in
time of the processor, and large models in that of the memory: Biased-DMT reads, adds and writes more vectors than DDP.
D-PSGD and Biased-DMT also look in every step whether gradients and states are finite and whether the script wrote into
the parameters, which is four times reading a vector; Decent-DP does not. A gradient and bare messages of the
bytes of Biased-DMT by gloo, with nothing else, take LEAST of DDP with a million parameters on four processes.

## Memory

Copies of the model that a process holds, parameters and gradients included, with NUMBERS parameters in float32 on
PROCESSES processes on a ring, by their resident memory:

MEMORY
Between steps Biased-DMT has the model, its momentum, its tracker, the gradients, and what two neighbours send of models
and trackers, in buffers that are kept. Rules that post ahead run in chunks of 131,072 numbers, so that what they
compute in between is a part of the model; with `overlap=False` and `"backward"` they run bucket by bucket, and all
others on the whole vector, of which every product is one more for a moment. These are 8 copies, and 4 of D-PSGD; of the
others that are measured for Biased-DMT the place is not known. For the table glibc returns
what is freed at once (`MALLOC_MMAP_THRESHOLD_` and `MALLOC_TRIM_THRESHOLD_` are half a megabyte). Left to itself it
keeps one or two copies more, of memory that was freed.

Large models gain if memory is kept. `gossamer launch` sets `MALLOC_MMAP_MAX_=0` and
`MALLOC_TRIM_THRESHOLD_` for that; with torchrun, set them yourself.
"""

COLUMNS = {
    "biased-dmt": "Biased-DMT",
    "biased-dmt, late": "Biased-DMT, `overlap=False`",
    "biased-dmt, backward": 'Biased-DMT, `overlap="backward"`',
    "d-psgd": "D-PSGD",
    "d-psgd, backward": 'D-PSGD, `overlap="backward"`',
    "d-psgd, one-peer": "D-PSGD, one-peer",
    "decent-dp": "Decent-DP, ring",
}
ROWS = {
    "ddp, adamw": "DDP, AdamW",
    "d-psgd": "D-PSGD",
    "d-psgd, adamw inside": "D-PSGD with AdamW inside",
    "biased-dmt": "Biased-DMT",
    "biased-dmt, overlap=False": "Biased-DMT, `overlap=False`",
    'biased-dmt, overlap="backward"': 'Biased-DMT, `overlap="backward"`',
}


def page(step: dict[str, Any], memory: dict[str, Any]) -> str:
    """The page of these measurements."""
    columns = {name: shown for name, shown in COLUMNS.items() if f"{name} / ddp" in step["rows"][0]["ratios"]}
    times = [
        (row["processes"], f"{row['d']:,}", row["batch"], *(spread(row["ratios"][f"{name} / ddp"]) for name in columns))
        for row in step["rows"]
    ]
    largest = max((row for row in step["rows"] if row["d"] < 2e6), key=lambda row: (row["processes"], row["d"]))
    words = {
        "MACHINE": step["machine"],
        "TIMES": table(["processes", "parameters", "batch", *columns.values()], times),
        "AIMS": "".join(f"- {aim(one)}\n" for one in step["aims"]),
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


def spread(ratio: dict[str, float]) -> str:
    return f"{ratio['median']:.2f} [{ratio['low']:.2f}, {ratio['high']:.2f}]"


def aim(one: dict[str, Any]) -> str:
    verdict = "Met" if one["met"] else "**Missed**"
    return f"{verdict}: {one['text']}: {spread(one['ratio'])}, where at most {one['bound']:g} is wanted."


if __name__ == "__main__":
    if len(sys.argv) != 2 or not all((Path(sys.argv[1]) / f"{name}.json").is_file() for name in ("step", "memory")):
        sys.exit(
            "usage: python docs/training_costs.py DIRECTORY, where `make bench` has written step.json and memory.json"
        )
    read = (json.loads((Path(sys.argv[1]) / f"{name}.json").read_text()) for name in ("step", "memory"))
    (HERE / "training-costs.md").write_text(page(*read))
