"""Rules: how a class becomes one, and what its hyper-parameters are."""

import collections
import dataclasses
import functools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Annotated, Any, TypeVar, dataclass_transform, get_type_hints

from gossamer.core.contract import Array, Needs, Value
from gossamer.core.errors import InputError, brief


@dataclasses.dataclass(frozen=True)
class Range:
    """An interval that a hyper-parameter must lie in, with the way out when it does not."""

    low: float
    high: float
    low_open: bool
    high_open: bool
    advice: str

    def __str__(self) -> str:
        left, right = "[("[self.low_open], "])"[self.high_open]
        return f"{left}{self.low:g}, {'∞' if math.isinf(self.high) else f'{self.high:g}'}{right}"

    def holds(self, value: float) -> bool:
        above = value > self.low if self.low_open else value >= self.low
        below = value < self.high if self.high_open else value <= self.high
        return math.isfinite(value) and above and below

    def check(self, where: str, value: Any) -> float:
        """The value as a float, or an `InputError` that names `where` it stood."""
        kind = getattr(getattr(value, "dtype", None), "kind", "")
        one = not isinstance(value, (bool, str, bytes, bytearray)) and kind not in ("b", "c")
        try:
            number = float(value) if one and not getattr(value, "ndim", 0) else math.nan
        except (TypeError, ValueError, OverflowError):
            number = math.nan
        if not self.holds(number):
            raise InputError(f"{where} must be a number in {self}, but is {brief(value)}. {self.advice}".rstrip())
        return number + 0.0  # −0 becomes 0


StepSize = Annotated[Value, Range(0, math.inf, True, True, "A common start is 0.1 divided by the smoothness L.")]
"""η, the step size: above 0."""

Weight = Annotated[Value, Range(0, 1, True, False, "It is the weight of the newest gradient; 1 switches momentum off.")]
"""λ, the weight of the newest gradient in a running mean: in (0, 1]."""

Decay = Annotated[Value, Range(0, 1, False, True, "It is the share of the momentum that is kept; 0 switches it off.")]
"""β, the share of a momentum that is kept from round to round: in [0, 1)."""

Mixing = Annotated[Value, Range(0, 1, True, False, "The coarser the compression, the smaller it must be.")]
"""γ, the step of compressed gossip: in (0, 1]."""

R = TypeVar("R", bound=type)


@dataclass_transform(frozen_default=True)
def rule(name: str, *, needs: Needs = "doubly", static: bool = False, lowest: float | None = None) -> Callable[[R], R]:
    """Make a class a rule: frozen, with its hyper-parameters checked when a user makes one.

    Hyper-parameters are annotated `StepSize`, `Weight`, `Decay` or `Mixing`. A rule that tracks also defines
    ``tracker(self, s)``, the array whose mean over agents is the mean of what is tracked.

    Args:
        name: its name in spec files.
        needs: what it asks of the mixing matrix.
        static: whether it is right only on a network that never changes and loses nothing.
        lowest: for rules that need one symmetric W, what all its eigenvalues must lie above.
    """

    def check(self: Any) -> None:
        for key, allowed in ranges(type(self)).items():
            value = getattr(self, key)
            if not callable(value):
                object.__setattr__(self, key, allowed.check(f"{type(self).__name__}({key}=…)", value))
        for key in parts(self):
            part = getattr(self, key)
            if isinstance(part, type) or not all(hasattr(part, name) for name in ("compress", "bits")):
                raise InputError(
                    f"{type(self).__name__}({key}=…) must be made by gossamer.compressors, such as "
                    f"compressors.top_k(share=0.1), but is {brief(part)}."
                )

    def make(cls: R) -> R:
        cls.name = name
        cls.title = (cls.__doc__ or name).splitlines()[0].rstrip(".")
        cls.needs = needs
        cls.static = static or lowest is not None
        cls.lowest = lowest
        cls.__post_init__ = check
        return dataclasses.dataclass(frozen=True)(cls)

    return make


def ranges(kind: type) -> dict[str, Range]:
    """The numbers that a rule takes and the interval that each must lie in."""
    return {key: kept for key, kept in _fields(kind).items() if isinstance(kept, Range)}


def parts(rule: Any) -> dict[str, Any]:
    """What a rule is made of besides numbers: its compressor, if it has one."""
    kind = rule if isinstance(rule, type) else type(rule)
    return {key: getattr(rule, key, None) for key, kept in _fields(kind).items() if not isinstance(kept, Range)}


@functools.cache
def _fields(kind: type) -> dict[str, Any]:
    hints = get_type_hints(kind, include_extras=True)
    return {field.name: hints[field.name].__metadata__[0] for field in dataclasses.fields(kind)}


def bind(kind: type, values: Mapping[str, Array]) -> Any:
    """A rule with these values, unchecked: for engines, whose values may be traced, per round or per setting."""
    made = object.__new__(kind)
    for key, value in values.items():
        object.__setattr__(made, key, value)
    return made


def schedules(rule: Any) -> dict[str, Callable[[int], float]]:
    """The hyper-parameters that change with the round."""
    return {key: getattr(rule, key) for key in ranges(type(rule)) if callable(getattr(rule, key))}


def tabulate(rule: Any, key: str, rounds: Iterable[int]) -> Iterator[float]:
    """A hyper-parameter in each of these rounds; what a schedule gives is checked."""
    value, allowed = getattr(rule, key), ranges(type(rule))[key]
    for t in rounds:
        number = value(t) if callable(value) else value
        if type(number) is float and allowed.holds(number):  # by far the most; words are made for others only
            yield number
        else:
            yield allowed.check(f"{type(rule).__name__}({key}=…), a schedule, at round {t}", number)


def check_schedules(rules: Iterable[Any], steps: int) -> None:
    """Refuse a schedule that leaves its range in any round, before a run begins."""
    checked = set()
    for rule in rules:
        for key, value in schedules(rule).items():
            if (type(rule), key, id(value)) not in checked:
                collections.deque(tabulate(rule, key, range(steps)), maxlen=0)  # asks for each and keeps none
                checked.add((type(rule), key, id(value)))


def setting(rule: Any) -> str:
    """The hyper-parameters as a reader would write them: ``eta=0.1, lam=0.05``."""
    return ", ".join(f"{key}={value}" for key, value in shown(rule).items())


def shown(rule: Any) -> dict[str, str]:
    """Each hyper-parameter as a reader would write it."""
    texts = {}
    for key in ranges(type(rule)):
        value = getattr(rule, key)
        named = getattr(value, "__name__", None) or getattr(value, "title", "schedule")
        texts[key] = named if callable(value) else f"{value:g}"
    return texts | {key: str(value) for key, value in parts(rule).items()}
