r"""Step-size schedules: hyper-parameters that change with the round $t = 0, 1, \dots$

Any function of the round serves as a schedule; these have names, so that a spec file can use them and a store can tell
them apart: ``eta = { schedule = "cosine", start = 0.1, end = 0.001 }``.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gossamer.core import Range, whole

_POSITIVE = Range(0, math.inf, True, True, "A hyper-parameter of 0 would stop the method.")
_SHARE = Range(0, 1, low_open=True, advice="It is what is left of the number.")


@dataclass(frozen=True)
class Schedule:
    """A function of the round, with the name and numbers by which a spec writes it."""

    name: str
    numbers: tuple[tuple[str, float], ...]
    function: Callable[[int], float]

    def __call__(self, t: int) -> float:
        return self.function(t)

    def __repr__(self) -> str:
        return self.title

    @property
    def title(self) -> str:
        return f"{self.name}({', '.join(f'{value:g}' for _, value in self.numbers)})"

    def asdict(self) -> dict[str, Any]:
        """Return the schedule as a spec writes it, which determines it."""
        return {"schedule": self.name, **dict(self.numbers)}


def constant(value: float) -> Schedule:
    """The same number in all rounds."""
    value = _POSITIVE.check("constant(value=…)", value)
    return Schedule("constant", (("value", value),), lambda t: value)


def inverse_sqrt(start: float, offset: int = 1) -> Schedule:
    r"""A number that falls as one over the square root of the round.

    $\eta_t = \eta_0 \sqrt{k / (k + t)}$, with $k$ the `offset`: after $3k$ rounds it has halved.
    """
    start, k = _POSITIVE.check("inverse_sqrt(start=…)", start), whole("inverse_sqrt(offset=…)", offset)
    return Schedule("inverse-sqrt", (("start", start), ("offset", k)), lambda t: start * math.sqrt(k / (k + t)))


def inverse(start: float, offset: int = 1) -> Schedule:
    r"""A number that falls as one over the round.

    $\eta_t = \eta_0\, k / (k + t)$, with $k$ the `offset`: $a / (t + b)$ with $b = k$ and $a = \eta_0 k$.
    """
    start, k = _POSITIVE.check("inverse(start=…)", start), whole("inverse(offset=…)", offset)
    return Schedule("inverse", (("start", start), ("offset", k)), lambda t: start * k / (k + t))


def step(start: float, factor: float, every: int) -> Schedule:
    """A number that is multiplied by `factor` after every so many rounds."""
    start, factor = _POSITIVE.check("step(start=…)", start), _SHARE.check("step(factor=…)", factor)
    length = whole("step(every=…)", every)
    return Schedule(
        "step", (("start", start), ("factor", factor), ("every", length)), lambda t: start * factor ** (t // length)
    )


def cosine(start: float, end: float, steps: int) -> Schedule:
    """Half a cosine, from the start in round 0 down to `end` in round `steps`, and `end` from there on.

    Reference: I. Loshchilov and F. Hutter, "SGDR: stochastic gradient descent with warm restarts", 2017,
    arXiv 1608.03983.
    """
    start, end = _POSITIVE.check("cosine(start=…)", start), _POSITIVE.check("cosine(end=…)", end)
    last = whole("cosine(steps=…)", steps)

    def value(t: int) -> float:
        return end + (start - end) * (1 + math.cos(math.pi * min(t, last) / last)) / 2

    return Schedule("cosine", (("start", start), ("end", end), ("steps", last)), value)


def warmup_cosine(start: float, end: float, steps: int, warmup: int) -> Schedule:
    """A line up to `start` in round `warmup`, then half a cosine down to `end` in round `steps`.

    Round t of the line has the share (t + 1) / (warmup + 1) of `start`.

    Reference: P. Goyal et al., "Accurate, large minibatch SGD: training ImageNet in 1 hour", 2017, arXiv 1706.02677.
    """
    last = whole("warmup_cosine(steps=…)", steps, least=2)
    rise = whole("warmup_cosine(warmup=…)", warmup, most=last - 1)
    fall = cosine(start, end, last - rise)
    numbers = (*fall.numbers[:2], ("steps", last), ("warmup", rise))
    return Schedule("warmup-cosine", numbers, lambda t: start * (t + 1) / (rise + 1) if t < rise else fall(t - rise))


def sqrt_n_over_t(agents: int, steps: int, scale: float = 1.0) -> Schedule:
    r"""The weight √(n/T) in all rounds, as Corollary 1 of the Biased-DMT paper sets λ; at most 1.

    $\lambda = c \sqrt{n / T}$ with $c$ the `scale`. A spec fills in the number of agents and of rounds.
    """
    n, last = whole("sqrt_n_over_t(agents=…)", agents), whole("sqrt_n_over_t(steps=…)", steps)
    scale = _POSITIVE.check("sqrt_n_over_t(scale=…)", scale)
    value = min(1.0, scale * math.sqrt(n / last))
    return Schedule("sqrt-n-over-t", (("agents", n), ("steps", last), ("scale", scale)), lambda t: value)


SCHEDULES: dict[str, Callable[..., Schedule]] = {
    "constant": constant,
    "inverse-sqrt": inverse_sqrt,
    "inverse": inverse,
    "step": step,
    "cosine": cosine,
    "warmup-cosine": warmup_cosine,
    "sqrt-n-over-t": sqrt_n_over_t,
}
"""The schedules that a spec file can name."""
