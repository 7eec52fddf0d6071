"""The command line, one file a command: parse and print; the work is done elsewhere.

Commands import what they need when they run, so that help costs nothing.
"""

import gc
import sys
import warnings
from typing import Annotated

import typer

import gossamer
from gossamer.cli import (
    audit,
    certify,
    compare,
    data,
    init,
    launch,
    list,
    networks,
    plan,
    plot,
    recommend,
    report,
    reproduce,
    run,
    tune,
    watch,
)
from gossamer.cli.shared import app, note, refuse
from gossamer.core import InputError

COMMANDS = (
    init,
    run,
    tune,
    recommend,
    audit,
    plan,
    certify,
    reproduce,
    report,
    plot,
    compare,
    watch,
    list,
    networks,
    data,
    launch,
)
"""The commands: importing one adds it to the app."""

gc.set_threshold(50_000)  # a start makes many objects and hardly any garbage, and Python would look for it 400 times


def main() -> None:
    """The entry point: bad input ends with its message and exit code 2, never with a traceback."""
    if sys.argv[1:] == ["--version"]:  # it needs no parser, which takes longer than all else
        print(gossamer.__version__)
        return
    warnings.showwarning = note
    try:
        app()
    except InputError as error:
        refuse(error)
        sys.exit(2)


@app.callback(invoke_without_command=True)
def version(show: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    if show:
        print(gossamer.__version__)
        raise typer.Exit
