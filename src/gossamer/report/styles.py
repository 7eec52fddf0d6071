"""Styles that tell curves apart: by colour, dash and marker, and ordered quantities by their shade."""

from typing import NamedTuple

from matplotlib import colormaps
from matplotlib.colors import to_hex

COLORS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C510A"]
"""Okabe and Ito's palette, which readers who do not see all colours can tell apart, and one more."""

ON_DARK = {"#0072B2": "#4BA3DB", "#000000": "#F0F0F0", "#8C510A": "#C98A4B"}
"""Replacements on a dark page for the colours that are too dark there."""

DASHES = ["-", "--", "-.", ":"]
WEB_DASHES = ["solid", "dash", "dashdot", "dot"]

MARKERS = ["o", "s", "D", "^", "v", "P", "X", "p"]
WEB_MARKERS = ["circle", "square", "diamond", "triangle-up", "triangle-down", "cross", "x", "pentagon"]

RAMP = "viridis"


class Style(NamedTuple):
    """The style of a curve, in a figure and on a page."""

    color: str
    dark: str
    """The colour on a dark page."""
    dash: int
    marker: int

    @property
    def line(self) -> str:
        """The dash, as matplotlib names it."""
        return DASHES[self.dash]

    @property
    def symbol(self) -> str:
        """The marker, as matplotlib names it."""
        return MARKERS[self.marker]

    def web(self) -> dict[str, str]:
        """Return the style as plotly names it."""
        dash, marker = WEB_DASHES[self.dash], WEB_MARKERS[self.marker]
        return {"color": self.color, "dark": self.dark, "dash": dash, "marker": marker}


class Look(NamedTuple):
    """The name and the style of a curve."""

    text: str
    style: Style
    floor: float | None = None
    """The level that a bias predicts for ‖∇F‖²."""


def style_of(number: int) -> Style:
    """Return the style of the curve of this number, where the order means nothing."""
    color = COLORS[number % len(COLORS)]
    # the ninth curve has the first colour again, and so another dash
    turn = number // len(COLORS)
    return Style(color, ON_DARK.get(color, color), (number + turn) % len(DASHES), number % len(MARKERS))


def shade_of(share: float, family: int, number: int) -> Style:
    """Return the style of a quantity at this share of the way from the least to the most; families differ by dash."""
    # the ends of the ramp are left out: its yellow is too light for a white page, its violet too dark for a black one
    ramp = colormaps[RAMP]
    light, dark = to_hex(ramp(0.82 * (1 - share))), to_hex(ramp(0.28 + 0.72 * share))
    return Style(light, dark, family % len(DASHES), number % len(MARKERS))
