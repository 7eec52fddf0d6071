"""Experiments side by side, each in a process of its own."""

import os
import signal
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path

from gossamer.basics.progress import Lines
from gossamer.core import InputError


def run_all(experiments: Mapping[str, tuple[bool, Path]], processes: int, say: Callable[[str], None]) -> None:
    """Run experiments in at most this many `processes` at a time.

    The mapping says of each name whether it runs in its quick form, and into which folder. The first error ends the
    others. A worker whose parent is gone ends by itself.
    """
    with ProcessPoolExecutor(
        processes, mp_context=get_context("spawn"), initializer=_end_with_parent, initargs=(os.getpid(),)
    ) as pool:
        jobs = {pool.submit(_run, name, quick, folder): name for name, (quick, folder) in experiments.items()}
        try:
            for done in as_completed(jobs):
                done.result()
                say(f"{jobs[done]}: done")
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


def _end_with_parent(parent: int) -> None:
    """In a worker: leave Ctrl-C to the parent, and end as soon as the parent has."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.2)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
