"""The command line, one file a command: parse and print; the work is done elsewhere.

A command is imported when it is named, and imports what it needs when it runs, so that help costs nothing.
"""

import gc
import sys
import time
import warnings
from importlib import import_module
from typing import TYPE_CHECKING

import gossamer

if TYPE_CHECKING:  # typer takes longer than all other imports here
    from typer import Typer

COMMANDS = (
    "init",
    "run",
    "tune",
    "recommend",
    "explore",
    "audit",
    "plan",
    "certify",
    "worst-case",
    "prove",
    "reproduce",
    "report",
    "plot",
    "compare",
    "list",
    "networks",
    "launch",
)
"""The commands, each a file here; importing it adds it to the app."""


def main() -> None:
    """Run the command that is named; bad input, and what the system refuses, end with a message and exit code 2."""
    gc.set_threshold(50_000)  # a start makes many objects and hardly any garbage: Python would collect 400 times
    words = sys.argv[1:]
    if words == ["--version"]:
        print(gossamer.__version__)
        return
    from gossamer.cli.shared import InputError, is_reported_elsewhere, print_error, print_warning

    warnings.showwarning = print_warning
    try:
        app(*(word for word in words[:1] if word in COMMANDS))()
    except InputError as error:
        if is_reported_elsewhere():
            time.sleep(1)  # until the first process has said it
        else:
            print_error(error)
        sys.exit(2)
    except OSError as error:  # a full disk, or a directory that may not be written: rooms below let it through
        print_error(f"{error.filename or 'a file'} cannot be read or written: {error.strerror or error}.")
        sys.exit(2)


def app(*names: str) -> "Typer":
    """Return the app with the commands of these names, or with all."""
    from gossamer.cli.shared import app

    for name in names or COMMANDS:
        import_module(f"gossamer.cli.{name.replace('-', '_')}")
    return app
