"""What we want to reach, and whether a measurement has."""

from typing import NamedTuple

from benchmarks.timing import Spread


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
