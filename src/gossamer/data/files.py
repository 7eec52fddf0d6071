"""Where data comes from on disk."""

import os
from pathlib import Path

from gossamer.core import InputError, brief


def existing_file(path: str | os.PathLike[str], hint: str = "") -> Path:
    """The path, or an error that says what stands there instead."""
    file = Path(os.path.expanduser(path))
    if os.path.isdir(file):
        raise InputError(f"{path} is a directory; give one of its files.")
    if not os.path.isfile(file):  # unlike Path.is_file it takes any text, such as names too long for a file
        where = "" if file.is_absolute() else f" in {Path.cwd()}"
        raise InputError(f"there is no file {brief(str(path))}{where}. {hint}".rstrip())
    return file
