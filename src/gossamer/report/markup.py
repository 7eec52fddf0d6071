"""HTML that is safe by construction: text is escaped unless it was made here."""

import html
import json
from collections.abc import Sequence
from typing import Any

VOID = ("meta", "input", "line", "rect", "circle", "path")


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


def table(
    head: Sequence[Any], rows: Sequence[Sequence[Any]], numeric: Sequence[bool] = (), **attributes: Any
) -> Markup:
    """A table that scrolls sideways in a narrow window; the columns that are numeric stand to the right."""
    right = ["num" if k < len(numeric) and numeric[k] else None for k in range(len(head))]
    top = tag("tr", *(tag("th", cell, scope="col", class_=side) for cell, side in zip(head, right, strict=True)))
    body = [
        tag(
            "tr",
            *(tag("td", cell, class_=side, data_head=over) for cell, side, over in zip(row, right, head, strict=True)),
        )
        for row in rows
    ]
    return tag("div", tag("table", tag("thead", top), tag("tbody", *body), **attributes), class_="wide", tabindex="0")


def embedded(data: Any, name: str) -> Markup:
    """Data for a script to read by `JSON.parse`: no letter of it can end the element or begin another."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)  # ASCII, so that U+2028 and U+2029 are escaped
    for letter in "<>&":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return Markup(f'<script type="application/json" id="{name}">{text}</script>')
