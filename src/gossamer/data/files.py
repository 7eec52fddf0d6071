"""Where data comes from on disk."""

import os
from pathlib import Path

from gossamer.core import InputError


def existing_file(path: str | os.PathLike[str], hint: str = "") -> Path:
    """The path, or an error that says what stands there instead."""
    found = Path(path).expanduser()
    if found.is_dir():
        raise InputError(f"{path} is a directory; give one of its files.")
    if not found.is_file():
        where = "" if found.is_absolute() else f" in {Path.cwd()}"
        raise InputError(f"there is no file {str(path)!r}{where}. {hint}".rstrip())
    return found
