"""How much room Biased-DMT leaves for its step size, and how close its agents stay: claims of our own."""

import math

import numpy as np
import polars as pl

from gossamer.claims.evidence import DMT, FACTOR, Readings, Runs, average, log_ratio
from gossamer.claims.verdict import Claim, Insufficient, NotRun, Question
from gossamer.study import Study

TRACKERS = ("gt-dsgd", "gnsd")
"""The trackers without momentum, whose step size means the same as that of Biased-DMT."""

LARGER = 1.5
"""The smallest ratio of stable step sizes that matters; the grid's own step is 1.58."""


def stable(study: Study, variant: str = "") -> dict[str, dict[int, tuple[float, float]]]:
    """The stable step sizes of every method and replicate: the lowest and the highest.

    Stable are those around the best that end within 5 % of the way from the start to the lowest end of all methods.
    """
    tried = study.tuning
    if tried is None or variant not in study.results:
        raise NotRun("no step sizes were tried")
    tried = tried.filter(pl.col("variant") == variant)
    start = float(study.results[variant].table.filter(pl.col("round") == 0)["loss"].mean())  # pyright: ignore[reportArgumentType]
    found: dict[str, dict[int, tuple[float, float]]] = {}
    for (replicate,), own in tried.group_by("replicate", maintain_order=True):
        least = own["value"].min()
        if not isinstance(least, float) or not least < start:
            raise Insufficient(f"no setting lowers the loss below its start of {start:.4g}")
        enough = least + 0.05 * (start - least)
        for (algorithm,), grid in own.group_by("algorithm", maintain_order=True):
            found.setdefault(str(algorithm), {})[int(str(replicate))] = _around_best(grid.sort("eta"), enough)
    return found


def _around_best(grid: pl.DataFrame, enough: float) -> tuple[float, float]:
    etas, values = grid["eta"].to_numpy(), grid["value"].fill_null(math.inf).to_numpy()
    if not values.min() <= enough:
        return math.nan, math.nan
    low = high = int(values.argmin())
    while low > 0 and values[low - 1] <= enough:
        low -= 1
    while high + 1 < len(values) and values[high + 1] <= enough:
        high += 1
    return float(etas[low]), float(etas[high])


def largest_step(study: Study) -> Question:
    ranges = stable(study)
    for name in (DMT, *TRACKERS):
        if name not in ranges:
            raise NotRun(f"no step size of {name} was tried")
    tops: dict[str, Readings] = {
        name: {replicate: high for replicate, (_, high) in ranges[name].items()} for name in (DMT, *TRACKERS)
    }
    for name, each in tops.items():
        if any(math.isnan(top) for top in each.values()):
            raise Insufficient(f"no step size of {name} is stable in every replicate")
    note = "largest stable step sizes " + ", ".join(f"{name} {average(each):.4g}" for name, each in tops.items())
    parts = {name: log_ratio(tops[DMT], tops[name]) for name in TRACKERS}
    quantity = "ratio of largest stable step sizes to the other's"
    return Question(quantity, parts, above=LARGER, tie=(1 / LARGER, LARGER), ratio=True, note=note)


def disagreement(study: Study) -> Question:
    runs = {name: Runs.of(study, name, tuned=False).end("consensus") for name in (DMT, *TRACKERS)}
    note = "mean of ‖x_i − x̄‖² at the end " + ", ".join(f"{name} {average(each):.4g}" for name, each in runs.items())
    parts = {name: log_ratio(runs[DMT], runs[name]) for name in TRACKERS}
    times = ", ".join(f"{np.exp(-values.mean()):.3g} times less than {name}" for name, values in parts.items())
    quantity = "ratio of disagreements to the other's"
    tie = (1 / FACTOR, FACTOR)
    return Question(quantity, parts, below=1 / FACTOR, tie=tie, ratio=True, note=f"{note}: {times}")


OURS = "The paper says nothing of this; the claim is ours."

SENSITIVITY = [
    Claim(
        "sensitivity",
        f"Biased-DMT allows a larger step size than GT-DSGD and GNSD: the largest stable one is more than {LARGER} "
        "times as large",
        OURS,
        largest_step,
    ),
    Claim(
        "sensitivity",
        "At the same step size the agents of Biased-DMT disagree less than those of GT-DSGD and GNSD (margin 10 %)",
        OURS,
        disagreement,
    ),
]
