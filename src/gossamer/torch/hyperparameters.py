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
from collections.abc import Callable, Sequence
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
        own_rate: for each parameter group, True if it has an lr of its own, in place of the rule's.
    """

    def __init__(self, rule: Any, by_group: ByGroup, buckets: Sequence[Bucket], own_rate: Sequence[bool]):
        self._template, self._by_group = rule, by_group
        self.has_schedule = callable(getattr(rule, "eta", None))  # true if the rule came with a schedule for its η
        self._scheduled = [self.has_schedule and not own for own in own_rate]
        if "eta" not in ranges(type(rule)):
            raise InputError(
                f"{rule.name} has no hyper-parameter eta, which an optimizer's lr sets: give its step size that name."
            )
        # one number promotes nothing; one for each coordinate must have the type of what it multiplies
        self._numbers = [{key: torch.zeros((), dtype=torch.float64) for key in ranges(type(rule))} for _ in buckets]
        self.rules = [bind(type(rule), numbers | counts(rule) | parts(rule)) for numbers in self._numbers]
        self._turns = momentum(rule)
        self.momentum = None if self._turns is None else self._turns[2](self._turns[1])
        """The weight of the past, as the rule has it: parameter groups begin with it."""
        self._varies = any(callable(getattr(rule, key)) for key in ranges(type(rule)))
        self._turned: list[Rates | None] = [None] * len(buckets)
        """The rates that each bucket's rule has now; None where a schedule may have changed."""

    def eta(self, t: int) -> float:
        """Return the rule's own η in a round."""
        return self._at("eta", t)

    def rates(self, groups: Sequence[dict[str, Any]], decays: Sequence[float]) -> Rates:
        """Return the rates of the parameter groups as they are now.

        Args:
            groups: the parameter groups.
            decays: the weight decay of each when the optimizer was made, which cannot change.
        """
        etas, turned = list[float | None](), False
        for k, (group, scheduled, decay) in enumerate(zip(groups, self._scheduled, decays, strict=True)):
            if scheduled and "initial_lr" in group:
                raise InputError(
                    f"eta of {self._template.name} is a schedule, and a torch scheduler sets lr too: give the rule a "
                    "number, or leave the scheduler out."
                )
            if group["weight_decay"] != decay:
                raise InputError(
                    f"weight_decay of parameter group {k} was {decay:g} when Decentralized was made, and is "
                    f"{group['weight_decay']:g} now: it cannot change."
                )
            etas.append(None if scheduled else check_rate(group["lr"], f"lr of parameter group {k}"))
            turned = turned or group.get("momentum") != self.momentum
        return Rates(etas, self._read_momentum(groups) if turned and self._turns is not None else None)

    def _read_momentum(self, groups: Sequence[dict[str, Any]]) -> float | None:
        """Return the momentum that a scheduler has set; None where it is the rule's own."""
        assert self._turns is not None
        key, own, of = self._turns
        found = {group["momentum"] for group in groups}
        if len(found) > 1:
            raise InputError(
                f"the momentum of {self._template.name} is one number, but groups have {sorted(found)}: give all the "
                "same."
            )
        value = found.pop()
        if math.isclose(of(value), own, rel_tol=1e-12):
            return None
        ranges(type(self._template))[key].check(
            f"momentum={value:g} of the parameter groups, which sets {key}", of(value)
        )
        return value

    def show(self, groups: Sequence[dict[str, Any]], t: int) -> None:
        """Write the η of round t into the groups that go by the rule's own schedule."""
        for group, scheduled in zip(groups, self._scheduled, strict=True):
            if scheduled:
                group["lr"] = self.eta(t)

    def turn(self, bucket: Bucket, t: int, rates: Rates) -> None:
        """Write the numbers of round t for a bucket, with these step sizes for the groups; None is the rule's own."""
        if not self._varies and rates == self._turned[bucket.number]:
            return
        self._turned[bucket.number] = rates
        numbers = self._numbers[bucket.number]
        for key, number in numbers.items():
            if key != "eta":
                number.fill_(self._at(key, t))
        if rates.momentum is not None and self._turns is not None:
            key, _, of = self._turns
            numbers[key].fill_(of(rates.momentum))
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


def momentum(rule: Any) -> tuple[str, float, Callable[[float], float]] | None:
    """Return the hyper-parameter that is a rule's momentum, its value, and how it comes from the weight of the past.

    Schedulers such as OneCycleLR turn ``momentum`` together with lr. None where a rule has none.
    """
    for key, of in (("lam", lambda beta: 1 - beta), ("beta", lambda beta: beta)):
        if isinstance(value := getattr(rule, key, None), (int, float)):
            return key, value, of
    return None


class WeightDecay:
    """Decoupled weight decay of a rule's model.

    Args:
        rule: says which of its arrays are the model.
        groups: the parameter groups, each with its ω.
        by_group: gives the numbers of groups to a bucket.
        dials: give the rule's own η.
    """

    def __init__(self, rule: Any, groups: Sequence[dict[str, Any]], by_group: ByGroup, dials: Dials):
        amounts = [
            AMOUNT.check(f"weight_decay of parameter group {k}", g["weight_decay"]) for k, g in enumerate(groups)
        ]
        if any(amounts) and getattr(rule, "decay", 0):
            raise InputError(
                f"{rule.name} shrinks the model by itself, decay={brief(rule.decay)}, and weight_decay would do so "
                "once more: give the rule decay=0, or leave weight_decay out."
            )
        self.amounts, self._by_group, self._dials = list(amounts), by_group, dials
        self.arrays: tuple[str, ...] = rule.decays if any(amounts) else ()  # the arrays of a state that shrink
        self.in_gradient = any(amounts) and not rule.decays

    def shrink(self, bucket: Bucket, state: State, t: int, rates: Rates) -> State:
        """Return the state whose model has shrunk as round t does at these rates."""
        given = [self._dials.eta(t) if rate is None else rate for rate in rates.eta]
        by = self._by_group([1 - rate * amount for rate, amount in zip(given, self.amounts, strict=True)], bucket)
        return State(**dict(state) | {name: state[name] * by for name in self.arrays})

    def add(self, bucket: Bucket, gradients: tuple[Tensor, ...], points: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """Return the gradients that the rule gets where its gradients hold the decay."""
        by = self._by_group(self.amounts, bucket)
        return tuple(g + x * by for g, x in zip(gradients, points, strict=True))


def check_rate(value: Any, where: str) -> float:
    """Return a step size as a scheduler left it, or raise InputError: 0 is fine, as warm-ups begin with it."""
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
