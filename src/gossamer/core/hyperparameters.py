"""Hyper-parameters: the annotations that give one its range and the values that tuning tries."""

import dataclasses
import math
from typing import Annotated, Any, Literal

from gossamer.core.contract import Value
from gossamer.core.errors import LARGEST_INT, InputError, brief, whole


@dataclasses.dataclass(frozen=True)
class Range:
    """An interval that a hyper-parameter must lie in, with the way out when it does not, and what tuning tries.

    A rule's own hyper-parameter is annotated ``Annotated[Value, Range(0, 1, grid=(0.1, 0.5))]``.
    """

    low: float
    high: float
    low_open: bool = False
    high_open: bool = False
    advice: str = ""
    grid: tuple[float, ...] = ()
    """The values that tuning tries, unless the spec gives others; with none, a spec must give them."""
    beyond: Literal["low", "high"] | None = None
    """The end of the range towards which tuning goes on when its best value is the one nearest to it."""
    step: bool = False
    """True if it is a step size: tuning spans it by the range ``eta = [lowest, highest]`` of the spec."""

    def __str__(self) -> str:
        left, right = "[("[self.low_open], "])"[self.high_open]
        return f"{left}{self.low:g}, {'∞' if math.isinf(self.high) else f'{self.high:g}'}{right}"

    def holds(self, value: float) -> bool:
        """Return True for a finite value in the interval."""
        above = value > self.low if self.low_open else value >= self.low
        below = value < self.high if self.high_open else value <= self.high
        return math.isfinite(value) and above and below

    def check(self, where: str, value: Any) -> float:
        """Return the value as a float; otherwise raise InputError, which names `where` it stood."""
        kind = getattr(getattr(value, "dtype", None), "kind", "")
        numeric = not isinstance(value, (bool, str, bytes, bytearray)) and kind not in ("b", "c")
        try:
            number = float(value) if numeric and not getattr(value, "ndim", 0) else math.nan
        except (TypeError, ValueError, OverflowError):
            number = math.nan
        if not self.holds(number):
            raise InputError(f"{where} must be a number in {self}, but is {brief(value)}. {self.advice}".rstrip())
        return number + 0.0  # −0 becomes 0

    @property
    def example(self) -> float:
        """A value that is allowed."""
        middle = (self.low + self.high) / 2 if math.isfinite(self.low + self.high) else self.low + 1
        candidates = (*self.grid, 0.5, 1.0, middle, self.low, self.high)
        return next(value for value in candidates if self.holds(value))

    def distance(self, value: float) -> float:
        """Return the distance of a value from the end that `beyond` names: the smaller, the further out."""
        if self.beyond == "high":
            return 1 / value if math.isinf(self.high) else self.high - value
        return value - self.low

    def at_distance(self, distance: float) -> float:
        """Return the value at this `distance`."""
        if self.beyond == "high":
            return 1 / distance if math.isinf(self.high) else self.high - distance
        return self.low + distance


@dataclasses.dataclass(frozen=True)
class Whole:
    """The whole numbers that a hyper-parameter may be. It is static: another value is another compiled program."""

    least: int = 1
    most: int = LARGEST_INT
    grid: tuple[int, ...] = ()
    """The values that tuning tries, unless the spec gives others; with none, a spec must give them."""
    advice: str = ""
    beyond: None = None
    step: bool = False

    def __str__(self) -> str:
        return f"{self.least}, {self.least + 1}, …" if self.most == LARGEST_INT else f"{self.least} … {self.most}"

    def check(self, where: str, value: Any) -> int:
        """Return the value as an int; otherwise raise InputError, which names `where` it stood."""
        return whole(where, value, least=self.least, most=self.most, advice=self.advice)

    @property
    def example(self) -> int:
        """A value that is allowed."""
        return self.least


@dataclasses.dataclass(frozen=True)
class WarmStart(Whole):
    """The average of a tracker before round 0: by so many gossips or, where that is allowed, by an all-reduce.

    A user gives it and tuning does not choose it: its cost is counted at the start of a run.
    """

    least: int = 0
    mean: bool = True
    """True if it may be "mean", the exact mean over all agents."""

    def __str__(self) -> str:
        return super().__str__() + ' or "mean"' * self.mean

    def check(self, where: str, value: Any) -> Any:
        """Return the value as an int or as "mean"; otherwise raise InputError, which names `where` it stood."""
        if self.mean and isinstance(value, str) and value == "mean":
            return value
        if isinstance(value, str) and value == "mean":
            raise InputError(
                f'{where} cannot be "mean": column-stochastic weights take a tracker to the share of the sum that the '
                "network gives each agent, and not to the mean, from which it would have to move away again. Give a "
                "number of gossips, which take it there."
            )
        way_out = "Give how often the tracker is gossiped before round 0" + ', or "mean" for an all-reduce.' * self.mean
        return whole(where, value, least=self.least, most=self.most, advice=f"{way_out.rstrip('.')}.")


StepSize = Annotated[
    Value, Range(0, math.inf, True, True, "A common start is 0.1 divided by the smoothness L.", step=True)
]
"""η, the step size: above 0."""

LocalStep = Annotated[
    Value,
    Range(
        *(0, math.inf, True, True),
        advice="A common start is 0.1 divided by the smoothness L and by the number of local steps.",
        grid=(0.1, 0.03, 0.01, 0.003),
        beyond="low",
    ),
]
"""η_l, the step size of the local steps between two messages: above 0."""

Weight = Annotated[
    Value,
    Range(
        *(0, 1, True, False),
        advice="It is the weight of the newest gradient; 1 switches momentum off.",
        grid=(1.0, 0.3, 0.1, 0.03),
        beyond="low",
    ),
]
"""λ, the weight of the newest gradient in a running mean: in (0, 1]."""

Decay = Annotated[
    Value,
    Range(
        *(0, 1, False, True),
        advice="It is the share of the momentum that is kept; 0 switches it off.",
        grid=(0.0, 0.7, 0.9, 0.97),
        beyond="high",
    ),
]
"""β, the share of a momentum that is kept from round to round: in [0, 1)."""

Mixing = Annotated[
    Value,
    Range(
        *(0, 1, True, False),
        advice="The coarser the compression, the smaller it must be.",
        grid=(1.0, 0.5, 0.2, 0.1),
        beyond="low",
    ),
]
"""γ, the step of compressed gossip: in (0, 1]."""

Count = Annotated[int, Whole(least=1, grid=(1, 2, 5, 10))]
"""A whole number of at least 1, such as that of local steps. It is static: a rule may loop over it."""

Warm = Annotated[Any, WarmStart()]
"""k, how often a tracker is gossiped before round 0; or "mean", for its exact mean over all agents."""

PushedWarm = Annotated[int, WarmStart(mean=False)]
"""k, how often a tracker is pushed by column-stochastic weights before round 0."""
