"""Tables for a paper, in LaTeX, and files that are written atomically."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from gossamer.basics.files import write
from gossamer.basics.text import GREEK, format_number
from gossamer.core import InputError, brief, nearest
from gossamer.metrics import Label, fit_unit
from gossamer.report.names import display_name
from gossamer.results.result import MethodRuns
from gossamer.results.statistics import difference, joint_level

if TYPE_CHECKING:
    from gossamer.results.result import Summary

HALF = "_±"
"""The end of a column's name that holds the half-width of the interval of the column before it."""

RULE = (
    "% Each method at its own last round: means over replicates and half-widths of 95 % intervals. Bold: the best\n"
    "% mean of its column, and means whose difference from it has an interval with 0 in it (at 95 % over the column,\n"
    "% by pairs of replicates, Bonferroni); never a method of which a run diverged. Verdicts test other things, ends\n"
    "% at equal cost and ratios where axes are logarithmic, and may tell apart what is bold here.\n"
    r"% needs \usepackage{booktabs,graphicx}"
)

NARROWED = r"\noindent\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%"
"""LaTeX that scales a table down to the width of the text if it is wider."""

LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': "''",  # LaTeX's default encoding has no \textquotedbl
    **{letter: f"\\{letter}" for letter in "&%$#_{}"},
    **{letter: f"{{{letter}}}" for letter in "[]*"},  # after \\ they would begin its options
    "±": r"$\pm$",
    "·": r"$\cdot$",
    "−": "$-$",
    "×": r"$\times$",
    "≤": r"$\le$",
    "≥": r"$\ge$",
    "≈": r"$\approx$",
    "∞": r"$\infty$",
    "→": r"$\to$",
    "∇": r"$\nabla$",
    "‖": r"$\|$",
    "²": "$^2$",
    "ᵢ": "$_i$",
    **{letter: rf"$\{name}$" for name, letter in GREEK.items()},
    "\u0304": r"$\bar{}$",  # a combining bar, over the letter before it
}
"""Characters that LaTeX takes for commands, or that its fonts lack."""


def write_file(path: Path, data: str | bytes) -> Path:
    """Write a file atomically, with its directory if there is none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write(path, data.encode(errors="replace") if isinstance(data, str) else data)
    return path


def paper_table(summary: "Summary", metrics: Sequence[str] = ()) -> str:
    r"""Return the ends of runs as a table for a paper, in LaTeX's booktabs: a row for each method, a column a metric.

    Cells are means over replicates with the half-width of their 95 % interval, to two digits of the half-width. In each
    column and variant, the best mean is bold, and so are all that cannot be told apart from it: the difference from the
    best, paired by replicate, has an interval that contains zero. The intervals of a column hold simultaneously at 95 %
    (Bonferroni). Nothing is bold where fewer than two replicates are shared, and a method with a diverged run never is.

    Where methods differ in the bytes that an agent sent, these are the last column.

    Without `metrics`, all that were measured along the runs are shown. A table that is wider than the text is scaled
    down, by the package graphicx.
    """
    frame, labels = summary.table, summary.metrics
    known = [name for name in frame.columns if name + HALF in frame.columns]
    for name in metrics:
        if name not in known:
            raise InputError(f"a summary has no metric {brief(name)}; {nearest(name, known)}")
    along = [name for name in known if not (name in labels and labels[name].end)]
    names = list(dict.fromkeys(metrics)) or [name for name in along if frame[name].null_count() < len(frame)]
    several = "variant" in frame.columns
    sent = fit_unit("bytes", frame["bytes_sent"].max()) if frame["bytes_sent"].n_unique() > 1 else None
    counts = frame.group_by(["variant", "algorithm"] if several else ["algorithm"]).len()
    # several settings of one algorithm are told apart by the settings
    doubled = set(counts.filter(pl.col("len") > 1)["algorithm"])
    rows: list[str] = []
    for group in frame.partition_by("variant", maintain_order=True) if several else [frame]:
        variant = group["variant"][0] if several else None
        bold = {name: _find_best(summary.ends, variant, name, group, labels) for name in names}
        rows += [r"\midrule"] if rows else []
        for place, row in enumerate(group.iter_rows(named=True)):
            key = row["algorithm"], row["setting"]
            method = display_name(key[0]) + (f" ({key[1]})" if key[0] in doubled else "")
            method += f" ({row['diverged']} of {row['seeds']} diverged)" if row["diverged"] else ""
            cells = [escape_latex(method)]
            cells = [escape_latex(str(variant)) if place == 0 else "", *cells] if several else cells
            for name in names:
                value = row[name]
                if value is None or math.isnan(value):
                    cells.append("--")
                else:
                    text = format_interval(value, row[name + HALF])
                    cells.append(rf"$\mathbf{{{text}}}$" if key in bold[name] else f"${text}$")
            cells += [f"${format_number(row['bytes_sent'] * sent.factor, digits=3)}$"] if sent else []
            rows.append(" & ".join(cells) + r" \\")
    front = ["Variant", "Method"] if several else ["Method"]
    lines = [
        rf"\begin{{tabular}}{{{'l' * len(front)}{'r' * (len(names) + bool(sent))}}}",
        r"\toprule",
        " & ".join([*front, *(_head(name, labels) for name in names), *([sent.short] if sent else [])]) + r" \\",
        r"\midrule",
        *rows,
        r"\bottomrule",
        r"\end{tabular}}",
    ]
    return "\n".join([RULE, NARROWED, *lines, ""])


def format_interval(value: float, half: float | None) -> str:
    r"""Return a mean and its half-width in LaTeX: two digits of the half-width, and as many places of the mean.

    Very small and very large numbers have a common power of ten: $(6.22 \pm 0.21) \cdot 10^{-4}$.
    """
    if not math.isfinite(value):
        return r"\infty" if value > 0 else r"-\infty"
    known = half is not None and math.isfinite(half) and half > 0
    size = max(abs(value), half or 0.0) if known else abs(value)
    power = math.floor(math.log10(size)) if size > 0 else 0
    scaled = not -3 <= power <= 5
    shift = 10.0**power if scaled else 1.0
    if known and half is not None:
        # rounded first: 0.0996 becomes 0.10, which has its two digits one place earlier
        places = max(0, 1 - math.floor(math.log10(float(f"{half / shift:.1e}"))))
        text = rf"{value / shift:.{places}f} \pm {half / shift:.{places}f}"
        text = rf"({text})" if scaled else text
    else:
        places = max(0, 3 - (0 if scaled else power))
        text = f"{value / shift:.{places}f}"
    return rf"{text} \cdot 10^{{{power}}}" if scaled else text


def escape_latex(text: str) -> str:
    """Return text in one line of which LaTeX takes no character for a command."""
    shown = " ".join(text.split()).translate(str.maketrans(LATEX))
    return shown.replace("--", "-{}-")  # which would be a dash


def _head(name: str, labels: Mapping[str, Label]) -> str:
    label = labels.get(name)
    return escape_latex(name) if label is None else f"${label.latex}$" if label.latex else escape_latex(label.text)


def _find_best(
    ends: pl.DataFrame | None, variant: Any, metric: str, group: pl.DataFrame, labels: Mapping[str, Label]
) -> set[tuple[str, str]]:
    """Return the best method of a column and all that are not distinguishable from it."""
    whole = group.filter((pl.col("diverged") == 0) & pl.col(metric).is_not_null() & pl.col(metric).is_finite())
    if ends is None or len(group) < 2 or whole.is_empty():
        return set()
    runs = ends if variant is None else ends.filter(pl.col("variant") == variant)

    # the best is chosen by its mean, so every method is compared with it and not with each other
    higher = metric in labels and labels[metric].better == "higher"
    top = whole.sort(metric, descending=higher, maintain_order=True).row(0, named=True)
    best = MethodRuns.of(runs, (top["algorithm"], top["setting"]), metric).ends
    level = joint_level(len(group) - 1)  # over the methods that are compared with the best
    chosen = set()
    for key in whole.select("algorithm", "setting").iter_rows():
        own = MethodRuns.of(runs, key, metric).ends
        shared = [replicate for replicate in best if replicate in own]
        if len(shared) < 2:  # no interval, and so nothing to tell apart by
            return set()
        first, second = (np.array([values[replicate] for replicate in shared]) for values in (best, own))
        mean, half = difference(first, second, paired=True, level=level)
        if abs(mean) <= half:
            chosen.add(key)
    return chosen
