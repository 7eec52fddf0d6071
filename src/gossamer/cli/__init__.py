"""The command line, one file a command: parse and print; the work is done elsewhere.

A command is imported when it is named, and imports what it needs when it runs, so that help costs nothing.
"""

import gc
import sys
import warnings
from importlib import import_module
from typing import TYPE_CHECKING

import gossamer

if TYPE_CHECKING:  # which takes longer than all else that is imported here
    from typer import Typer

COMMANDS = (
    "init",
    "run",
    "tune",
    "recommend",
    "audit",
    "plan",
    "certify",
    "reproduce",
    "report",
    "plot",
    "compare",
    "list",
    "networks",
    "data",
    "launch",
)
"""The commands, each a file here; importing it adds it to the app."""


def main() -> None:
    """The entry point: bad input ends with its message and exit code 2, never with a traceback."""
    gc.set_threshold(50_000)  # a start makes many objects and hardly any garbage, which Python would look for 400 times
    words = sys.argv[1:]
    if words == ["--version"]:
        print(gossamer.__version__)
        return
    from gossamer.cli.shared import InputError, note, refuse

    warnings.showwarning = note
    try:
        app(*(word for word in words[:1] if word in COMMANDS))()
    except InputError as error:
        refuse(error)
        sys.exit(2)


def app(*names: str) -> "Typer":
    """The app with the commands of these names, or with all."""
    from gossamer.cli.shared import app

    for name in names or COMMANDS:
        import_module(f"gossamer.cli.{name}")
    return app
