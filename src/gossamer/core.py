r"""The vocabulary: what an algorithm is and all that it may touch.

An algorithm is a *rule*: a frozen object with a few hyper-parameters and two pure functions, ``init`` and ``step``.
It is written in plain arithmetic on whatever arrays the engine gives it, so the same object runs stacked over all
agents inside a compiled simulator and on one agent's own vector in a process of its own; it cannot tell which.
"""

import collections
import dataclasses
import difflib
import functools
import math
import operator
import reprlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal, Protocol, TypeVar, dataclass_transform, get_type_hints

Array = Any
"""An array of the engine that runs the rule: all agents stacked, ``[agents, d]``, or one agent's ``[d]``."""

Value = Any
"""A hyper-parameter. A user gives a number, or a schedule that maps the round ``t = 0, 1, …`` to a number; a rule
reads the number of its round (or an array of them, where the engine runs many settings at once)."""

Needs = Literal["doubly", "column", "row+column", "nothing"]
"""What a rule asks of the mixing matrix: doubly stochastic; column-stochastic, for push-sum; a row- and a
column-stochastic one; or nothing because it never gossips. Doubly stochastic weights serve all of them."""

Over = Literal["W", "R", "C", "RC"]
"""Which matrix mixes: the doubly stochastic W, the row-stochastic R, the column-stochastic C; RC mixes the first array
by R and the second by C."""


class InputError(ValueError):
    """What the user gave cannot be used. The message says what, where, by how much and what to do."""


def nearest(name: Any, known: Iterable[str]) -> str:
    """The tail of an error about an unknown name: the closest match, then all that is known."""
    known = sorted(known)
    close = difflib.get_close_matches(name[:80], known, n=1, cutoff=0.5) if isinstance(name, str) else []
    hint = f"did you mean {close[0]!r}? " if close else ""
    return f"{hint}Known: {', '.join(known)}."


LARGEST_INT = 2**31 - 1
"""The largest whole number that a compiled program counts with."""


class _Brief(reprlib.Repr):
    """Python's way of writing a value, cut where it is long or deep."""

    def __init__(self) -> None:
        super().__init__()
        self.maxstring = self.maxother = 80

    def repr_int(self, x: int, level: int) -> str:
        # Python itself refuses to write a whole number of more than 4,300 digits
        digits = int(x.bit_length() * math.log10(2)) + 1
        return repr(x) if digits <= 30 else f"a whole number of about {digits:,} digits"


def brief(value: Any) -> str:
    """A value that a user gave, as an error message shows it: one line, whatever it is."""
    return " ".join(_Brief().repr(value).split())


def whole(where: str, value: Any, *, least: int = 1, most: int = LARGEST_INT, advice: str = "") -> int:
    """The value as an integer from `least` to `most`, or an `InputError` that names `where` it stood."""
    try:
        number = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = None
    if number is None or not least <= number <= most:
        bound = f"of at least {least}" if number is None or number < least else f"of at most {most:,}"
        raise InputError(f"{where} must be a whole number {bound}, but is {brief(value)}.{advice and ' '}{advice}")
    return number


def flag(where: str, value: Any) -> bool:
    """The value, if it is True or False, or an `InputError` that names `where` it stood."""
    numpy_flag = getattr(getattr(value, "dtype", None), "kind", "") == "b" and not value.ndim
    if not isinstance(value, bool) and not numpy_flag:
        raise InputError(f"{where} must be True or False, but is {brief(value)}.")
    return bool(value)


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

Compressor = Annotated[Any, "compressor"]
"""What shrinks messages, made by `gossamer.compressors`; a rule only hands it to `Agent.gossip_compressed`."""


class State(Mapping[str, Array]):
    """The immutable arrays of a rule between two rounds, by name: ``State(x=x, m=m).m``."""

    __slots__ = ("_arrays",)

    def __init__(self, **arrays: Array):
        object.__setattr__(self, "_arrays", arrays)

    def __getattr__(self, name: str) -> Array:
        try:
            return object.__getattribute__(self, "_arrays")[name]
        except KeyError:
            raise AttributeError(f"this state has {', '.join(self)}, but no {name!r}") from None

    def __setattr__(self, name: str, value: Array) -> None:
        raise AttributeError("a state is immutable; return a new State from `step`")

    def __getitem__(self, name: str) -> Array:
        return self._arrays[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    def __repr__(self) -> str:
        return f"State({', '.join(self)})"


class Agent(Protocol):
    """All that a rule may touch; the engine makes it anew each round.

    Each method takes one array and returns one, or takes several and returns as many.
    """

    def gradient(self, *points: Array) -> Array:
        """The oracle's gradients at the points. One call is one sample ξ for all its points."""
        ...

    def gossip(self, *arrays: Array, over: Over = "W") -> Array:
        """Σ_j w_ij a_j for each array. One call is one message to every neighbour."""
        ...

    def gossip_compressed(self, *arrays: Array, by: Compressor) -> Any:
        """The pair C(a_i), Σ_j w_ij C(a_j) for each array. One call is one message to every neighbour."""
        ...

    def mean(self, *arrays: Array) -> Array:
        """The mean over all agents (an all-reduce), for the centralised rules and for starts that need it."""
        ...

    def ones(self) -> Array:
        """The number 1 for each agent, shaped to divide its vector: push-sum's weights."""
        ...


class PostingAgent(Agent, Protocol):
    """An agent in a process of its own, for a rule's ``ahead``: its messages may travel while it computes."""

    def post(self, *arrays: Array, over: Over = "W") -> Callable[[], Any]:
        """`gossip` in two halves: the message leaves now, and what is returned waits for those of the neighbours."""
        ...


class Rule(Protocol):
    """An algorithm. ``s.x`` is always the model that is evaluated; `@rule` adds what else an engine asks for."""

    name: ClassVar[str]
    title: ClassVar[str]
    needs: ClassVar[Needs]
    static: ClassVar[bool]
    lowest: ClassVar[float | None]

    def init(self, x: Array, agent: Agent) -> State: ...

    def step(self, s: State, agent: Agent) -> State: ...


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
