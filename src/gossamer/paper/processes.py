"""Experiments side by side, each in a process of its own."""

import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path

from gossamer.basics.progress import Lines
from gossamer.core import InputError


def run_all(names: Sequence[str], quick: bool, out: Path, processes: int, say: Callable[[str], None]) -> None:
    """Run experiments in at most this many `processes` at a time, each into its folder below `out`, and draw them.

    Figures take about a second each: they are drawn last, when a process has no other experiment to run. The first
    error ends the others. A worker whose parent is gone ends by itself.
    """
    with ProcessPoolExecutor(
        processes, mp_context=get_context("spawn"), initializer=_end_with_parent, initargs=(os.getpid(),)
    ) as pool:
        running = {pool.submit(_run, name, quick, out / name): name for name in names}
        drawing = set()
        try:
            while running or drawing:
                for done in wait([*running, *drawing], return_when=FIRST_COMPLETED).done:
                    done.result()
                    drawing.discard(done)
                    if name := running.pop(done, None):
                        say(f"{name}: done")
                        drawing.add(pool.submit(_draw, name, out))
        except BaseException as error:
            workers = list((getattr(pool, "_processes", None) or {}).values())  # what a shutdown forgets
            pool.shutdown(wait=False, cancel_futures=True)
            for worker in workers:
                worker.terminate()
            if isinstance(error, BrokenProcessPool):
                raise InputError(
                    "a process that ran an experiment ended by itself, perhaps for want of memory: the same command "
                    "goes on from what was finished, and with one process at a time it needs less."
                ) from error
            raise


def _run(name: str, quick: bool, folder: Path) -> None:
    from gossamer.paper.reproduction import run_one  # this module is imported by that one

    run_one(name, quick, folder, Lines())


def _draw(name: str, out: Path) -> None:
    from gossamer import report
    from gossamer.results.study import Study

    report.draw(Study.load(out / name), out, name)


def _end_with_parent(parent: int) -> None:
    """In a worker: leave Ctrl-C to the parent, and end as soon as the parent has."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.2)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
