"""Keeps inf and NaN out of a run: the rank that has them is named by all, or all leave the step out.

A sum over finite numbers that do not overflow is finite, and one with an inf or a NaN in it never is: so one sum tells
that all is well, and numbers are looked at one by one only if it does not.
"""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Literal

import torch
from torch import Tensor

from gossamer.core import InputError
from gossamer.torch.exchange import Exchange
from gossamer.torch.gpus import LateFlag
from gossamer.torch.stopping import GRACE, NotFinite, Words

OnNonfinite = Literal["stop", "skip"]
LONGEST_ROW = 40
"""How many steps in a row may be left out: after as many halvings, the scale of mixed precision was not the cause."""


class Guard:
    """Looks at gradients before a rule gets them, and at states before they are sent.

    Args:
        exchange: the exchange of the ranks that stop together.
        mode: "stop", or "skip", which leaves the step out on all ranks.
        rule: the name of the rule.
        place: names the parameter that holds a coordinate.
    """

    def __init__(self, exchange: Exchange, mode: OnNonfinite, rule: str, place: Callable[[int], str]):
        if mode not in ("stop", "skip"):
            raise InputError(f'on_nonfinite must be "stop" or "skip", but is {mode!r}.')
        self.exchange, self.world, self.mode, self.rule, self.place = exchange, exchange.world, mode, rule, place
        self.step = 0
        """The step that is being taken, counted from 1."""
        self._row = 0
        self.late = LateFlag() if exchange.world.device.type == "cuda" and mode == "stop" else None
        """On a GPU what is not finite is found one step later: the host does not wait for each sum."""

    def listen(self) -> None:
        """Stop if another rank has stopped already."""
        if reason := self.world.words.reason():
            raise reason

    def tell(self, error: Exception) -> None:
        """Let the others know why this rank stops, unless it stops because of one of them."""
        if not (isinstance(error, NotFinite) and error.rank != self.world.rank):
            self.world.words.say(Words(self.step, self.world.rank, self.exchange.tag, type(error).__name__, str(error)))

    def passes(self, gradients: Sequence[Tensor]) -> bool:
        """Whether to take the step with these gradients; if not, no rank takes it."""
        if self.late is not None:
            for gradient in gradients:
                self.late.put(_suspect(gradient))
            self._stop_late(self.late.turn())
            return True
        bad = sum(_bad(gradient) for gradient in gradients)
        size = sum(gradient.numel() for gradient in gradients)
        if self.mode == "stop" and self.world.words.carried:
            counts = {self.world.rank: bad}  # the others will hear of it
        else:
            counts = dict(enumerate(self.world.numbers(bad)))
        rank = next((rank for rank, count in counts.items() if count), None)
        if rank is None:
            self._row = 0 if self.mode == "skip" else self._row
            return True
        what = (
            f"rank {rank}'s gradient at step {self.step} is not finite (inf or NaN in {counts[rank]} of {size} numbers"
        )
        what += f", first in {self.place(_first(gradients))})" if rank == self.world.rank else ")"
        if self.mode == "stop":
            raise NotFinite(
                f"{what}. Look at its loss and data; a smaller lr or clipping may help. Go on from the last checkpoint "
                'or leave such steps out on all ranks by Decentralized(…, on_nonfinite="skip").',
                rank,
                self.step,
            )
        self.exchange.counters.skipped += 1
        self._count(True, f"{what}, and some rank had such a gradient", rank)
        return False

    def passes_here(self, gradients: Sequence[Tensor]) -> bool:
        """Whether this rank takes a local step with these gradients; if not, it leaves it out by itself."""
        if self.late is not None:
            return self.passes(gradients)
        bad = [_bad(gradient) for gradient in gradients]
        if not any(bad):
            self._row = 0 if self.mode == "skip" else self._row
            return True
        size = sum(gradient.numel() for gradient in gradients)
        what = (
            f"rank {self.world.rank}'s gradient at step {self.step}, a local one, is not finite (inf or NaN in "
            f"{sum(bad)} of {size} numbers)"
        )
        if self.mode == "stop":
            raise NotFinite(
                f"{what}. Look at its loss and data; a smaller lr of the inner optimizer or clipping may help. Go on "
                'from the last checkpoint or leave such steps out by Decentralized(…, on_nonfinite="skip").',
                self.world.rank,
                self.step,
            )
        self.exchange.counters.skipped += 1
        self._count(True, what, self.world.rank)
        return False

    def _stop_late(self, was: bool) -> None:
        if was:
            raise NotFinite(
                f"rank {self.world.rank} has inf or NaN in its gradient or its state of step {self.step - 1}, or got "
                "them from a neighbour in that step: on a GPU they are found one step late. Look at losses and data of "
                "all ranks; a smaller lr or clipping may help. Go on from the last checkpoint.",
                self.world.rank,
                self.step,
            )

    def overflowed(self, here: bool) -> None:
        """Note whether this rank's gradient overflowed under mixed precision, where the step is taken all the same."""
        if self.mode == "stop":
            self._count(here, f"rank {self.world.rank}'s gradient overflowed", self.world.rank)

    def _count(self, bad: bool, what: str, rank: int) -> None:
        """Stop where there are too many steps without a gradient in a row."""
        self._row = self._row + 1 if bad else 0
        if self._row >= LONGEST_ROW:
            raise NotFinite(
                f"{what} in each of the last {self._row} steps: nothing is trained. Look at the loss, the data and lr.",
                rank,
                self.step,
            )

    def check(self, state: Mapping[str, Tensor], rates: Sequence[float | None], telling: Collection[str] = ()) -> None:
        """Refuse a state that is not finite.

        Args:
            state: its arrays.
            rates: the rates at which it was made.
            telling: the arrays that are enough to look at, if not all must be.
        """
        if self.late is not None and self.step:
            for name in telling or state:
                self.late.put(_suspect(state[name]))
            return
        if telling and not any(_bad(state[name]) for name in telling):
            return
        for name, value in state.items():
            if not (bad := _bad(value)):
                continue
            if 0 in rates:
                raise InputError(f"{self.rule} divides by lr, which is 0: begin the warm-up with a number above 0.")
            # the others check, too, before they send; but what is sent within a round may overflow on its way
            if reason := self.world.words.reason(GRACE):
                raise reason
            if self.step:
                where = f"state at step {self.step}"
                out = (
                    f"Its gradient was finite: the run has diverged beyond {str(value.dtype).removeprefix('torch.')}: "
                )
                out += "go on from an earlier checkpoint with a smaller lr."
            else:
                where, out = "start", "Give a model whose parameters are finite, on rank 0 if not on all."
            raise NotFinite(
                f"rank {self.world.rank}'s {where} is not finite: {name} of {self.rule} has inf or "
                f"NaN in {bad} of {value.numel()} numbers. {out}",
                self.world.rank,
                self.step,
            )


def _total(a: Tensor) -> Tensor:
    return a.sum(dtype=torch.promote_types(a.dtype, torch.float32))  # half precision ends at 65504


def _suspect(a: Tensor) -> Tensor:
    """Whether the sum is not finite, as a tensor."""
    return ~torch.isfinite(_total(a))


def _bad(a: Tensor) -> int:
    return 0 if math.isfinite(_total(a)) else int((~torch.isfinite(a)).sum())


def _first(gradients: Sequence[Tensor]) -> int:
    """The coordinate of the first inf or NaN."""
    return next(int(where[0]) for a in gradients if len(where := torch.nonzero(~torch.isfinite(a))))
