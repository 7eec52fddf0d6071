"""gossamer init."""

import os
import re
import shutil
from pathlib import Path
from typing import Annotated, Literal

import typer

from gossamer.basics.text import visible
from gossamer.cli.shared import app, check_place, flag, say, show
from gossamer.core import InputError, brief, nearest

Start = Literal["logistic", "quadratic", "neural"]

PACKAGE = Path(__file__).resolve().parents[1]

TEMPLATES = PACKAGE / "specs" / "templates"
"""The commented specs, one for each kind of problem."""


@app.command()
def init(
    file: Annotated[
        Path | None, typer.Argument(help="The spec to write [default: after the problem or example]")
    ] = None,
    problem: Annotated[Start, typer.Option(help="What to minimise.")] = "logistic",
    example: Annotated[str | None, typer.Option(help="Copy an example, with the files that it needs.")] = None,
    list_: Annotated[bool, flag("--list", "List the examples, and write nothing.")] = False,
    force: Annotated[bool, flag("--force", "Overwrite what is there.")] = False,
) -> None:
    """Write a commented spec to start from, or a copy of an example.

    Examples:

        gossamer init mine.toml

        gossamer init --problem neural

        gossamer init --list

        gossamer init --example own-data
    """
    if list_:
        show(("name", "about"), [(name, about(path)) for name, path in examples().items()], whole=["name"])
        return
    source = TEMPLATES / f"{problem}.toml" if example is None else find_example(example)
    target = Path(source.name) if file is None else file
    if target.suffix != source.suffix:
        raise InputError(f"{visible(target)} should end with {source.suffix}, as what is written is such a file.")
    check_place(target)  # before the directory of the file is made
    written = copy_spec(source, target, force=force)
    for path in written:
        say(visible(path))
    runs = "gossamer run" if target.suffix == ".toml" else "python"
    code = "".join(f" --with {visible(path)}" for path in written[1:] if path.suffix == ".py")
    say(f"next: {runs} {visible(target)}{code}")


def examples() -> dict[str, Path]:
    """Return the examples by name, scripts with their ending: inside an installed package, or beside the sources."""
    for folder in (PACKAGE / "examples", PACKAGE.parents[1] / "examples"):
        if paths := sorted(path for path in folder.glob("*") if path.suffix in (".toml", ".py")):
            return {path.name.removesuffix(".toml"): path for path in paths}
    raise InputError(f"the examples are not at {PACKAGE / 'examples'}: this installation left them out.")


def find_example(name: str) -> Path:
    """Return the file of an example, or raise InputError with all names."""
    known = examples()
    for full in (name, f"{name}.py"):
        if full in known:
            return known[full]
    raise InputError(f"there is no example {brief(name)}; {nearest(name, known)}")


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


def copy_spec(source: Path, file: Path, *, force: bool = False) -> list[Path]:
    """Copy a spec to `file`, with the files beside it that it names, and return the files that were written.

    Those files are data, links, and code that the spec's comment says to bring. Nothing is written if one of them
    exists, unless it is forced.
    """
    copies = {source: file}
    if source.suffix == ".toml":
        named = set(re.findall(r"[\w-]+\.\w+", source.read_text(encoding="utf-8"))) - {source.name}
        beside = [path for path in sorted(source.parent.iterdir()) if path.name in named and path.is_file()]
        copies |= {path: file.parent / path.name for path in beside}
    for target in copies.values():
        if os.path.isdir(target):  # unlike Path.is_dir, it takes names that are too long for a file
            raise InputError(f"{brief(str(target))} is a directory: name the file to write.")
        if os.path.lexists(target) and not force:
            raise InputError(f"{brief(str(target))} exists: choose another name, or overwrite it with --force.")
    for path, target in copies.items():
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
    return list(copies.values())
