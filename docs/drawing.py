"""Save the figures of the pages in two forms, for the light and for the dark theme."""

from pathlib import Path
from typing import Any

from matplotlib.collections import Collection
from matplotlib.colors import to_hex, to_rgba
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.text import Text

from gossamer.report import figures
from gossamer.report.styles import ON_DARK

INK, FAINT, PAPER = "#e2e4e9", "#aab0bb", "#1e2129"
"""The colours of text, of notes and of the background of the dark theme."""


def save(figure: Figure, file: Path) -> None:
    """Write a figure, and beside it, as `NAME-dark`, its dark form. The figure is dark afterwards."""
    figures.save(figure, file)
    _darken(figure)
    figures.save(figure, file.with_name(f"{file.stem}-dark{file.suffix}"))


def picture(alt: str, file: str) -> str:
    """Return the Markdown of a figure in both forms, of which the theme shows one, here and on a forge."""
    stem, _, suffix = file.rpartition(".")
    return f"![{alt}]({file}#gh-light-mode-only) ![{alt}]({stem}-dark.{suffix}#gh-dark-mode-only)"


def _darken(figure: Figure) -> None:
    for axes in figure.axes:
        axes.tick_params(which="both", color=INK, labelcolor=INK)
    for artist in figure.findobj():
        if isinstance(artist, Text):
            if artist.get_bbox_patch() is None:  # text in a light box stays dark
                artist.set_color(_dark(artist.get_color()))
        elif isinstance(artist, Line2D):
            artist.set_color(_dark(artist.get_color()))
            artist.set_markeredgecolor(_dark(artist.get_markeredgecolor()))
            artist.set_markerfacecolor(_dark(artist.get_markerfacecolor()))
        elif isinstance(artist, Patch):
            artist.set_facecolor(_dark(artist.get_facecolor()))
            artist.set_edgecolor(_dark(artist.get_edgecolor()))
        elif isinstance(artist, Collection):
            faces, edges = ([_dark(color) for color in known] for known in _colors(artist))
            artist.set_facecolor(faces)
            artist.set_edgecolor(edges)


def _colors(artist: Collection) -> Any:
    return artist.get_facecolor(), artist.get_edgecolor()


def _dark(color: Any) -> Any:
    """Return a colour as it is on a dark page, as opaque as it was."""
    if isinstance(color, str) and color.lower() == "none":
        return color
    known = to_hex(color)
    swapped = {light.lower(): dark for light, dark in ON_DARK.items()} | {
        "#000000": INK,
        "#404040": FAINT,
        "#ffffff": PAPER,
    }
    return to_rgba(swapped.get(known.lower(), known), to_rgba(color)[3])
