"""The directory of a run: whose it is, and whether another run may go on in it."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

from gossamer.basics.files import FORMAT, sweep, write
from gossamer.core import InputError, brief
from gossamer.engines.simulator import plan_run
from gossamer.specs.spec import Spec


def refuse_foreign(spec: Spec, folder: Path) -> None:
    """Raise InputError if a directory holds anything but this run, or a shorter form of it. Nothing is written."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file; --out is a directory.")
    stored = folder / "spec.toml"
    if stored.is_file():
        old = Spec.read(stored)
        if not extends(spec, old):
            free = next(name for number in count(2) if not os.path.lexists(name := f"{folder}-{number}"))
            raise InputError(
                f"{folder} holds another run: its spec.toml differs from yours in {', '.join(_differing(spec, old))}. "
                "Only longer steps and more seeds go on in the same directory. "
                f"Keep both with --out {free}, or remove the old one."
            )
        _refuse_other_format(folder)
    elif folder.exists() and any(folder.iterdir()):
        raise InputError(f"{folder} is not empty and holds no run: choose another directory.")


def claim(spec: Spec, folder: Path) -> None:
    """Write the spec into the directory, which is then this run's."""
    refuse_foreign(spec, folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        sweep(folder)
        write(folder / "spec.toml", spec.toml().encode())
    except OSError as error:
        raise InputError(f"cannot write into {folder}: {error.strerror or error}.") from error


@contextmanager
def leaving_nothing(folder: Path) -> Iterator[None]:
    """Remove a directory that bad input left without any result, and the parents that were made for it.

    Some mistakes show only when a program is traced, such as a target for a metric that this problem does not have.
    """
    spec, cells = folder / "spec.toml", folder / "cells"
    is_new = not os.path.lexists(spec) and not os.path.lexists(cells)
    missing = [path for path in (folder, *folder.parents) if not os.path.lexists(path)]
    try:
        yield
    except InputError:
        if is_new and not any(cells.glob("*")):
            for remove in (spec.unlink, cells.rmdir, *(path.rmdir for path in missing)):
                with suppress(OSError):  # never made, or another process wrote into it
                    remove()
        raise


def extends(spec: Spec, old: Spec) -> bool:
    """Return whether a spec differs from another only by as many or more rounds and the same or more seeds."""
    (plan, seeds), (old_plan, old_seeds) = (
        plan_run(given.run.steps, given.run.every, given.run.seeds, given.run.dtype) for given in (spec, old)
    )
    longer = plan.steps >= old_plan.steps and set(old_seeds) <= set(seeds)
    run = old.run.model_copy(update={"steps": spec.run.steps, "seeds": spec.run.seeds})
    # the clock changes no run, only the seconds that are shown
    same = old.model_copy(update={"run": run, "clock": spec.clock}).model_dump() == spec.model_dump()
    return longer and same


def _differing(spec: Spec, old: Spec) -> list[str]:
    """Return the keys in which two specs differ, those of a section after its name."""
    new, known, found = spec.model_dump(), old.model_dump(), []
    for key in (key for key in new if new[key] != known[key]):
        one, other = new[key], known[key]
        if isinstance(one, dict) and isinstance(other, dict):
            found += [f"{key}.{name}" for name in {**one, **other} if one.get(name) != other.get(name)]
        else:
            found.append(key)
    return found


def _refuse_other_format(folder: Path) -> None:
    """Raise InputError if a version wrote the directory whose files this version cannot read."""
    for name in ("study.json", "manifest.json"):
        try:
            known = json.loads((folder / name).read_bytes())
        except (OSError, ValueError, RecursionError):
            continue  # not there, or damaged: written anew
        number = known.get("format", FORMAT) if isinstance(known, dict) else FORMAT
        if number != FORMAT:
            raise InputError(
                f"{folder / name} is of format {brief(number)}; this version knows format {FORMAT}: choose another "
                "--out, remove it, or use the version that wrote it."
            )
