"""What is measured along a run: one open table, `METRICS`, of a name, a label and a function each.

`gossamer.metrics.measuring` measures, in JAX; the table itself needs none, so that results are read without it.
"""

from gossamer.metrics.label import COLUMNS, Better, Label, checked_name
from gossamer.metrics.table import METRICS, OURS, Metric, Target, labels, measured, metric, own, targets

__all__ = [
    "COLUMNS",
    "METRICS",
    "OURS",
    "Better",
    "Label",
    "Metric",
    "Target",
    "checked_name",
    "labels",
    "measured",
    "metric",
    "own",
    "targets",
]
