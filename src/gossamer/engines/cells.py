"""Pieces of runs between two rounds, how they become whole runs, and the cells that the store keeps of them."""

import time
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from gossamer.engines.block import Block, Watch


@dataclass(frozen=True)
class Row:
    """One run: what was measured, and where it ended."""

    rounds: Int[np.ndarray, " rounds"]
    metrics: dict[str, Float[np.ndarray, " rounds"]]
    diverged: int
    """The round in which it diverged, or −1."""
    worst: float | None
    """max_i F(x_i) at the end; None where only some metrics were measured."""
    x: Float[np.ndarray, "agents d"]
    bias: Float[np.ndarray, "agents d"] | None
    seconds: float = 0.0
    """Its share of the time that its blocks took."""
    reached: int = -1
    """The round at which it came to its targets and ended, or −1."""
    stopped: int = -1
    """The round at which a user's callback ended it, or −1."""


Cell = dict[str, np.ndarray]
"""What the store keeps of a piece: arrays by name."""

RunId = tuple[int, int]
"""The number of a setting, and a seed."""


@dataclass(frozen=True)
class Piece:
    """A run between two rounds: what was measured there, and where it stood at the end."""

    rounds: Int[np.ndarray, " rounds"]
    metrics: dict[str, Float[np.ndarray, " rounds"]]
    diverged: int
    reached: int
    stopped: int
    worst: float | None
    seconds: float
    state: list[np.ndarray]
    """All that the next piece goes on from."""
    x: Float[np.ndarray, "agents d"] | None
    bias: Float[np.ndarray, "agents d"] | None
    """Of the first piece only."""

    @property
    def ended_early(self) -> bool:
        """Whether the run ended for another reason than its last round."""
        return max(self.diverged, self.reached, self.stopped) >= 0

    def thinned(self) -> "Piece":
        """What is still needed once there is a later piece: what was measured, not where the run stood."""
        return replace(self, state=[], x=None)

    def cell(self) -> Cell:
        """The arrays that the store keeps."""
        cell: dict[str, Any] = {f"metric/{name}": values for name, values in self.metrics.items()}
        cell |= {f"state/{number}": leaf for number, leaf in enumerate(self.state)}
        cell |= {name: np.int64(getattr(self, name)) for name in ENDS}
        cell |= {"seconds": np.float64(self.seconds), "rounds": self.rounds}
        cell |= {name: array for name in ("worst", "x", "bias") if (array := getattr(self, name)) is not None}
        return {name: np.asarray(array) for name, array in cell.items()}

    @staticmethod
    def of_cell(cell: Cell) -> "Piece":
        """The piece that a cell is of."""
        states = sum(name.startswith("state/") for name in cell)
        return Piece(
            rounds=cell["rounds"],
            metrics={name.removeprefix("metric/"): cell[name] for name in cell if name.startswith("metric/")},
            diverged=int(cell["diverged"]),
            reached=int(cell["reached"]),
            stopped=int(cell["stopped"]),
            worst=float(cell["worst"]) if "worst" in cell else None,
            seconds=float(cell["seconds"]),
            state=[cell[f"state/{number}"] for number in range(states)],
            x=cell["x"],
            bias=cell.get("bias"),
        )


ENDS = ("diverged", "reached", "stopped")
"""Why a run may end early: each is a round, or −1."""


def joined(pieces: list[Piece], later: Piece) -> list[Piece]:
    """The pieces of a run with a later one; of those before, only what is still needed."""
    if not pieces:
        return [later]
    last = pieces[-1].thinned()
    needed = [*pieces[:-1], last] if len(pieces) == 1 or last.rounds.size else pieces[:-1]
    return [*needed, later]


def segment(
    block: Block,
    some: list[int],
    chosen: list[int],
    first: int,
    last: int,
    marks: list[int],
    report: Any,
    watch: Watch | None = None,
) -> dict[RunId, Piece]:
    """The pieces of one block; a padded block holds some runs more than once, and the copies are the same.

    A run that came to its targets has no rounds beyond, however long the others of its block went on.
    """
    began = time.perf_counter()
    bias = _shared(block.biases) if first == 0 else None
    outcome = block.drive(marks, report, first, last, watch)
    worst, states, x = block.worst, block.leaves(), block.x
    seconds = (time.perf_counter() - began) / (len({*some}) * len({*chosen}))
    pieces, rounds = {}, np.array(outcome.rounds, np.int64)
    for (g, k), (s, seed) in product(enumerate(some), enumerate(chosen)):
        reached = int(outcome.reached[g, s])
        kept = rounds <= reached if reached >= 0 else np.full(rounds.shape, True)
        pieces[k, seed] = Piece(
            rounds=rounds[kept],
            metrics={name: values[kept, g, s] for name, values in outcome.metrics.items()},
            diverged=int(outcome.diverged[g, s]),
            reached=reached,
            stopped=int(outcome.stopped),
            worst=None if worst is None else float(worst[g, s]),
            seconds=seconds,
            state=[leaf[g, s] for leaf in states],
            x=x[g, s],
            bias=None if bias is None else bias[g, s],
        )
    return pieces


def _shared(bias: Float[np.ndarray, "settings seeds agents d"] | None) -> np.ndarray | None:
    """The same, where all agents have one bias, such as none, without a copy for each of them."""
    if bias is None or not (bias == bias[:, :, :1]).all():
        return bias
    return np.broadcast_to(bias[:, :, :1].copy(), bias.shape)


def row(pieces: list[Piece], seconds: float) -> Row:
    """The run that these are the pieces of."""
    last, rounds = pieces[-1], np.concatenate([piece.rounds for piece in pieces])
    diverged = last.diverged
    lost = last.worst is not None and not np.isfinite(last.worst)  # one agent's model, of which the mean tells nothing
    if diverged < 0 and lost:
        diverged = int(rounds[-1])
    assert last.x is not None
    return Row(
        rounds=rounds,
        metrics={name: np.concatenate([piece.metrics[name] for piece in pieces]) for name in pieces[0].metrics},
        diverged=diverged,
        worst=last.worst,
        x=last.x,
        bias=pieces[0].bias,
        seconds=seconds,
        reached=last.reached,
        stopped=last.stopped,
    )
