r"""Local steps of any torch optimizer between two messages.

From the point x that a rule asks at, the optimizer takes H steps on H batches, to y. The rule gets the displacement
$x - y$ for its gradient, unscaled, and its η is the outer rate: with η = 1 it takes the local steps as they are. The
optimizer keeps its moments from round to round.
"""

import inspect
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.optim import Optimizer

from gossamer.core import InputError, brief, whole
from gossamer.torch.faults import Guard
from gossamer.torch.flat import Flat, local

InnerMaker = Callable[[Iterable[dict[str, Any]]], Optimizer]


class Scaling(NamedTuple):
    """The scale of a `GradScaler`, and if the gradients of a step overflowed; without one, nothing."""

    scale: Tensor | None
    overflow: Tensor | None


class LocalSteps:
    """The optimizer of this rank's local steps, and how many of the round it has taken.

    Args:
        make: makes the optimizer from parameter groups.
        groups: the parameter groups of `Decentralized`.
        options: the options that each group has for the inner optimizer.
        steps: H, how many steps there are between two messages.
        flat: the parameters.
        guard: looks at their gradients, and counts what overflows.
    """

    def __init__(
        self, make: Any, groups: list[dict[str, Any]], options: list[Any], steps: int, flat: Flat, guard: Guard
    ):
        self.steps, self.taken, self._flat, self._guard = steps, 0, flat, guard
        for k, own in enumerate(options):
            if not isinstance(own, dict) or "params" in own:
                raise InputError(
                    f'"inner" of parameter group {k} must be a dict of options for the inner optimizer, such as '
                    f'{{"lr": 1e-4}}, but is {brief(own)}.'
                )
        pairs = zip(groups, options, strict=True)
        trained = [{"params": [p for p in group["params"] if p.requires_grad], **own} for group, own in pairs]
        self.optimizer = make_inner(make, [group for group in trained if group["params"]])

    def step(self, closure: Callable[[], Any] | None, scaling: Scaling) -> Any:
        """Take one local step and return the closure's loss. One with bad gradients is left out, but counts."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        gradients = self._flat.gradients()
        for k in self._flat.frozen_later:
            self._flat.params[k].grad = None  # or the optimizer would go on moving it
        overflow = scaling.overflow is not None and bool(scaling.overflow)
        if scaling.overflow is not None:
            self._guard.count_overflow(overflow)
        if not overflow and self._guard.passes(gradients, local=True):
            if scaling.scale is not None:
                for p in self._flat.params:
                    if p.grad is not None:
                        local(p.grad).div_(scaling.scale.to(p.grad.device))
            self.optimizer.step()
        self.taken += 1
        return loss

    def displacement(self, x: Tensor) -> Tensor:
        """Return x − y, where x is the point as the parameters had it."""
        moved = self._flat.read()
        began = x.to(self._flat.params[0].dtype)  # in halves, or else their rounding would be taken for a step
        return torch.sub(began, moved, out=moved) if began.dtype == moved.dtype else began.to(moved.dtype).sub_(moved)

    def states(self) -> list[dict[str, Tensor]]:
        """Return the optimizer's state of each parameter; before its first step, as it will look after it.

        A loader that writes in place needs the arrays before there are any.
        """
        optimizer, params = self.optimizer, self._flat.params
        if optimizer.state:
            return [_copy_tensors(optimizer.state.get(p, {})) for p in params]
        copies = {id(p): torch.zeros_like(p, requires_grad=True) for p in params}
        groups = [group | {"params": [copies[id(p)] for p in group["params"]]} for group in optimizer.param_groups]
        needed = inspect.signature(type(optimizer)).parameters  # some have arguments without a default
        other = type(optimizer)(groups, **{key: value for key, value in optimizer.defaults.items() if key in needed})
        for copy in copies.values():
            copy.grad = torch.zeros_like(copy)
        other.step()
        states = [_copy_tensors(other.state.get(copies[id(p)], {})) for p in params]
        return [{key: torch.zeros_like(value) for key, value in state.items()} for state in states]

    def load(self, states: list[dict[str, Tensor]], fresh: bool) -> None:
        """Take over the state of each parameter; none where the optimizer had not stepped."""
        self.optimizer.state.clear()
        for p, state in zip(self._flat.params, () if fresh else states, strict=not fresh):
            if state:
                self.optimizer.state[p] = {key: value.detach().clone() for key, value in state.items()}

    def __str__(self) -> str:
        return f"{type(self.optimizer).__name__}, {self.steps} steps a round"


def _copy_tensors(state: dict[str, Any]) -> dict[str, Tensor]:
    """Return the tensors of a parameter's state, in memory of their own."""
    for key, value in state.items():
        if not isinstance(value, Tensor) and value is not None:
            raise InputError(
                f"the inner optimizer keeps {key!r}, which is {brief(value)} and no tensor, so that it cannot be saved "
                "here: use one whose state is tensors, as those of torch.optim are."
            )
    return {key: value.detach().clone() for key, value in state.items() if value is not None}


def make_inner(make: Any, groups: list[dict[str, Any]]) -> Optimizer:
    """Make the inner optimizer, or raise an error that says what it must be."""
    example = "such as partial(torch.optim.AdamW, lr=1e-3, weight_decay=0.1)"
    if not callable(make):
        raise InputError(f"inner must make an optimizer from parameter groups, {example}, but is {brief(make)}.")
    given = set().union(*groups) - {"params"}  # before it adds those that it has by default
    optimizer = make(groups)
    if not isinstance(optimizer, Optimizer):
        raise InputError(f"inner must make an optimizer of PyTorch, {example}, but made {brief(optimizer)}.")
    if unknown := sorted(given - set(optimizer.defaults)):
        raise InputError(
            f"a parameter group has {unknown[0]!r} for the inner optimizer, which {type(optimizer).__name__} does not "
            f"know: it has {', '.join(optimizer.defaults)}."
        )
    wanted, got = (
        {id(p) for group in some for p in group["params"] if p.requires_grad}
        for some in (groups, optimizer.param_groups)
    )
    if wanted != got:
        raise InputError(
            f"inner must make an optimizer of the parameters that it is given, {example}, but this one has "
            f"{len(got - wanted)} others and lacks {len(wanted - got)} of {len(wanted)}."
        )
    closure = inspect.signature(type(optimizer).step).parameters.get("closure")
    if closure is not None and closure.default is inspect.Parameter.empty:
        raise InputError(
            f"{type(optimizer).__name__} evaluates its closure as often as it likes, so that a local step has no "
            "batch of its own: use an optimizer whose step() takes the gradients that are there."
        )
    return optimizer


def check_local_steps(rule: Any, local_steps: Any, inner: Any) -> int:
    """Return how many local steps there are between two messages, or raise InputError."""
    if inner is not None and hasattr(rule, "local"):
        raise InputError(
            f"{rule.name} takes its own local steps, of SGD and corrected for drift, one for each optimizer.step(): "
            "leave inner out, or give a rule without them, such as BiasedDMT."
        )
    steps = whole("local_steps", local_steps)
    if steps > 1 and inner is None:
        raise InputError(
            f"local_steps={steps} needs an optimizer that takes them: inner=partial(torch.optim.SGD, lr=…). With steps "
            "that are corrected for drift use a rule that has them, such as LocalBiasedDMT(eta, lam, inner, local)."
        )
    return steps
