"""Files of data sets: the directories where they are looked for, and errors that name the nearest file."""

import difflib
import os
from pathlib import Path

from gossamer.core import InputError, brief

VARIABLE = "GOSSAMER_DATA"
"""The environment variable with the user's own directories of data sets, in the way of PATH."""

SYSTEM = Path("/usr/share/datasets")
"""The directory of Debian's packages `dataset-NAME`."""


def existing_file(path: str | os.PathLike[str], hint: str = "") -> Path:
    """Return the path; raise InputError, with the nearest name, if there is no such file."""
    file = Path(os.path.expanduser(path))
    if os.path.isdir(file):
        raise InputError(f"{path} is a directory; give one of its files.")
    if os.path.isfile(file):  # unlike Path.is_file it takes any text, such as names too long for a file
        return file
    try:
        close = difflib.get_close_matches(file.name[:80], os.listdir(file.parent), n=1)
    except (OSError, ValueError):
        close = []
    where = "" if file.is_absolute() else f" in {Path.cwd()}"
    near = f"Did you mean {close[0]!r}? " if close else ""
    raise InputError(f"there is no file {brief(str(path))}{where}. {near}{hint}".rstrip())


def dataset_folders(name: str) -> list[Path]:
    """Return the directories that may hold the files of a data set of images, in order.

    Each data set has a directory of its own, because the files of all of them have the same names.
    """
    own = [Path(os.path.expanduser(part)) for part in os.environ.get(VARIABLE, "").split(os.pathsep) if part]
    return [*(folder / name for folder in own), SYSTEM / name]


def files_of(data: str) -> list[Path]:
    """Return the files that a path or the name of a data set may be read from, those of directories in order."""
    places = [Path(data)]
    if places[0].name == data:
        places += dataset_folders(data)
    found = (place / name for place in places for name in (sorted(os.listdir(place)) if os.path.isdir(place) else [""]))
    return [file for file in found if os.path.isfile(file)]
