"""The HTML of the report's page: tables that scroll, and data for its script."""

import json
from collections.abc import Sequence
from typing import Any

from gossamer.basics.html import Markup, joined, tag

__all__ = ["Markup", "embedded", "joined", "table", "tag"]


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
