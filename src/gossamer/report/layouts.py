"""The measures of journals and conferences: widths of one column and of two, type and its size."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gossamer.core import InputError, brief, nearest

SERIF, SANS = ("STIXGeneral", "stix"), ("DejaVu Sans", "dejavusans")
"""Fonts that come with matplotlib, and the formulas that go with them; STIX has the shapes of Times."""

EMBEDDED: Any = {"pdf.fonttype": 42, "ps.fonttype": 42, "svg.fonttype": "path"}
"""Fonts go into a file as TrueType (Type 42): submission systems refuse matplotlib's own Type 3."""

DPI = 300
"""The resolution of a bitmap."""


class Layout(NamedTuple):
    """A page's measures, in inches and points."""

    one: float
    """The width of one column."""
    two: float
    """The width of two columns, or of the text where there is one."""
    size: float = 8.0
    fonts: tuple[str, str] = SERIF

    @property
    def rc(self) -> Any:
        """matplotlib's settings for it."""
        family, formulas = self.fonts
        small = self.size - 1
        sizes = {"axes.labelsize": self.size, "xtick.labelsize": small, "ytick.labelsize": small}
        return {
            **EMBEDDED,
            **sizes,
            "font.family": family,
            "mathtext.fontset": formulas,
            "font.size": self.size,
            "legend.fontsize": small,
            "text.usetex": False,  # whatever the user's settings: a stored formula is no program
            "axes.linewidth": 0.6,
            "axes.grid": True,
            "grid.alpha": 0.25,
            "grid.linewidth": 0.5,
            "lines.linewidth": 1.2,
            "lines.markersize": 3.5,
        }


LAYOUTS: Mapping[str, Layout] = {
    "plain": Layout(3.5, 7.16, fonts=SANS),
    "ieee": Layout(3.5, 7.16),
    "acm": Layout(3.33, 7.0),
    "icml": Layout(3.25, 6.75),
    "neurips": Layout(2.7, 5.5),
    "elsevier": Layout(3.54, 7.48),
}
"""By name: what `style=` may be."""


def layout(style: str) -> Layout:
    """The layout of this name."""
    if not isinstance(style, str) or style not in LAYOUTS:
        raise InputError(f"there is no style {brief(style)} for figures; {nearest(str(style), LAYOUTS)}")
    return LAYOUTS[style]


class PaperFigure(Figure):
    """A figure that is drawn and saved by the settings of its layout, whoever saves it."""

    def __init__(self, rc: Any, **options: Any):
        self.rc = rc
        super().__init__(**options)

    def savefig(self, fname: Any, **options: Any) -> None:
        with rc_context(self.rc):
            super().savefig(fname, **{"dpi": DPI, **options})


def sheet(style: str, columns: int, rows: int = 0) -> tuple[PaperFigure, Axes]:
    """A figure in this style with room for a legend of `rows` rows, and its axes."""
    measures = layout(style)
    if columns not in (1, 2):
        raise InputError(f"a figure is 1 or 2 columns wide, but columns is {brief(columns)}.")
    wide = measures.one if columns == 1 else measures.two
    high = wide * (0.66 if columns == 1 else 0.42) + rows * (measures.size + 3) / 72
    with rc_context(measures.rc):
        figure = PaperFigure(measures.rc, figsize=(wide, high), layout="constrained", dpi=DPI)
        return figure, figure.add_subplot()
