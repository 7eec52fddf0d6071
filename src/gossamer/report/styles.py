"""Styles that tell curves apart: a fixed one for each method, and others for variants and for ordered quantities."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple
from zlib import crc32

from matplotlib import colormaps
from matplotlib.colors import to_hex

COLORS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C510A"]
"""Okabe and Ito's palette, which readers who do not see all colours can tell apart, and one more."""

ON_DARK = {"#0072B2": "#3390DB", "#56B4E9": "#A8DDFF", "#000000": "#F0F0F0", "#8C510A": "#C98A4B"}
"""Replacements on a dark page for the colours that are too dark there, or too near to one that is replaced."""

DASHES = ["-", "--", "-.", ":"]
WEB_DASHES = ["solid", "dash", "dashdot", "dot"]

MARKERS = ["o", "s", "D", "^", "v", "P", "X", "p"]
WEB_MARKERS = ["circle", "square", "diamond", "triangle-up", "triangle-down", "cross", "x", "pentagon"]

RAMP = "viridis"

BLUE, VERMILION, GREEN, PINK, AMBER, SKY, BLACK, BROWN = range(8)

METHODS: dict[str, tuple[int, int, int]] = {
    "biased-dmt": (BLUE, 0, 0),
    "push-pull-dmt": (BLUE, 0, 1),
    "gt-hsgd": (BLUE, 2, 5),
    "momentum-tracking": (VERMILION, 0, 5),
    "biased-dmt-atc": (VERMILION, 1, 0),
    "local-biased-dmt": (VERMILION, 1, 3),
    "push-diging-dmt": (VERMILION, 1, 7),
    "motef": (VERMILION, 3, 2),
    "d2": (VERMILION, 2, 4),
    "gt-sarah": (VERMILION, 3, 6),
    "robust-dsgd": (VERMILION, 2, 1),
    "gt-dsgd": (GREEN, 2, 2),
    "push-pull": (GREEN, 2, 4),
    "k-gt": (GREEN, 2, 1),
    "beer": (GREEN, 2, 5),
    "gt-adam": (GREEN, 0, 6),
    "relay-sgd": (GREEN, 3, 7),
    "dsgdm": (PINK, 3, 3),
    "qg-dsgdm": (PINK, 3, 1),
    "frost": (PINK, 1, 5),
    "docom": (PINK, 2, 7),
    "d-adamw": (PINK, 2, 0),
    "exact-diffusion": (PINK, 1, 6),
    "gt-svrg": (PINK, 0, 4),
    "d-psgd": (AMBER, 1, 1),
    "d-psgd-atc": (AMBER, 2, 2),
    "biased-dsgd": (AMBER, 1, 7),
    "sgp": (AMBER, 3, 3),
    "choco-sgd": (AMBER, 3, 4),
    "d-amsgrad": (AMBER, 1, 5),
    "stem": (AMBER, 0, 6),
    "gnsd": (SKY, 1, 4),
    "decentlam": (SKY, 2, 0),
    "lead": (SKY, 1, 3),
    "push-diging": (SKY, 0, 6),
    "gt-nsgdm": (SKY, 3, 2),
    "gt-storm": (SKY, 3, 5),
    "centralized-sgd": (BLACK, 0, 6),
    "centralized-momentum": (BLACK, 2, 7),
    "dsgt": (BROWN, 3, 3),
    "dsgdm-gossip": (BROWN, 2, 5),
    "extra": (BROWN, 1, 4),
    "cedas": (BROWN, 0, 6),
    "direct-dsgd": (BROWN, 2, 2),
}
"""The colour, dash and marker of each method. Methods that are often compared differ in all three."""


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


def style_methods(methods: Sequence[str]) -> list[Style]:
    """Return a style for each curve of a figure, given the name of its method: no two have both colour and marker.

    A method has its own style in every figure. Of several curves of one method the first has it, and the others share
    its colour, unless there is no other method in the figure. A user's own method has a style that follows from its
    name, or the next one where another method of the figure has that.
    """
    alone = len({*methods}) == 1
    found: dict[int, Style] = {}
    taken: set[tuple[int, ...]] = set()
    # the library's methods choose first, so that a user's own never changes their styles
    for k in sorted(range(len(methods)), key=lambda k: (methods[k] not in METHODS, methods[k] in methods[:k])):
        for color, dash, marker in _candidates(methods[k], methods[k] in methods[:k] and not alone):
            key = (color, marker) if len(methods) <= len(COLORS) * len(MARKERS) else (color, dash, marker)
            found[k] = Style(COLORS[color], ON_DARK.get(COLORS[color], COLORS[color]), dash, marker)
            if key not in taken:
                taken.add(key)
                break
    return [found[k] for k in range(len(methods))]


def method_style(method: str) -> Style:
    """Return the style of a method."""
    return style_methods([method])[0]


def _candidates(method: str, keep_color: bool) -> Iterator[tuple[int, int, int]]:
    """Yield the 256 looks from a method's own on, at first those in its colour or at first those in other colours."""
    draw = crc32(method.encode())
    # blue is left out: it stands for Biased-DMT
    own = 1 + draw % (len(COLORS) - 1), draw // 7 % len(DASHES), draw // 28 % len(MARKERS)
    color, dash, marker = METHODS.get(method, own)
    for k in range(256):
        c, d, m = (k // 32, k + k // 8, k) if keep_color else (k, k + k // 8 + k // 64, k + k // 8)
        yield (color + c) % len(COLORS), (dash + d) % len(DASHES), (marker + m) % len(MARKERS)


def style_of(number: int) -> Style:
    """Return the style of the curve of this number, where curves are no methods and their order means nothing."""
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
