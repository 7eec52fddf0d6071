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
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gossamer.basics.tabulate import tabulate
from gossamer.core import InputError, Range, State, bind, brief, counts, parts, ranges
from gossamer.torch.flat import Flat, Span

OMEGA = Range(0.0, float("inf"), False, True, "It is the ω of x ← (1 − ηω) x, such as 0.01.")


class Rates(NamedTuple):
    """The rates that schedulers turn."""

    eta: list[float | None]  # the step size of each parameter group; None where it goes by the rule's own schedule
    momentum: float | None = None  # the weight of the past, where a scheduler has set another than the rule's


class Hyperparameters:
    """The hyper-parameters of a rule in a round; η and ω may differ between groups of parameters.

    Args:
        rule: the rule as the user made it.
        flat: the parameters, group by group.
        groups: the parameter groups.
        own_rate: for each parameter group, True if it has an lr of its own, in place of the rule's.
    """

    def __init__(self, rule: Any, flat: Flat, groups: Sequence[dict[str, Any]], own_rate: Sequence[bool]):
        self._template, self._flat = rule, flat
        if "eta" not in ranges(type(rule)):
            raise InputError(
                f"{rule.name} has no hyper-parameter eta, which an optimizer's lr sets: give its step size that name."
            )
        self.has_schedule = callable(rule.eta)  # True if the rule came with a schedule for its η
        self._scheduled = [self.has_schedule and not own for own in own_rate]
        self._changes = any(callable(getattr(rule, key)) for key in ranges(type(rule)))
        # one number promotes nothing; one for each coordinate must have the type of what it multiplies
        self._numbers = {key: torch.zeros((), dtype=torch.float64) for key in ranges(type(rule))}
        self.rule = bind(type(rule), self._numbers | counts(rule) | parts(rule))
        """The rule that engines run, which reads the numbers that `set` writes."""
        self._current: tuple[Rates, Span | None] | None = None  # what the numbers were set by
        self._momentum = find_momentum(rule)
        self._usual_momentum = groups[0].get("momentum")  # the rule's own, in the words of a scheduler
        self.decays = [
            OMEGA.check(f"weight_decay of parameter group {k}", group["weight_decay"]) for k, group in enumerate(groups)
        ]
        """The ω of each parameter group."""
        if any(self.decays) and getattr(rule, "decay", 0):
            raise InputError(
                f"{rule.name} shrinks the model by itself, decay={brief(rule.decay)}, and weight_decay would do so "
                "once more: give the rule decay=0, or leave weight_decay out."
            )
        self.shrinks = any(self.decays) and bool(rule.decays)
        self.decays_gradient = any(self.decays) and not rule.decays

    def eta(self, t: int) -> float:
        """Return the rule's own η in a round."""
        return self._at("eta", t)

    def rates(self, groups: Sequence[dict[str, Any]]) -> Rates:
        """Return the rates of the parameter groups as they are now."""
        etas, momenta = list[float | None](), set()
        for k, (group, scheduled, decay) in enumerate(zip(groups, self._scheduled, self.decays, strict=True)):
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
            if scheduled:
                etas.append(None)
            else:
                lr = group["lr"]
                etas.append(
                    lr if type(lr) is float and 0 <= lr < math.inf else check_rate(lr, f"lr of parameter group {k}")
                )
            momenta.add(group.get("momentum"))
        if self._momentum is None:
            return Rates(etas)
        if len(momenta) > 1:
            raise InputError(
                f"the momentum of {self._template.name} is one number, but groups have {sorted(momenta)}: give all the "
                "same."
            )
        (key, own, convert), value = self._momentum, momenta.pop()
        if value == self._usual_momentum or math.isclose(weight := convert(value), own, rel_tol=1e-12):
            return Rates(etas)
        allowed = ranges(type(self._template))[key]
        allowed.check(f"momentum={value:g} of the parameter groups, which sets {key}", weight)
        return Rates(etas, value)

    def write_schedule(self, groups: Sequence[dict[str, Any]], t: int) -> None:
        """Write the η of round t into the groups that go by the rule's own schedule."""
        for group, scheduled in zip(groups, self._scheduled, strict=True):
            if scheduled:
                group["lr"] = self.eta(t)

    def set(self, span: Span, t: int, rates: Rates) -> None:
        """Write the numbers of round t for a span, with these rates."""
        current = rates, span if len(self.decays) > 1 else None
        if not self._changes and current == self._current:
            return
        self._current, numbers = current, self._numbers
        for key, number in numbers.items():
            if key != "eta":
                number.fill_(self._at(key, t))
        if rates.momentum is not None and self._momentum is not None:
            key, _, convert = self._momentum
            numbers[key].fill_(convert(rates.momentum))
        eta = self._spread(self._etas(t, rates), span)
        numbers["eta"].data = eta if isinstance(eta, Tensor) else torch.tensor(eta, dtype=torch.float64)

    def shrink(self, state: State, span: Span, t: int, rates: Rates) -> State:
        """Return the state of a span whose model has shrunk as round t does at these rates."""
        pairs = zip(self._etas(t, rates), self.decays, strict=True)
        by = self._spread([1 - eta * decay for eta, decay in pairs], span)
        return State(**dict(state) | {name: state[name] * by for name in self._template.decays})

    def decay_gradients(self, gradients: Sequence[Tensor], points: Sequence[Tensor], span: Span) -> tuple[Tensor, ...]:
        """Return the gradients of a span that the rule gets where its gradients hold the decay."""
        by = self._spread(self.decays, span)
        return tuple(g + x * by for g, x in zip(gradients, points, strict=True))

    def _etas(self, t: int, rates: Rates) -> list[float]:
        return [self.eta(t) if rate is None else rate for rate in rates.eta]

    def _spread(self, values: Sequence[float], span: Span) -> float | Tensor:
        """Return one number where all groups of a span have the same, else one for each of its numbers."""
        own, end = list[tuple[float, int]](), 0
        for value, size in zip(values, self._flat.sizes, strict=True):
            end += size
            if end > span.first and end - size < span.last and size:
                own.append((value, min(end, span.last) - max(end - size, span.first)))
        if len({value for value, _ in own}) == 1:
            return own[0][0]
        return torch.cat([torch.full((n,), v, dtype=self._flat.dtype, device=self._flat.device) for v, n in own])

    def _at(self, key: str, t: int) -> float:
        value = getattr(self._template, key)
        return next(tabulate(self._template, key, [t])) if callable(value) else value


def find_momentum(rule: Any) -> tuple[str, float, Callable[[float], float]] | None:
    """Return the hyper-parameter that is a rule's momentum, its value, and how it comes from the weight of the past.

    Schedulers such as OneCycleLR turn ``momentum`` together with lr. None where a rule has none.
    """
    for key, convert in (("lam", lambda beta: 1 - beta), ("beta", lambda beta: beta)):
        if isinstance(value := getattr(rule, key, None), (int, float)):
            return key, value, convert
    return None


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
