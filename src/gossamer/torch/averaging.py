"""The mean model of all ranks, how far they are from it, and what rank 0 has for all."""

import contextlib
from collections.abc import Iterable, Iterator

import torch
from torch import Tensor

from gossamer.torch.parameters import Flat, local
from gossamer.torch.world import ProcessWorld


@contextlib.contextmanager
def averaged(flat: Flat, to_show: list[Tensor], module: torch.nn.Module | None) -> Iterator[None]:
    """Inside, the parameters are these `means`, and so are the floating buffers of the module."""
    buffers = _floating(module)
    mine, kept = flat.read(), [b.clone() for b in buffers]
    flat.write(to_show.pop(0))
    with torch.no_grad():
        for buffer, value in zip(buffers, to_show, strict=True):
            buffer.copy_(value)
    try:
        yield
    finally:
        flat.write(mine)
        with torch.no_grad():
            for buffer, value in zip(buffers, kept, strict=True):
                buffer.copy_(value)


def means(flat: Flat, world: ProcessWorld, module: torch.nn.Module | None) -> list[Tensor]:
    """The mean over all ranks of the parameters, and of each floating buffer of the module."""
    return [mean(flat.read(), world), *(mean(buffer, world) for buffer in _floating(module))]


def _floating(module: torch.nn.Module | None) -> list[Tensor]:
    return [] if module is None else [b for b in module.buffers() if b.is_floating_point()]


def give_out(tensors: Iterable[Tensor], world: ProcessWorld) -> None:
    """Make tensors those of rank 0."""
    with torch.no_grad():
        for mine in map(local, tensors):
            mine.copy_(world.broadcast(mine))


def mean(a: Tensor, world: ProcessWorld) -> Tensor:
    """(1/n) Σ_i a_i, added up in single precision at least."""
    return world.total(a.to(torch.promote_types(a.dtype, torch.float32))) / world.size


def consensus_error(x: Tensor, world: ProcessWorld) -> float:
    """(1/n) Σ_i ‖x_i − x̄‖², in double precision."""
    x = x.double()
    apart = (x - world.total(x) / world.size).square().sum()
    return float(world.total(apart) / world.size)
