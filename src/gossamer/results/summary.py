"""The end of every run in a few lines of text."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from gossamer.basics.privacy import Privacy
from gossamer.basics.table import Table
from gossamer.metrics import OURS, Label
from gossamer.results import privacy, showing
from gossamer.results.statistics import interval


@dataclass(frozen=True)
class Summary:
    """A table of the last measured round: means over the runs that did not diverge, with 95 % intervals.

    Intervals are over replicates: seeds, or tunings with their seeds.

    Printed it is text for a terminal; `table` is the same as a polars frame.
    """

    table: pl.DataFrame
    metrics: Mapping[str, Label] = field(default_factory=OURS.copy)
    """How the metrics are shown."""
    ends: pl.DataFrame | None = None
    """The last row of every run, which the table is made of."""
    notes: tuple[str, ...] = ()
    """What differs between the runs besides their methods, one line each."""

    @staticmethod
    def of(frame: pl.DataFrame, metrics: Mapping[str, Label] = OURS, private: Privacy | None = None) -> "Summary":
        """The summary of a result's table; `private` is what decides its ε, where its oracle has one."""
        names, rows = [name for name, label in metrics.items() if label.summary or label.end], []
        ends = frame.group_by("algorithm", "setting", "seed", maintain_order=True).last()
        for (algorithm, setting), group in frame.group_by("algorithm", "setting", maintain_order=True):
            last = group.group_by("seed", maintain_order=True).last()
            alive = last.filter(pl.col("status") != "diverged")
            reached = last.filter(pl.col("status") == "reached").height
            row: dict[str, Any] = {"algorithm": algorithm, "setting": setting, "round": last["round"].max()}
            for name in names:
                mean, half = over_replicates(alive, name)
                row |= {name: mean, f"{name}_±": half}
            row |= {"queries": last["queries"].max(), "bytes_sent": last["bytes_sent"].max()} | _seconds(last)
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
        """The head and the rows, as text."""
        shown = [name for name, label in self.metrics.items() if label.summary and name in self.table.columns]
        names = [name for name in shown if self.table[name].null_count() < len(self.table)]
        several = ["variant"] if "variant" in self.table.columns else []
        arrived = self.table["reached"].null_count() < len(self.table)
        timed = "seconds" in self.table.columns
        head = [*several, "algorithm", "setting", *names, "queries", "MB sent", *["seconds"] * timed, "diverged"]
        head += ["reached"] if arrived else []
        private = "epsilon" in self.table.columns
        head += ["ε"] if private else []
        body = []
        for row in self.table.iter_rows(named=True):
            cells = [row[name] for name in (*several, "algorithm", "setting")]
            cells += [_with_interval(row[name], row[f"{name}_±"]) for name in names]
            cells += [
                f"{row['queries']:,.0f}",
                f"{row['bytes_sent'] / 1e6:.2f}",
                *([_with_interval(row["seconds"], row["seconds_±"])] if timed else []),
                f"{row['diverged']} of {row['seeds']}",
                *([f"{row['reached'] or 0} of {row['seeds']}"] if arrived else []),
                *(["-" if row["epsilon"] is None else f"{row['epsilon']:.4g}"] if private else []),
            ]
            body.append(cells)
        return head, body

    def __str__(self) -> str:
        head, body = self.cells()
        keys = head.index("setting")
        alone = len({tuple(row[:keys]) for row in body}) == len(body)  # else rows are told apart by their settings
        return "\n".join([Table(head, body).text(keys if alone else keys + 1), *self.notes])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return showing.summary_html(self)

    def to_latex(self, *metrics: str) -> str:
        """A table for a paper, in LaTeX's booktabs: see `gossamer.report.tables.paper_table`."""
        from gossamer.report.tables import paper_table

        return paper_table(self, metrics)


def _seconds(last: pl.DataFrame) -> dict[str, float | None]:
    """The seconds of the ends: the interval is that over the clock's seeds, or, where each run has one, over runs."""
    if "seconds" not in last.columns:
        return {}
    mean, half = over_replicates(last, "seconds")
    wide = (last["seconds_high"] - last["seconds_low"]).mean()
    if isinstance(wide, float):
        half = wide / 2 or None
    return {"seconds": mean, "seconds_±": half}


def over_replicates(rows: pl.DataFrame, name: str) -> tuple[float | None, float | None]:
    """The mean of a column and the half-width of its interval, where there is one."""
    known = rows.filter(pl.col(name).is_not_null())
    means = known.group_by("replicate", maintain_order=True).agg(pl.col(name).mean())[name].to_numpy()
    if not len(means):
        return None, None
    mean, half = interval(means)
    return mean, None if math.isnan(half) else half


def _with_interval(mean: float | None, half: float | None) -> str:
    if mean is None:
        return "-"
    return f"{mean:.4g}" if half is None else f"{mean:.4g} ± {half:.1g}"
