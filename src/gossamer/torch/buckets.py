"""The parameters of a model as one vector, which travels in buckets and is computed in chunks."""

import itertools
import operator
import weakref
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gossamer.core import InputError

SMALLEST = 1 << 18  # numbers that a bucket has at least: a message of fewer costs more than is gained while it travels
MOST = 16  # buckets that there are at most
CHUNK = 1 << 17  # numbers of a chunk on a CPU, whose caches then hold what a rule computes in between
OFTEN, SELDOM = 3, 100
"""On a GPU parameters are compared with what the rule wrote in so many first steps, and then in each so many-th."""


class Span(NamedTuple):
    """A part of the vector: the numbers from `first` up to `last`."""

    number: int
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
        self._kinds = [(p.dtype, p.device, p.shape) for p in self.params]
        self._sharded = any(map(is_sharded, self.params))
        self.vector: Tensor | None = None  # the memory that the parameters are views of, after `unite`
        self._signature: tuple[list[int], Tensor] | None = None
        self.frozen_later: dict[int, Tensor] = {}
        """Parameters that were frozen since, by number, and the values that they keep."""

    def divide(self, length: int, first: int = 0, last: int | None = None) -> list[Span]:
        """Return the vector, or the numbers from `first` up to `last` of it, in spans of a length."""
        end, ends, spans = self.size if last is None else last, list(itertools.accumulate(self.lengths)), []
        for number, start in enumerate(range(first, end, length)):
            stop = min(start + length, end)
            pieces = [
                (k, max(start - upto + size, 0), min(stop - upto + size, size))
                for k, (upto, size) in enumerate(zip(ends, self.lengths, strict=True))
                if upto > start and upto - size < stop
            ]
            spans.append(Span(number, start, stop, tuple(pieces)))
        return spans

    def make_buckets(self, several: bool) -> list[Span]:
        """Return the buckets: one, or several of equal length where the model is large."""
        return self.divide(-(-self.size // (min(MOST, -(-self.size // SMALLEST)) if several else 1)))

    def make_chunks(self, bucket: Span) -> list[Span]:
        """Return the chunks of a bucket. On a GPU they are longer, as each operation must be started there."""
        on_cpu = self.device.type == "cpu"
        return self.divide(CHUNK if on_cpu else max(SMALLEST, -(-self.size // MOST)), bucket.first, bucket.last)

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

    def locate(self, pieces: Sequence[Tensor], start: int = 0) -> str:
        """Say which parameter the first inf or NaN belongs to.

        Args:
            pieces: gradients of parameters, or vectors that follow each other.
            start: where in the vector the first of these begins.
        """
        for a in pieces:
            if len(bad := torch.nonzero(~torch.isfinite(a.reshape(-1)))):
                ends, coordinate = itertools.accumulate(self.lengths), (start + int(bad[0])) % self.size
                grads = [(k, p.grad) for k, p in enumerate(self.params) if p.grad is not None and not p.grad.is_sparse]
                own = [k for k, grad in grads if local(grad).data_ptr() == a.data_ptr()]
                k = (own or [k for k, end in enumerate(ends) if coordinate < end])[0]
                return f"parameter {k} (from 0) of shape {tuple(self.params[k].shape)}"
            start += a.numel()
        raise AssertionError("all numbers are finite")

    def read(self, span: Span | None = None) -> Tensor:
        """Return the parameters, or those of a span, as a new vector."""
        flat = [local(p).reshape(-1) for p in self.params]
        parts = flat if span is None else [flat[k][first:last] for k, first, last in span.pieces]
        return torch.cat([part.to(self.dtype) for part in parts])

    @torch.no_grad()
    def write(self, x: Tensor, span: Span | None = None) -> None:
        """Put a vector into the parameters, or into those of a span."""
        if self.vector is not None:
            part = self.vector if span is None else span.of(self.vector)
            if part.data_ptr() != x.data_ptr():
                part.copy_(x)
            return
        pieces = [(k, 0, n) for k, n in enumerate(self.lengths)] if span is None else span.pieces
        parts = x.split([last - first for _, first, last in pieces])
        for (k, first, last), part in zip(pieces, parts, strict=True):
            mine = local(self.params[k])
            if last - first == mine.numel():
                mine.copy_(part.view_as(mine))
            else:
                mine.view(-1)[first:last].copy_(part)

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


class Hooks:
    """Hooks that hand over a bucket's gradient once backward has made it, and those of all buckets after it.

    A parameter's gradient is complete only after all of its uses in the graph: nothing in this backward reads the
    parameter any more, and a rule may move it. Buckets are taken from the last to the first on all ranks, although
    backward may complete them in another order on each: a rank that waits for a bucket of a neighbour would else wait
    for one that the neighbour takes later, and NCCL would take one bucket for another.
    """

    def __init__(self, flat: Flat, buckets: Sequence[Span], take: Callable[[Span], None]):
        self._params, self._buckets, self._take = flat.params, buckets, weakref.WeakMethod(take)
        self._versions: dict[int, int] = {}  # by parameter, which version of its gradient backward has made
        self._begin()
        hooks = weakref.ref(self)  # parameters may outlive the optimizer

        def accumulate(_: Tensor, k: int, own: list[Span]) -> None:
            if (alive := hooks()) is not None:
                alive._accumulate(k, own)

        for k, p in enumerate(flat.params):
            own = [bucket for bucket in buckets if any(k == piece for piece, *_ in bucket.pieces)]
            p.register_post_accumulate_grad_hook(partial(accumulate, k=k, own=own))

    def _begin(self) -> None:
        self.left = list(reversed(self._buckets))  # those that were not taken since the last step, in their order
        self._missing = [len(bucket.pieces) for bucket in self._buckets]

    def _accumulate(self, k: int, own: Sequence[Span]) -> None:
        self._versions[k] = self._version(k)
        for bucket in own:
            if self._missing[bucket.number] == 0:
                raise InputError(
                    'backward ran twice before a step, but overlap="backward" takes each gradient as soon as it is '
                    "there: leave it out where gradients are accumulated."
                )
            self._missing[bucket.number] -= 1
        while self.left and not self._missing[self.left[0].number]:
            bucket, take = self.left.pop(0), self._take()
            if take is not None:
                take(bucket)

    def _version(self, k: int) -> int:
        gradient: Any = self._params[k].grad
        return -1 if gradient is None else gradient._version

    def end_step(self) -> list[Span]:
        """Return the buckets that were not taken yet, in their order, and begin with the next step."""
        left = self.left
        if changed := sorted(k for k, version in self._versions.items() if self._version(k) != version):
            raise InputError(
                f"the gradient of parameter {changed[0]} (from 0; {len(changed)} in all) was changed between backward "
                'and step, by clipping say, but overlap="backward" has taken it before: leave that out.'
            )
        self._versions.clear()
        self._begin()
        return left


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
