r"""Hyper-parameters that schedulers turn while a rule is in the middle of a round, and weight decay for every rule.

A rule reads ``self.eta * agent.gradient(x)``: η is fetched before the gradient is there. So its hyper-parameters are
tensors that are written in place, read where the product is taken.

Decoupled weight decay shrinks the model by $1 - \eta\omega$ a round, whatever the gradients are. A rule gets the state
with a model that has shrunk, and gossips and moves that one; its gradients are at the model as it was, as AdamW's are.
So no momentum, tracker or second moment ever sees the decay. In one process D-PSGD is then SGD with ``weight_decay``. η
is that of when the round begins. A rule that takes differences of models of several rounds (D², EXTRA, Exact Diffusion)
would undo what else moves a model. It declares that by ``decays=()``, and gets $g + \omega x$ for its gradient: it has
no moments to keep it from.
"""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from gossamer.core import InputError, Range, State, bind, brief, counts, parts, ranges
from gossamer.torch.buckets import Bucket, Flat
from gossamer.torch.rounds import Rates

AMOUNT = Range(0.0, float("inf"), False, True, "It is the ω of x ← (1 − ηω) x, such as 0.01.")


class ByGroup:
    """Numbers of parameter groups, for the numbers of a bucket."""

    def __init__(self, flat: Flat):
        self._ends, self._flat = list[tuple[int, int]](), flat
        total = 0
        for size in flat.sizes:
            total += size
            self._ends.append((total - size, total))

    def __call__(self, values: Sequence[float], bucket: Bucket) -> float | Tensor:
        """Return one number where all groups of a bucket have the same, else one for each of its numbers."""
        if len(values) == 1:
            return values[0]
        own = [
            (value, min(end, bucket.last) - max(start, bucket.first))
            for value, (start, end) in zip(values, self._ends, strict=True)
            if start < bucket.last and end > bucket.first
        ]
        if len({value for value, _ in own}) == 1:
            return own[0][0]
        return torch.cat([torch.full((n,), v, dtype=self._flat.dtype, device=self._flat.device) for v, n in own])


class Dials:
    """The hyper-parameters of a rule, as numbers of a round; η may differ between groups of parameters.

    Args:
        rule: the rule as the user made it.
        by_group: gives the numbers of groups to a bucket.
        buckets: each has a rule of its own.
    """

    def __init__(self, rule: Any, by_group: ByGroup, buckets: Sequence[Bucket]):
        self._template, self._by_group = rule, by_group
        if "eta" not in ranges(type(rule)):
            raise InputError(
                f"{rule.name} has no hyper-parameter eta, which an optimizer's lr sets: give its step size that name."
            )
        # one number promotes nothing; one for each coordinate must have the type of what it multiplies
        self._numbers = [{key: torch.zeros((), dtype=torch.float64) for key in ranges(type(rule))} for _ in buckets]
        self.rules = [bind(type(rule), numbers | counts(rule) | parts(rule)) for numbers in self._numbers]
        self._momentum = momentum(rule)
        self._varies = any(callable(getattr(rule, key)) for key in ranges(type(rule)))
        self._turned: list[Rates | None] = [None] * len(buckets)
        """The rates that each bucket's rule has now; None where a schedule may have changed."""

    @property
    def scheduled(self) -> bool:
        """Whether the rule came with a schedule for its η."""
        return callable(self._template.eta)

    def eta(self, t: int) -> float:
        """Return the rule's own η in a round."""
        return self._at("eta", t)

    def turn(self, bucket: Bucket, t: int, rates: Rates) -> None:
        """Write the numbers of round t for a bucket, with these step sizes for the groups; None is the rule's own."""
        if not self._varies and rates == self._turned[bucket.number]:
            return
        self._turned[bucket.number] = rates
        numbers, given = self._numbers[bucket.number], self._momentum
        for key, number in numbers.items():
            if key != "eta":
                turned = rates.momentum is not None and given is not None and key == given[0]
                number.fill_(given[1](rates.momentum) if turned else self._at(key, t))  # pyright: ignore[reportOptionalSubscript]
        eta = self._by_group([self.eta(t) if rate is None else rate for rate in rates.eta], bucket)
        if isinstance(eta, Tensor) or numbers["eta"].ndim:
            numbers["eta"].data = eta if isinstance(eta, Tensor) else torch.tensor(eta, dtype=torch.float64)
        else:
            numbers["eta"].fill_(eta)

    def _at(self, key: str, t: int) -> float:
        value = getattr(self._template, key)
        if not callable(value):
            return value
        where = f"{type(self._template).__name__}({key}=…), a schedule, at round {t}"
        return ranges(type(self._template))[key].check(where, value(t))


def momentum(rule: Any) -> tuple[str, Any] | None:
    """Return the hyper-parameter that is a rule's momentum, and how it comes from the weight of the past, or None.

    Schedulers such as OneCycleLR turn ``momentum`` together with lr.
    """
    for key, of in (("lam", lambda beta: 1 - beta), ("beta", lambda beta: beta)):
        if isinstance(getattr(rule, key, None), (int, float)):
            return key, of
    return None


class WeightDecay:
    """Shrinks the model of a rule.

    Args:
        rule: says which of its arrays are the model.
        amounts: ω of each parameter group.
        by_group: gives the numbers of groups to a bucket.
        dials: give the rule's own η.
    """

    def __init__(self, rule: Any, amounts: Sequence[float], by_group: ByGroup, dials: Dials):
        if any(amounts) and getattr(rule, "decay", 0):
            raise InputError(
                f"{rule.name} shrinks the model by itself, decay={brief(rule.decay)}, and weight_decay would do so "
                "once more: give the rule decay=0, or leave weight_decay out."
            )
        self.amounts, self._by_group, self._dials = list(amounts), by_group, dials
        self._arrays: tuple[str, ...] = rule.decays if any(amounts) else ()
        self._in_gradient = any(amounts) and not rule.decays

    def shrunk(self, bucket: Bucket, state: State, t: int, rates: Rates) -> State:
        """Return the state whose model has shrunk as round t does at these rates."""
        if not self._arrays:
            return state
        given = [self._dials.eta(t) if rate is None else rate for rate in rates.eta]
        by = self._by_group([1 - rate * amount for rate, amount in zip(given, self.amounts, strict=True)], bucket)
        return State(**dict(state) | {name: state[name] * by for name in self._arrays})

    def added(self, bucket: Bucket, gradients: tuple[Tensor, ...], points: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """Return the gradients that the rule gets."""
        if not self._in_gradient:
            return gradients
        by = self._by_group(self.amounts, bucket)
        return tuple(g + x * by for g, x in zip(gradients, points, strict=True))


def amounts_of(groups: Sequence[dict[str, Any]]) -> list[float]:
    """Return the weight decay of each parameter group."""
    return [AMOUNT.check(f"weight_decay of parameter group {k}", g["weight_decay"]) for k, g in enumerate(groups)]


def checked_rate(value: Any, where: str) -> float:
    """Check a step size as a scheduler left it: 0 is fine, as warm-ups begin with it."""
    try:
        rate = float(value)
    except (TypeError, ValueError):
        rate = math.nan
    if not (math.isfinite(rate) and rate >= 0):
        raise InputError(
            f"{where} must be a finite number of at least 0, but is {brief(value)}. Check the group, and the scheduler "
            "that sets it."
        )
    return rate


def rates_of(
    groups: Sequence[dict[str, Any]], own_rate: Sequence[bool], dials: Dials, decays: Sequence[float], rule: Any
) -> Rates:
    """Return the step size of every parameter group as it is now; None where it goes by the rule's own schedule."""
    rates: list[float | None] = []
    for k, group in enumerate(groups):
        scheduled = dials.scheduled and not own_rate[k]
        if scheduled and "initial_lr" in group:
            raise InputError(
                f"eta of {rule.name} is a schedule, and a torch scheduler sets lr too: give the rule a number, "
                "or leave the scheduler out."
            )
        if group["weight_decay"] != decays[k]:
            raise InputError(
                f"weight_decay of parameter group {k} was {decays[k]:g} when Decentralized was made, and is "
                f"{group['weight_decay']:g} now: it cannot change."
            )
        rates.append(None if scheduled else checked_rate(group["lr"], f"lr of parameter group {k}"))
    return Rates(rates, _turned(groups, rule))


def _turned(groups: Sequence[dict[str, Any]], rule: Any) -> float | None:
    """Return the momentum that a scheduler has set; None where it is the rule's own."""
    if (given := momentum(rule)) is None:
        return None
    key, of = given
    found = {group["momentum"] for group in groups}
    if len(found) > 1:
        raise InputError(
            f"the momentum of {rule.name} is one number, but groups have {sorted(found)}: give all the same."
        )
    value = found.pop()
    own = getattr(rule, key)
    if math.isclose(of(value), own, rel_tol=1e-12):
        return None
    ranges(type(rule))[key].check(f"momentum={value:g} of the parameter groups, which sets {key}", of(value))
    return value
