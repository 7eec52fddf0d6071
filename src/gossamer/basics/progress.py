"""Progress of a run: a bar on a terminal or in a notebook, nothing elsewhere.

Nothing here imports IPython first: a notebook's kernel has it loaded, and elsewhere there is no notebook to draw in.
"""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from rich.console import Console
from rich.progress import BarColumn, TaskID, TextColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress

from gossamer.basics.html import tag
from gossamer.basics.text import visible

QUIET_FOR = 2.0
"""Seconds before a bar appears: a shorter run leaves the terminal alone."""

KERNEL = "ZMQInteractiveShell"
"""The shell of a notebook's kernel, or its base class; IPython on a terminal has another shell."""

PAUSE_IN_NOTEBOOK = 0.2
"""Seconds between two pictures of a bar in a notebook: each is a message that waits in a queue until it is drawn."""

Report = Callable[[str, int, int, float | None], None]
"""Called as a run goes on with (algorithm, rounds done, rounds in all, the latest loss if it was measured)."""


@contextmanager
def reporting(wanted: bool | Report) -> Iterator[Report]:
    """Yield the function to report to: the user's own, a bar, or a function that does nothing.

    A bar needs a terminal or a notebook. Unless `wanted` is False, the function can also `say` a line that must not
    wait, such as that a run will take more than an hour. Where progress shows, it also says how long every run of more
    than some seconds will take.
    """
    if callable(wanted):
        yield wanted
    elif not wanted:
        yield lambda *_: None
    else:
        console = Console(file=sys.stderr)
        is_drawable = console.is_terminal and not console.is_dumb_terminal
        report = NotebookBar(console) if in_notebook() else Bar(console) if is_drawable else Notices()
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

    def __init__(self, console: Console):
        self._bar = RichProgress(
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
        self.draw(visible(name), done, total, rate + self._loss, is_new)

    def draw(self, name: str, done: int, total: int, details: str, is_new: bool) -> None:
        """Show the bar, from its start if the algorithm is new."""
        if is_new or self._task is None:
            if self._task is not None:
                self._bar.remove_task(self._task)
            self._bar.start()
            self._task = self._bar.add_task(name, total=total, details="")
        self._bar.update(self._task, description=name, completed=done, details=details)

    def say(self, text: str) -> None:
        self._bar.console.print(text, markup=False, highlight=False)

    def close(self) -> None:
        self._bar.stop()


class NotebookBar(Bar):
    """A bar in the output of a notebook's cell, which is updated in place and removed at the end.

    Rich's own bar needs ipywidgets there, which many notebooks lack.
    """

    def __init__(self, console: Console):
        super().__init__(console)
        self._handle: Any = None
        self._drawn = float("-inf")

    def draw(self, name: str, done: int, total: int, details: str, is_new: bool) -> None:
        now = time.monotonic()
        if not is_new and done < total and now - self._drawn < PAUSE_IN_NOTEBOOK:
            return
        self._drawn = now
        text = f"{done:,}/{total:,} rounds{details}"
        bar = tag("progress", value=done, max=max(total, 1), style="vertical-align: middle")
        # both forms: a front end without HTML shows the text
        picture = {"text/html": tag("div", f"{name} ", bar, f" {text}"), "text/plain": f"{name}: {text}"}
        if self._handle is None:
            from IPython.display import display  # pyright: ignore[reportMissingImports]

            self._handle = display(picture, raw=True, display_id=True)
        else:
            self._handle.update(picture, raw=True)

    def say(self, text: str) -> None:
        Notices.say(self, text)

    def close(self) -> None:
        if self._handle is not None:
            self._handle.update({"text/html": "", "text/plain": ""}, raw=True)


def in_notebook() -> bool:
    """Return True if a notebook shows what this process displays."""
    get_shell = getattr(sys.modules.get("IPython"), "get_ipython", None)
    shell = get_shell() if callable(get_shell) else None
    return any(kind.__name__ == KERNEL for kind in type(shell).__mro__)
