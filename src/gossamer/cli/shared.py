"""What the commands share: the app itself, options, progress and how an interruption ends."""

import atexit
import json
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import gossamer
from gossamer.basics import cache
from gossamer.basics.json_values import finite
from gossamer.basics.text import visible
from gossamer.cli import COMMANDS
from gossamer.core import InputError, brief

if TYPE_CHECKING:  # rich costs as much as all else together, and some commands print nothing with it
    from rich.text import Text

EXIT_CODES = {
    0: "done",
    1: "an error of ours",
    2: "bad input: the message says what was wrong, and nothing was written",
    3: "done, but every run diverged",
    4: "done, but an inequality of the theory was violated",
    5: "compared, and a difference is beyond chance",
    6: "another process of the run was lost",
    130: "interrupted: the same command goes on from what was finished",
}
"""What the commands end with."""

HELP = "\n\n".join(
    [
        "Decentralized stochastic optimization when gradients are biased.",
        "Exit codes:",
        *(f"- {code} {meaning}" for code, meaning in EXIT_CODES.items()),
    ]
)

# where a command is named the app's own options are not: typer would bring in pydantic to say that they are not given
_options = not set(sys.argv[1:2]) & set(COMMANDS)
app = typer.Typer(
    help=HELP,
    no_args_is_help=True,
    add_help_option=_options,
    add_completion=_options,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)


@app.callback(invoke_without_command=True)
def version(show: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    if show:
        print(gossamer.__version__)
        raise typer.Exit


AsJSON = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]
SpecFile = Annotated[Path, typer.Argument(metavar="SPEC", help="The experiment, a TOML file.")]
With = Annotated[
    list[Path] | None,
    typer.Option("--with", metavar="FILE", help="A Python file of your own; a spec may name what it defines."),
]


def _remembering(wanted: bool) -> bool:
    """Keep compiled programs from here on, and note at the end which are whole."""
    if wanted and cache.remember(cache.place()):
        atexit.register(cache.seal)
    return wanted


Cache = Annotated[
    bool,
    typer.Option(
        callback=_remembering,
        help="Keep compiled programs in ~/.cache/gossamer, or $XDG_CACHE_HOME/gossamer, to start sooner next time.",
    ),
]
Out = Annotated[Path | None, typer.Option(help="The run's directory [default: runs/NAME, after the spec]")]


def take(files: list[Path] | None) -> None:
    """Run a user's own files, so that specs can name what they define."""
    if files:
        from gossamer.specs import own_code  # it brings in all that a spec can name

        for file in files:
            own_code.load(file)


def refuse(error: InputError) -> None:
    """Say what was wrong with the input."""
    from rich.console import Console
    from rich.text import Text

    line = Text.assemble(("error:", "bold red"), " ", safe(error))
    Console(stderr=True, highlight=False).print(line, soft_wrap=True)


def note(message: Warning | str, *_: Any) -> None:
    """Say what Python would warn of, without the line of code."""
    print(f"note: {visible(message)}", file=sys.stderr, flush=True)


@contextmanager
def resumable() -> Iterator[None]:
    """Ctrl-C ends with a word on how to go on."""
    try:
        yield
    except KeyboardInterrupt:
        print("interrupted: the same command goes on from what was finished", file=sys.stderr, flush=True)
        sys.stdout.flush()
        cache.seal()
        os._exit(130)  # at once: a compiled call may still be running, and what is kept is whole at any moment


@contextmanager
def working(text: str) -> Iterator[None]:
    """Say what takes a while: a moving line on a terminal, elsewhere a line."""
    from rich.console import Console

    if _line_based():
        print(text, file=sys.stderr, flush=True)
        yield
    else:
        with Console(stderr=True).status(text):
            yield


def _line_based() -> bool:
    from rich.console import Console

    console = Console(stderr=True)
    return not console.is_terminal or console.is_dumb_terminal


def progress() -> Any:
    """Lines where there is no terminal that can draw a bar."""
    from gossamer.basics.progress import Lines

    return Lines() if _line_based() else True


def safe(text: object, keep: str = "", style: str = "") -> "Text":
    """Text for rich: its brackets are no markup, and what a terminal would act on is shown as escapes."""
    from rich.text import Text

    return Text(visible(text, keep), style=style)


def say(text: object) -> None:
    """Print lines in which a user's own text may stand."""
    print(visible(text, keep="\n"))


def say_json(value: Any) -> None:
    """Print JSON that any reader takes: a number that is not finite is null, and nothing acts on a terminal.

    Keys are names that jq takes as they are: an interval's half-width ``loss_±`` is called ``loss_ci95``.
    """
    text = json.dumps(finite(value), indent=2, ensure_ascii=False, allow_nan=False)
    shown = (letter if letter.isprintable() or letter == "\n" else json.dumps(letter)[1:-1] for letter in text)
    print("".join(shown))


def say_each(found: dict[str, Any], as_json: bool, tables: dict[str, Any] | None = None) -> None:
    """Print what was found of every variant, each with its table, if it has one."""
    tables = tables or {}
    if as_json:
        extra = {variant: {"orders": table.asdict()} for variant, table in tables.items()}
        rows = [{"variant": variant, **one.asdict(), **extra.get(variant, {})} for variant, one in found.items()]
        say_json(rows[0] if list(found) == [""] else rows)
        return
    for variant, one in found.items():
        blocks = [visible(variant), str(one), str(tables.get(variant, ""))]
        say("\n\n".join(block for block in blocks if block) + "\n")


def directory(out: Path | None, otherwise: Path) -> Path:
    """The directory that a command writes into, or an `InputError` if no directory can be there."""
    folder = otherwise if out is None else out
    for place in (folder, *folder.parents):
        try:
            mode = place.lstat().st_mode
        except FileNotFoundError:
            continue
        except OSError as error:
            raise InputError(f"cannot write into {brief(str(folder))}: {error.strerror}.") from error
        if not (stat.S_ISDIR(mode) or place.is_dir()):
            raise InputError(f"{place} is a file; --out is a directory.")
        if not os.access(place, os.W_OK | os.X_OK):
            raise InputError(f"cannot write into {folder}: permission denied at {place}.")
        longest = max(folder.parts, key=lambda part: len(os.fsencode(part)), default="")
        if len(os.fsencode(longest)) > os.pathconf(place, "PC_NAME_MAX"):
            raise InputError(f"cannot write into {brief(str(folder))}: {brief(longest)} is too long a name.")
        break
    if any("\ud800" <= letter <= "\udfff" for letter in str(folder)):
        raise InputError(f"cannot write into {folder}: its name is not UTF-8.")
    return folder


def existing(folder: Path) -> Path:
    """A directory that is there, or an `InputError`."""
    if not os.path.isdir(folder):  # unlike Path.is_dir it takes any text, such as names too long for a file
        raise InputError(
            f"there is no directory {brief(str(folder))}. A finished run is one that `gossamer run --out` made."
        )
    return folder
