"""gossamer plot."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from gossamer.basics.text import visible
from gossamer.cli.shared import app, check_directory, say


class Format(StrEnum):
    pdf = "pdf"
    png = "png"
    svg = "svg"


@app.command()
def plot(
    directory: Annotated[Path, typer.Argument(help="A finished run.")],
    metric: Annotated[
        list[str] | None, typer.Option(metavar="METRIC", help="The metric to draw [default: all]")
    ] = None,
    x: Annotated[
        str,
        typer.Option(help="What a method pays: rounds, queries, bytes, messages, or, with a clock, seconds or joules."),
    ] = "rounds",
    style: Annotated[str, typer.Option(help="The layout: plain, ieee, acm, icml, neurips or elsevier.")] = "plain",
    columns: Annotated[int, typer.Option(min=1, max=2, help="The width in columns, 1 or 2.")] = 1,
    format: Annotated[
        list[Format] | None, typer.Option(metavar="pdf|png|svg", help="The file format [default: pdf and png]")
    ] = None,
) -> None:
    """Draw a run's curves in the column width of a paper, into its directory `figures`.

    Examples:

        gossamer plot runs/a9a-ring

        gossamer plot runs/a9a-ring --metric grad_norm_sq --x bytes --format pdf

        gossamer plot runs/a9a-ring --metric loss --x seconds --style ieee --columns 2
    """
    from gossamer.report import figures
    from gossamer.results.study import Study, place

    study = Study.load(check_directory(directory))
    curves = study.curves()
    for number, (variant, result) in enumerate(curves.items()):
        stem = f"{place(variant, number)}-" if variant else ""
        for name in metric or result.measured:
            one = variant if len(curves) > 1 else None
            figure = study.plot(name, x, variant=one, style=style, columns=columns)
            for suffix in format or (Format.pdf, Format.png):
                say(visible(figures.save(figure, directory / "figures" / f"{stem}{name}-{x}.{suffix}")))
