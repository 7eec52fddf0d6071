r"""Statistics of runs: intervals over replicates, the end of a run, and whether a run has settled.

A *replicate* is one independent repetition of all that is uncertain: a seed, or, where hyper-parameters were tuned, the
tuning seeds with the evaluation seeds that belong to them. Intervals are over replicates.

The *end* of a run is its last tenth, both where tuning judges and where results are judged. A run has *settled* on a
metric if its means over the last three quarters of the rounds, $(T/4, T/2]$, $(T/2, 3T/4]$ and $(3T/4, T]$, show no
change: from each to the next, the mean change over replicates is within ±5 %, or within its own standard error where
that is more, and the 95 % interval of the change lies within ±30 %, so that noise cannot hide a drift. Where a floor is
little but noise, the loss tells: a run whose metric shows no significant change (both 95 % intervals hold 0) has also
settled if its loss has stopped, that is, the mean loss of each of these quarters is within 0.05 % of the way from the
start of the one before. The *floor* is then the mean over the measured rounds of the last half.
"""

import math
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Float, Int, Integer, Real

LEVEL = 0.95
"""The level of intervals, unless another one is stated."""

END = 0.9
"""The start of the end of a run, as a share of its rounds."""

DRIFT, HIDDEN = math.log(1.05), math.log(1.3)
"""The logarithms of the change that counts as none, and of the largest that an interval may still hold."""

STOPPED = 5e-4
"""The change of the loss that counts as none, as a share of the way from the start."""


def interval(values: Float[np.ndarray, " replicates"], level: float = LEVEL) -> tuple[float, float]:
    """Return the mean of independent values and the half-width of its interval (Student's t): NaN from one value."""
    if len(values) < 2:
        return float(values.mean()), math.nan
    error = values.std(ddof=1) / np.sqrt(len(values))
    return float(values.mean()), float(_student(len(values) - 1, error, level))


def joint_level(count: int) -> float:
    """Return the level at which each of so many intervals is taken, so that all hold together (Bonferroni)."""
    return 1 - (1 - LEVEL) / max(1, count)


def half_width(count: Integer[np.ndarray, "..."], std: Any, level: float = LEVEL) -> np.ndarray:
    """Return the half-width of the interval of a mean of `count` values of a standard deviation; 0 for one value."""
    with np.errstate(invalid="ignore"):
        half = _student(np.maximum(count - 1, 1), std / np.sqrt(np.maximum(count, 1)), level)
    return np.where(count > 1, half, 0.0)


def difference(
    first: Float[np.ndarray, " replicates"],
    second: Float[np.ndarray, " others"],
    *,
    paired: bool,
    level: float = LEVEL,
) -> tuple[float, float]:
    """Return the mean of the second less that of the first, and the half-width of its interval.

    Values of the same replicates are `paired`: the interval is that of their differences. Else it is Welch's, for two
    independent samples with variances of their own. From fewer than two values a side there is no half-width.
    """
    if paired:
        return interval(second - first, level)
    mean = float(second.mean() - first.mean())
    if min(len(first), len(second)) < 2:
        return mean, math.nan
    squares = [float(values.var(ddof=1)) / len(values) for values in (first, second)]
    if not (total := sum(squares)):
        return mean, 0.0
    shares = [square / total for square in squares]  # no square of a small number that would be 0
    freedom = 1 / (shares[0] ** 2 / (len(first) - 1) + shares[1] ** 2 / (len(second) - 1))
    return mean, float(_student(freedom, math.sqrt(total), level))


def _student(freedom: Any, error: Any, level: float) -> Any:
    """Return the half-width of Student's interval around a value with this standard error."""
    from scipy.special import stdtrit  # a tenth of a second to import

    return stdtrit(freedom, (1 + level) / 2) * error


def decide(low: float, high: float, matters: float) -> Literal["ahead", "tie", "undecided"]:
    """Return the verdict on a difference of which the interval [low, high] and the smallest that matters are known."""
    if low > matters:
        return "ahead"
    return "tie" if -matters <= low and high <= matters else "undecided"


def by_replicate(values: Mapping[int, float], replicates: Mapping[int, int]) -> dict[int, float]:
    """Return the mean over the seeds of each replicate."""
    seeds: dict[int, list[float]] = {}
    for seed, value in values.items():
        seeds.setdefault(replicates[seed], []).append(value)
    return {replicate: float(np.mean(own)) for replicate, own in seeds.items()}


def ending(rounds: Int[np.ndarray, " rounds"], last: int) -> np.ndarray:
    """Return which of the measured rounds are the end of a run of `last` rounds; the last one at least."""
    return (rounds >= END * last) & (rounds <= last)


def stopped(rounds: Int[np.ndarray, " rounds"], losses: Float[np.ndarray, "replicates rounds"]) -> bool:
    """Return whether the mean loss over replicates has stopped changing."""
    means = _quarters(rounds, losses)
    if means is None:
        return False
    quarters = means.mean(1)
    way = abs(float(losses[:, 0].mean()) - float(quarters[-1]))
    return bool((np.abs(np.diff(quarters)) <= STOPPED * way).all())


def _quarters(
    rounds: Int[np.ndarray, " rounds"], values: Float[np.ndarray, "replicates rounds"]
) -> Float[np.ndarray, "3 replicates"] | None:
    """Return the means over the last three quarters; None where one was not measured."""
    last = rounds[-1]
    quarters = [(rounds > share * last) & (rounds <= (share + 0.25) * last) for share in (0.25, 0.5, 0.75)]
    if not all(quarter.any() for quarter in quarters):
        return None
    return np.array([values[:, quarter].mean(1) for quarter in quarters])


def unsettled(
    rounds: Int[np.ndarray, " rounds"],
    values: Float[np.ndarray, "replicates rounds"],
    losses: Float[np.ndarray, "replicates rounds"] | None = None,
) -> str | None:
    """Return the reason why runs have not settled; None if they have."""
    means = _quarters(rounds, values)
    if means is None or not (means > 0).all():
        return "too few positive values were measured to tell"
    changes = list(np.diff(np.log(means), axis=0))  # from each quarter to the next, for each replicate
    insignificant = len(values) > 1 and all(abs(mean) <= half for mean, half in map(interval, changes))
    if insignificant and losses is not None and stopped(rounds, losses):
        return None
    for change, where in zip(changes, ("half", "quarter"), strict=True):
        mean, half = interval(change)
        half = 0.0 if math.isnan(half) else half
        error = float(change.std(ddof=1)) / math.sqrt(len(change)) if len(change) > 1 else 0.0
        if abs(mean) > max(DRIFT, error) or abs(mean) + half > HIDDEN:
            low, high = (100 * math.expm1(end) for end in (mean - half, mean + half))
            return f"its change into the last {where} is {low:+.0f} to {high:+.0f} % (95 %)"
    return None


def floor(
    rounds: Int[np.ndarray, " rounds"], values: Float[np.ndarray, "replicates rounds"]
) -> Float[np.ndarray, " replicates"]:
    """Return the means over the last half of the rounds."""
    return values[:, rounds > rounds[-1] / 2].mean(1)


class Arrival(NamedTuple):
    """The two marks between which a curve comes to a target for good."""

    before: float
    after: float
    estimate: float
    """The place of the target on a straight line between the marks: a number for statistics, not for print."""


def arrival(marks: Real[np.ndarray, " rounds"], losses: Float[np.ndarray, " rounds"], target: float) -> Arrival | None:
    """Return where on a loss stays at the target or below; None if it does not at the last mark.

    A loss that falls below the target in passing, as with too large a step, has not arrived. `marks` are the measured
    rounds, or what was paid by then, such as messages, those of the start among them.
    """
    above = np.flatnonzero(~(losses <= target))
    k = int(above[-1]) + 1 if len(above) else 0
    if k == len(losses):
        return None
    before, after = float(marks[max(k - 1, 0)]), float(marks[k])
    share = (losses[k - 1] - target) / (losses[k - 1] - losses[k]) if k else 0.0
    return Arrival(before, after, before + float(share) * (after - before))
