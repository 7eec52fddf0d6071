"""gossamer list."""

import sys
from typing import Annotated, Literal

import typer
from rich.console import Console
from rich.table import Table

from gossamer.cli.shared import AsJSON, With, app, safe, say_json, take

Kind = Literal[
    "algorithms",
    "networks",
    "oracles",
    "compressors",
    "aggregators",
    "schedules",
    "problems",
    "datasets",
    "metrics",
    "links",
    "compute-times",
]


@app.command(name="list")
def list_(
    kind: Annotated[Kind | None, typer.Argument(help="What to list; all if it is not given.")] = None,
    own: With = None,
    as_json: AsJSON = False,
) -> None:
    """List what a spec can name.

    Examples:

        gossamer list algorithms

        gossamer list --json
    """
    take(own)
    from gossamer.specs.catalogue import CATALOGUE

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
