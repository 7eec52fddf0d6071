"""gossamer report."""

from pathlib import Path
from typing import Annotated

import typer

from gossamer.basics.terminal import visible
from gossamer.cli.shared import app, existing, say


@app.command()
def report(directory: Annotated[Path, typer.Argument(help="A finished run.")]) -> None:
    """Write the report of a finished run, its figures and its tables into its directory.

    Example:

        gossamer report runs/a9a-ring
    """
    from gossamer import paper
    from gossamer.results.study import Study

    study = Study.load(existing(directory))
    paper.finish({study.name: study}, directory, (), study.title, f"gossamer run {directory / 'spec.toml'}")
    say(visible(directory / "report.html"))
