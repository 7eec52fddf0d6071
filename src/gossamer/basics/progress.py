"""Progress of a run: a bar on a terminal, lines in a notebook, nothing elsewhere."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from gossamer.basics.text import visible

if TYPE_CHECKING:  # Rich is slow to import, and most runs draw no bar
    from rich.console import Console
    from rich.progress import TaskID

QUIET_FOR = 2.0
"""Seconds before a bar appears: a shorter run leaves the terminal alone."""

Report = Callable[[str, int, int, float | None], None]
"""Called as a run goes on with (algorithm, rounds done, rounds in all, the latest loss if it was measured)."""


@contextmanager
def reporting(wanted: bool | Report) -> Iterator[Report]:
    """Yield the function to report to: the user's own, a bar, or a function that does nothing.

    A bar needs a terminal; a notebook gets lines, since rich's bar would need ipywidgets there. Unless `wanted` is
    False, the function can also `say` a line that must not wait, such as that a run will take more than an hour. Where
    progress shows, it also says how long every run of more than some seconds will take.
    """
    if callable(wanted):
        yield wanted
    elif not wanted:
        yield lambda *_: None
    else:
        from rich.console import Console

        console = Console(file=sys.stderr)
        is_drawable = console.is_terminal and not console.is_dumb_terminal
        report = Lines() if console.is_jupyter else Bar(console) if is_drawable else Notices()
        try:
            yield report
        finally:
            report.close()


class Say(Protocol):
    """A function that prints a line; an aside is printed only where progress shows."""

    def __call__(self, text: str, *, aside: bool = False) -> None: ...


def saying(report: Report, name: str) -> Say:
    """Return a function that prints a line about this algorithm where `report` reports; a user's own prints nothing."""

    def say(text: str, *, aside: bool = False) -> None:
        if isinstance(report, Notices) and (not aside or report.watched):
            report.say(f"{name}: {text}")

    return say


class StudyProgress:
    """A count of the runs of a study that have ended, and an estimate of when the rest will have."""

    def __init__(self, study: str, runs: int, *, several: bool = True):
        self.study, self.runs, self.over, self.several = study, runs, 0, several
        self._began = time.monotonic()

    def add(self, runs: int) -> None:
        """Count runs that have ended."""
        self.over += runs

    def extend(self, runs: int) -> None:
        """Add runs that go on because they have not settled."""
        self.runs += runs

    def label(self, what: str) -> str:
        """Return a line on the progress of the study; only the name of the run where the study is a single result."""
        if not self.several:
            return what
        seconds = (time.monotonic() - self._began) / max(self.over, 1) * (self.runs - self.over)
        left = f", about {seconds:,.0f} s left" if self.over else ""
        return f"{self.study}: {what}, {self.over} of {self.runs} runs done{left}"


class Notices:
    """A report that shows no progress, and prints only lines that must not wait."""

    watched = False
    """True for a report that shows progress."""

    def __call__(self, name: str, done: int, total: int, loss: float | None) -> None:
        pass

    def say(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    def close(self) -> None:
        pass


class Lines(Notices):
    """Progress where no bar can move: a line when an algorithm has ended, at most every `PAUSE` seconds."""

    PAUSE = 10.0
    watched = True

    def __init__(self) -> None:
        self._last, self._what = float("-inf"), ""

    def __call__(self, name: str, done: int, total: int, loss: float | None) -> None:
        what = name.partition(",")[0]
        if done < total or loss is None or (what == self._what and time.monotonic() - self._last < self.PAUSE):
            return
        self._last, self._what = time.monotonic(), what
        self.say(f"{visible(name)}: {total:,} rounds, F = {loss:.5g}")


class Bar(Notices):
    """A bar on a terminal for one algorithm after the other: its rounds, rounds a second and the latest loss.

    Names that agree up to the first comma are the same algorithm.
    """

    watched = True

    def __init__(self, console: "Console"):
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=30),
            TextColumn("{task.completed:,.0f}/{task.total:,.0f} rounds{task.fields[details]}"),
            TimeRemainingColumn(),
            console=console,
            transient=True,
        )
        self._task: TaskID | None = None
        self._visible_from = time.monotonic() + QUIET_FOR
        self._what, self._loss, self._done = "", "", 0
        self._start = 0.0, 0  # the time and the round at which the bar of this algorithm began

    def __call__(self, name: str, done: int, total: int, loss: float | None) -> None:
        now, what = time.monotonic(), name.partition(",")[0]
        # a run that is over at once shows no bar
        if now < self._visible_from:
            return
        is_new = what != self._what or done < self._done
        if is_new:
            self._start, self._loss = (now, done), ""
        self._what, self._done = what, done
        if loss is not None:
            self._loss = f", F = {loss:.5g}"
        since, first = self._start
        rate = f", {(done - first) / max(now - since, 1e-9):,.0f} a second" if done > first else ""
        if is_new or self._task is None:
            if self._task is not None:
                self._bar.remove_task(self._task)
            self._bar.start()
            self._task = self._bar.add_task("", total=total, details="")
        self._bar.update(self._task, description=visible(name), completed=done, details=rate + self._loss)

    def say(self, text: str) -> None:
        self._bar.console.print(text, markup=False, highlight=False)

    def close(self) -> None:
        self._bar.stop()
