"""gossamer data."""

from pathlib import Path
from typing import Annotated

import typer

from gossamer.basics.text import visible
from gossamer.cli.shared import app, say

data_app = typer.Typer(help="The data sets that have names.", no_args_is_help=True)
app.add_typer(data_app, name="data")


@data_app.command()
def export(
    name: Annotated[str, typer.Argument(help="A data set, or NAME.t for its test part.")],
    file: Annotated[Path, typer.Argument(help="The file to write, LIBSVM text.")],
) -> None:
    """Write a data set as LIBSVM text.

    Example:

        gossamer data export a9a a9a.libsvm
    """
    from gossamer.data.datasets import export as export_data

    say(f"{export_data(name, file):,} rows: {visible(file)}")
