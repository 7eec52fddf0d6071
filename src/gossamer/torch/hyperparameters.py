"""Hyper-parameters that a scheduler may turn while a rule is in the middle of a round.

A rule reads ``self.eta * agent.gradient(x)``: η is fetched before the gradient is there. So its hyper-parameters are
tensors that are written in place (or numbers of `gossamer.torch.fused`), read where the product is taken.
"""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from gossamer.core import InputError, bind, brief, counts, parts, ranges
from gossamer.torch.fused import Number


class Dials:
    """The hyper-parameters of a rule, as numbers of a round; η may differ between groups of parameters.

    Args:
        rule: the rule as the user made it.
        sizes: how many numbers each parameter group has.
        like: a tensor of the parameters' type, on their device.
        fused: whether the rule's arithmetic is that of `gossamer.torch.fused`.
    """

    def __init__(self, rule: Any, sizes: Sequence[int], like: Tensor, fused: bool):
        self._template, self.sizes = rule, list(sizes)
        if "eta" not in ranges(type(rule)):
            raise InputError(
                f"{rule.name} has no hyper-parameter eta, which an optimizer's lr sets: give its step size that name."
            )
        # one number promotes nothing; one for each coordinate must have the type of what it multiplies
        self._numbers = {key: Number() if fused else torch.zeros((), dtype=torch.float64) for key in ranges(type(rule))}
        self._like, self._turned = like.new_empty(0), list[float]()
        self.rule = bind(type(rule), self._numbers | counts(rule) | parts(rule))

    @property
    def scheduled(self) -> bool:
        """Whether the rule came with a schedule for its η."""
        return callable(self._template.eta)

    def eta(self, t: int) -> float:
        """The rule's own η in a round."""
        return self._at("eta", t)

    def turn(self, t: int, rates: Sequence[float | None]) -> None:
        """Write the numbers of round t, with these step sizes for the groups; None is the rule's own."""
        scheduled = self.eta(t)
        for key, number in self._numbers.items():
            if key != "eta":
                number.fill_(self._at(key, t))
        eta, turned = self._numbers["eta"], [scheduled if rate is None else rate for rate in rates]
        if len(self.sizes) == 1:
            eta.fill_(turned[0])
        elif turned != self._turned:
            rows = [self._like.new_full((size,), rate) for size, rate in zip(self.sizes, turned, strict=True)]
            # as a new vector, since what is noted down but not computed yet goes by the old one
            eta.data, self._turned = torch.cat(rows), turned

    def _at(self, key: str, t: int) -> float:
        value = getattr(self._template, key)
        if not callable(value):
            return value
        where = f"{type(self._template).__name__}({key}=…), a schedule, at round {t}"
        return ranges(type(self._template))[key].check(where, value(t))


def checked_rate(value: Any, where: str) -> float:
    """A step size as a scheduler left it: 0 is fine, as warm-ups begin with it."""
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
    groups: Sequence[dict[str, Any]], own_rate: Sequence[bool], dials: Dials, decays: Sequence[float]
) -> list[float | None]:
    """The step size of every parameter group as it is now; None where it goes by the rule's own schedule."""
    rates: list[float | None] = []
    for k, group in enumerate(groups):
        scheduled = dials.scheduled and not own_rate[k]
        if scheduled and "initial_lr" in group:
            raise InputError(
                f"eta of {dials.rule.name} is a schedule, and a torch scheduler sets lr too: give the rule a number, "
                "or leave the scheduler out."
            )
        if group["weight_decay"] != decays[k]:
            raise InputError(
                f"weight_decay of parameter group {k} was {decays[k]:g} when Decentralized was made, and is "
                f"{group['weight_decay']:g} now: it cannot change."
            )
        rates.append(None if scheduled else checked_rate(group["lr"], f"lr of parameter group {k}"))
    return rates
