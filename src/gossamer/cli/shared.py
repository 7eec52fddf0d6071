"""The app, and what its commands share: options, output, progress and the end of an interrupted command."""

import atexit
import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

import gossamer
from gossamer.basics import cache
from gossamer.basics.sizes import cores
from gossamer.basics.text import json_ready, visible
from gossamer.basics.wishes import wish
from gossamer.cli import COMMANDS
from gossamer.core import InputError, brief, whole

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
    7: "done, but no method could be bounded: each row says why",
    130: "interrupted: the same command goes on from what was finished",
}
"""Exit codes, and their meaning."""

ELSEWHERE = 160
"""Letters in a line of a table that goes into a file or a pipe."""

LONGEST_NAME = 255
"""Bytes that file systems take in the name of a file."""

MOST_DEVICES = 4096
"""The most devices that can be asked for."""

HELP = "\n\n".join(
    [
        "Decentralized stochastic optimization when gradients are biased.",
        "Exit codes:",
        *(f"- {code} {meaning}" for code, meaning in EXIT_CODES.items()),
    ]
)

# with a command the app's own options are left out: typer would import pydantic only to say that they are not given
_options = not set(sys.argv[1:2]) & set(COMMANDS)


class _PlainFlags:
    """A mixin for commands: typer's help would show flags, also --help, as if they took a <bool>."""

    def get_params(self, ctx: Any) -> list[Any]:
        params = super().get_params(ctx)  # pyright: ignore[reportAttributeAccessIssue]
        for param in params:
            if getattr(param, "is_flag", False):
                param.metavar = ""
        return params


class Command(_PlainFlags, TyperCommand):
    """A command of the app. What is wrong with the value of an option, it says in our words."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except typer.BadParameter as error:
            for wrong in getattr(error.__cause__, "errors", list)():  # those of pydantic, by which typer checks values
                error.message = f"it must be {wish(wrong)}, not {brief(wrong['input'])}."
                if wrong["type"] == "value_error":
                    error.message = str(wrong["ctx"]["error"])
                break
            raise


class Group(_PlainFlags, TyperGroup):
    """The app itself, as a command with commands."""


class App(typer.Typer):
    """The app, whose commands are `Command`s."""

    def command(self, *args: Any, **options: Any) -> Any:
        return super().command(*args, **{"cls": Command, **options})


app = App(
    cls=Group,
    help=HELP,
    no_args_is_help=True,
    add_help_option=_options,
    add_completion=_options,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)


def check_options(command: str, words: Sequence[str]) -> None:
    """Read the options of a command without running it: what is wrong is said here, once, and by no process."""
    import_module(f"gossamer.cli.{command.replace('-', '_')}")
    typer.main.get_group(app).commands[command].make_context(f"gossamer {command}", [*words])


def flag(name: str, text: str) -> Any:
    """Return an option without a value."""
    return typer.Option(name, help=text)


@app.callback(invoke_without_command=True)
def version(show: Annotated[bool, flag("--version", "Print the version.")] = False) -> None:
    if show:
        print(gossamer.__version__)
        raise typer.Exit


AsJSON = Annotated[bool, flag("--json", "Print JSON, for scripts.")]
SpecFile = Annotated[Path, typer.Argument(metavar="SPEC", help="The experiment, a TOML file.")]
With = Annotated[
    list[Path] | None,
    typer.Option("--with", metavar="FILE", help="A Python file of your own; a spec may name what it defines."),
]


def _use_cache(wanted: bool) -> bool:
    """Keep compiled programs from here on, and note at the end which files of the cache are complete."""
    if wanted and cache.remember(cache.place()):
        atexit.register(cache.seal)
    return wanted


Cache = Annotated[
    bool,
    typer.Option(
        callback=_use_cache,
        help="Keep compiled programs in ~/.cache/gossamer, or $XDG_CACHE_HOME/gossamer, to start sooner next time.",
    ),
]
Out = Annotated[Path | None, typer.Option(help="The run's directory [default: runs/NAME, after the spec]")]
Devices = Annotated[
    str | None,
    typer.Option(metavar="N|all", help="Share out over N devices, or all that make it faster [default: one]"),
]
Split = Annotated[
    str | None, typer.Option(metavar="runs|agents", help="What to share out [default: what is estimated to be faster]")
]
Cluster = Annotated[
    bool,
    flag("--cluster", "Join the processes that Slurm, Open MPI or Kubernetes started."),
]
Coordinator = Annotated[
    str | None,
    typer.Option(metavar="HOST:PORT", help="Join other processes at the address where the first one listens."),
]
Processes = Annotated[int | None, typer.Option(min=1, help="How many processes there are.")]
Process = Annotated[int | None, typer.Option(min=0, help="Which one this is, from 0.")]


def load_own(files: list[Path] | None) -> None:
    """Run a user's own files, so that specs can name what the files define."""
    if files:
        from gossamer.specs.catalogue import load_file

        for file in files:
            load_file(file)


def is_reported_elsewhere() -> bool:
    """Return True in all processes but the first that `gossamer launch` started: before they meet, all refuse alike."""
    return os.environ.get("GOSSAMER_LAUNCHED", "0") != "0"


def print_error(error: object) -> None:
    """Print the error line of bad input."""
    from rich.console import Console
    from rich.text import Text

    line = Text.assemble(("error:", "bold red"), " ", rich_text(error))
    Console(stderr=True, highlight=False).print(line, soft_wrap=True)


def print_warning(message: Warning | str, *_: Any) -> None:
    """Print a warning of Python's without the line of code."""
    print(f"note: {visible(message)}", file=sys.stderr, flush=True)


@contextmanager
def resumable() -> Iterator[None]:
    """End at Ctrl-C with a word on how to go on."""
    try:
        yield
    except KeyboardInterrupt:
        print("interrupted: the same command goes on from what was finished", file=sys.stderr, flush=True)
        sys.stdout.flush()
        cache.seal()  # `os._exit` runs nothing of `atexit`
        os._exit(130)  # at once: a compiled call may still be running, and the store is complete at any moment


class Meeting(NamedTuple):
    """The address at which several processes meet."""

    cluster: bool = False
    coordinator: str | None = None
    processes: int | None = None
    process: int | None = None


NOBODY = Meeting()


@contextmanager
def use_devices(devices: str | None, split: str | None, meeting: Meeting = NOBODY) -> Iterator[None]:
    """Compute on these devices, together with the processes of a meeting; Ctrl-C ends with a word on how to go on."""
    count = devices
    if devices is not None and devices != "all":  # a choice of a number or a word, which typer does not know
        if not devices.isdecimal():
            raise InputError(f"--devices must be a whole number or all, but is {brief(devices)}.")
        count = whole("--devices", int(devices), most=MOST_DEVICES)
    if count is None and split is None and meeting == NOBODY:
        with resumable():
            yield
        return
    from gossamer.engines import devices as places
    from gossamer.engines import processes  # JAX must be told before it starts

    several = meeting.processes or 1
    if isinstance(count, int):
        if count % several:
            raise InputError(f"--devices {count} cannot be shared equally by {several} processes.")
        places.devices(count // several)
    elif count == "all" and meeting == NOBODY:
        places.devices(cores())
    if meeting != NOBODY:
        if meeting.cluster and meeting != Meeting(cluster=True):
            raise InputError("--cluster finds the other processes by itself: leave out --coordinator, or --cluster.")
        processes.join(*meeting[1:])
        count = count or "all"
    with resumable(), processes.end_together(print_error), places.use_devices(count, split):
        yield


@contextmanager
def status(text: str) -> Iterator[None]:
    """Show what takes a while: a moving line on a terminal, elsewhere a line."""
    from rich.console import Console

    if _is_line_based():
        print(text, file=sys.stderr, flush=True)
        yield
    else:
        with Console(stderr=True).status(text):
            yield


def _is_line_based() -> bool:
    """Return True where no terminal can draw a bar."""
    from rich.console import Console

    console = Console(stderr=True)
    return not console.is_terminal or console.is_dumb_terminal


def progress() -> Any:
    """Return the kind of progress to report: lines where no terminal can draw a bar."""
    from gossamer.basics.progress import Lines

    return Lines() if _is_line_based() else True


def rich_text(text: object, keep: str = "", style: str = "") -> "Text":
    """Return text for rich: its brackets are no markup, and what a terminal would act on is shown as escapes."""
    from rich.text import Text

    return Text(visible(text, keep), style=style)


def say(text: object) -> None:
    """Print lines that may hold a user's own text."""
    print(visible(text, keep="\n"))


def show(
    head: Sequence[str],
    rows: Iterable[Sequence[Any]],
    *,
    whole: Sequence[str] | None = None,
    title: str | None = None,
    width: int = ELSEWHERE,
) -> None:
    """Print a table of text, plain or rich's, as wide as the terminal.

    The columns named as `whole` are never wrapped; without `whole`, none is.
    """
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, title=title, title_justify="left", title_style="bold")
    for column in head:
        table.add_column(rich_text(column), no_wrap=whole is None or column in whole)
    for row in rows:
        table.add_row(*(cell if isinstance(cell, Text) else rich_text(cell) for cell in row))
    Console(highlight=False, width=None if sys.stdout.isatty() else width).print(table)


def say_json(value: Any) -> None:
    """Print JSON for any reader: a number that is not finite is null, and nothing acts on a terminal.

    Keys are names that jq takes without quotes: an interval's half-width ``loss_±`` is called ``loss_ci95``.
    """
    text = json.dumps(json_ready(value), indent=2, ensure_ascii=False, allow_nan=False)
    shown = (letter if letter.isprintable() or letter == "\n" else json.dumps(letter)[1:-1] for letter in text)
    print("".join(shown))


def say_each(found: dict[str, Any], as_json: bool) -> None:
    """Print the finding of every variant."""
    if as_json:
        rows = [{"variant": variant, **one.asdict()} for variant, one in found.items()]
        say_json(rows[0] if list(found) == [""] else rows)
        return
    for variant, one in found.items():
        say(f"{visible(variant)}\n\n{one}\n" if variant else f"{one}\n")


def end_without_bounds(found: dict[str, Any]) -> None:
    """End with exit code 7 if no method of any variant has a bound, so that a script need not read the reasons."""
    if all(row.found is None for one in found.values() for row in one.rows):
        raise typer.Exit(7)


def check_place(path: Path) -> None:
    """Raise `InputError` if the name of a file or directory is one that nothing can have."""
    if any("\ud800" <= letter <= "\udfff" for letter in str(path)):
        raise InputError(f"cannot write {path}: its name is not UTF-8.")
    if any(len(os.fsencode(part)) > LONGEST_NAME for part in path.parts):
        raise InputError(f"cannot write {brief(str(path))}: the name is too long.")


def output_directory(out: Path | None, otherwise: Path) -> Path:
    """Return the directory that a command writes into, or raise `InputError` if no directory can be there."""
    folder = otherwise if out is None else out
    check_place(folder)
    # the directory itself may be missing, but what stands above it decides whether it can be made
    place = next((place for place in (folder, *folder.parents) if os.path.lexists(place)), Path())
    if not place.is_dir():
        raise InputError(f"{place} is a file; --out is a directory.")
    if not os.access(place, os.W_OK | os.X_OK):
        raise InputError(f"cannot write into {folder}: permission denied at {place}.")
    return folder


def check_directory(folder: Path) -> Path:
    """Return a directory that exists, or raise `InputError`."""
    if not os.path.isdir(folder):  # unlike Path.is_dir it takes any text, such as names too long for a file
        raise InputError(
            f"there is no directory {brief(str(folder))}. A finished run is a directory that `gossamer run` made."
        )
    return folder
