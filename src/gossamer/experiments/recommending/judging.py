"""How runs are judged: one number for each, and which differences matter."""

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from gossamer.engines.runs import Row
from gossamer.experiments.recommending.budgets import Costs
from gossamer.experiments.recommending.question import Question
from gossamer.results.statistics import arrival, difference, ending

LOOKS = 3
"""How often finalists are looked at, with twice as many seeds each time, before it is left undecided."""

ERROR = 0.05
"""The chance that some interval of a difference misses it, over all pairs of finalists and all looks."""

Verdict = Literal["first", "worse", "tie", "undecided", "diverged"]


class Score(NamedTuple):
    """How good a run is; the less the better. One that reached its target goes before all that did not."""

    failed: int
    """0, or 1 where a target was not reached, or 2 where a run diverged."""
    value: float


LOST = Score(2, math.inf)


def score(run: Row, question: Question, costs: Costs) -> Score:
    """The criterion at the end of a run, or what was paid until it stayed at the target."""
    values = run.metrics[question.criterion]
    if run.diverged >= 0 or not np.isfinite(values[-1]):
        return LOST
    end = float(values[ending(run.rounds, int(run.rounds[-1]))].mean())
    if question.target is None:
        return Score(0, end)
    reached = arrival(run.rounds, values, question.target)
    return Score(1, end) if reached is None else Score(0, costs.at(question.currency, reached))


def together(scores: Sequence[Score]) -> Score:
    """The score of several seeds: the mean, if all are of one kind; else that of the worst kind."""
    worst = max(score.failed for score in scores)
    return Score(worst, float(np.mean([score.value for score in scores if score.failed == worst])))


def unit(question: Question, start: float, best: float) -> float:
    """What shares are of: the way from the start, where losses are judged, and else the best itself."""
    return abs(start - best) if question.target is None and question.criterion == "loss" else abs(best)


class Difference(NamedTuple):
    """How much worse than the first, as a share of `unit`, and the ends of its interval."""

    mean: float
    low: float
    high: float
    verdict: Verdict


def compared(
    first: Sequence[Score], other: Sequence[Score], length: float, matters: float, finalists: int
) -> Difference:
    """Another way against the first on the same seeds.

    It is worse if the whole interval lies above what matters, and a tie if all of it lies within; else there is no
    telling. The first was chosen on these seeds, too, so that it may be any of the finalists: the level is such that
    the intervals of all pairs of them, at every look, hold together with 95 %.
    """
    if any(score.failed != one.failed for score, one in zip(other, first, strict=True)):
        lost = any(score.failed == 2 for score in other)
        return Difference(math.inf, math.nan, math.nan, "diverged" if lost else "worse")
    values = [np.array([score.value for score in scores]) for scores in (first, other)]
    level = 1 - ERROR / (LOOKS * math.comb(max(2, finalists), 2))
    mean, half = difference(*values, paired=True, level=level)
    shares = [share / length if length else math.copysign(math.inf, share) if share else 0.0 for share in (mean, half)]
    low, high = shares[0] - shares[1], shares[0] + shares[1]
    verdict: Verdict = "worse" if low > matters else "tie" if high <= matters and low >= -matters else "undecided"
    return Difference(shares[0], low, high, verdict)
