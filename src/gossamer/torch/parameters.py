"""The parameters of a model as one vector."""

import itertools
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from gossamer.core import InputError, State
from gossamer.torch import spare


class Flat:
    """Reads and writes all trained parameters as one vector, group by group; their own memory stays as it is.

    Those that are `frozen` when it is made (without ``requires_grad``) have no part in it. Those that are frozen later
    are `still`: they keep the value that they had then, whatever a rule makes of it. Of parameters that are sharded (by
    FSDP2), the vector holds this process's shards. Where they are of less than single precision, the vector is in
    single precision: small steps would be lost in them.

    After `unite` the parameters are views of one vector, which can then be a rule's model itself, without a copy.
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
        self.dtype, self.device = torch.promote_types(first.dtype, torch.float32), first.device
        """Of the vector."""
        self.sizes = [sum(local(p).numel() for p in group if p.requires_grad) for group in groups]
        self._lengths = [local(p).numel() for p in self.params]
        self._kinds = [_kind(p) for p in self.params]
        self.vector: Tensor | None = None
        """What the parameters are views of, after `unite`."""
        self._words = self._sums = self._total = torch.zeros(0)
        self._bits: tuple[Tensor, ...] = ()
        self.still: dict[int, Tensor] = {}
        """Parameters that were frozen since, by number, and the values that they keep."""

    def unite(self) -> None:
        """Let the parameters be views of one vector, where that changes nothing else.

        Not where they are sharded, of less than single precision, in another order than their numbers, or shared with
        other processes.
        """
        plain = [not is_sharded(p) and p.is_contiguous() and not (p.is_cpu and p.is_shared()) for p in self.params]
        if all(plain) and self.params[0].dtype == self.dtype:
            self.vector = spare.copied(self.read())
            for p, part in zip(self.params, self.vector.split(self._lengths), strict=True):
                p.data = part.view_as(p)
            self._words = self.vector.view(torch.int32 if self.dtype == torch.float32 else torch.int64)
            self._bits = self._words.split(self._lengths)

    def held(self, state: State) -> State:
        """A state whose model is the parameters themselves, after `unite`."""
        x = self.stilled(state.x)
        if self.vector is not None:
            self.write(x)
            x = self.vector
        return state if x is state.x else State(**dict(state) | {"x": x})

    def stilled(self, x: Tensor) -> Tensor:
        """A vector in which the parameters that are still have the values that they keep."""
        if not self.still:
            return x
        parts = list(x.split(self._lengths))
        for k, value in self.still.items():
            parts[k] = value
        return torch.cat(parts)

    @property
    def shapes(self) -> str:
        """The shapes as text, short enough to be printed."""
        shown = [str(tuple(p.shape)) for p in self.params] + [
            f"frozen {tuple(p.shape)} of {p.dtype}" for p in self.frozen
        ]
        return f"{sum(self._lengths)} numbers in " + " ".join(shown)

    def place(self, coordinate: int) -> str:
        """Which parameter holds a coordinate of the vector."""
        ends = itertools.accumulate(self._lengths)
        k = next(k for k, end in enumerate(ends) if coordinate < end)
        return f"parameter {k} (from 0) of shape {tuple(self.params[k].shape)}"

    def read(self) -> Tensor:
        """The parameters, as a new vector."""
        return torch.cat([local(p).reshape(-1).to(self.dtype) for p in self.params])

    def write(self, x: Tensor) -> None:
        """Put a vector into the parameters."""
        if self.vector is not None:
            if x is not self.vector:
                self.vector.copy_(x)
                self._sums = self._checksums()
                self._total = _checksum(self._sums)
            return
        with torch.no_grad():
            for part, p in zip(x.split(self._lengths), map(local, self.params), strict=True):
                p.copy_(part.view_as(p))

    def check_kinds(self) -> None:
        """Refuse to go on if parameters were converted or moved since; those that were frozen are still from now on."""
        for k, (p, kind) in enumerate(zip(self.params, self._kinds, strict=True)):
            if p.requires_grad:
                self.still.pop(k, None)
            elif k not in self.still:
                self.still[k] = local(p).reshape(-1).to(self.dtype, copy=True)
            if _kind(p) != kind:
                raise InputError(
                    f"parameter {k} (from 0) was {_shown(kind)} when Decentralized was made, and is {_shown(_kind(p))} "
                    "now: convert and move before it is made, or make a new one on all ranks."
                )

    def check_untouched(self, x: Tensor) -> None:
        """Refuse to go on if somebody else has written anything but this vector into the parameters, or changed them.

        All numbers are compared, by their checksums where there is no copy: what is written through ``p.data`` leaves
        no other trace.
        """
        self.check_kinds()
        if x is self.vector:
            touched = self._touched()
        else:
            parts = zip(map(local, self.params), x.split(self._lengths), strict=True)
            touched = [k for k, (p, part) in enumerate(parts) if not torch.equal(p, part.view_as(p).to(p.dtype))]
        if touched:
            raise InputError(
                f"parameter {touched[0]} (from 0; {len(touched)} in all) was written into since the optimizer did, and "
                "the next step would overwrite that: the rule owns the parameters. Load weights before Decentralized "
                "is made; go on with a run by gossamer.torch.resume; step outside of average_model."
            )

    def _touched(self) -> list[int]:
        """The parameters that are no views of the vector any more, or whose bits have changed."""
        moved = [
            k
            for k, (p, bits) in enumerate(zip(self.params, self._bits, strict=True))
            if p.data_ptr() != bits.data_ptr()
        ]
        if moved or torch.equal(_checksum(self._words), self._total):
            return moved
        return torch.nonzero(self._checksums() != self._sums).view(-1).tolist()

    def _checksums(self) -> Tensor:
        """That of each parameter."""
        return torch.stack([*map(_checksum, self._bits)])

    def check_gradients(self) -> None:
        """Refuse a step without gradients, or with those of parameters that have no part in it."""
        if any(p.grad is not None for p in self.frozen):
            raise InputError(
                "a parameter that was frozen when Decentralized was made has a gradient now: make a new optimizer "
                "after unfreezing, on all ranks."
            )
        if all(p.grad is None for k, p in enumerate(self.params) if k not in self.still):
            raise InputError("no parameter has a gradient: call loss.backward() before optimizer.step().")

    def gradient(self) -> Tensor:
        """The gradients, as a new vector; parameters that had no part in the loss have 0."""
        self.check_gradients()
        rows = [_of(p, k in self.still).to(self.dtype) for k, p in enumerate(self.params)]
        return torch.cat(rows, out=spare.empty(sum(self._lengths), self.dtype, self.device))


def _checksum(bits: Tensor) -> Tensor:
    """Words of parameters, added up; what overflows counts as well, so that parts may be added up in any order."""
    return bits.sum(dtype=bits.dtype)  # or else a copy would be made


def local(p: Tensor) -> Tensor:
    """What this process holds of a tensor, detached: of a sharded one its shard, in the same memory."""
    detached: Any = p.detach()
    return detached.to_local() if is_sharded(detached) else detached


def is_sharded(value: Any) -> bool:
    """Whether it is a tensor of which this process holds a part, as FSDP2 makes them."""
    return hasattr(value, "to_local")


def held(value: Any) -> Any:
    """A value of a state, of which only the shard that this process holds can be saved."""
    return local(value) if is_sharded(value) else value


def _kind(p: Tensor) -> tuple[Any, ...]:
    return p.dtype, p.device, p.shape


def _shown(kind: tuple[Any, ...]) -> str:
    dtype, device, shape = kind
    return f"{dtype} {tuple(shape)} on {device}"


def _of(p: Tensor, still: bool) -> Tensor:
    if p.grad is None or still:
        return torch.zeros_like(local(p)).reshape(-1)
    return (p.grad.detach().to_dense() if p.grad.is_sparse else local(p.grad)).reshape(-1)
