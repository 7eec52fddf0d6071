"""How the cost of a round grows with the agents, the dimension and the neighbours."""

import math
from functools import partial
from typing import NamedTuple

import numpy as np

from benchmarks import task
from benchmarks.compiled import Compiled
from benchmarks.timing import Spread, take_turns

ENTRIES = 2_000_000
"""Numbers of the state that one call goes through, so that calls of all sizes take about as long."""


class Growth(NamedTuple):
    """The time of a round by one size, and how steeply it grows with that."""

    size: str
    values: list[int]
    microseconds: list[Spread]
    slope: float
    """Of the logarithm of the time against that of the size."""

    def asdict(self) -> dict[str, object]:
        return {**self._asdict(), "microseconds": [spread._asdict() for spread in self.microseconds]}


SIZES = {
    "agents": ("agents", [20, 200, 2_000, 20_000], {"d": 100}),
    "dimension": ("d", [10, 100, 1_000, 10_000], {"agents": 20}),
    "neighbours": ("neighbours", [2, 4, 8, 16, 32], {"agents": 1_000}),
}
"""By what is scaled: the argument of `task.synthetic`, its values, and what stays."""


def growths(quick: bool) -> list[Growth]:
    return [_growth(name, quick) for name in SIZES]


def _growth(name: str, quick: bool) -> Growth:
    argument, values, rest = SIZES[name]
    values = values[:-1] if quick else values
    runs, rounds = {}, {}
    for value in values:
        size = {"agents": 20, "d": 100, **rest, argument: value}
        runs[str(value)] = Compiled(task.synthetic(**size))
        rounds[str(value)] = max(2, ENTRIES // (size["agents"] * size["d"]) // (10 if quick else 1))
    turns = {key: partial(run.advance, rounds[key]) for key, run in runs.items()}
    seconds = take_turns(turns, 3 if quick else 9)
    each = [1e6 * seconds[key] / rounds[key] for key in runs]
    logs = np.log([values, [np.median(times) for times in each]])
    slope = float(np.polyfit(logs[0], logs[1], 1)[0])
    return Growth(name, list(values), [Spread.of(times) for times in each], slope if math.isfinite(slope) else 0.0)
