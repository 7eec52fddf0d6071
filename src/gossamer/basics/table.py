"""Tables: one object, rendered as text, as HTML and as LaTeX."""

import math
import re
import shutil
import sys
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gossamer.basics.html import Markup, tag
from gossamer.basics.text import GREEK, format_value

WIDTH = 80
"""Characters in a line where the output is no terminal."""

GAP = "  "

LINE = "1px solid rgba(128, 128, 128, 0.35)"
"""A line that shows on white and on black; text keeps the colour of the page."""

LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': "''",  # LaTeX's default encoding has no \textquotedbl
    **{letter: f"\\{letter}" for letter in "&%$#_{}"},
    **{letter: f"{{{letter}}}" for letter in "[]*"},  # after \\ they would begin its options
    "±": r"$\pm$",
    "×": r"$\times$",
    "·": r"$\cdot$",
    "−": "$-$",
    "≤": r"$\le$",
    "≥": r"$\ge$",
    "≈": r"$\approx$",
    "∞": r"$\infty$",
    "∇": r"$\nabla$",
    "‖": r"$\|$",
    "²": "$^2$",
    "√": r"$\surd$",
    "→": r"$\to$",
    "≠": r"$\ne$",
    "∈": r"$\in$",
    "ᵢ": "$_i$",
    "ⱼ": "$_j$",
    **{letter: rf"$\{name}$" for name, letter in GREEK.items()},
    "\u0304": r"$\bar{}$",  # a combining bar, over the letter before it
}
"""Characters that LaTeX takes for commands, or that its fonts lack."""

TYPESET = "‘’“”–—…‰"
"""Characters beyond Latin's that LaTeX's fonts have."""


class LaTeX(str):
    """Text that is LaTeX already."""


@dataclass(frozen=True)
class Table:
    """A table of text and numbers. Columns that are `numeric` are aligned to the right.

    Cells that are `Markup` are HTML already, and cells that are `LaTeX` are LaTeX already; all others are escaped.
    """

    head: Sequence[str]
    rows: Sequence[Sequence[Any]]
    numeric: Sequence[bool] = ()

    def text(self, keys: int | None = None, width: int | None = None, *, rule: bool = False) -> str:
        """Return the table as text, with a `rule` below its head if it is asked for.

        With `keys` it is split into blocks that are at most `width` characters wide (the terminal's width, and 80 where
        the output is no terminal), each of which begins with the first `keys` columns. A column that is too wide by
        itself is a block of its own, whole.
        """
        lines = [list(self.head), *([format_value(cell) for cell in row] for row in self.rows)]
        widths = [max(len(line[k]) for line in lines) for k in range(len(self.head))]
        if rule:
            lines.insert(1, ["-" * wide for wide in widths])
        if width is None:
            width = shutil.get_terminal_size().columns if sys.stdout.isatty() else WIDTH
        first = list(range(len(self.head) if keys is None else keys))
        blocks = [first]
        for k in range(len(first), len(self.head)):
            if len(blocks[-1]) > len(first) and sum(widths[j] + len(GAP) for j in [*blocks[-1], k]) - len(GAP) > width:
                blocks.append(first)
            blocks[-1] = [*blocks[-1], k]
        right = self._right()

        def align(line: list[str], k: int) -> str:
            return line[k].rjust(widths[k]) if right[k] else line[k].ljust(widths[k])

        shown = ["\n".join(GAP.join(align(line, k) for k in block).rstrip() for line in lines) for block in blocks]
        return "\n\n".join(shown)

    def html(self, *, styled: bool = True, class_: str | None = None) -> Markup:
        """Return the table as HTML that scrolls sideways: `styled` for a notebook, or with classes for a stylesheet."""
        right = self._right()

        def line(kind: str, cells: Sequence[Any], border: str) -> Markup:
            elements = []
            for cell, head, numeric in zip(cells, self.head, right, strict=True):
                shown = cell if isinstance(cell, Markup) else format_value(cell)
                if styled:
                    side = "right" if numeric else "left"
                    style = f"padding: 2px 8px; {border}: {LINE}; vertical-align: top; text-align: {side}"
                    elements.append(tag(kind, shown, style=style))
                elif kind == "th":
                    elements.append(tag(kind, shown, scope="col", class_="num" if numeric else None))
                else:
                    elements.append(tag(kind, shown, class_="num" if numeric else None, data_head=head))
            return tag("tr", *elements)

        head = tag("thead", line("th", self.head, "border-bottom"))
        body = tag("tbody", *(line("td", cells, "border-top") for cells in self.rows))
        if not styled:
            return tag("div", tag("table", head, body, class_=class_), class_="wide", tabindex="0")
        # a page in quirks mode gives tables colours and sizes of their own
        style = "border-collapse: collapse; color: inherit; font-size: inherit"
        return tag("div", tag("table", head, body, style=style), style="overflow-x: auto")

    def latex(
        self, wrapped: Mapping[int, float] | None = None, rules: Collection[int] = (), pages: bool = False
    ) -> str:
        """Return the table in LaTeX's booktabs.

        Args:
            wrapped: columns whose text is wrapped, and the share of the text's width that each has.
            rules: rows that have a rule above them.
            pages: continue the table over pages, with the package longtable.
        """
        wrapped, right = wrapped or {}, self._right()
        align = [
            rf"p{{{wrapped[k]:.2f}\linewidth}}" if k in wrapped else "r" if right[k] else "l"
            for k in range(len(self.head))
        ]
        kind = "longtable" if pages else "tabular"
        lines = [
            *([r"% needs \usepackage{longtable}"] if pages else []),
            rf"\begin{{{kind}}}{{{''.join(align) or 'l'}}}",
            r"\toprule",
            " & ".join(map(_latex_cell, self.head)) + r" \\",
            r"\midrule",
            *([r"\endhead"] if pages else []),
        ]
        for number, row in enumerate(self.rows):
            cells = [_latex_cell(cell) for cell in row]
            cells = [rf"{{\raggedright {cell}\par}}" if k in wrapped else cell for k, cell in enumerate(cells)]
            lines += [r"\midrule"] * (number in rules) + [" & ".join(cells) + r" \\"]
        return "\n".join([*lines, r"\bottomrule", rf"\end{{{kind}}}", ""])

    def _right(self) -> list[bool]:
        return [k < len(self.numeric) and bool(self.numeric[k]) for k in range(len(self.head))]


def _latex_cell(value: Any) -> str:
    if isinstance(value, LaTeX):
        return value
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "--"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        digits, _, power = f"{value:.4g}".replace("inf", r"\infty").partition("e")
        return rf"${digits} \cdot 10^{{{int(power)}}}$" if power else f"${digits}$"
    return escape_latex(str(value))


def escape_latex(text: str) -> str:
    """Return text such that LaTeX sets each of its characters, and takes none for a command.

    A character that LaTeX's fonts lack is decomposed, or named by its number.
    """
    shown = ""
    for letter in re.sub('"([^"]*)"', "“\\1”", " ".join(text.split())):
        if letter in LATEX or letter <= "\u017f" or letter in TYPESET:
            shown += LATEX.get(letter, letter)
        else:
            parts = unicodedata.normalize("NFKD", letter)
            plain = "".join(LATEX.get(part, part) for part in parts if part <= "\u017f")
            shown += plain or f"U+{ord(letter):04X}"
    return re.sub("-(?=-)", "-{}", shown)
