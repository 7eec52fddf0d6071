"""Gossip across one dimension of a DeviceMesh, beside FSDP2 or DistributedDataParallel inside the others.

mesh = init_device_mesh("cuda", (nodes, 8), mesh_dim_names=("across", "within"))
fully_shard(model, mesh=mesh["within"])
optimizer = decentralize(model, mesh["across"], gs.BiasedDMT(eta=0.1, lam=0.1), network="ring")
"""

import warnings
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh

from gossamer.basics.lazy_networkx import nx
from gossamer.core import InputError, brief
from gossamer.torch.optimizer import Decentralized

if TYPE_CHECKING:
    from gossamer.networks import Network


def decentralize(
    model: torch.nn.Module,
    mesh: DeviceMesh,
    rule: Any,
    network: "str | Network | nx.Graph" = "ring",
    *,
    params: Iterable[Any] | None = None,
    **options: Any,
) -> Decentralized:
    """Return the optimizer that runs a rule between the processes of a dimension of a mesh.

    Each process gossips with those of its own place in the other nodes: all of the model under
    DistributedDataParallel, its shards under `fully_shard`.

    Args:
        model: the model as it is trained, after `fully_shard` or DistributedDataParallel over the other dimensions.
        mesh: one dimension of a mesh, such as ``mesh["across"]``.
        rule: such as ``gs.BiasedDMT(eta=0.1, lam=0.1)``.
        network: of as many agents as the dimension has processes.
        params: parameter groups, where not all parameters are of one group.
        options: other arguments of `Decentralized`.
    """
    if not isinstance(model, torch.nn.Module):
        raise InputError(f"model must be the module that is trained, but is {brief(model)}.")
    group = _group_of(mesh)
    gossiping, shared = set(dist.get_process_group_ranks(group)), False
    for ranks, what, advice in _shared_over(model):
        shared = True
        if len(both := sorted(gossiping & ranks)) > 1:
            raise InputError(
                f"{what} over ranks {', '.join(map(str, both))}, which gossip with each other: their gradients would "
                f"be the same before the rule sees them. {advice}"
            )
    if not shared and dist.get_world_size() > len(gossiping) and dist.get_rank() == 0:
        warnings.warn(
            f"{len(gossiping)} of {dist.get_world_size()} processes gossip with each other, and nothing keeps the "
            "copies inside a node together: give decentralize the model after fully_shard or DistributedDataParallel "
            "over the other dimensions of the mesh.",
            stacklevel=2,
        )
    if (kinds := {p.device.type for p in model.parameters()}) - {mesh.device_type}:
        raise InputError(
            f"the mesh is of {mesh.device_type}, but parameters are on {', '.join(sorted(kinds))}: move the model "
            "first, or make the mesh by init_device_mesh for its device."
        )
    return Decentralized(
        model.parameters() if params is None else params, rule, network, process_group=group, module=model, **options
    )


def _group_of(mesh: DeviceMesh) -> dist.ProcessGroup:
    """Return the process group of a mesh of one dimension that this process is in."""
    if not isinstance(mesh, DeviceMesh) or mesh.ndim != 1:
        raise InputError(
            "mesh must be one dimension of a DeviceMesh, that across nodes, such as "
            'init_device_mesh("cuda", (nodes, 8), mesh_dim_names=("across", "within"))["across"], but is '
            f"{brief(mesh)}."
        )
    if mesh.get_coordinate() is None:
        raise InputError(
            f"this process (rank {dist.get_rank()} of all) is not in the mesh of ranks {mesh.mesh.tolist()}: only "
            "processes that are in it may call decentralize."
        )
    return mesh.get_group()


def _shared_over(model: torch.nn.Module) -> Iterator[tuple[set[int], str, str]]:
    """Yield, for all that is kept together by several processes, their ranks, what it is, and the way out."""
    for name, module in model.named_modules():
        if isinstance(group := getattr(module, "process_group", None), dist.ProcessGroup):  # as DDP and FSDP1 have
            ranks = set(dist.get_process_group_ranks(group))
            what = f"{'the model' if not name else repr(name)} is wrapped in {type(module).__name__}"
            yield ranks, what, 'Wrap it over the other dimension alone: process_group=mesh["within"].get_group().'
    for name, p in model.named_parameters():
        if isinstance(mesh := getattr(p, "device_mesh", None), DeviceMesh):
            for k in range(mesh.ndim):
                what = f"parameter {name!r} is sharded or kept alike"
                ranks = set(dist.get_process_group_ranks(mesh.get_group(k)))
                yield ranks, what, 'Shard it over the other dimension alone: fully_shard(model, mesh=mesh["within"]).'
