"""Metrics: one open table, `METRICS`, of a name, a label and a function each; and the other columns of a result.

`gossamer.metrics.measuring` measures, in JAX. The tables need no JAX, so that results are read without it.
"""

from gossamer.metrics.table import (
    AXES,
    COLUMNS,
    METRICS,
    OURS,
    Better,
    Column,
    Label,
    Metric,
    Target,
    fit_unit,
    labels,
    metric,
    own,
    select_metrics,
    targets,
)

__all__ = [
    "AXES",
    "COLUMNS",
    "METRICS",
    "OURS",
    "Better",
    "Column",
    "Label",
    "Metric",
    "Target",
    "fit_unit",
    "labels",
    "metric",
    "own",
    "select_metrics",
    "targets",
]
