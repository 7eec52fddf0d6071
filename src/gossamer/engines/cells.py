"""Cells: what is kept of a run between two rounds, and how cells become a run again."""

import time
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from gossamer.engines.block import Block, Watch
from gossamer.results.files import Damaged


@dataclass(frozen=True)
class Row:
    """One run: what was measured, and where it ended."""

    rounds: Int[np.ndarray, " rounds"]
    metrics: dict[str, Float[np.ndarray, " rounds"]]
    diverged: int
    """The round in which it diverged, or −1."""
    worst: float
    """max_i F(x_i) at the end."""
    x: Float[np.ndarray, "agents d"]
    bias: Float[np.ndarray, "agents d"] | None
    seconds: float = 0.0
    """Its share of the time that its blocks took."""
    reached: int = -1
    """The round at which it came to its targets and ended, or −1."""
    stopped: int = -1
    """The round at which a user's callback ended it, or −1."""


Cell = dict[str, np.ndarray]
"""What the store keeps of a run between two rounds."""

RunId = tuple[int, int]
"""The number of a setting, and a seed."""


ENDS = ("diverged", "reached", "stopped")
"""Why a run may end early: each is a round, or −1."""


def thinned(cells: list[Cell]) -> list[Cell]:
    """What is still needed of these cells once there is a later one: what was measured, not where the run stood."""
    if not cells:
        return []
    last = {
        name: array for name, array in cells[-1].items() if name == "rounds" or name.startswith(("metric/", "bias"))
    }
    return [*cells[:-1], last] if len(cells) == 1 or last["rounds"].size else cells[:-1]


def segment(
    block: Block,
    some: list[int],
    chosen: list[int],
    first: int,
    last: int,
    marks: list[int],
    report: Any,
    watch: Watch | None = None,
) -> dict[RunId, Cell]:
    """The cells of one block; a padded block holds some runs more than once, and the copies are the same.

    A run that came to its targets has no rounds beyond, however long the others of its block went on.
    """
    began = time.perf_counter()
    bias = block.biases if first == 0 else None
    outcome = block.drive(marks, report, first, last, watch)
    worst, states, x = block.worst, block.leaves(), block.x
    seconds = (time.perf_counter() - began) / (len({*some}) * len({*chosen}))
    cells, rounds = {}, np.array(outcome.rounds, np.int64)
    for (g, k), (s, seed) in product(enumerate(some), enumerate(chosen)):
        reached = outcome.reached[g, s]
        kept = rounds <= reached if reached >= 0 else np.full(rounds.shape, True)
        cell = {f"metric/{name}": values[kept, g, s] for name, values in outcome.metrics.items()}
        cell |= {f"state/{number}": leaf[g, s] for number, leaf in enumerate(states)}
        cell |= {"rounds": rounds[kept], "diverged": outcome.diverged[g, s]}
        cell |= {"reached": reached, "stopped": np.int64(outcome.stopped)}
        cell |= {"worst": worst[g, s], "x": x[g, s], "seconds": np.float64(seconds)}
        cell |= {} if bias is None else {"bias": bias[g, s]}
        cells[k, seed] = cell
    return cells


def believed(marks: list[int], shape: tuple[int, int], cell: Cell) -> None:
    """See that a cell has what `segment` puts into one, since a checksum only tells that nobody changed it since."""
    metrics = [values for name, values in cell.items() if name.startswith("metric/")]
    wanted = {
        "rounds": "i",
        "diverged": "i",
        "reached": "i",
        "stopped": "i",
        "worst": "f",
        "seconds": "f",
        "x": "f",
        "state/0": "fiub",
        "metric/loss": "f",
    }
    for name, kinds in wanted.items():
        if name not in cell or cell[name].dtype.kind not in kinds:
            raise Damaged(f"it has no {name} of numbers")
    rounds = cell["rounds"]
    whole = cell["x"].shape == shape and not any(cell[name].ndim for name in ("worst", "seconds", *ENDS))
    if not whole or rounds.tolist() != marks[: rounds.size] or any(one.shape != rounds.shape for one in metrics):
        raise Damaged("its arrays are of other shapes or rounds than were asked for")
    if rounds.size < len(marks) and not ended_early(cell):
        raise Damaged("its run did not end early, but has not all its rounds")


def ended_early(cell: Cell) -> bool:
    """Whether the run ended for another reason than its last round."""
    return any(cell[name] >= 0 for name in ENDS)


def state(cell: Cell) -> list[np.ndarray]:
    return [cell[f"state/{number}"] for number in range(sum(name.startswith("state/") for name in cell))]


def row(cells: list[Cell], seconds: float) -> Row:
    names = [name.removeprefix("metric/") for name in cells[0] if name.startswith("metric/")]
    rounds = np.concatenate([cell["rounds"] for cell in cells])
    diverged, worst = int(cells[-1]["diverged"]), float(cells[-1]["worst"])
    if diverged < 0 and not np.isfinite(worst):  # one agent's model, of which the mean tells nothing
        diverged = int(rounds[-1])
    return Row(
        rounds=rounds,
        metrics={name: np.concatenate([cell[f"metric/{name}"] for cell in cells]) for name in names},
        diverged=diverged,
        worst=worst,
        x=cells[-1]["x"],
        bias=cells[0].get("bias"),
        seconds=seconds,
        reached=int(cells[-1]["reached"]),
        stopped=int(cells[-1]["stopped"]),
    )
