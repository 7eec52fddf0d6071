"""How much room Biased-DMT leaves for its step size, and how close its agents stay: claims of our own."""

from functools import partial
from itertools import pairwise

import numpy as np
import polars as pl

from gossamer.paper.claims.evidence import DMT, FACTOR, Readings, Runs, average, log_ratio
from gossamer.paper.verdicts import Claim, Insufficient, NotRun, Question
from gossamer.results.study import Study

TRACKERS = ("gt-dsgd", "gnsd")
"""The trackers without momentum, whose step size means the same as that of Biased-DMT."""

LARGER = 1.25
"""The smallest ratio of stable step sizes that matters."""


def largest_step(other: str, study: Study) -> Question:
    if study.tuning is None or "" not in study.results:
        raise NotRun("no step sizes were tried")
    tried = study.step_sizes()
    tops = {name: _tops(tried.filter(pl.col("algorithm") == name), name) for name in (DMT, other)}
    etas = sorted(tried["eta"].unique().to_list())
    step = max(b / a for a, b in pairwise(etas))
    if any(top == etas[-1] for each in tops.values() for top in each.values()):
        raise Insufficient(f"the largest step size that was tried, {etas[-1]:g}, is stable")
    note = "largest stable step sizes " + ", ".join(f"{name} {average(each):.4g}" for name, each in tops.items())
    note += f"; step of the grid {step:.3g}"
    parts = {"": log_ratio(tops[DMT], tops[other])}
    quantity = "ratio of largest stable step sizes"
    question = Question(quantity, parts, above=LARGER * step, tie=(1 / LARGER, LARGER), ratio=True, note=note)
    # what is less than one step beyond the margin may be beyond it on a finer grid
    near = {name for name, values in parts.items() if values.mean() > np.log(LARGER / step)}
    return question._replace(doubted=dict.fromkeys(near, ("does not hold", "tie")))


def _tops(tried: pl.DataFrame, name: str) -> Readings:
    """The largest stable step size in each replicate."""
    if tried.is_empty():
        raise NotRun(f"no step size of {name} was tried")
    tops = tried.filter("stable").group_by("replicate").agg(pl.col("eta").max())
    if len(tops) < tried["replicate"].n_unique():
        raise Insufficient(f"no step size of {name} is stable in every replicate")
    return dict(tops.iter_rows())


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
    *(
        Claim(
            "sensitivity",
            f"Biased-DMT allows a larger step size than {title}: the largest stable one is more than {LARGER} times as "
            "large, by one step of the grid at least",
            OURS,
            partial(largest_step, name),
        )
        for name, title in {"gnsd": "GNSD", "gt-dsgd": "GT-DSGD"}.items()
    ),
    Claim(
        "sensitivity",
        "At the same step size the agents of Biased-DMT disagree less than those of GT-DSGD and GNSD (margin 10 %)",
        OURS,
        disagreement,
    ),
]
