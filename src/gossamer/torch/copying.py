"""What a process that joins is sent: the state of a neighbour, and what else the models consist of."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from gossamer.core import State
from gossamer.networks import Network
from gossamer.torch.parameters import local
from gossamer.torch.stopping import NeighborLost
from gossamer.torch.world import ProcessWorld, in_short

COPIES = 0x60553
"""The tag of what a process that joins is sent."""


def copied(
    world: ProcessWorld,
    network: Network,
    t: int,
    state: State | None,
    told: list[dict[str, Any]],
    names: list[str],
    veterans: list[int],
    besides: Sequence[Tensor],
) -> State:
    """The state of this rank, in these arrays; those that join are sent that of a neighbour. All ranks must call it.

    Args:
        world: all ranks.
        network: tells the neighbours, in round `t`.
        t: the round.
        state: what this rank has; None where it joins.
        told: what each rank told of its arrays.
        names: the arrays.
        veterans: the ranks that have a state.
        besides: tensors that those that join are given as well, in place.
    """
    sources = {rank: _source(network, max(t, 0), rank, veterans) for rank in range(world.size) if rank not in veterans}
    if state is not None:
        own = [a.contiguous() for a in (*(state[name] for name in names), *map(local, besides))]
        to = [rank for rank, source in sources.items() if source == world.rank]
        # all at once, so that none of those that join waits for another one
        _finished(world, [(rank, world.group.send, a) for rank in to for a in own])
        return State(**{name: state[name] for name in names})
    source = sources[world.rank]
    kinds = [told[source]["arrays"][name] for name in names]
    received = [
        torch.empty(shape, dtype=getattr(torch, kind.removeprefix("torch.")), device=world.device)
        for shape, kind in kinds
    ]
    others = [torch.empty_like(local(a), memory_format=torch.contiguous_format) for a in besides]
    _finished(world, [(source, world.group.recv, a) for a in (*received, *others)])
    with torch.no_grad():
        for mine, a in zip(map(local, besides), others, strict=True):
            mine.copy_(a)
    return State(**dict(zip(names, received, strict=True)))


def _source(network: Network, t: int, rank: int, veterans: list[int]) -> int:
    """Whose state a rank is sent that joins: that of its first neighbour, if it has one that has a state."""
    row = network.matrix(t, "W" if network.stochastic == "doubly" else "R")[[rank], :].tocoo()
    return min({int(j) for j in row.col} & set(veterans), default=veterans[0])


def _finished(world: ProcessWorld, copies: list[tuple[int, Any, Tensor]]) -> None:
    """Send or receive all of them."""
    try:
        for work in [do([a], rank, COPIES) for rank, do, a in copies]:
            world.wait(work)
    except RuntimeError as error:
        ranks = ", ".join(str(rank) for rank in sorted({rank for rank, _, _ in copies}))
        raise NeighborLost(
            f"rank {world.rank} lost rank {ranks}, while a state was copied ({in_short(error)})."
        ) from error
