"""Candidates: an algorithm with the hyper-parameters that are given; tuning may choose the others."""

import dataclasses
import functools
from collections.abc import Mapping
from dataclasses import MISSING, dataclass
from typing import Any

from gossamer.algorithms import ALGORITHMS
from gossamer.core import InputError, Range, Rule, WarmStart, Whole, brief, hyperparameters, is_rule, nearest, parts
from gossamer.specs.sections import TuningSection

Values = dict[str, Any]
"""Hyper-parameters by name."""


@dataclass(frozen=True)
class Candidate:
    """A rule's class and the values that are fixed."""

    kind: Any
    fixed: Values

    @property
    def name(self) -> str:
        return self.kind.name

    @property
    def title(self) -> str:
        """The name, and how the tracker starts where that is given: "biased-dmt (warm=20)"."""
        return f"{self.name} ({start})" if (start := self.start) else self.name

    @property
    def start(self) -> str:
        """How the tracker starts, such as "warm=20"; "" where that is not given, or is the method's own way."""
        warm = {field.name: field.default for field in dataclasses.fields(self.kind) if field.name in self._starts}
        return ", ".join(f"{key}={self.fixed[key]}" for key in warm if self.fixed.get(key, warm[key]) != warm[key])

    @property
    def _starts(self) -> list[str]:
        return [key for key, allowed in hyperparameters(self.kind).items() if isinstance(allowed, WarmStart)]

    @functools.cached_property
    def open(self) -> dict[str, Range | Whole]:
        """The numbers that are neither given nor have a default, and what each may be."""
        defaults = {field.name for field in dataclasses.fields(self.kind) if field.default is not MISSING}
        known = hyperparameters(self.kind)
        return {key: known[key] for key in known if key not in self.fixed and key not in defaults}

    @functools.cached_property
    def step(self) -> str:
        """The step size that tuning varies."""
        steps = [key for key, allowed in self.open.items() if allowed.step]
        if not steps:
            all_steps = [key for key, allowed in hyperparameters(self.kind).items() if allowed.step]
            shown = f"fixes {all_steps[0]}" if all_steps else "has no step size (a StepSize)"
            raise InputError(
                f"{self.name} {shown}, so that there is no grid to extend: give all of it"
                + (f", or leave {all_steps[0]} out." if all_steps else ".")
            )
        return steps[0]

    @functools.cached_property
    def second(self) -> str | None:
        """What else tuning varies, if anything is open besides the step size."""
        others = [key for key in self.open if key != self.step]
        if len(others) > 1:
            raise InputError(
                f"{self.name} leaves {', '.join(self.open)} open, but the grid varies {self.step} and one more: give "
                f"all but one of {', '.join(others)}."
            )
        return others[0] if others else None

    def values(self, section: TuningSection) -> list[Any]:
        """The values of `second` that the first grid has."""
        if self.second is None:
            return []
        allowed = self.open[self.second]
        values = section.grids.get(self.second, list(allowed.grid))
        if not values:
            raise InputError(f"{self.name} says nothing of what {self.second} to try: give {self.second} = […].")
        if section.budget % len(values) or section.budget < 2 * len(values):
            raise InputError(
                f"budget = {section.budget} must be a multiple of the number of values of {self.second}, "
                f"{len(values)}, and at least twice it, so that each is tried with two values of {self.step}."
            )
        return [allowed.check(f"{self.second} = […]", value) for value in values]

    def rule(self, chosen: Mapping[str, Any] | None = None) -> Rule:
        """The rule, with what was chosen for it."""
        return self.kind(**self.fixed, **(chosen or {}))

    @functools.cached_property
    def whole(self) -> Rule:
        """The rule of a candidate that leaves nothing open."""
        return self.rule()

    def tried(self, section: TuningSection) -> list[Rule]:
        """Rules with the numbers that the first grid reaches: the ends of the step size, and each second value.

        Each has been checked as a rule that a user makes. The first stands for all of them where it is asked what suits
        a network and a problem, because that does not depend on the numbers.
        """
        missing = [part for part in parts(self.kind) if part not in self.fixed]
        if missing:
            raise InputError(f"{self.name} needs a {missing[0]}, which tuning does not choose: give it, in a spec.")
        settings = [{self.step: eta} for eta in section.eta]
        if self.second is not None:
            settings = [{**first, self.second: value} for value in self.values(section) for first in settings]
        return [self.rule(setting) for setting in settings]

    @staticmethod
    def of(given: Any) -> "Candidate":
        """The candidate that a user means by a class or by a name, with everything open."""
        kind = ALGORITHMS[given] if isinstance(given, str) and given in ALGORITHMS else given
        if not is_rule(kind):
            if isinstance(given, str):
                raise InputError(f"there is no algorithm {brief(given)}; {nearest(given, ALGORITHMS)}")
            raise InputError(f"{brief(given)} is no algorithm: give a class, such as gs.BiasedDMT, or its name.")
        return Candidate(kind, {})


def check_grids(section: TuningSection, candidates: list[Candidate]) -> None:
    """Refuse values for what no algorithm has, and values that those of the spec may not take."""
    kinds = [*(candidate.kind for candidate in candidates), *ALGORITHMS.values()]
    names = {key for kind in kinds for key, allowed in hyperparameters(kind).items() if not allowed.step}
    for key, values in section.grids.items():
        if any(isinstance(hyperparameters(kind).get(key), WarmStart) for kind in kinds):
            raise InputError(
                f"{key} is not tuned, since it costs messages before round 0: give it in [[algorithm]], once for each "
                "value to compare."
            )
        if key not in names:
            fields = [name for name in TuningSection.model_fields if name != "grids"]
            raise InputError(f"key {brief(key)} is not known; {nearest(key, [*fields, *names])}")
        for candidate in candidates:
            if (allowed := hyperparameters(candidate.kind).get(key)) is not None:
                for value in values:
                    allowed.check(f"{key} = […]", value)
