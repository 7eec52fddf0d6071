"""HTML that is safe by construction: text is escaped unless it was made here."""

import html
from collections.abc import Sequence
from typing import Any

VOID = ("meta", "input", "line", "rect", "circle", "path")

LINE = "1px solid rgba(128, 128, 128, 0.35)"
"""A line that shows on white and on black; text keeps the colour of the page."""


class Markup(str):
    """Text that is markup already."""


def tag(name: str, /, *children: Any, **attributes: Any) -> Markup:
    """An element. Children are escaped unless they are `Markup`; `class_` is the attribute class, `a_b` is a-b."""
    given = "".join(
        f' {key.strip("_").replace("_", "-")}="{html.escape(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in VOID and not children:
        return Markup(f"<{name}{given}/>")
    return Markup(f"<{name}{given}>{joined(*children)}</{name}>")


def joined(*children: Any) -> Markup:
    """Several children in a row; None is left out."""
    return Markup("".join(c if isinstance(c, Markup) else html.escape(str(c)) for c in children if c is not None))


def grid(head: Sequence[Any], rows: Sequence[Sequence[Any]], numeric: Sequence[bool] = ()) -> Markup:
    """A table for a notebook, which brings its own style and needs no other; numeric columns stand to the right."""
    sides = ["right" if k < len(numeric) and numeric[k] else "left" for k in range(len(head))]

    def line(kind: str, cells: Sequence[Any], border: str) -> Markup:
        style = f"padding: 2px 8px; {border}: {LINE}; vertical-align: top; text-align: "
        return tag("tr", *(tag(kind, cell, style=style + side) for cell, side in zip(cells, sides, strict=True)))

    body = (line("td", cells, "border-top") for cells in rows)
    # a page in quirks mode gives tables colours and sizes of their own
    style = "border-collapse: collapse; color: inherit; font-size: inherit"
    table = tag("table", tag("thead", line("th", head, "border-bottom")), tag("tbody", *body), style=style)
    return tag("div", table, style="overflow-x: auto")


def panel(title: Any, *children: Any) -> Markup:
    """What a notebook shows of an object: one line about it, and then its tables."""
    return tag("div", tag("div", title, style="margin-bottom: 4px"), *children)
