"""The command line: parse and print; the work is done elsewhere."""

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.table import Table

import gossamer
from gossamer import audit as auditing
from gossamer import experiment, figures, reproduction
from gossamer.catalogue import CATALOGUE
from gossamer.core import InputError
from gossamer.data.export import export as export_data
from gossamer.progress import Lines
from gossamer.spec import Spec
from gossamer.study import Study, place

HELP = """Decentralized stochastic optimization when gradients are biased.

Exit codes: 0 done, 1 an error of ours, 2 bad input and nothing written, 3 done but every run diverged, 130 interrupted.
"""

app = typer.Typer(help=HELP, no_args_is_help=True, rich_markup_mode="markdown", pretty_exceptions_enable=False)
data_app = typer.Typer(help="The data sets that come with the package.", no_args_is_help=True)
app.add_typer(data_app, name="data")

Kind = Literal["algorithms", "networks", "oracles", "compressors", "schedules", "problems", "datasets"]
Axis = Literal["rounds", "queries", "bytes", "datacenter", "campus", "internet"]


class Experiment(StrEnum):
    fig1 = "fig1"
    fig2 = "fig2"
    speedup = "speedup"
    topology = "topology"
    heterogeneity = "heterogeneity"


class Metric(StrEnum):
    loss = "loss"
    grad_norm_sq = "grad_norm_sq"
    stationarity = "stationarity"
    consensus = "consensus"
    tracking = "tracking"
    accuracy = "accuracy"


class Format(StrEnum):
    pdf = "pdf"
    png = "png"
    svg = "svg"


AsJSON = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]


def main() -> None:
    """The entry point: bad input ends with its message and exit code 2, never with a traceback."""
    try:
        app()
    except InputError as error:
        Console(stderr=True, highlight=False).print(f"[bold red]error:[/] {_plain(str(error))}", soft_wrap=True)
        sys.exit(2)


@contextmanager
def resumable() -> Iterator[None]:
    """Ctrl-C ends with a word on how to go on."""
    try:
        yield
    except KeyboardInterrupt:
        print("interrupted: the same command goes on from what was finished", file=sys.stderr, flush=True)
        sys.stdout.flush()
        os._exit(130)  # at once: a compiled call may still be running, and what is kept is whole at any moment


@app.callback(invoke_without_command=True)
def version(show: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    if show:
        print(gossamer.__version__)
        raise typer.Exit


@app.command()
def run(
    spec: Annotated[Path, typer.Argument(help="The experiment, a TOML file.")],
    out: Annotated[Path | None, typer.Option(help="The run's directory [default: runs/NAME, after the spec]")] = None,
    as_json: AsJSON = False,
) -> None:
    """Run an experiment and save its result.

    Every run is kept when it is done: after an interruption the same command goes on, after the end it only shows the
    result again, and with more rounds or seeds in the spec it computes what is missing.

    Examples:

        gossamer run examples/a9a-ring.toml

        gossamer run my.toml --out results/my --json
    """
    folder = out or Path("runs") / spec.stem
    with resumable():
        study = experiment.run(Spec.read(spec), folder, name=spec.stem, progress=_progress())
    summaries = {variant: result.summary() for variant, result in study.results.items()}
    rows = [{"variant": variant, **row} for variant, one in summaries.items() for row in one.table.to_dicts()]
    if as_json:
        print(json.dumps({"out": str(folder), "algorithms": rows}, indent=2))
    else:
        for variant, summary in summaries.items():
            print(f"{variant}\n{summary}\n" if variant else f"{summary}\n")
        print(f"result: {folder}    figures: gossamer plot {folder}")
    if all(row["seeds"] == row["diverged"] for row in rows):
        raise typer.Exit(3)


@app.command()
def reproduce(
    experiments: Annotated[list[Experiment] | None, typer.Argument(help="Which; all if none is given.")] = None,
    out: Annotated[Path | None, typer.Option(help="[default: runs/reproduction, or runs/quick]")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Figures 1 and 2 only, shorter and on fewer seeds.")] = False,
    spec: Annotated[bool, typer.Option("--spec", help="Print the spec of an experiment, and run nothing.")] = False,
    as_json: AsJSON = False,
) -> None:
    """Reproduce the paper's experiments, judge its claims and write a report.

    Examples:

        gossamer reproduce

        gossamer reproduce fig1 --quick --out runs/look

        gossamer reproduce fig2 --spec > mine.toml
    """
    names = [name.value for name in experiments or []]
    if spec:
        print("\n".join(reproduction.text_of(name) for name in names or reproduction.EXPERIMENTS))
        return
    folder = out or Path("runs") / ("quick" if quick else "reproduction")
    say = (lambda text: print(text, file=sys.stderr, flush=True)) if as_json else (lambda text: print(text, flush=True))
    with resumable():
        verdicts = reproduction.reproduce(names, folder, quick=quick, progress=_progress(), say=say)
    if as_json:
        print(json.dumps([verdict.asdict() for verdict in verdicts], indent=2, ensure_ascii=False))
        return
    _print_verdicts([verdict.asdict() for verdict in verdicts])
    print(f"report: {folder / 'report.html'}")


@app.command()
def tune(
    spec: Annotated[Path, typer.Argument(help="The experiment, a TOML file with a [tuning] section.")],
    out: Annotated[Path | None, typer.Option(help="The run's directory [default: runs/NAME, after the spec]")] = None,
    as_json: AsJSON = False,
) -> None:
    """Choose hyper-parameters by the spec's [tuning], without the final runs, and print all that were tried.

    Example:

        gossamer tune my.toml
    """
    folder = out or Path("runs") / spec.stem
    with resumable():
        table = experiment.tuned(Spec.read(spec), folder, progress=_progress())
    if as_json:
        print(json.dumps(table.to_dicts(), indent=2))
        return
    chosen = table.filter(table["chosen"])
    shown = Table(box=None, pad_edge=False)
    for column in ("variant", "algorithm", "setting", "value", "tried", "diverged"):
        shown.add_column(column)
    for row in chosen.to_dicts():
        tried = table.filter((table["variant"] == row["variant"]) & (table["algorithm"] == row["algorithm"]))
        lost = int((tried["diverged"] > 0).sum())
        cells = [row["variant"], row["algorithm"], row["setting"], f"{row['value']:.6g}", str(len(tried)), str(lost)]
        shown.add_row(*(_plain(cell) for cell in cells))
    Console(highlight=False, width=None if sys.stdout.isatty() else 160).print(shown)


@app.command()
def audit(
    spec: Annotated[Path, typer.Argument(help="The experiment, a TOML file.")],
    rounds: Annotated[int, typer.Option(help="At how many rounds of a run to measure.")] = 10,
    queries: Annotated[int, typer.Option(help="How often each agent's query is repeated there.")] = 64,
    as_json: AsJSON = False,
) -> None:
    """Measure the constants of a spec's oracle along its runs: M_f, σ_f² and σ², beside what is stated of them.

    Exit code 0 whether or not the theory's assumption holds; the text says so.

    Examples:

        gossamer audit examples/zeroth-order.toml

        gossamer audit my.toml --rounds 5 --json
    """
    with resumable():
        found = auditing.audit(Spec.read(spec), rounds=rounds, queries=queries, progress=_progress())
    print(json.dumps(found.asdict(), indent=2, ensure_ascii=False) if as_json else found)


@app.command(name="report")
def report_(directory: Annotated[Path, typer.Argument(help="A finished run.")]) -> None:
    """Write the report of a finished run, its figures and its tables into its directory.

    Example:

        gossamer report runs/a9a-ring
    """
    study = Study.load(directory)
    reproduction.finish({study.name: study}, directory, study.title, f"gossamer run {directory / 'spec.toml'}")
    print(directory / "report.html")


@app.command(name="list")
def list_(
    kind: Annotated[Kind | None, typer.Argument(help="What to list; all if it is not given.")] = None,
    as_json: AsJSON = False,
) -> None:
    """List what a spec can name.

    Examples:

        gossamer list algorithms

        gossamer list --json
    """
    kinds = [kind] if kind else list(CATALOGUE)
    found = {name: CATALOGUE[name]() for name in kinds}
    if as_json:
        print(json.dumps(found[kinds[0]] if kind else found, indent=2, ensure_ascii=False))
        return
    for name, entries in found.items():
        table = Table(title=name, title_justify="left", title_style="bold", box=None, pad_edge=False)
        for column in ("name", "what it is", "options"):
            table.add_column(column, no_wrap=column == "name")
        for entry in entries:
            table.add_row(entry["name"], _plain(entry["about"]), _plain(", ".join(entry["options"])))
        console = Console(highlight=False, width=None if sys.stdout.isatty() else 160)
        console.print(table)
        console.print()


@app.command()
def plot(
    directory: Annotated[Path, typer.Argument(help="A finished run.")],
    metric: Annotated[list[Metric] | None, typer.Option(help="A metric; all that were measured if not given.")] = None,
    x: Annotated[Axis, typer.Option(help="What a method pays.")] = "rounds",
    format: Annotated[list[Format] | None, typer.Option(help="A file format; pdf and png if not given.")] = None,
) -> None:
    """Draw a run's curves in the column width of a paper, into its directory `figures`.

    Examples:

        gossamer plot runs/a9a-ring

        gossamer plot runs/a9a-ring --metric grad_norm_sq --x bytes --format pdf
    """
    curves = Study.load(directory).curves()
    for number, (variant, result) in enumerate(curves.items()):
        stem = f"{place(variant, number)}-" if variant else ""
        for name in metric or Metric:
            if metric or result.has(name):
                figure = result.plot(name, x)
                for suffix in format or (Format.pdf, Format.png):
                    print(figures.save(figure, directory / "figures" / f"{stem}{name}-{x}.{suffix}"))


@data_app.command()
def export(
    name: Annotated[str, typer.Argument(help="A data set, or NAME.t for its test part.")],
    file: Annotated[Path, typer.Argument(help="The file to write, LIBSVM text.")],
) -> None:
    """Write a data set as LIBSVM text.

    Example:

        gossamer data export a9a a9a.libsvm
    """
    print(f"{export_data(name, file):,} rows: {file}")


def _print_verdicts(verdicts: list[dict[str, Any]]) -> None:
    table = Table(box=None, pad_edge=False, title="verdicts", title_justify="left", title_style="bold")
    for column in ("experiment", "claim", "measured", "verdict"):
        table.add_column(column, no_wrap=column in ("experiment", "verdict"))
    colors = {"holds": "green", "does not hold": "red", "undecided": "yellow"}
    for row in verdicts:
        cells = [_plain(row[key]) for key in ("experiment", "claim", "measured")]
        table.add_row(*cells, f"[{colors[row['verdict']]}]{row['verdict']}[/]")
    Console(highlight=False, width=None if sys.stdout.isatty() else 180).print(table)


def _line_based() -> bool:
    console = Console(stderr=True)
    return not console.is_terminal or console.is_dumb_terminal


def _progress() -> Any:
    """Lines where there is no terminal that can draw a bar."""
    return Lines() if _line_based() else True


def _plain(text: str) -> Any:
    return text.replace("[", "\\[")
