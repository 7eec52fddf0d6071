"""How far a run has come: a bar on a terminal, nothing elsewhere."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, TaskID, TextColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress

from gossamer.basics.terminal import visible

QUIET_FOR = 2.0
"""Seconds before a bar appears: a shorter run leaves the terminal alone."""

Report = Callable[[str, int, int, float | None], None]
"""Called as a run goes on with (algorithm, rounds done, rounds in all, the latest loss if it was measured)."""


@contextmanager
def reporting(wanted: bool | Report) -> Iterator[Report]:
    """The function to report to: the user's own, a bar where a terminal can show one, or one that does nothing.

    Unless nothing is wanted, it can also `say` a line that must not wait: that a run will take more than an hour. Where
    progress shows, it also says how long every run of more than some seconds will take, and how much memory it needs.
    """
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
        yield Notices() if wanted else lambda *_: None


class Say(Protocol):
    """Says a line; an aside is said only to someone who watches progress."""

    def __call__(self, text: str, *, aside: bool = False) -> None: ...


def saying(report: Report, name: str) -> Say:
    """The function that says a line about this algorithm where `report` reports to; silent where it is a user's own."""
    say = getattr(report, "say", lambda text: None)

    def said(text: str, *, aside: bool = False) -> None:
        if not aside or getattr(report, "watched", False):
            say(f"{name}: {text}")

    return said


class Notices:
    """Shows no progress, but says what must be said."""

    watched = False

    def __call__(self, name: str, done: int, total: int, loss: float | None) -> None:
        pass

    def say(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)


class Tally:
    """How many runs of a study have ended, and when the rest will have."""

    def __init__(self, study: str, runs: int, *, several: bool = True):
        self.study, self.runs, self.over, self.several = study, runs, 0, several
        self._began = time.monotonic()

    def add(self, runs: int) -> None:
        self.over += runs

    def more(self, runs: int) -> None:
        """Add runs that go on because they have not settled."""
        self.runs += runs

    def label(self, what: str) -> str:
        """A line on what is going on; only the name of the run where a study is a single result."""
        if not self.several:
            return what
        seconds = (time.monotonic() - self._began) / max(self.over, 1) * (self.runs - self.over)
        left = f", about {seconds:,.0f} s left" if self.over else ""
        return f"{self.study}: {what}, {self.over} of {self.runs} runs done{left}"


class Lines(Notices):
    """Progress where no bar can move: a line when an algorithm has come to its end, but not one every moment."""

    PAUSE = 10.0
    watched = True

    def __init__(self) -> None:
        self._last, self._what = float("-inf"), ""

    def __call__(self, name: str, done: int, total: int, loss: float | None) -> None:
        what = name.partition(",")[0]
        if done < total or loss is None or (what == self._what and time.monotonic() - self._last < self.PAUSE):
            return
        self._last, self._what = time.monotonic(), what
        print(f"{visible(name)}: {total:,} rounds, F = {loss:.5g}", file=sys.stderr, flush=True)


class Bar:
    """A bar for each algorithm in turn, with its rounds, rounds a second and the latest loss.

    What stands before a comma in its name says whether it is still the same one.
    """

    watched = True

    def __init__(self, console: Console):
        self._bar = RichProgress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=30),
            TextColumn("{task.completed:,.0f}/{task.total:,.0f} rounds{task.fields[details]}"),
            TimeRemainingColumn(),
            console=console,
            transient=True,
        )
        self._began = time.monotonic()
        self._name, self._since, self._loss, self._first, self._done = "", 0.0, "", 0, 0
        self._task: TaskID | None = None

    def __call__(self, name: str, done: int, total: int, loss: float | None) -> None:
        now = time.monotonic()
        if now - self._began < QUIET_FOR:
            return
        if name.partition(",")[0] != self._name.partition(",")[0] or done < self._done or self._task is None:
            if self._task is not None:
                self._bar.remove_task(self._task)
            self._bar.start()
            self._task = self._bar.add_task(visible(name), total=total, details="")
            self._since, self._first, self._loss = now, done, ""
        self._name, self._done = name, done
        if loss is not None:
            self._loss = f", F = {loss:.5g}"
        rate = (done - self._first) / max(now - self._since, 1e-9)
        details = f", {rate:,.0f} a second" if done > self._first else ""
        self._bar.update(self._task, description=visible(name), completed=done, details=details + self._loss)

    def say(self, text: str) -> None:
        self._bar.console.print(text, markup=False, highlight=False)

    def close(self) -> None:
        self._bar.stop()
