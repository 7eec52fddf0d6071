"""Labels: what is said of a metric wherever it is shown. They are stored with a result, so they are checked."""

import re
from dataclasses import dataclass
from typing import Any, Literal

from gossamer.core import InputError, brief, flag

Better = Literal["lower", "higher"]

NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,39}")

COLUMNS = ("algorithm", "setting", "replicate", "seed", "round", "status", "queries", "bytes_sent", "messages")
"""The columns of a result that are no metrics."""

TAKEN = (*COLUMNS, "variant", "seeds", "diverged", "reached", "rounds", "bytes", "eta")
"""Names that mean something else in a result, its summary or its figures."""

LONGEST = 200
"""The most letters of a text that is shown."""


@dataclass(frozen=True)
class Label:
    """How a metric is shown."""

    about: str
    """What it is, in a sentence."""
    text: str
    """Its name in plain letters, for pages and tables."""
    latex: str | None = None
    """A formula for figures, without dollar signs, as matplotlib's mathtext knows it; the text if there is none."""
    log: bool = False
    """Whether its axis is logarithmic."""
    better: Better = "lower"
    """Which values are better."""
    summary: bool = True
    """Whether a summary shows it."""
    end: bool = False
    """Whether it is measured at the end of a run only."""

    def __post_init__(self) -> None:
        for key in ("text", "about", "latex"):
            text = getattr(self, key)
            if text is None and key == "latex":
                continue
            if not isinstance(text, str) or not text.strip() or len(text) > LONGEST or not text.isprintable():
                raise InputError(f"{key} of a metric must be one line of 1 to {LONGEST} letters, but is {brief(text)}.")
        if self.latex is not None and "$" in self.latex:
            raise InputError(f"latex of a metric is a formula without dollar signs, but is {brief(self.latex)}.")
        for key in ("log", "summary", "end"):
            flag(f"{key} of a metric", getattr(self, key))
        if self.better not in ("lower", "higher"):
            raise InputError(f'better of a metric must be "lower" or "higher", but is {brief(self.better)}.')


def checked_name(name: Any) -> str:
    """The name, if it can be that of a column and of a file."""
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise InputError(
            "the name of a metric must be up to 40 letters, digits and underscores, with a letter first, but is "
            f"{brief(name)}."
        )
    if name in TAKEN or name.startswith("seconds"):
        raise InputError(f"{name!r} has another meaning in a result: choose another name for a metric.")
    return name
