"""How far a run has come: a bar on a terminal, nothing elsewhere."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, TaskID, TextColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress

QUIET_FOR = 2.0
"""Seconds before a bar appears: a shorter run leaves the terminal alone."""

Report = Callable[[str, int, int, float | None], None]
"""Called as a run goes on with (algorithm, rounds done, rounds in all, the latest loss if it was measured)."""


@contextmanager
def reporting(wanted: bool | Report) -> Iterator[Report]:
    """The function to report to: the user's own, a bar where a terminal can show one, or one that does nothing."""
    console = Console(file=sys.stderr)
    if callable(wanted):
        yield wanted
    elif wanted and console.is_terminal and not console.is_dumb_terminal:
        bar = Bar(console)
        try:
            yield bar
        finally:
            bar.close()
    else:
        yield lambda *_: None


class Bar:
    """A bar for each algorithm in turn, with its rounds, rounds a second and the latest loss."""

    def __init__(self, console: Console):
        self._bar = RichProgress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=30),
            TextColumn("{task.completed:,.0f}/{task.total:,.0f} rounds{task.fields[details]}"),
            TimeRemainingColumn(),
            console=console,
            transient=True,
        )
        self._began = time.monotonic()
        self._name, self._since, self._loss = "", 0.0, ""
        self._task: TaskID | None = None

    def __call__(self, name: str, done: int, total: int, loss: float | None) -> None:
        now = time.monotonic()
        if now - self._began < QUIET_FOR:
            return
        if name != self._name or self._task is None:
            if self._task is not None:
                self._bar.remove_task(self._task)
            self._bar.start()
            self._task = self._bar.add_task(name, total=total, details="")
            self._name, self._since, self._first, self._loss = name, now, done, ""
        if loss is not None:
            self._loss = f", F = {loss:.5g}"
        rate = (done - self._first) / max(now - self._since, 1e-9)
        details = f", {rate:,.0f} a second" if done > self._first else ""
        self._bar.update(self._task, completed=done, details=details + self._loss)

    def close(self) -> None:
        self._bar.stop()
