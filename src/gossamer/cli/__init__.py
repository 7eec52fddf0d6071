"""The command line: parse and print; the work is done elsewhere."""

import sys
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

import gossamer
from gossamer.cli import launching, running, showing, theorizing
from gossamer.cli.base import app, safe
from gossamer.core import InputError

__all__ = ["app", "launching", "main", "running", "showing", "theorizing"]


def main() -> None:
    """The entry point: bad input ends with its message and exit code 2, never with a traceback."""
    try:
        app()
    except InputError as error:
        line = Text.assemble(("error:", "bold red"), " ", safe(error))
        Console(stderr=True, highlight=False).print(line, soft_wrap=True)
        sys.exit(2)


@app.callback(invoke_without_command=True)
def version(show: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    if show:
        print(gossamer.__version__)
        raise typer.Exit
