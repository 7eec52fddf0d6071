"""The commands that show something: report, list, plot and data export."""

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console
from rich.table import Table

from gossamer.basics.terminal import visible
from gossamer.cli.base import AsJSON, app, existing, safe, say, say_json
from gossamer.data.export import export as export_data
from gossamer.results.study import Study, place
from gossamer.specs.catalogue import CATALOGUE

data_app = typer.Typer(help="The data sets that come with the package.", no_args_is_help=True)
app.add_typer(data_app, name="data")

Kind = Literal["algorithms", "networks", "oracles", "compressors", "schedules", "problems", "datasets"]
Axis = Literal["rounds", "queries", "bytes", "datacenter", "campus", "internet"]


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


@app.command(name="report")
def report_(directory: Annotated[Path, typer.Argument(help="A finished run.")]) -> None:
    """Write the report of a finished run, its figures and its tables into its directory.

    Example:

        gossamer report runs/a9a-ring
    """
    from gossamer import paper  # it draws, and a drawing library takes a second to import

    study = Study.load(existing(directory))
    paper.finish({study.name: study}, directory, (), study.title, f"gossamer run {directory / 'spec.toml'}")
    say(visible(directory / "report.html"))


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
        say_json(found[kinds[0]] if kind else found)
        return
    for name, entries in found.items():
        table = Table(title=name, title_justify="left", title_style="bold", box=None, pad_edge=False)
        for column in ("name", "what it is", "options"):
            table.add_column(column, no_wrap=column == "name")
        for entry in entries:
            table.add_row(safe(entry["name"]), safe(entry["about"]), safe(", ".join(entry["options"])))
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
    from gossamer.report import figures  # a drawing library takes a second to import

    curves = Study.load(existing(directory)).curves()
    for number, (variant, result) in enumerate(curves.items()):
        stem = f"{place(variant, number)}-" if variant else ""
        for name in metric or Metric:
            if metric or result.has(name):
                figure = result.plot(name, x)
                for suffix in format or (Format.pdf, Format.png):
                    say(visible(figures.save(figure, directory / "figures" / f"{stem}{name}-{x}.{suffix}")))


@data_app.command()
def export(
    name: Annotated[str, typer.Argument(help="A data set, or NAME.t for its test part.")],
    file: Annotated[Path, typer.Argument(help="The file to write, LIBSVM text.")],
) -> None:
    """Write a data set as LIBSVM text.

    Example:

        gossamer data export a9a a9a.libsvm
    """
    say(f"{export_data(name, file):,} rows: {visible(file)}")
