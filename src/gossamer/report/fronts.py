"""The Pareto front of a recommendation: the error against what was paid for it."""

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure

from gossamer.metrics import METRICS
from gossamer.report.figures import PAID, drawn, dress
from gossamer.report.layouts import LAYOUTS, PaperFigure
from gossamer.report.styles import COLORS

if TYPE_CHECKING:
    from gossamer.results.recommendation import Recommendation


def front(recommendation: "Recommendation") -> Figure:
    """The finalists' curves with their 95 % bands, and in grey what was tried; black is the lowest error so far."""
    layout, label = LAYOUTS["plain"], METRICS[recommendation.criterion].label
    with rc_context(layout.rc):
        figure = PaperFigure(layout.rc, figsize=(layout.two, layout.one * 0.8), layout="constrained")
        for place, paid in enumerate(("seconds", "bytes")):
            axes, (title, factor) = figure.add_subplot(1, 2, place + 1), PAID[paid]
            tried = [factor * point[paid] for point in recommendation.points]
            axes.scatter(tried, [point["value"] for point in recommendation.points], s=5, color="0.75")
            _curves(axes, recommendation, paid, factor)
            axes.set_xscale("log")
            dress(axes, drawn(label) if not place else "", title, log=label.log)
            axes.legend(fontsize=6, frameon=False)
    return figure


def _curves(axes: Any, recommendation: "Recommendation", paid: str, factor: float) -> None:
    every = []
    for number, (name, curve) in enumerate(recommendation.curves.items()):
        x, mean, low, high = (np.array(curve[key][1:]) for key in (paid, "mean", "low", "high"))
        x, color = factor * x, COLORS[number % len(COLORS)]
        axes.plot(x, mean, color=color, linewidth=1.2, label=f"{number + 1}. {name}")
        axes.fill_between(x, low, high, color=color, alpha=0.2, linewidth=0)
        every += list(zip(x.tolist(), mean.tolist(), strict=True))
    ordered = sorted(every)
    best = np.minimum.accumulate([value for _, value in ordered])
    axes.step([x for x, _ in ordered], best, where="post", color="black", linewidth=0.7, linestyle=":")
