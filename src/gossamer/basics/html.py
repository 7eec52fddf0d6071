"""HTML elements whose text is escaped unless it is markup already."""

import html
from typing import Any

from markupsafe import Markup

__all__ = ["Markup", "join_markup", "panel", "tag"]

VOID = ("meta", "input", "line", "rect", "circle", "path")


def tag(name: str, /, *children: Any, **attributes: Any) -> Markup:
    """Return an element, its children escaped unless they are `Markup`; `class_` is the attribute class, `a_b` a-b."""
    given = "".join(
        f' {key.strip("_").replace("_", "-")}="{html.escape(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in VOID and not children:
        return Markup(f"<{name}{given}/>")
    return Markup(f"<{name}{given}>{join_markup(*children)}</{name}>")


def join_markup(*children: Any) -> Markup:
    """Return several children as one piece of markup, without those that are None."""
    return Markup("".join(c if isinstance(c, Markup) else html.escape(str(c)) for c in children if c is not None))


def panel(title: Any, *children: Any) -> Markup:
    """Return an object as a notebook shows it: one line about it, and its tables below."""
    return tag("div", tag("div", title, style="margin-bottom: 4px"), *children)
