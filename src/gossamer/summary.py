"""The end of every run in a few lines of text."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from scipy.special import stdtrit

SHOWN = ("loss", "grad_norm_sq", "consensus", "accuracy")


@dataclass(frozen=True)
class Summary:
    """A table of the last measured round: means over the seeds that did not diverge, with 95 % intervals.

    Printed it is text for a terminal; `table` is the same as a polars frame.
    """

    table: pl.DataFrame

    @staticmethod
    def of(frame: pl.DataFrame) -> "Summary":
        rows = []
        for (algorithm, setting), group in frame.group_by("algorithm", "setting", maintain_order=True):
            last = group.group_by("seed", maintain_order=True).last()
            alive = last.filter(pl.col("status") == "ok")
            row: dict[str, Any] = {"algorithm": algorithm, "setting": setting, "round": last["round"].max()}
            for name in (*SHOWN, "worst_loss"):
                mean, half = interval(alive[name].drop_nulls().to_numpy())
                row |= {name: mean, f"{name}_±": half}
            row |= {"queries": last["queries"].max(), "bytes_sent": last["bytes_sent"].max()}
            row |= {"seeds": len(last), "diverged": len(last) - len(alive)}
            rows.append(row)
        floats = {name: pl.Float64 for base in (*SHOWN, "worst_loss") for name in (base, f"{base}_±")}
        return Summary(pl.DataFrame(rows, schema_overrides=floats))

    def __str__(self) -> str:
        names = [name for name in SHOWN if self.table[name].null_count() < len(self.table)]
        head = ["algorithm", "setting", *names, "queries", "MB sent", "diverged"]
        body = []
        for row in self.table.iter_rows(named=True):
            cells = [row["algorithm"], row["setting"]]
            cells += [_with_interval(row[name], row[f"{name}_±"]) for name in names]
            cells += [
                f"{row['queries']:,.0f}",
                f"{row['bytes_sent'] / 1e6:.2f}",
                f"{row['diverged']} of {row['seeds']}",
            ]
            body.append(cells)
        widths = [max(len(line[k]) for line in [head, *body]) for k in range(len(head))]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in [head, *body]
        ]
        return "\n".join(line.rstrip() for line in lines)

    __repr__ = __str__


def interval(values: np.ndarray) -> tuple[float | None, float | None]:
    """The mean and the half-width of its 95 % interval (Student's t); no interval from one value."""
    if len(values) == 0:
        return None, None
    if len(values) == 1:
        return float(values[0]), None
    half = stdtrit(len(values) - 1, 0.975) * values.std(ddof=1) / np.sqrt(len(values))
    return float(values.mean()), float(half)


def _with_interval(mean: float | None, half: float | None) -> str:
    if mean is None:
        return "-"
    return f"{mean:.4g}" if half is None else f"{mean:.4g} ± {half:.1g}"
