"""What figures and reports have in common: bands over seeds, and tables as CSV and LaTeX files."""

import math
import re
import unicodedata
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from gossamer.basics.files import write
from gossamer.basics.terminal import visible
from gossamer.core import InputError
from gossamer.results.statistics import half_width

HALF = "_±"
"""The end of a column's name that holds the half-width of the interval of the column before it."""

FORMULA = r"^[=+\-@\t\r\n＝＋－＠]"
"""How text begins that a spreadsheet evaluates; the wide letters count there as the others."""

GREEK = {
    **{"alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "epsilon": "ε", "zeta": "ζ", "eta": "η", "theta": "θ"},
    **{"kappa": "κ", "lambda": "λ", "mu": "μ", "nu": "ν", "xi": "ξ", "pi": "π", "rho": "ρ", "sigma": "σ"},
    **{"tau": "τ", "phi": "φ", "chi": "χ", "psi": "ψ", "omega": "ω", "Delta": "Δ", "Sigma": "Σ"},
}
"""Greek letters by LaTeX's names."""

TYPESET = "‘’“”–—…‰"
"""Letters beyond Latin's that LaTeX knows by itself."""

LONG = 30
"""A column with a text longer than this is wrapped."""

LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': "''",  # \textquotedbl is not there in LaTeX's first encoding
    **{letter: f"\\{letter}" for letter in "&%$#_{}"},
    **{letter: f"{{{letter}}}" for letter in "[]*"},  # after a line's end they would be its options
    "±": r"$\pm$",
    "×": r"$\times$",
    "·": r"$\cdot$",
    "−": "$-$",
    "≤": r"$\le$",
    "≥": r"$\ge$",
    "≈": r"$\approx$",
    "∞": r"$\infty$",
    "∇": r"$\nabla$",
    "‖": r"$\|$",
    "²": "$^2$",
    "√": r"$\surd$",
    "→": r"$\to$",
    "≠": r"$\ne$",
    "∈": r"$\in$",
    "ᵢ": "$_i$",
    "ⱼ": "$_j$",
    **{letter: rf"$\{name}$" for name, letter in GREEK.items()},
    "\u0304": r"$\bar{}$",  # the bar over the letter before it
}
"""Characters that LaTeX takes for commands, or that its fonts lack."""


def band(rows: pl.DataFrame, metric: str, paid: str, log: bool) -> dict[str, np.ndarray]:
    """Mean and 95 % interval over replicates; on a log axis of the logarithm, so that the band stays above zero."""
    rows = rows.filter(pl.col(metric).is_not_null() & pl.col(metric).is_finite())
    if log:
        rows = rows.filter(pl.col(metric) > 0)
    value = pl.col(metric).log() if log else pl.col(metric)
    rows = rows.group_by("replicate", paid, maintain_order=True).agg(pl.col(metric).mean())
    groups = rows.group_by(paid, maintain_order=True).agg(
        value.mean().alias("mean"), value.std().fill_null(0.0).alias("std"), value.len().alias("n")
    )
    groups = groups.sort(paid)
    n = groups["n"].to_numpy()
    mean, half = groups["mean"].to_numpy(), half_width(n, groups["std"].to_numpy())
    undo = np.exp if log else (lambda values: values)
    with np.errstate(over="ignore"):  # a run on its way to infinity
        return {
            "x": groups[paid].to_numpy().astype(float),
            "mean": undo(mean),
            "low": undo(mean - half),
            "high": undo(mean + half),
        }


def csv(frame: pl.DataFrame, path: Path) -> Path:
    """Write a table as CSV, every digit of it.

    Text that a spreadsheet would take for a formula, because it begins with =, +, -, @, a tab or a line end, gets an
    apostrophe before it, as OWASP recommends; numbers stay as they are. What a terminal would act on is written as its
    escape, but for tabs and line ends.
    """
    text = pl.col(pl.String)
    frame = frame.with_columns(text.map_elements(partial(visible, keep="\t\r\n"), pl.String))
    frame.columns = [visible(name) for name in frame.columns]
    acts = text.str.contains(FORMULA) & text.cast(pl.Float64, strict=False).is_null()
    safe = frame.with_columns(pl.when(acts).then("'" + text).otherwise(text).name.keep())
    names = {name: f"'{name}" for name in frame.columns if re.match(FORMULA, name)}
    return written(path, safe.rename(names).write_csv())


def latex(frame: pl.DataFrame, path: Path) -> Path:
    """Write a table for LaTeX's package booktabs: four significant digits, intervals beside their means.

    Columns without a value are left out. Long texts are wrapped, and such a table goes on over pages, by the package
    longtable.
    """
    known = [name for name in frame.columns if frame[name].null_count() < len(frame)]
    shown = [name for name in known if not (name.endswith(HALF) and name.removesuffix(HALF) in known)]
    wrapped = [name for name in shown if frame[name].dtype == pl.String and _longest(frame[name]) > LONG]
    kind = "longtable" if wrapped else "tabular"
    width = max(0.9 - 0.2 * (len(shown) - len(wrapped)), 0.3) / max(len(wrapped), 1)
    sides = ["r" if frame[name].dtype.is_numeric() else "l" for name in shown]
    align = "".join(
        f"p{{{width:.2f}\\linewidth}}" if name in wrapped else side for name, side in zip(shown, sides, strict=True)
    )
    lines = [r"% needs \usepackage{longtable}"] if wrapped else []
    lines += [
        rf"\begin{{{kind}}}{{{align or 'l'}}}",
        r"\toprule",
        _line([escaped(name) for name in shown]),
        r"\midrule",
    ]
    lines += [r"\endhead"] if wrapped else []
    for row in frame.iter_rows(named=True):
        cells = {name: _cell(row[name], row.get(name + HALF)) for name in shown}
        lines.append(
            _line([rf"{{\raggedright {cells[name]}\par}}" if name in wrapped else cells[name] for name in shown])
        )
    return written(path, "\n".join([*lines, r"\bottomrule", rf"\end{{{kind}}}", ""]))


def _longest(texts: pl.Series) -> int:
    return max((len(text) for text in texts.drop_nulls()), default=0)


def escaped(text: str) -> str:
    """Text as LaTeX shows it, letter by letter."""
    single = re.sub('"([^"]*)"', "“\\1”", " ".join(str(text).split()))
    shown = "".join(_typeset(letter) for letter in single)
    return re.sub("-(?=-)", "-{}", shown)


def _typeset(letter: str) -> str:
    """A letter as every LaTeX can set it: what its fonts lack by the letters that it is made of, or by its number."""
    if letter in LATEX:
        return LATEX[letter]
    if letter <= "\u017f" or letter in TYPESET:
        return letter
    plain = "".join(LATEX.get(part, part) for part in unicodedata.normalize("NFKD", letter) if part <= "\u017f")
    return plain or f"U+{ord(letter):04X}"


def four(number: float | None) -> str:
    """A number to four significant digits; a dash where there is none."""
    return "–" if number is None or math.isnan(number) else f"{number:.4g}"


def duration(seconds: float) -> str:
    """A time in the unit that suits it."""
    if seconds < 120:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.3g} min" if seconds < 7200 else f"{seconds / 3600:.3g} h"


def _line(cells: list[str]) -> str:
    return " & ".join(cells) + r" \\"


def _cell(value: Any, half: float | None) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "--"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return f"${_number(value)}$" if half is None else rf"${_number(value)} \pm {_number(half)}$"
    return escaped(value)


def _number(value: float) -> str:
    digits, _, power = f"{value:.4g}".replace("inf", r"\infty").partition("e")
    return rf"{digits} \cdot 10^{{{int(power)}}}" if power else digits


def written(path: Path, text: str) -> Path:
    """Write a file whole, and its directory if there is none."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write(path, text.encode(errors="replace"))
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}.") from error
    return path
