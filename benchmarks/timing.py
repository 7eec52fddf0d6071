"""Measure times that mean something on a busy machine: contestants take turns, ratios are of neighbours in time."""

import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np


class Spread(NamedTuple):
    """A median and the quartiles around it."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: np.ndarray) -> "Spread":
        low, median, high = np.quantile(values, [0.25, 0.5, 0.75])
        return cls(float(median), float(low), float(high))

    def shown(self, form: str) -> str:
        """The median, and the quartiles in brackets."""
        median, low, high = (format(value, form) for value in self)
        return f"{median} [{low}, {high}]"


def take_turns(contestants: dict[str, Callable[[], None]], repetitions: int) -> dict[str, np.ndarray]:
    """Seconds of each call, by contestant: one call each in a repetition, and another goes first every time."""
    names = list(contestants)
    for name in names:
        contestants[name]()
    seconds = {name: np.empty(repetitions) for name in names}
    for repetition in range(repetitions):
        for place in range(len(names)):
            name = names[(repetition + place) % len(names)]
            began = time.perf_counter()
            contestants[name]()
            seconds[name][repetition] = time.perf_counter() - began
    return seconds


class Aim(NamedTuple):
    """A bound on the median of a ratio."""

    text: str
    ratio: Spread
    bound: float
    least: bool = True
    """Whether the bound is the least that is wanted, or else the most."""

    @property
    def met(self) -> bool:
        return self.ratio.median >= self.bound if self.least else self.ratio.median <= self.bound

    def __str__(self) -> str:
        wanted = f"{'at least' if self.least else 'at most'} {self.bound:g}"
        return f"{'met' if self.met else 'missed':<7}{self.text}: {self.ratio.shown('.2f')}, aim {wanted}"

    def asdict(self) -> dict[str, object]:
        return {**self._asdict(), "ratio": self.ratio._asdict(), "met": self.met}
