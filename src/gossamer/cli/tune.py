"""gossamer tune."""

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from gossamer.cli.shared import AsJSON, Out, With, app, directory, progress, resumable, safe, say_json, take


@app.command()
def tune(
    spec: Annotated[Path, typer.Argument(help="The experiment, a TOML file with a [tuning] section.")],
    out: Out = None,
    own: With = None,
    as_json: AsJSON = False,
) -> None:
    """Choose hyper-parameters by the spec's [tuning], without the final runs, and print all that were tried.

    Example:

        gossamer tune my.toml
    """
    take(own)
    from gossamer.experiments import running
    from gossamer.specs.spec import Spec

    given = Spec.read(spec)
    folder = directory(out, Path("runs") / spec.stem)
    with resumable():
        table = running.tuned(given, folder, progress=progress())
    if as_json:
        say_json(table.to_dicts())
        return
    chosen = table.filter(table["chosen"])
    shown = Table(box=None, pad_edge=False)
    for column in ("variant", "algorithm", "setting", "value", "tried", "diverged"):
        shown.add_column(column)
    for row in chosen.to_dicts():
        tried = table.filter((table["variant"] == row["variant"]) & (table["algorithm"] == row["algorithm"]))
        lost = int((tried["diverged"] > 0).sum())
        cells = [row["variant"], row["algorithm"], row["setting"], f"{row['value']:.6g}", str(len(tried)), str(lost)]
        shown.add_row(*(safe(cell) for cell in cells))
    Console(highlight=False, width=None if sys.stdout.isatty() else 160).print(shown)
