"""When a row of the log is due, and what stands in it."""

import time
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from gossamer.core import InputError, brief, whole

if TYPE_CHECKING:
    from gossamer.torch.optimizer import Decentralized


class Log:
    """Calls a user's function with a row after every so many steps."""

    def __init__(self, write: Callable[[dict[str, Any]], None] | None, every: Any):
        if write is not None and not callable(write):
            raise InputError(f"log must be a function of a row, such as CSVLog('log.csv'), but is {brief(write)}.")
        self._write, self._every, self._began = write, whole("log_every", every), time.monotonic()
        self.noted: dict[str, float] = {}
        """What the script noted since the last row."""

    def step(self, optimizer: "Decentralized") -> None:
        """After a step."""
        if self._write is None or optimizer.guard.step % self._every:
            return
        row = {
            "step": optimizer.guard.step,
            "rank": optimizer.world.rank,
            "round": optimizer.round,
            "lr": optimizer.param_groups[0]["lr"],
            "seconds": time.monotonic() - self._began,
            **asdict(optimizer.counters),
            **self.noted,
        }
        self.noted = {}
        self._write(row)
