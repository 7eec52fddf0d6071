"""The settings of a way that a stage tries: as many for each way."""

from collections.abc import Sequence

import numpy as np

from gossamer.core import Range, Whole
from gossamer.specs.candidates import Candidate, Values

LEADERS = 3
"""How many of the best settings new ones are made around."""


def first_design(candidate: Candidate, ends: tuple[float, float], count: int) -> list[Values]:
    """Step sizes at equal ratios; each other number takes its values equally often, in an order that is drawn."""
    settings: list[Values] = [{candidate.step: float(eta)} for eta in np.geomspace(*ends, count)]
    rng = np.random.default_rng(count)
    for key, allowed in candidate.open.items():
        if key != candidate.step:
            values = np.resize(grid_of(allowed), count)
            for setting, value in zip(settings, rng.permutation(values).tolist(), strict=True):
                setting[key] = value
    return settings


def next_design(candidate: Candidate, best: Sequence[Values], ratio: float, count: int) -> list[Values]:
    """A third of the settings are the best so far; the others lie around the very best ones.

    Their step sizes reach one and a half times as far as two neighbours of the first design are apart, so that they
    leave an edge; every second one has another number moved to its next value.
    """
    kept = list(best[: count // 3])
    others = [key for key in candidate.open if key != candidate.step]
    fresh = []
    for j, shift in enumerate(np.linspace(1.5, -1.5, count - len(kept)).tolist()):
        leader = kept[j % min(LEADERS, len(kept))]
        values = leader | {candidate.step: leader[candidate.step] * ratio**shift}
        if others and j % 2:
            key = others[j // 2 % len(others)]
            values[key] = moved(candidate.open[key], leader[key], up=j % 4 == 1)
        fresh.append(values)
    return kept + fresh


def grid_of(allowed: Range | Whole) -> list[float]:
    """The values of a number that are tried at first."""
    return sorted(allowed.grid) or [allowed.example]


def moved(allowed: Range | Whole, value: float, up: bool) -> float:
    """The next value of a number: of its grid, or beyond it towards the end that its annotation names."""
    grid = [known for known in grid_of(allowed) if (known > value if up else known < value)]
    if grid:
        return min(grid) if up else max(grid)
    if isinstance(allowed, Range) and allowed.beyond == ("high" if up else "low"):
        return allowed.at_distance(allowed.distance(value) / 10**0.5)
    return value
