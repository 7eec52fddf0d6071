"""The settings that tuning tries: the first grid, whether the best lies on an edge of it, and what to try then."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from gossamer.core import InputError, Range, Whole
from gossamer.metrics import Better
from gossamer.specs.candidates import Candidate, Values
from gossamer.specs.sections import TuningSection

Edge = Literal["lowest", "highest"]


@dataclass(frozen=True)
class Trial:
    """One setting that was tried."""

    values: Values
    """What was chosen for it: the step size, and one number more at most."""
    value: float | None
    """The criterion, the mean over tuning seeds; None where a seed diverged or has no finite criterion."""
    diverged: int
    extension: int
    better: Better = "lower"
    """Which values of the criterion are better."""

    @property
    def cost(self) -> float:
        """The criterion, turned so that less is better; infinite where there is none."""
        return float("inf") if self.value is None else self.value if self.better == "lower" else -self.value


def first_grid(candidate: Candidate, section: TuningSection) -> list[Values]:
    """`budget` settings of what a candidate leaves open."""
    low, high = section.eta
    step, second = candidate.step, candidate.second
    if second is None:
        return [{step: eta} for eta in np.geomspace(low, high, section.budget).tolist()]
    values = candidate.values(section)
    etas = np.geomspace(low, high, section.budget // len(values)).tolist()
    return [{step: eta, second: value} for value in values for eta in etas]


def edges(
    tried: Mapping[str, Collection[float]], chosen: Mapping[str, float], allowed: Mapping[str, Range | Whole]
) -> dict[str, Edge]:
    """The numbers whose chosen value is the last of several that were tried, though others are allowed beyond it.

    λ = 1 and β = 0 have nothing beyond them. Beyond a value whose neighbour diverged lies that neighbour.
    """
    at_edge: dict[str, Edge] = {}
    for name, values in tried.items():
        if len(set(values)) > 1:
            ends: dict[Edge, float] = {"lowest": min(values), "highest": max(values)}
            for edge, end in ends.items():
                if chosen[name] == end and end != _last(allowed.get(name), edge):
                    at_edge[name] = edge
    return at_edge


def on_edge(candidate: Candidate, trials: Sequence[Trial]) -> dict[str, Edge]:
    """The numbers of a candidate whose best value lies on an edge of its grid."""
    names = [candidate.step] if candidate.second is None else [candidate.step, candidate.second]
    tried = {name: {trial.values[name] for trial in trials} for name in names}
    return edges(tried, best(candidate, trials).values, candidate.open)


def extended(candidate: Candidate, trials: Sequence[Trial]) -> str | None:
    """The number whose grid goes on beyond its edge: the step size, or else the other towards its `beyond`."""
    at_edge, second = on_edge(candidate, trials), candidate.second
    if candidate.step in at_edge:
        return candidate.step
    if second in at_edge and candidate.open[second].beyond == {"lowest": "low", "highest": "high"}[at_edge[second]]:
        return second
    return None


def further(candidate: Candidate, trials: Sequence[Trial], count: int) -> list[Values]:
    """`count` more settings: beyond the edge that the best lies on, or around it."""
    top, grown = best(candidate, trials).values, extended(candidate, trials)
    step, second = candidate.step, candidate.second
    etas = sorted({trial.values[step] for trial in trials})
    values = sorted({trial.values[second] for trial in trials}) if second else []
    allowed = candidate.open[second] if second else None
    if second and grown == second and isinstance(allowed, Range):
        nearest = min(map(allowed.distance, values))
        more = [allowed.at_distance(nearest / 10 ** (k / 2)) for k in (1, 2)]
        columns = np.geomspace(etas[0], etas[-1], count // 2).tolist()
        return [top | {step: eta, second: value} for value in more for eta in columns]
    if isinstance(allowed, Range) and allowed.beyond:
        values = sorted(sorted(values, key=allowed.distance)[:4])
    values = values[:4]
    number, place = count // max(1, len(values)), etas.index(top[step])
    if grown != step:
        around = etas[max(0, place - 1)], etas[min(place + 1, len(etas) - 1)]
        new = np.geomspace(*around, number + 2)[1:-1].tolist()
    elif place == 0:
        ratio = etas[1] / etas[0]
        new = [etas[0] / ratio**k for k in range(1, number + 1)]
    else:
        ratio = etas[-1] / etas[-2]
        new = [etas[-1] * ratio**k for k in range(1, number + 1)]
    if second is None:
        return [top | {step: eta} for eta in new]
    return [top | {step: eta, second: value} for value in values for eta in new]


def around(candidate: Candidate, trials: Sequence[Trial], count: int, safety: float = 1.0) -> list[Values]:
    """Return `count` settings between the best one and its neighbours, in the step size and in the other number.

    The other number takes the middles, in logarithms of the distance from its end, between its best value and the two
    beside it, and the best value itself; a whole number keeps its best value.
    """
    top, step, second = best(candidate, trials, safety).values, candidate.step, candidate.second
    columns = [top[second]] if second else []
    allowed = candidate.open[second] if second else None
    if second and isinstance(allowed, Range):
        tried = sorted({trial.values[second] for trial in trials})
        place = tried.index(top[second])
        for beside in (*tried[max(0, place - 1) : place], *tried[place + 1 : place + 2]):
            ends = [allowed.distance(value) for value in (top[second], beside)]
            if min(ends) > 0:
                columns.append(allowed.at_distance(float(np.sqrt(ends[0] * ends[1]))))
    # the neighbours in step size of those settings that have the best value of the other number
    etas = sorted({trial.values[step] for trial in trials if not second or trial.values[second] == top[second]})
    place = etas.index(top[step])
    low, high = etas[max(0, place - 1)], etas[min(place + 1, len(etas) - 1)]
    shares = [count // len(columns) + (k < count % len(columns)) for k in range(len(columns))] if columns else [count]
    grid = []
    for share, column in zip(shares, columns or [None], strict=True):
        for eta in np.geomspace(low, high, share + 2)[1:-1].tolist():
            grid.append(top | {step: eta} | ({second: column} if second else {}))
    return grid


def best(candidate: Candidate, trials: Sequence[Trial], safety: float = 1.0) -> Trial:
    """Return the setting with the best criterion; the first of equals.

    A setting is passed over if a step size that is larger by at most the factor `safety`, the other numbers being the
    same, failed: on other seeds such a setting may fail as well.
    """
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
    step, failed = candidate.step, [trial.values for trial in trials if trial.value is None]
    safe = [
        trial
        for trial in judged
        if not any(
            trial.values[step] < other[step] <= safety * trial.values[step]
            and other | {step: None} == trial.values | {step: None}
            for other in failed
        )
    ]
    if not safe:
        raise InputError(
            f"[tuning] no setting of {candidate.name} can be chosen: beside each that did well, at a step size larger "
            f"by at most the factor safety = {safety:g}, one failed: lower the range of eta."
        )
    return min(safe, key=lambda trial: trial.cost)


def _last(allowed: Range | Whole | None, edge: Edge) -> float | None:
    """The end of what is allowed. One that is itself not allowed is never chosen."""
    if isinstance(allowed, Range):
        return allowed.low if edge == "lowest" else allowed.high
    return None if allowed is None else allowed.least if edge == "lowest" else allowed.most
