r"""The ends of runs as a table for a paper, in LaTeX's booktabs.

Means over replicates with the half-width of their 95 % interval, to two digits of the half-width. In each column and
variant, the best mean is bold, and so are all that cannot be told apart from it: those whose difference from the best,
paired by replicate, has an interval that contains zero. The intervals of a column hold simultaneously at 95 %
(Bonferroni). Nothing is bold where fewer than two replicates are shared, and a method with a diverged run never is.
"""

import math
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from gossamer.core import InputError, brief, nearest
from gossamer.metrics import Label
from gossamer.report.names import display_name
from gossamer.report.tables import HALF, escaped
from gossamer.results.statistics import LEVEL, difference

if TYPE_CHECKING:
    from gossamer.results.summary import Summary

RULE = (
    "% Means over replicates and half-widths of 95 % intervals. Bold: not distinguishable from the best of its column\n"
    "% at 95 % (paired by replicate, Bonferroni over the column); never a method of which a run diverged."
)

TEXT, LETTER, GAP = 345, 5.5, 12
"""In points: the width of the text of LaTeX's article, of a letter, and of the space between columns."""

LONG, NAMES = 20, 0.25
"""In a table that is too wide, names of methods with more letters are wrapped to this share of the text."""


def paper_table(summary: "Summary", metrics: Sequence[str] = ()) -> str:
    """The LaTeX of a summary: a row for each method, a column for each of these metrics; all that were measured if none
    is named. Then columns that do not fit beside each other stand below each other."""
    table, names = summary.table, _names(summary.table, metrics, summary.metrics)
    several, doubled = "variant" in table.columns, _doubled(table)
    front = [["Variant"], ["Method"]] if several else [["Method"]]
    columns = [[_head(name, summary.metrics)] for name in names]
    for group in table.partition_by("variant", maintain_order=True) if several else [table]:
        variant = group["variant"][0] if several else None
        bold = {name: _best(summary.ends, variant, name, group, summary.metrics) for name in names}
        for place, row in enumerate(group.iter_rows(named=True)):
            key = row["algorithm"], row["setting"]
            shown = [escaped(variant) if place == 0 else ""] if variant is not None else []
            for column, cell in zip(front, [*shown, _method(row, key[0] in doubled)], strict=True):
                column.append(cell)
            for column, name in zip(columns, names, strict=True):
                column.append(_with_interval(row[name], row[name + HALF], key in bold[name]))
    blocks = [columns] if metrics else _fitting(front, columns)
    first = "\\noindent\n" if len(blocks) > 1 else ""
    return RULE + "\n" + first + "\\par\\medskip\\noindent\n".join(_tabular(front, block) for block in blocks)


def _tabular(front: list[list[str]], columns: list[list[str]]) -> str:
    """These columns as a table, with a rule above each variant; names that are long are wrapped."""
    long = max(map(len, front[-1])) > LONG and sum(map(_points, [*front, *columns])) > TEXT
    align = "l" * (len(front) - 1) + (rf"p{{{NAMES}\linewidth}}" if long else "l") + "r" * len(columns)
    head, *rows = zip(*front, *columns, strict=True)
    lines = [rf"\begin{{tabular}}{{{align}}}", r"\toprule", _line(head), r"\midrule"]
    for number, row in enumerate(rows):
        lines += [r"\midrule"] * (number > 0 and len(front) > 1 and bool(row[0]))
        wrapped = rf"{{\raggedright {row[len(front) - 1]}\par}}" if long else row[len(front) - 1]
        lines.append(_line([*row[: len(front) - 1], wrapped, *row[len(front) :]]))
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def _fitting(front: list[list[str]], columns: list[list[str]]) -> list[list[list[str]]]:
    """The columns in groups, each of which fits into the text beside the names."""
    used = sum(min(_points(column), NAMES * TEXT + GAP) for column in front)
    groups: list[list[list[str]]] = [[]]
    left = TEXT - used
    for column in columns:
        if groups[-1] and _points(column) > left:
            groups.append([])
            left = TEXT - used
        groups[-1].append(column)
        left -= _points(column)
    return groups


def _points(column: list[str]) -> float:
    """About how wide LaTeX sets a column, in points: commands count as a letter, and braces as none."""
    shown = [re.sub(r"[{}$^_ ]", "", re.sub(r"\\([a-z]+|.)", "x", cell.replace(r"\mathbf", ""))) for cell in column]
    return LETTER * max(map(len, shown)) + GAP


def with_digits(value: float, half: float | None) -> str:
    r"""A mean and its half-width, in LaTeX: two digits of the half-width, and as many places of the mean.

    What is very small or large is written with a common power of ten: $(6.22 \pm 0.21) \cdot 10^{-4}$.
    """
    if not math.isfinite(value):
        return r"\infty" if value > 0 else r"-\infty"
    known = half is not None and math.isfinite(half) and half > 0
    size = max(abs(value), half or 0.0) if known else abs(value)
    power = math.floor(math.log10(size)) if size > 0 else 0
    scaled = not -3 <= power <= 5
    shift = 10.0**power if scaled else 1.0
    if known and half is not None:
        places = max(0, 1 - math.floor(math.log10(float(f"{half / shift:.1e}"))))
        text = rf"{value / shift:.{places}f} \pm {half / shift:.{places}f}"
        text = rf"({text})" if scaled else text
    else:
        places = max(0, 3 - (0 if scaled else power))
        text = f"{value / shift:.{places}f}"
    return rf"{text} \cdot 10^{{{power}}}" if scaled else text


def _head(name: str, labels: Mapping[str, Label]) -> str:
    label = labels.get(name)
    return escaped(name) if label is None else f"${label.latex}$" if label.latex else escaped(label.text)


def _names(table: pl.DataFrame, metrics: Sequence[str], labels: Mapping[str, Label]) -> list[str]:
    """The metrics that were asked for; if none was, all that were measured along the runs."""
    known = [name for name in table.columns if name + HALF in table.columns]
    for name in metrics:
        if name not in known:
            raise InputError(f"a summary has no metric {brief(name)}; {nearest(name, known)}")
    measured = [
        name for name in known if table[name].null_count() < len(table) and not (name in labels and labels[name].end)
    ]
    return list(dict.fromkeys(metrics)) or measured


def _doubled(table: pl.DataFrame) -> set[str]:
    """The algorithms that a variant runs with several settings, which then tell them apart."""
    keys = ["variant", "algorithm"] if "variant" in table.columns else ["algorithm"]
    return set(table.group_by(keys).len().filter(pl.col("len") > 1)["algorithm"])


def _best(
    ends: pl.DataFrame | None, variant: Any, metric: str, group: pl.DataFrame, labels: Mapping[str, Label]
) -> set[tuple[str, str]]:
    """The best of a column and all that are not distinguishable from it."""
    whole = group.filter((pl.col("diverged") == 0) & pl.col(metric).is_not_null() & pl.col(metric).is_finite())
    if ends is None or len(group) < 2 or whole.is_empty():
        return set()
    runs = ends if variant is None else ends.filter(pl.col("variant") == variant)
    higher = metric in labels and labels[metric].better == "higher"
    top = whole.sort(metric, descending=higher, maintain_order=True).row(0, named=True)
    best = _replicates(runs, (top["algorithm"], top["setting"]), metric)
    level = 1 - (1 - LEVEL) / max(1, len(group) - 1)
    chosen = set()
    for key in whole.select("algorithm", "setting").iter_rows():
        own = _replicates(runs, key, metric)
        shared = [replicate for replicate in best if replicate in own]
        if len(shared) < 2:
            return set()
        first, second = (np.array([values[replicate] for replicate in shared]) for values in (best, own))
        mean, half = difference(first, second, paired=True, level=level)
        if abs(mean) <= half:
            chosen.add(key)
    return chosen


def _replicates(runs: pl.DataFrame, key: tuple[str, str], metric: str) -> dict[int, float]:
    own = runs.filter((pl.col("algorithm") == key[0]) & (pl.col("setting") == key[1]))
    means = own.group_by("replicate", maintain_order=True).agg(pl.col(metric).mean())
    return dict(means.iter_rows())


def _method(row: dict[str, Any], doubled: bool) -> str:
    name = escaped(display_name(row["algorithm"])) + (f" ({escaped(row['setting'])})" if doubled else "")
    return name + (rf" ({row['diverged']} of {row['seeds']} diverged)" if row["diverged"] else "")


def _with_interval(value: float | None, half: float | None, bold: bool) -> str:
    if value is None or math.isnan(value):
        return "--"
    text = with_digits(value, half)
    return rf"$\mathbf{{{text}}}$" if bold else f"${text}$"


def _line(cells: Sequence[str]) -> str:
    return " & ".join(cells) + r" \\"
