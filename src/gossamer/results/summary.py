"""The ends of runs as a table, and one metric of them by method and variant."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from gossamer.basics.html import Markup, tag
from gossamer.basics.privacy import Privacy
from gossamer.basics.table import Table
from gossamer.core import InputError, brief, nearest
from gossamer.metrics import COLUMNS, OURS, Label
from gossamer.results import privacy
from gossamer.results.statistics import interval

TEXTS = ("variant", "algorithm", "setting")
"""Columns of a summary that are aligned to the left."""

TOTALS = [column for column in COLUMNS if column.total is not None]
"""Columns of a result whose last value a summary shows."""


@dataclass(frozen=True)
class Summary:
    """A table of the last measured round: means over the runs that did not diverge, with 95 % intervals.

    Intervals are over replicates: seeds, or tunings with their seeds.

    Printed it is text for a terminal; `table` is the same as a polars frame.
    """

    table: pl.DataFrame
    metrics: Mapping[str, Label] = field(default_factory=OURS.copy)
    """The labels of the metrics."""
    ends: pl.DataFrame | None = None
    """The last row of every run, which the table is made of."""
    notes: tuple[str, ...] = ()
    """Differences between the runs besides their methods, one line each."""

    @staticmethod
    def of(frame: pl.DataFrame, metrics: Mapping[str, Label] = OURS, private: Privacy | None = None) -> "Summary":
        """Return the summary of a result's table; `private` decides its ε, where the oracle has one."""
        names, rows = [name for name, label in metrics.items() if label.summary or label.end], []
        ends = frame.group_by("algorithm", "setting", "seed", maintain_order=True).last()
        for (algorithm, setting), last in ends.group_by("algorithm", "setting", maintain_order=True):
            alive = last.filter(pl.col("status") != "diverged")
            reached = last.filter(pl.col("status") == "reached").height
            row: dict[str, Any] = {"algorithm": algorithm, "setting": setting, "round": last["round"].max()}
            for name in names:
                mean, half = _over_replicates(alive, name)
                row |= {name: mean, f"{name}_±": half}
            row |= {column.name: last[column.name].max() for column in TOTALS}
            if "seconds" in last.columns:
                mean, half = _over_replicates(last, "seconds")
                # the interval over the clock's seeds; where each run has a schedule of its own, over runs
                wide = (last["seconds_high"] - last["seconds_low"]).mean()
                row |= {"seconds": mean, "seconds_±": wide / 2 or None if isinstance(wide, float) else half}
            row |= {"seeds": len(last), "diverged": len(last) - len(alive), "reached": reached or None}
            rows.append(row)
        kinds: dict[str, Any] = {column: pl.Float64 for name in names for column in (name, f"{name}_±")}
        table = pl.DataFrame(rows, schema_overrides=kinds | {"reached": pl.Int64})
        if private is None:
            return Summary(table, dict(metrics), ends)
        if privacy.installed():
            table = table.with_columns(privacy.spent(frame, private).select("epsilon", "delta"))
        return Summary(table, dict(metrics), ends, (privacy.note(private),))

    def cells(self) -> tuple[list[str], list[list[str]]]:
        """Return the head and the rows, as text."""
        table = self.table
        shown = [name for name, label in self.metrics.items() if label.summary and name in table.columns]
        names = [name for name in shown if table[name].null_count() < len(table)]
        several = ["variant"] if "variant" in table.columns else []
        has_targets = table["reached"].null_count() < len(table)
        timed, private = "seconds" in table.columns, "epsilon" in table.columns
        head = [*several, "algorithm", "setting", *names, *(column.short for column in TOTALS)]
        head += [*["seconds"] * timed, "diverged", *["reached"] * has_targets, *["ε"] * private]
        body = []
        for row in table.iter_rows(named=True):
            cells = [row[name] for name in (*several, "algorithm", "setting")]
            cells += [_with_interval(row[name], row[f"{name}_±"], ".4g") for name in names]
            cells += [format(row[column.name] / column.unit, column.total or "") for column in TOTALS]
            cells += [_with_interval(row["seconds"], row["seconds_±"], ".4g")] if timed else []
            cells += [f"{row['diverged']} of {row['seeds']}"]
            cells += [f"{row['reached'] or 0} of {row['seeds']}"] if has_targets else []
            cells += ["-" if row["epsilon"] is None else f"{row['epsilon']:.4g}"] if private else []
            body.append(cells)
        return head, body

    def __str__(self) -> str:
        head, body = self.cells()
        keys = head.index("setting")
        alone = len({tuple(row[:keys]) for row in body}) == len(body)  # else rows are told apart by their settings
        return "\n".join([Table(head, body).text(keys if alone else keys + 1), *self.notes])

    __repr__ = __str__

    def html(self) -> Markup:
        """Return the table and its notes for a notebook."""
        head, body = self.cells()
        notes = [tag("div", note, style="margin-top: 4px") for note in self.notes]
        return tag("div", Table(head, body, [name not in TEXTS for name in head]).html(), *notes)

    _repr_html_ = html

    def to_latex(self, *metrics: str) -> str:
        """Return a table for a paper, in LaTeX's booktabs: see `gossamer.report.tables.paper_table`."""
        from gossamer.report.tables import paper_table

        return paper_table(self, metrics)


@dataclass(frozen=True)
class Across:
    """The ends of the runs of all methods in all variants, by one metric. Printed it is text for a terminal."""

    metric: str
    table: pl.DataFrame
    """A row for each variant and method: variant, algorithm, setting, the metric's mean and its `half` width (over
    the replicates that did not diverge), diverged and seeds."""

    @staticmethod
    def of(summary: Summary, metric: str) -> "Across":
        """Return the metric's part of a study's summary."""
        known = [name for name in summary.metrics if name in summary.table.columns]
        if not isinstance(metric, str) or metric not in known:
            raise InputError(f"no metric {brief(metric)} was measured; {nearest(metric, known)}")
        rows = summary.table
        if "variant" not in rows.columns:
            rows = rows.with_columns(variant=pl.lit(""))
        mean, half = pl.col(metric).alias("mean"), pl.col(f"{metric}_±").alias("half")
        return Across(metric, rows.select("variant", "algorithm", "setting", mean, half, "diverged", "seeds"))

    def cells(self) -> tuple[list[str], list[list[str]]]:
        """Return the head and the rows, as text."""
        variants = self.table["variant"].unique(maintain_order=True).to_list()
        cells = {}
        for variant, algorithm, setting, mean, half, diverged, seeds in self.table.iter_rows():
            text = _with_interval(mean, half, ".3g")
            if diverged:
                text = "broke" if mean is None and diverged == seeds else text
                text += f", {diverged} of {seeds} broke" if mean is not None else ""
            cells[variant, algorithm, setting] = text
        methods = list(dict.fromkeys(self.table.select("algorithm", "setting").iter_rows()))
        body = [[*method, *(cells.get((variant, *method), "-") for variant in variants)] for method in methods]
        return ["algorithm", "setting", *variants], body

    def __str__(self) -> str:
        return f"{self.metric} at the end\n{Table(*self.cells()).text(keys=2)}"

    __repr__ = __str__


def _over_replicates(rows: pl.DataFrame, name: str) -> tuple[float | None, float | None]:
    """Return the mean of a column and the half-width of its interval, where there is one."""
    known = rows.filter(pl.col(name).is_not_null())
    means = known.group_by("replicate", maintain_order=True).agg(pl.col(name).mean())[name].to_numpy()
    if not len(means):
        return None, None
    mean, half = interval(means)
    return mean, None if math.isnan(half) else half


def _with_interval(mean: float | None, half: float | None, digits: str) -> str:
    if mean is None:
        return "-"
    return f"{mean:{digits}}" if half is None else f"{mean:{digits}} ± {half:.1g}"
