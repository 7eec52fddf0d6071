"""Tables: one object, rendered as text and as HTML."""

import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gossamer.basics.html import Markup, tag
from gossamer.basics.text import format_value

WIDTH = 80
"""Characters in a line where the output is no terminal."""

GAP = "  "

LINE = "1px solid rgba(128, 128, 128, 0.35)"
"""A line that shows on white and on black; text keeps the colour of the page."""


@dataclass(frozen=True)
class Table:
    """A table of text and numbers. Columns that are `numeric` are aligned to the right.

    Cells that are `Markup` are HTML already; all others are escaped there.
    """

    head: Sequence[str]
    rows: Sequence[Sequence[Any]]
    numeric: Sequence[bool] = ()

    @property
    def right(self) -> list[bool]:
        """True for each column that is aligned to the right."""
        return [k < len(self.numeric) and bool(self.numeric[k]) for k in range(len(self.head))]

    def text(self, keys: int | None = None, width: int | None = None, *, rule: bool = False) -> str:
        """Return the table as text, with a `rule` below its head if it is asked for.

        With `keys` it is split into blocks that are at most `width` characters wide (the terminal's width, and 80 where
        the output is no terminal), each of which begins with the first `keys` columns. A column that is too wide by
        itself is a block of its own, whole.
        """
        if width is None:
            width = shutil.get_terminal_size().columns if sys.stdout.isatty() else WIDTH
        columns = []
        for k, (name, right) in enumerate(zip(self.head, self.right, strict=True)):
            cells = [name, *[format_value(row[k]) for row in self.rows]]
            wide = max(map(len, cells))
            if rule:
                cells.insert(1, "-" * wide)
            columns.append([cell.rjust(wide) if right else cell.ljust(wide) for cell in cells])
        first = columns[:keys]
        blocks = [first]
        for column in columns[len(first) :]:
            taken = sum([len(own[0]) + len(GAP) for own in blocks[-1]]) + len(column[0])
            # a block has a column besides the keys, however wide it is
            if len(blocks[-1]) > len(first) and taken > width:
                blocks.append(first)
            blocks[-1] = [*blocks[-1], column]
        shown = [[GAP.join(line).rstrip() for line in zip(*block, strict=True)] for block in blocks]
        return "\n\n".join(["\n".join(lines) for lines in shown])

    def html(self) -> Markup:
        """Return the table as HTML for a notebook; it scrolls sideways."""

        def line(kind: str, cells: Sequence[Any], border: str) -> Markup:
            sides = ("right" if right else "left" for right in self.right)
            styles = (f"padding: 2px 8px; {border}: {LINE}; vertical-align: top; text-align: {side}" for side in sides)
            shown = (cell if isinstance(cell, Markup) else format_value(cell) for cell in cells)
            return tag("tr", *(tag(kind, cell, style=style) for cell, style in zip(shown, styles, strict=True)))

        head = tag("thead", line("th", self.head, "border-bottom"))
        body = tag("tbody", *(line("td", cells, "border-top") for cells in self.rows))
        # a page in quirks mode gives tables colours and sizes of their own
        style = "border-collapse: collapse; color: inherit; font-size: inherit"
        return tag("div", tag("table", head, body, style=style), style="overflow-x: auto")
