"""Rules: the decorator that makes a class a rule, and its hyper-parameters."""

import contextlib
import dataclasses
import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, dataclass_transform, get_type_hints

from gossamer.core.contract import Array, Needs
from gossamer.core.errors import InputError, brief, check_function
from gossamer.core.hyperparameters import Range, WarmStart, Whole

R = TypeVar("R", bound=type)

PARTS = {
    "compressor": (("compress", "bits"), "gossamer.compressors, such as compressors.top_k(share=0.1)"),
    "aggregator": (("combine",), "gossamer.aggregators, such as aggregators.clipped(radius=1.0)"),
}
"""The attributes of each kind of part, and where it is made."""

LONG_RUN = 5_000
"""Rounds from which on rules that add up rounding are noted in float32: ‖∇F‖² of D² on small quadratics is 4e-5 there,
and 4e-3 after ten times as many."""


def of_drift(names: str, rounds: int, way_out: str) -> str:
    """Return the warning about rules that add up rounding in so many rounds of float32."""
    return (
        f"rounding adds up in {names}, so that in float32 the mean model drifts away from the optimum in long runs, "
        f"and {rounds:,} rounds are many: take {way_out}."
    )


@dataclass_transform(frozen_default=True)
def rule(
    name: str,
    *,
    needs: Needs = "doubly",
    static: bool = False,
    lowest: float | None = None,
    tree: bool = False,
    decays: tuple[str, ...] = ("x",),
    drifts: bool = False,
) -> Callable[[R], R]:
    """Make a class a rule: frozen, with its hyper-parameters checked when a user makes one.

    Hyper-parameters are annotated `StepSize`, `Weight`, `Decay`, `Mixing` or `Count`, or with a `Range` of their own,
    which says what tuning tries. A rule that tracks also defines ``tracker(self, s)``, the array whose mean over agents
    is the mean of what is tracked, and may let users say how it starts by ``warm: Warm = 0``. One that can do without
    rounds defines ``wake(self, s, g, agent)``, what an agent does when its gradient is done. One that can go on after
    agents were lost defines ``restart(self, s)``.

    Args:
        name: its name in spec files.
        needs: its demand on the mixing matrix.
        static: True if it is right only on a network that never changes and loses nothing.
        lowest: for rules that need one symmetric W, the bound that all its eigenvalues must lie above.
        tree: True if it is right only on a tree that never changes and loses nothing; it may then `gossip_sum`.
        decays: the arrays of its state that are the model, which weight decay shrinks: ``("u",)`` where x is made from
            u. None, ``()``, where it takes differences of models of several rounds, which would undo it: the decay is
            then added to the gradients.
        drifts: True if it adds up rounding, so that a long run in float32 leaves the optimum again: engines warn.
    """

    def check(self: Any) -> None:
        # only where a user makes a rule: an engine's tracers go through `bind`, and have no values to compare
        for key, allowed in hyperparameters(type(self)).items():
            value, where = getattr(self, key), f"{type(self).__name__}({key}=…)"
            if isinstance(allowed, Range) and callable(value):
                check_function(f"{where}, if it is no number,", value, "t")
                continue
            if isinstance(allowed, Range) and not isinstance(value, (int, float)):
                advice = f"{allowed.advice} Or give a schedule, a function of the round t."
                allowed = dataclasses.replace(allowed, advice=advice.strip())
            object.__setattr__(self, key, allowed.check(where, value))
        for key, kind in kinds_of_parts(type(self)).items():
            part, (methods, makers) = getattr(self, key), PARTS[kind]
            if isinstance(part, type) or not all(hasattr(part, name) for name in methods):
                raise InputError(f"{type(self).__name__}({key}=…) must be made by {makers}, but is {brief(part)}.")

    def make(cls: R) -> R:
        for method in ("init", "step"):
            if wrong := _find_fault(cls, method):
                raise InputError(
                    f"the rule {cls.__name__} has {wrong}: it needs init(self, x, agent) and step(self, s, agent), "
                    "which return a State."
                )
        cls.name = name
        cls.title = (cls.__doc__ or name).splitlines()[0].rstrip(".")
        cls.needs = needs
        cls.static = static or tree or lowest is not None
        cls.lowest = lowest
        cls.tree = tree
        cls.decays = decays
        cls.drifts = drifts
        cls.__post_init__ = check
        if "__repr__" not in vars(cls):
            cls.__repr__ = _write_call  # pyright: ignore[reportAttributeAccessIssue]
        return dataclasses.dataclass(frozen=True)(cls)

    return make


def _find_fault(cls: type, name: str) -> str:
    """Return the fault of a method that is called with a model or a state, and an agent; "" if it has none."""
    method = getattr(cls, name, None)
    if not callable(method):
        return f"no {name}"
    signature = inspect.signature(method)
    try:
        signature.bind("self", "x or s", "agent")
    except TypeError:
        return f"{name}{signature}"
    return ""


def _write_call(rule: Any) -> str:
    """Return the call that makes a rule, each number with all its digits and each function by its name."""
    unusual = [field.name for field in dataclasses.fields(rule) if not _is_usual(rule, field)]
    given = {name: getattr(rule, name) for name in unusual}
    texts = (f"{name}={name_schedule(value) if callable(value) else repr(value)}" for name, value in given.items())
    return f"{type(rule).__name__}({', '.join(texts)})"


def _is_usual(rule: Any, field: dataclasses.Field[Any]) -> bool:
    """Return True if a field says how the tracker starts, and that is how the method's paper starts it."""
    return isinstance(_fields(type(rule))[field.name], WarmStart) and getattr(rule, field.name) == field.default


def is_rule(kind: Any) -> bool:
    """Return True for a class that `@rule` made a rule."""
    return isinstance(kind, type) and hasattr(kind, "needs")


@functools.cache
def hyperparameters(kind: type) -> dict[str, Range | Whole]:
    """Return the numbers that a rule takes, and the values that each may have."""
    return {key: kept for key, kept in _fields(kind).items() if isinstance(kept, (Range, Whole))}


@functools.cache
def ranges(kind: type) -> dict[str, Range]:
    """Return the numbers of a rule that may change with the round, and the interval that each must lie in."""
    return {key: kept for key, kept in _fields(kind).items() if isinstance(kept, Range)}


def counts(rule: Any) -> dict[str, int]:
    """Return the whole numbers of a rule, which are static."""
    return {key: getattr(rule, key) for key, kept in _fields(type(rule)).items() if isinstance(kept, Whole)}


def parts(rule: Any) -> dict[str, Any]:
    """Return the parts of a rule besides its numbers: its compressor or its aggregator, if it has one."""
    kind = rule if isinstance(rule, type) else type(rule)
    return {key: getattr(rule, key, None) for key in kinds_of_parts(kind)}


@functools.cache
def kinds_of_parts(kind: type) -> dict[str, str]:
    """Return the kind of each part of a rule: "compressor" or "aggregator"."""
    return {key: kept for key, kept in _fields(kind).items() if not isinstance(kept, (Range, Whole))}


@functools.cache
def _fields(kind: type) -> dict[str, Any]:
    """Return the range, or the kind of part, that annotates each field of a rule."""
    hints = get_type_hints(kind, include_extras=True)
    known = {}
    for field in dataclasses.fields(kind):
        metadata = getattr(hints[field.name], "__metadata__", ())
        if not metadata or (not isinstance(metadata[0], (Range, Whole)) and str(metadata[0]) not in PARTS):
            raise InputError(
                f"{kind.__name__}.{field.name} is annotated {field.type}: annotate a hyper-parameter as StepSize, "
                "Weight, Decay, Mixing, Count, Warm, Compressor or Aggregator, or as Annotated[Value, Range(low, "
                "high)]."
            )
        known[field.name] = metadata[0]
    return known


def bind(kind: type, values: Mapping[str, Array]) -> Any:
    """Return a rule with these values, unchecked: those of an engine may be tracers."""
    bound = object.__new__(kind)
    for key, value in values.items():
        object.__setattr__(bound, key, value)  # a rule is frozen
    return bound


def schedules(rule: Any) -> dict[str, Callable[[int], float]]:
    """Return the hyper-parameters that change with the round."""
    return {key: getattr(rule, key) for key in ranges(type(rule)) if callable(getattr(rule, key))}


def setting(rule: Any) -> str:
    """Return the hyper-parameters as a reader would write them: ``eta=0.1, lam=0.05``."""
    return ", ".join(f"{key}={value}" for key, value in shown(rule).items())


def shown(rule: Any) -> dict[str, str]:
    """Return each hyper-parameter as a reader would write it; a tracker's start only if the paper has another."""
    texts = {}
    usual = {field.name for field in dataclasses.fields(rule) if _is_usual(rule, field)}
    for key in hyperparameters(type(rule)):
        value = getattr(rule, key)
        if key not in usual:
            texts[key] = name_schedule(value) if callable(value) else value if isinstance(value, str) else f"{value:g}"
    return texts | {key: str(value) for key, value in parts(rule).items()}


def name_schedule(schedule: Any, depth: int = 4) -> str:
    """Return a schedule as a reader would write it.

    A function that another one made, as optax makes them, has that one's name and the numbers that it was made of:
    ``cosine_decay_schedule(decay_steps=100, init_value=0.1)``.
    """
    maker, made, _ = getattr(schedule, "__qualname__", "").partition(".<locals>.")
    texts = {}
    if made and depth and inspect.isfunction(schedule):
        for name, cell in zip(schedule.__code__.co_freevars, schedule.__closure__ or (), strict=True):
            with contextlib.suppress(ValueError):  # an empty cell
                texts[name] = _name_part(cell.cell_contents, depth - 1)
    if texts and all(texts.values()):
        return f"{maker.rpartition('.')[2]}({', '.join(f'{name}={text}' for name, text in texts.items())})"
    return getattr(schedule, "__name__", None) or getattr(schedule, "title", "schedule")


def _name_part(value: Any, depth: int) -> str:
    """Return a number, None, a function or several of them as text; "" for anything else."""
    value = value.tolist() if hasattr(value, "tolist") else [*value.items()] if isinstance(value, dict) else value
    if isinstance(value, (list, tuple)):
        parts = [_name_part(part, depth) for part in value]
        return f"[{', '.join(parts)}]" if all(parts) else ""
    if callable(value):
        return name_schedule(value, depth)
    try:
        return "None" if value is None else f"{float(value):g}"
    except (TypeError, ValueError, OverflowError):
        return ""
