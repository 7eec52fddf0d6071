"""The directory of a run: whose it is, and whether another run may go on in it."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from itertools import count
from pathlib import Path

from gossamer.basics.files import FORMAT, sweep, write
from gossamer.core import InputError, brief
from gossamer.engines import processes
from gossamer.engines.simulator import plan_run
from gossamer.results.store import NullStore, Store
from gossamer.specs.spec import Spec


@contextmanager
def open_directory(folder: Path | None, spec: Spec | None) -> Iterator[Store]:
    """Claim a directory for a run and yield its store; without a directory, a store that keeps nothing.

    Some mistakes show only when a program is traced or a setting is chosen. If such an InputError comes before the
    first result, the files and the parents that were made for the run are removed again.
    """
    if folder is None:
        yield NullStore()
        return
    stored, cells = folder / "spec.toml", folder / "cells"
    # a directory that another call made stays, whatever goes wrong here
    is_new = not os.path.lexists(stored) and not os.path.lexists(cells)
    missing = [path for path in (folder, *folder.parents) if not os.path.lexists(path)]
    try:
        processes.run_on_first(partial(claim, folder, spec))
        yield processes.open_store(cells)
    except InputError:
        if is_new and not any(cells.glob("*")):
            for remove in (stored.unlink, cells.rmdir, *(path.rmdir for path in missing)):
                with suppress(OSError):  # never made, or another process wrote into it
                    remove()
        raise
    except OSError as error:
        raise InputError(f"cannot write into {folder}: {error.strerror or error}.") from error


def check(folder: Path, spec: Spec | None) -> None:
    """Raise InputError if a directory holds anything but this run or one of fewer rounds or seeds, in our format.

    A study that is made in Python has no spec; its directory is known by its cells.
    """
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file; --out is a directory.")
    known = folder / ("cells" if spec is None else "spec.toml")
    if not known.exists() and folder.exists() and any(folder.iterdir()):
        raise InputError(f"{folder} is not empty and holds no run: choose another directory.")
    if spec is None or not known.is_file():
        return
    old = Spec.read(known)
    (plan, seeds), (old_plan, old_seeds) = (
        plan_run(given.run.steps, given.run.every, given.run.seeds, given.run.dtype) for given in (spec, old)
    )
    longer = old.run.model_copy(update={"steps": spec.run.steps, "seeds": spec.run.seeds})
    # the clock changes no run, only the seconds that are shown
    before, now = old.model_copy(update={"run": longer, "clock": spec.clock}).model_dump(), spec.model_dump()
    if before != now or plan.steps < old_plan.steps or not set(old_seeds) <= set(seeds):
        before, differing = old.model_dump(), []
        for key in (key for key in now if now[key] != before[key]):
            one, other = now[key], before[key]
            if isinstance(one, dict) and isinstance(other, dict):
                differing += [f"{key}.{name}" for name in {**one, **other} if one.get(name) != other.get(name)]
            else:
                differing.append(key)
        free = next(name for number in count(2) if not os.path.lexists(name := f"{folder}-{number}"))
        raise InputError(
            f"{folder} holds another run: its spec.toml differs from yours in {', '.join(differing)}. Only longer "
            f"steps and more seeds go on in the same directory. Keep both with --out {free}, or remove the old one."
        )
    for name in ("study.json", "manifest.json"):
        number = FORMAT
        with suppress(OSError, ValueError, AttributeError):  # not there, or damaged: written anew
            number = json.loads((folder / name).read_bytes()).get("format", FORMAT)
        if number != FORMAT:
            raise InputError(
                f"{folder / name} is of format {brief(number)}; this version knows format {FORMAT}: choose another "
                "--out, remove it, or use the version that wrote it."
            )


def claim(folder: Path, spec: Spec | None) -> None:
    """Make the directory this run's, once it is checked."""
    check(folder, spec)
    folder.mkdir(parents=True, exist_ok=True)
    sweep(folder)  # what a killed process left half written
    if spec is not None:
        write(folder / "spec.toml", spec.toml().encode())
