"""What is asked: on which experiment, with how much to pay, by what an answer is judged, and what is tried."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from gossamer.clocks import clock_of
from gossamer.core import InputError, Range, brief, nearest, whole
from gossamer.specs.making import placed
from gossamer.specs.spec import Spec

Paid = Literal["seconds", "bytes", "rounds"]
"""What a budget is counted in."""

CRITERIA = ("loss", "grad_norm_sq")

MATTERS = {"loss": 0.01, "grad_norm_sq": 0.1, "target": 0.05}
"""The difference that matters unless another is given: a share of the way from the loss at the start to the best one,
of the best ‖∇F‖², and of the least that is paid until the target."""

AMOUNT = Range(0, 1e18, low_open=True, advice="It is what every method may pay.")
SHARE = Range(0, 1, low_open=True, advice="It is the share from which on a difference matters; 0.01 is 1 %.")
LEVEL = Range(-1e300, 1e300, advice="It is the value of the criterion that is to be reached.")


@dataclass(frozen=True)
class Question:
    """Made by `asked`, which checks it."""

    spec: Spec
    """The experiment with its clock, without tuning."""
    paid: Paid
    amount: float
    target: float | None
    criterion: str
    matters: float
    degree: int
    methods: tuple[str, ...]
    """Those that are tried; none for all."""
    graphs: tuple[str, ...]
    keep: int
    """How many ways go on to the next stage."""
    settings: int
    seeds: int
    seed: int
    etas: tuple[float, float] | None
    """The ends of the step sizes that are tried first, where the spec has them."""

    @property
    def sought(self) -> str:
        """What is sought, in words."""
        limit = f"{self.amount:,.6g} {self.paid}"
        if self.target is None:
            return f"the lowest {self.criterion} in {limit}"
        return f"the fewest {self.currency} until {self.criterion} stays at {self.target:g}, in {limit} at most"

    @property
    def currency(self) -> Paid:
        """What is counted until a target is reached."""
        return "seconds" if self.paid == "rounds" else self.paid

    @property
    def threshold(self) -> str:
        """What counts as a difference that matters, in words."""
        share = f"{100 * self.matters:g} %"
        if self.target is not None:
            return f"{share} of the {self.currency} that the best pays"
        whole_way = "the way from the loss at the start to the best" if self.criterion == "loss" else "the best"
        return f"{share} of {whole_way}"


def asked(
    spec: Spec,
    *,
    seconds: Any = None,
    bytes: Any = None,
    target: Any = None,
    clock: Any = None,
    criterion: Any = "loss",
    matters: Any = None,
    degree: Any = 4,
    methods: Sequence[str] | None = None,
    graphs: Sequence[str] | None = None,
    keep: Any = 6,
    settings: Any = 12,
    seeds: Any = 5,
    seed: Any = 0,
) -> Question:
    """The question, or what is wrong with it."""
    if spec.variant:
        raise InputError(
            f"the spec has {len(spec.variant)} variants, and an answer is for one experiment: take out its "
            "[[variant]] sections, or write one of them into the other sections."
        )
    if criterion not in CRITERIA:
        raise InputError(f"criterion = {brief(criterion)} is not known; {nearest(criterion, CRITERIA)}")
    paid, amount = _budget(spec, seconds, bytes, target)
    default = MATTERS["target" if target is not None else criterion]
    return Question(
        _timed(spec, clock),
        paid,
        amount,
        None if target is None else LEVEL.check("target", target),
        criterion,
        SHARE.check("matters", default if matters is None else matters),
        whole("degree", degree),
        _names("methods", methods),
        _names("graphs", graphs),
        whole("keep", keep, least=2, advice="Fewer than two could not be compared."),
        whole("settings", settings, least=4),
        whole("seeds", seeds, least=3, most=250, advice="Fewer give no interval worth the name."),
        whole("seed", seed, least=0, most=900),
        None if spec.tuning is None else (spec.tuning.eta[0], spec.tuning.eta[1]),
    )


def _budget(spec: Spec, seconds: Any, sent: Any, target: Any) -> tuple[Paid, float]:
    given: dict[Paid, Any] = {"seconds": seconds, "bytes": sent}
    named: list[Paid] = [name for name, value in given.items() if value is not None]
    if len(named) > 1:
        raise InputError("seconds and bytes are both given, but a budget is one of them: leave one out.")
    if named:
        return named[0], AMOUNT.check(named[0], given[named[0]])
    if target is None:
        raise InputError(
            "there is no budget: give seconds, as in --seconds 600, or bytes that an agent may send, or a target."
        )
    return "rounds", float(spec.run.steps)


def _timed(spec: Spec, clock: Any) -> Spec:
    """The spec without tuning and with a clock: its own, with the links that are named in place of its own."""
    own = {} if spec.clock is None else spec.clock.model_dump(exclude_unset=True)
    if clock is not None:
        if not isinstance(clock, str):
            raise InputError(f"clock must be a preset's name, such as internet, but is {brief(clock)}.")
        clock_of(clock)  # it says what names there are
        own |= {"links": clock}
    given = spec.model_dump(exclude_unset=True) | {"clock": {"links": "internet"} | own}
    given.pop("tuning", None)
    return Spec.model_validate(given)


def _names(what: str, given: Sequence[str] | None) -> tuple[str, ...]:
    names = tuple(given or ())
    with placed(f"{what}:"):
        if isinstance(given, str) or not all(isinstance(name, str) for name in names):
            raise InputError(f"they must be a list of names, but are {brief(given)}.")
        if len(set(names)) < len(names):
            raise InputError(f"the names must differ, but are {brief(list(names))}.")
    return names
