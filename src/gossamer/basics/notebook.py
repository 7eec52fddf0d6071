"""Notebooks: whether this process is one's kernel, and a place in its output that can be changed.

Nothing here imports IPython. A kernel has it loaded already, and elsewhere there is no notebook to draw in.
"""

import sys
from typing import Any

from gossamer.basics.html import Markup

KERNEL = "ZMQInteractiveShell"
"""The shell of a notebook's kernel, or what it derives from; that of IPython on a terminal has another name."""


def in_notebook() -> bool:
    """Whether a notebook shows what this process displays."""
    ipython = sys.modules.get("IPython")
    asked = getattr(ipython, "get_ipython", None)
    shell = asked() if callable(asked) else None
    return any(kind.__name__ == KERNEL for kind in type(shell).__mro__)


class Shown:
    """Markup as a notebook asks for it, with text for one that shows no HTML."""

    def __init__(self, markup: Markup, text: str):
        self._markup, self._text = markup, text

    def _repr_html_(self) -> str:
        return self._markup

    def __repr__(self) -> str:
        return self._text


class Place:
    """A place in the output of a cell; what is put there takes the place of what was there before."""

    def __init__(self) -> None:
        self._handle: Any = None

    def put(self, markup: Markup, text: str = "") -> None:
        shown = Shown(markup, text)
        if self._handle is None:
            from IPython.display import display  # pyright: ignore[reportMissingImports]

            self._handle = display(shown, display_id=True)
        else:
            self._handle.update(shown)

    def clear(self) -> None:
        """Leave nothing there; nothing happens if nothing was put."""
        if self._handle is not None:
            self.put(Markup(""))
