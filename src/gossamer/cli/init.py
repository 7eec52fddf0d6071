"""gossamer init."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from gossamer.basics.text import visible
from gossamer.cli.shared import AsJSON, app, check_place, flag, say, say_json, show
from gossamer.core import InputError

Start = Literal["logistic", "quadratic", "neural"]


@app.command()
def init(
    file: Annotated[
        Path | None, typer.Argument(help="The spec to write [default: after the problem or example]")
    ] = None,
    problem: Annotated[Start, typer.Option(help="What to minimise.")] = "logistic",
    example: Annotated[str | None, typer.Option(help="Copy an example, with the files that it needs.")] = None,
    list_: Annotated[bool, flag("--list", "List the examples, and write nothing.")] = False,
    force: Annotated[bool, flag("--force", "Overwrite what is there.")] = False,
    as_json: AsJSON = False,
) -> None:
    """Write a commented spec to start from, or a copy of an example.

    Examples:

        gossamer init mine.toml

        gossamer init --problem neural

        gossamer init --list

        gossamer init --example own-data
    """
    from gossamer.specs import starting

    if list_:
        rows = [
            {"name": name, "file": path.name, "about": starting.about(path)}
            for name, path in starting.examples().items()
        ]
        if as_json:
            say_json(rows)
        else:
            show(("name", "about"), [(row["name"], row["about"]) for row in rows], whole=["name"])
        return
    if example is not None:
        source = starting.named(starting.examples(), example, "example")
    else:
        source = starting.named(starting.templates(), problem, "problem")
    target = Path(source.name) if file is None else file
    if target.suffix != source.suffix:
        raise InputError(f"{visible(target)} should end with {source.suffix}, as what is written is such a file.")
    check_place(target)  # before the directory of the file is made
    written = starting.start(source, target, force=force)
    if as_json:
        say_json({"written": [str(path) for path in written]})
        return
    for path in written:
        say(visible(path))
    runs = "gossamer run" if target.suffix == ".toml" else "python"
    code = "".join(f" --with {visible(path)}" for path in written[1:] if path.suffix == ".py")
    say(f"next: {runs} {visible(target)}{code}")
