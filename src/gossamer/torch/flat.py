"""The parameters of a model as one vector, which a rule may compute span by span."""

import itertools
import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gossamer.core import InputError

SPAN = 1 << 17  # numbers of a span on a CPU, whose caches then hold what a rule computes in between
MOST = 16  # spans at most where each of them costs more: an operation of a GPU to start, or a message of its own
OFTEN, SELDOM = 3, 100
"""On a GPU parameters are compared with what the rule wrote in so many first steps, and then in each so many-th."""


class Span(NamedTuple):
    """A part of the vector: the numbers from `first` up to `last`."""

    first: int
    last: int
    pieces: tuple[tuple[int, int, int], ...]
    """By parameter, which of its numbers these are: its place, the first and the one after the last."""

    def of(self, vector: Tensor) -> Tensor:
        """Return this part of a vector, in the same memory."""
        return vector[self.first : self.last]


class Flat:
    """All trained parameters as one vector, group by group.

    Those that are `frozen` when it is made (without ``requires_grad``) have no part in it. Those that are frozen later
    keep the value that they had then, whatever a rule makes of it. Of parameters that are sharded (by FSDP2), the
    vector holds this process's shards. Where they are of less than single precision, the vector is in single precision:
    small steps would be lost in them.

    After `unite` the parameters are views of one vector, which is then a rule's model itself, without a copy.
    """

    def __init__(self, groups: Sequence[Sequence[Tensor]]):
        everything = [p for group in groups for p in group]
        self.params = [p for p in everything if p.requires_grad]
        self.frozen = [p for p in everything if not p.requires_grad]
        if not self.params:
            why = "all of them are frozen" if self.frozen else "give model.parameters()"
            raise InputError(f"there are no parameters to train: {why}.")
        if len({id(p) for p in self.params}) < len(self.params):
            raise InputError("a parameter is given twice: the rule would hold two values of it. Give each once.")
        first = self.params[0]
        for k, p in enumerate(self.params):
            if not p.is_floating_point() or (p.dtype, p.device) != (first.dtype, first.device):
                raise InputError(
                    f"all parameters must have one floating type and one device, but the first has {first.dtype} on "
                    f"{first.device} and number {k} (from 0) has {p.dtype} on {p.device}. Convert the model with "
                    "model.to(…) first."
                )
        self.dtype, self.device = torch.promote_types(first.dtype, torch.float32), first.device  # of the vector
        self.sizes = [sum(local(p).numel() for p in group if p.requires_grad) for group in groups]
        """Numbers of each parameter group."""
        self.lengths = [local(p).numel() for p in self.params]
        self.size = sum(self.lengths)
        (self.whole,) = self._spans(self.size)
        self._kinds = [(p.dtype, p.device, p.shape) for p in self.params]
        self._sharded = any(map(is_sharded, self.params))
        self.vector: Tensor | None = None  # the memory that the parameters are views of, after `unite`
        self._signature: tuple[list[int], Tensor] | None = None
        self.frozen_later: dict[int, Tensor] = {}
        """Parameters that were frozen since, by number, and the values that they keep."""

    def divide(self, apart: bool) -> list[Span]:
        """Return the vector in spans for a rule to run on, with a message each if they are `apart`."""
        is_cheap = self.device.type == "cpu" and not apart
        return self._spans(SPAN if is_cheap else max(2 * SPAN, -(-self.size // MOST)))

    def _spans(self, length: int) -> list[Span]:
        ends, spans = list(itertools.accumulate(self.lengths)), []
        for first in range(0, self.size, length):
            last = min(first + length, self.size)
            pieces = [
                (k, max(first - end + size, 0), min(last - end + size, size))
                for k, (end, size) in enumerate(zip(ends, self.lengths, strict=True))
                if end > first and end - size < last
            ]
            spans.append(Span(first, last, tuple(pieces)))
        return spans

    def unite(self, vector: Tensor) -> bool:
        """Let the parameters be views of a vector, where that changes nothing else, and return True if it does not.

        Not where they are sharded, of less than single precision, in another order than their numbers, or shared with
        other processes.
        """
        plain = [not is_sharded(p) and p.is_contiguous() and not (p.is_cpu and p.is_shared()) for p in self.params]
        if not all(plain) or self.params[0].dtype != self.dtype:
            return False
        self.vector = vector
        self.gather()
        return True

    def gather(self) -> None:
        """Take in the parameters that are elsewhere: all at first, and later those that a script put there."""
        assert self.vector is not None
        for p, part in zip(self.params, self.vector.split(self.lengths), strict=True):
            if p.data_ptr() != part.data_ptr():
                p.data = part.copy_(p.detach().reshape(-1)).view_as(p)

    def freeze(self, x: Tensor, span: Span) -> Tensor:
        """Return a part of the vector in which the parameters that were frozen later have the values that they keep."""
        if not any(k in self.frozen_later for k, *_ in span.pieces):
            return x
        parts = list(x.split([last - first for _, first, last in span.pieces]))
        for place, (k, first, last) in enumerate(span.pieces):
            if k in self.frozen_later:
                parts[place] = self.frozen_later[k][first:last]
        return torch.cat(parts)

    @property
    def shapes(self) -> str:
        """Return the shapes as text, short enough to be printed."""
        rows = [str(tuple(p.shape)) for p in self.params]
        rows += [f"frozen {tuple(p.shape)} of {p.dtype}" for p in self.frozen]
        return f"{self.size} numbers in " + " ".join(rows)

    def locate(self, pieces: Sequence[Tensor]) -> str:
        """Say which parameter the first inf or NaN belongs to, in gradients of parameters or in whole vectors."""
        start = 0
        for a in pieces:
            if len(bad := torch.nonzero(~torch.isfinite(a.reshape(-1)))):
                ends, coordinate = itertools.accumulate(self.lengths), (start + int(bad[0])) % self.size
                grads = [(k, p.grad) for k, p in enumerate(self.params) if p.grad is not None and not p.grad.is_sparse]
                own = [k for k, grad in grads if local(grad).data_ptr() == a.data_ptr()]
                k = (own or [k for k, end in enumerate(ends) if coordinate < end])[0]
                return f"parameter {k} (from 0) of shape {tuple(self.params[k].shape)}"
            start += a.numel()
        raise AssertionError("all numbers are finite")

    def read(self) -> Tensor:
        """Return the parameters as a new vector."""
        return torch.cat([local(p).reshape(-1).to(self.dtype) for p in self.params])

    @torch.no_grad()
    def write(self, x: Tensor) -> None:
        """Put a vector into the parameters."""
        if self.vector is not None:
            if self.vector.data_ptr() != x.data_ptr():
                self.vector.copy_(x)
            return
        for p, part in zip(self.params, x.split(self.lengths), strict=True):
            mine = local(p)
            mine.copy_(part.view_as(mine))

    def check_kinds(self) -> None:
        """Refuse to go on if parameters were converted or moved since, and note those that were frozen."""
        for k, (p, kind) in enumerate(zip(self.params, self._kinds, strict=True)):
            now = p.dtype, p.device, p.shape
            if p.requires_grad and not self.frozen_later and now == kind:
                continue
            if p.requires_grad:
                self.frozen_later.pop(k, None)
            elif k not in self.frozen_later:
                self.frozen_later[k] = local(p).reshape(-1).to(self.dtype, copy=True)
            if now != kind:
                before, after = (f"{dtype} {tuple(shape)} on {device}" for dtype, device, shape in (kind, now))
                raise InputError(
                    f"parameter {k} (from 0) was {before} when Decentralized was made, and is {after} now: convert and "
                    "move before it is made, or make a new one on all ranks."
                )

    def sign(self) -> None:
        """Note what the parameters are now, after `unite`, to tell by `find_changed` if somebody else wrote into them.

        All numbers count, by their sum as whole numbers: what is written through ``p.data`` leaves no other trace.
        """
        assert self.vector is not None
        versions = list(map(operator.attrgetter("_version"), self.params))
        words = self.vector.view(torch.int32 if self.dtype == torch.float32 else torch.int64)
        # an overflow does no harm; to sum up in another type, PyTorch would make a copy
        self._signature = versions, words.sum(dtype=words.dtype)

    def find_changed(self, x: Tensor) -> list[int]:
        """Return the parameters that hold something else than what was written: the signed vector, or this one."""
        if self.vector is None:
            parts = zip(map(local, self.params), x.split(self.lengths), strict=True)
            return [k for k, (p, part) in enumerate(parts) if not torch.equal(p, part.view_as(p).to(p.dtype))]
        moved, place, before = [], self.vector.data_ptr(), self._signature
        for k, (p, length) in enumerate(zip(self.params, self.lengths, strict=True)):
            if p.data_ptr() != place:
                moved.append(k)
            place += length * self.vector.element_size()
        if moved or before is None:
            return moved
        self.sign()
        after, self._signature = self._signature, before
        if after is None or torch.equal(after[1], before[1]):
            return []
        return [k for k, (now, then) in enumerate(zip(after[0], before[0], strict=True)) if now != then] or [0]

    def gradients(self) -> list[Tensor]:
        """Return the gradients that there are, as they are, in the order of the parameters.

        Raise InputError where there are none, or where a parameter has one that has no part in this.
        """
        for p in self.frozen:
            if p.grad is not None:
                raise InputError(
                    "a parameter that was frozen when Decentralized was made has a gradient now: make a new optimizer "
                    "after unfreezing, on all ranks."
                )
        found = []
        for k, p in enumerate(self.params):
            if (g := p.grad) is not None and k not in self.frozen_later:
                found.append(g.detach().coalesce().values() if g.is_sparse else local(g) if self._sharded else g)
        if not found:
            raise InputError("no parameter has a gradient: call loss.backward() before optimizer.step().")
        return found

    def gradient(self, span: Span, borrow: bool = False) -> Tensor:
        """Return the gradients of a span as a vector; parameters that had no part in the loss have 0.

        It is a new one, unless it may `borrow` the memory of a parameter's own gradient, and can.
        """
        parts = []
        for k, first, last in span.pieces:
            if (g := self.params[k].grad) is None or k in self.frozen_later:
                parts.append(torch.zeros(last - first, dtype=self.dtype, device=self.device))
            else:
                whole = g.to_dense() if g.is_sparse else local(g) if self._sharded else g
                parts.append(whole.detach().reshape(-1)[first:last].to(self.dtype))
        return parts[0] if borrow and len(parts) == 1 else torch.cat(parts)

    def as_parameters(self, vector: Tensor) -> list[Tensor]:
        """Return a vector in pieces of the parameters' shapes, in the same memory; sharded as they are."""
        pieces = []
        for p, part in zip(self.params, vector.split(self.lengths), strict=True):
            if is_sharded(p):
                from torch.distributed.tensor import DTensor  # slow to import, and there where parameters are sharded

                sharded: Any = p
                how = {"shape": p.shape, "stride": p.stride(), "run_check": False}
                part = DTensor.from_local(part.view(local(p).shape), sharded.device_mesh, sharded.placements, **how)
            pieces.append(part if is_sharded(p) else part.view(p.shape))
        return pieces


def local(p: Tensor) -> Tensor:
    """Return what this process holds of a tensor, detached: of a sharded one its shard, in the same memory."""
    detached: Any = p.detach()
    return detached.to_local() if is_sharded(detached) else detached


def is_sharded(value: Any) -> bool:
    """Return True for a tensor of which this process holds a part, as FSDP2 makes them."""
    return hasattr(value, "to_local")


def looks(step: int, device: torch.device) -> bool:
    """Return True if all parameters are compared in this step: always on a CPU, seldom where the host would wait."""
    return device.type != "cuda" or step <= OFTEN or step % SELDOM == 0
