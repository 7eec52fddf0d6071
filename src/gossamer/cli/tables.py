"""Tables on a terminal, as wide as it is."""

import sys
from collections.abc import Iterable, Sequence
from typing import Any

from gossamer.cli.shared import safe

ELSEWHERE = 160
"""Letters in a line where a table goes into a file or a pipe."""


def show(
    head: Sequence[str],
    rows: Iterable[Sequence[Any]],
    *,
    whole: Sequence[str] | None = None,
    title: str | None = None,
    width: int = ELSEWHERE,
) -> None:
    """Print a table of text, plain or rich's; the columns named as `whole` are never broken into lines, and all of them
    if none is named.
    """
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, title=title, title_justify="left", title_style="bold")
    for column in head:
        table.add_column(safe(column), no_wrap=whole is None or column in whole)
    for row in rows:
        table.add_row(*(cell if isinstance(cell, Text) else safe(cell) for cell in row))
    Console(highlight=False, width=None if sys.stdout.isatty() else width).print(table)
