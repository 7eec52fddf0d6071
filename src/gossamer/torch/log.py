"""When a row of the log is due, and what stands in it."""

import numbers
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from torch import Tensor

from gossamer.core import InputError, brief, whole
from gossamer.torch.log_writers import STANDARD

if TYPE_CHECKING:
    from gossamer.torch.optimizer import Decentralized


class Log:
    """Calls a user's function with a row after every so many steps."""

    def __init__(self, write: Callable[[dict[str, Any]], None] | None, every: Any):
        # to call a class would make a log for each row, and write none
        if write is not None and (isinstance(write, type) or not callable(write)):
            raise InputError(f"log must be a function of a row, such as CSVLog('log.csv'), but is {brief(write)}.")
        self._write, self._every, self._began = write, whole("log_every", every), time.monotonic()
        self._noted: dict[str, float | Tensor] = {}

    @property
    def seconds(self) -> float:
        """Seconds since the run began, over all its lives, as its counters count."""
        return time.monotonic() - self._began

    @seconds.setter
    def seconds(self, value: float) -> None:
        self._began = time.monotonic() - value

    def note(self, values: dict[str, Any]) -> None:
        """Keep numbers for the next row. A tensor of one number is read when the row is written: a GPU may be late."""
        for name, value in values.items():
            if name in STANDARD:
                raise InputError(f"note({name}=…) would hide the {name} that every row has: use another name.")
            if isinstance(value, Tensor) and value.numel() == 1:
                self._noted[name] = value.detach().clone()
            elif isinstance(value, numbers.Real):
                self._noted[name] = float(value)
            else:
                raise InputError(f"note({name}=…) must be one number, but is {brief(value)}.")

    def step(self, optimizer: "Decentralized") -> None:
        """After a step."""
        if self._write is None or optimizer.guard.step % self._every:
            return
        row = {
            "step": optimizer.guard.step,
            "rank": optimizer.world.rank,
            "round": optimizer.round,
            "lr": optimizer.param_groups[0]["lr"],
            "seconds": self.seconds,
            **asdict(optimizer.counters),
            **{name: float(value) for name, value in self._noted.items()},
        }
        self._noted = {}
        self._write(row)
