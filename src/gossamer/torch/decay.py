r"""Decoupled weight decay for every rule: the model shrinks by $1 - \eta\omega$ a round, whatever the gradients are.

A rule gets the state with a model that has shrunk, and gossips and moves that one; its gradients are at the model as
it was, as AdamW's are. So no momentum, tracker or second moment ever sees the decay. In one process D-PSGD is then SGD
with ``weight_decay``. η is that of when the round begins.

A rule that takes differences of models of several rounds (D², EXTRA, Exact Diffusion) would undo what else moves a
model. It declares that by ``decays=()``, and gets $g + \omega x$ for its gradient: it has no moments to keep it from.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from gossamer.core import InputError, Range, State, brief

AMOUNT = Range(0.0, float("inf"), False, True, "It is the ω of x ← (1 − ηω) x, such as 0.01.")


class WeightDecay:
    """What shrinks the model of a rule.

    Args:
        rule: says which of its arrays are the model.
        amounts: ω of each parameter group.
        sizes: how many numbers each group has.
        eta: the rule's own η in a round, for groups that have no rate of their own.
    """

    def __init__(self, rule: Any, amounts: Sequence[float], sizes: Sequence[int], eta: Callable[[int], float]):
        if any(amounts) and getattr(rule, "decay", 0):
            raise InputError(
                f"{rule.name} shrinks the model by itself, decay={brief(rule.decay)}, and weight_decay would do so "
                "once more: give the rule decay=0, or leave weight_decay out."
            )
        self.amounts, self._sizes, self._eta = list(amounts), list(sizes), eta
        self._arrays: tuple[str, ...] = rule.decays if any(amounts) else ()
        self._in_gradient = any(amounts) and not rule.decays

    def shrunk(self, state: State, t: int, rates: Sequence[float | None]) -> State:
        """The state whose model has shrunk as round t does at these rates."""
        if not self._arrays:
            return state
        given = [self._eta(t) if rate is None else rate for rate in rates]
        by = [1 - rate * amount for rate, amount in zip(given, self.amounts, strict=True)]
        return State(**dict(state) | {name: self._scaled(state[name], by) for name in self._arrays})

    def added(self, gradients: tuple[Tensor, ...], points: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """The gradients that the rule gets."""
        if not self._in_gradient:
            return gradients
        return tuple(g + self._scaled(x, self.amounts) for g, x in zip(gradients, points, strict=True))

    def _scaled(self, a: Tensor, by: Sequence[float]) -> Tensor:
        if len(set(by)) == 1:
            return a * by[0]
        return torch.cat([part * factor for part, factor in zip(a.split(self._sizes), by, strict=True)])


def amounts_of(groups: Sequence[dict[str, Any]], inner: Any) -> list[float]:
    """The weight decay of each parameter group."""
    amounts = [AMOUNT.check(f"weight_decay of parameter group {k}", g["weight_decay"]) for k, g in enumerate(groups)]
    if inner is not None and any(amounts):
        raise InputError(
            "weight_decay cannot stand beside inner=…: the inner optimizer decays the weights, "
            "inner=partial(torch.optim.AdamW, lr=…, weight_decay=…)."
        )
    return amounts
