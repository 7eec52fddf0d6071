"""One metric, methods by variants: how each method fares from one variant of a study to the next."""

from dataclasses import dataclass

import polars as pl

from gossamer.basics.table import Table
from gossamer.core import InputError, brief, nearest
from gossamer.results.summary import Summary


@dataclass(frozen=True)
class Across:
    """The ends of the runs of all methods in all variants, by one metric. Printed it is text for a terminal."""

    metric: str
    table: pl.DataFrame
    """A row for each variant and method: variant, algorithm, setting, the metric's mean and its `half` width (over
    the replicates that did not diverge), diverged and seeds."""

    @staticmethod
    def of(summary: Summary, metric: str) -> "Across":
        """The metric's part of a study's summary."""
        known = [name for name in summary.metrics if name in summary.table.columns]
        if not isinstance(metric, str) or metric not in known:
            raise InputError(f"no metric {brief(metric)} was measured; {nearest(metric, known)}")
        rows = summary.table
        if "variant" not in rows.columns:
            rows = rows.with_columns(variant=pl.lit(""))
        mean, half = pl.col(metric).alias("mean"), pl.col(f"{metric}_±").alias("half")
        return Across(metric, rows.select("variant", "algorithm", "setting", mean, half, "diverged", "seeds"))

    def cells(self) -> tuple[list[str], list[list[str]]]:
        """The head and the rows, as text."""
        variants = self.table["variant"].unique(maintain_order=True).to_list()
        cells = {tuple(row[:3]): _cell(*row[3:]) for row in self.table.iter_rows()}
        methods = list(dict.fromkeys(self.table.select("algorithm", "setting").iter_rows()))
        body = [[*method, *(cells.get((variant, *method), "-") for variant in variants)] for method in methods]
        return ["algorithm", "setting", *variants], body

    def __str__(self) -> str:
        return f"{self.metric} at the end\n{Table(*self.cells()).text(keys=2)}"

    __repr__ = __str__


def _cell(mean: float | None, half: float | None, diverged: int, seeds: int) -> str:
    if mean is None:
        return "broke" if diverged == seeds else "-"
    text = f"{mean:.3g}" if half is None else f"{mean:.3g} ± {half:.1g}"
    return f"{text}, {diverged} of {seeds} broke" if diverged else text
