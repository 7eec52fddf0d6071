"""The Pareto front of a recommendation: the error against what was paid for it."""

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure

from gossamer.metrics import METRICS
from gossamer.report.figures import COLORS, COLUMN, PAID, drawn, dress

if TYPE_CHECKING:
    from gossamer.results.recommendation import Recommendation


def front(found: "Recommendation") -> Figure:
    """The finalists' curves with their 95 % bands, and in grey what was tried; black is the lowest error so far."""
    figure = Figure(figsize=(2 * COLUMN, COLUMN * 0.8), layout="constrained", dpi=200)
    label = METRICS[found.criterion].label
    for place, paid in enumerate(("seconds", "bytes")):
        axes = figure.add_subplot(1, 2, place + 1)
        axes.scatter([one[paid] for one in found.points], [one["value"] for one in found.points], s=5, color="0.75")
        _curves(axes, found, paid)
        axes.set_xscale("log")
        dress(axes, drawn(label) if not place else "", PAID[paid], log=label.log)
    return figure


def _curves(axes: Any, found: "Recommendation", paid: str) -> None:
    every = []
    for number, (name, curve) in enumerate(found.curves.items()):
        x, mean, low, high = (np.array(curve[key][1:]) for key in (paid, "mean", "low", "high"))
        color = COLORS[number % len(COLORS)]
        axes.plot(x, mean, color=color, linewidth=1.2, label=f"{number + 1}. {name}")
        axes.fill_between(x, low, high, color=color, alpha=0.2, linewidth=0)
        every += list(zip(x.tolist(), mean.tolist(), strict=True))
    ordered = sorted(every)
    best = np.minimum.accumulate([value for _, value in ordered])
    axes.step([x for x, _ in ordered], best, where="post", color="black", linewidth=0.7, linestyle=":")
