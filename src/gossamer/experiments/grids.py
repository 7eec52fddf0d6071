"""The settings that tuning tries: the first grid, whether the best lies on an edge of it, and what to try then."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gossamer.core import InputError, Range
from gossamer.specs.candidates import Candidate, Values
from gossamer.specs.sections import TuningSection


@dataclass(frozen=True)
class Trial:
    """One setting that was tried."""

    values: Values
    """What was chosen for it: the step size, and one number more at most."""
    value: float | None
    """The criterion, the mean over tuning seeds; None where a seed diverged or has no finite criterion."""
    diverged: int
    extension: int


def first_grid(candidate: Candidate, section: TuningSection) -> list[Values]:
    """`budget` settings of what a candidate leaves open."""
    low, high = section.eta
    step, second = candidate.step, candidate.second
    if second is None:
        return [{step: eta} for eta in np.geomspace(low, high, section.budget).tolist()]
    values = candidate.values(section)
    etas = np.geomspace(low, high, section.budget // len(values)).tolist()
    return [{step: eta, second: value} for value in values for eta in etas]


def on_edge(candidate: Candidate, trials: Sequence[Trial]) -> str | None:
    """Where the best setting lies: "step low", "step high", "second", or None inside the grid."""
    top = best(candidate, trials).values
    step, second = candidate.step, candidate.second
    etas = sorted({trial.values[step] for trial in trials})
    if top[step] in (etas[0], etas[-1]):
        return "step low" if top[step] == etas[0] else "step high"
    values = {trial.values[second] for trial in trials} if second else set[Any]()
    if second and len(values) > 1:
        allowed = candidate.open[second]
        if isinstance(allowed, Range) and allowed.beyond:
            return "second" if allowed.distance(top[second]) == min(map(allowed.distance, values)) else None
    return None


def further(candidate: Candidate, trials: Sequence[Trial], count: int) -> list[Values]:
    """`count` more settings: beyond the edge that the best lies on, or around it."""
    top, edge = best(candidate, trials).values, on_edge(candidate, trials)
    step, second = candidate.step, candidate.second
    etas = sorted({trial.values[step] for trial in trials})
    values = sorted({trial.values[second] for trial in trials}) if second else []
    allowed = candidate.open[second] if second else None
    if second and edge == "second" and isinstance(allowed, Range):
        nearest = min(map(allowed.distance, values))
        more = [allowed.at_distance(nearest / 10 ** (k / 2)) for k in (1, 2)]
        columns = np.geomspace(etas[0], etas[-1], count // 2).tolist()
        return [top | {step: eta, second: value} for value in more for eta in columns]
    if isinstance(allowed, Range) and allowed.beyond:
        values = sorted(sorted(values, key=allowed.distance)[:4])
    values = values[:4]
    number, place = count // max(1, len(values)), etas.index(top[step])
    if edge == "step low":
        ratio = etas[1] / etas[0]
        new = [etas[0] / ratio**k for k in range(1, number + 1)]
    elif edge == "step high":
        ratio = etas[-1] / etas[-2]
        new = [etas[-1] * ratio**k for k in range(1, number + 1)]
    else:
        new = np.geomspace(etas[place - 1], etas[place + 1], number + 2)[1:-1].tolist()
    if second is None:
        return [top | {step: eta} for eta in new]
    return [top | {step: eta, second: value} for value in values for eta in new]


def best(candidate: Candidate, trials: Sequence[Trial]) -> Trial:
    """The setting with the least criterion; the first of equals."""
    judged = [trial for trial in trials if trial.value is not None]
    if not judged:
        lost = sum(trial.diverged > 0 for trial in trials)
        raise InputError(
            f"[tuning] no setting of {candidate.name} can be chosen: {lost} of {len(trials)} diverged"
            + (
                ": lower the range of eta."
                if lost == len(trials)
                else ", and the others never reached the target or have no finite criterion: allow more steps, or a "
                "target that can be reached."
            )
        )
    return min(judged, key=lambda trial: float(trial.value or 0.0))
