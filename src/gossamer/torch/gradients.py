"""The gradients that a script leaves in the parameters, or that its closure computes."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gossamer.core import InputError
from gossamer.torch import generators
from gossamer.torch.exchange import Counters
from gossamer.torch.finite import Guard
from gossamer.torch.parameters import Flat


class Scaling(NamedTuple):
    """What a `GradScaler` says of the gradients of a step; without one, nothing."""

    scale: Tensor | None
    overflowed: Tensor | None

    @classmethod
    def of(cls, optimizer: Any) -> "Scaling":
        """As a scaler leaves it at an optimizer while it calls `step`."""
        return cls(getattr(optimizer, "grad_scale", None), getattr(optimizer, "found_inf", None))


class Gradients:
    """Reads the gradients of the parameters as vectors: in true size, and finite under mixed precision.

    Args:
        flat: the parameters.
        guard: is told of overflows.
        counters: count them.
    """

    def __init__(self, flat: Flat, guard: Guard, counters: Counters):
        self._flat, self._guard, self._counters = flat, guard, counters
        self.finite: Tensor | None = None
        """The last finite gradient under mixed precision, which stands for one that overflows."""

    def left(self, scaling: Scaling) -> Tensor:
        """The gradient that the script left."""
        if scaling.overflowed is None:
            return self._flat.gradient()
        overflowed = bool(scaling.overflowed)
        self._guard.overflowed(overflowed)
        if overflowed:
            self._counters.overflows += 1
            if self._guard.mode == "skip":
                return self._flat.gradient()  # as it is, for the guard to see
            return torch.zeros_like(self._flat.read()) if self.finite is None else self.finite.clone()
        gradient = self._flat.gradient()
        self.finite = gradient if scaling.scale is None else gradient.div_(scaling.scale.to(gradient.device))
        return gradient.clone()  # a rule may use its memory

    def evaluated(
        self, closure: Callable[[], Any], points: tuple[Tensor, ...], scaling: Scaling
    ) -> tuple[Any, tuple[Tensor, ...]]:
        """The closure's gradient at every point, all with the same draws (of dropout, say); the loss is the first's."""
        losses, gradients = [], []
        began = generators.states() if len(points) > 1 else None
        for k, point in enumerate(points):
            if k and began:
                generators.restore(began)
            self._flat.write(point)
            with torch.enable_grad():
                losses.append(closure())
            self._flat.check_untouched(point)
            gradients.append(self.left(scaling))
        return losses[0], tuple(gradients)


def check_way(rule: str, points: int, full_wanted: bool, closure: Any, full: Any, local_steps: bool) -> None:
    """Refuse a step that has no way to the gradients that the rule asks for."""
    if local_steps and (points > 1 or full_wanted):
        raise InputError(
            f"{rule} asks for gradients {'over all samples' if full_wanted else f'at {points} points of one batch'}, "
            "which local steps of an inner optimizer cannot give: use a rule that asks at one point, such as BiasedDMT."
        )
    if full_wanted and full is None:
        raise InputError(
            f"{rule} asks for the gradient over all samples of this rank: use optimizer.step(closure, full=…), where "
            "full() does what closure() does, with all samples in place of a batch."
        )
    if points > 1 and not full_wanted and closure is None:
        raise InputError(
            f"{rule} asks for gradients at {points} points of the same batch: use optimizer.step(closure), where "
            "closure() calls zero_grad, computes the loss, calls backward and returns the loss."
        )
