"""What the commands share: the app itself, options, progress and how an interruption ends."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from gossamer.progress import Lines

HELP = """Decentralized stochastic optimization when gradients are biased.

Exit codes: 0 done, 1 an error of ours, 2 bad input and nothing written, 3 done but every run diverged, 4 done but an
inequality of the theory was violated, 130 interrupted.
"""

app = typer.Typer(help=HELP, no_args_is_help=True, rich_markup_mode="markdown", pretty_exceptions_enable=False)

AsJSON = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]
SpecFile = Annotated[Path, typer.Argument(metavar="SPEC", help="The experiment, a TOML file.")]
Out = Annotated[Path | None, typer.Option(help="The run's directory [default: runs/NAME, after the spec]")]


@contextmanager
def resumable() -> Iterator[None]:
    """Ctrl-C ends with a word on how to go on."""
    try:
        yield
    except KeyboardInterrupt:
        print("interrupted: the same command goes on from what was finished", file=sys.stderr, flush=True)
        sys.stdout.flush()
        os._exit(130)  # at once: a compiled call may still be running, and what is kept is whole at any moment


@contextmanager
def working(text: str) -> Iterator[None]:
    """Say what takes a while: a moving line on a terminal, elsewhere a line."""
    console = Console(stderr=True)
    if _line_based():
        print(text, file=sys.stderr, flush=True)
        yield
    else:
        with console.status(text):
            yield


def _line_based() -> bool:
    console = Console(stderr=True)
    return not console.is_terminal or console.is_dumb_terminal


def progress() -> Any:
    """Lines where there is no terminal that can draw a bar."""
    return Lines() if _line_based() else True


def plain(text: str) -> Any:
    return text.replace("[", "\\[")
