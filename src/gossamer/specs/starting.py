"""Specs to start from: a commented one for each kind of problem, and the examples."""

import os
import re
import shutil
from pathlib import Path

from gossamer.core import InputError, brief, nearest

HERE = Path(__file__).resolve().parents[1]
"""The package."""

TEMPLATES = Path(__file__).resolve().parent / "templates"

KINDS = (".toml", ".py")
"""The endings of examples: specs and scripts."""


def templates() -> dict[str, Path]:
    """Return the commented specs, by the problem of each."""
    return {path.stem: path for path in sorted(TEMPLATES.glob("*.toml"))}


def examples() -> dict[str, Path]:
    """Return the examples by name: those inside an installed package, or beside the sources in a clone."""
    for folder in (HERE / "examples", HERE.parents[1] / "examples"):
        paths = sorted(path for path in folder.glob("*") if path.suffix in KINDS)
        if paths:
            return {path.stem: path for path in paths}
    raise InputError(f"the examples are not at {HERE / 'examples'}: this installation left them out.")


def about(path: Path) -> str:
    """Return the first sentence at the top of a spec or a script."""
    if path.suffix == ".py":
        return path.read_text(encoding="utf-8").splitlines()[0].strip('" ').rstrip(".")
    return comment(path).split(". ")[0].rstrip(".")


def comment(path: Path) -> str:
    """Return the comment at the top of a spec, up to a line that has nothing but a #."""
    top = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.lstrip("# ") or not line.startswith("#"):
            break
        top.append(line.lstrip("# "))
    return " ".join(top)


def start(source: Path, file: Path, *, force: bool = False) -> list[Path]:
    """Copy a spec, and the files that it names beside itself, to `file`, and return the files that were written.

    Nothing is written if one of them exists, unless it is forced.
    """
    copies = {source: file} | {path: file.parent / path.name for path in _beside(source)}
    for target in copies.values():
        if os.path.isdir(target):  # unlike Path.is_dir, it takes names that are too long for a file
            raise InputError(f"{brief(str(target))} is a directory: name the file to write.")
        if os.path.lexists(target) and not force:
            raise InputError(f"{brief(str(target))} exists: choose another name, or overwrite it with --force.")
    try:
        for path, target in copies.items():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
    except (OSError, ValueError) as error:
        raise InputError(f"cannot write {brief(str(file))}: {getattr(error, 'strerror', None) or error}.") from error
    return list(copies.values())


def named(known: dict[str, Path], name: str, what: str) -> Path:
    """Return the file of this name, or raise InputError with all names."""
    if name not in known:
        raise InputError(f"there is no {what} {brief(name)}; {nearest(name, known)}")
    return known[name]


def _beside(source: Path) -> list[Path]:
    """Return the files beside a spec that the spec names: data, links, and code that its comment says to bring."""
    if source.suffix != ".toml":
        return []
    named = set(re.findall(r"[\w-]+\.\w+", source.read_text(encoding="utf-8"))) - {source.name}
    return [path for path in sorted(source.parent.iterdir()) if path.name in named and path.is_file()]
