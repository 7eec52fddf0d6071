"""Two nodes of two processes: DistributedDataParallel or FSDP2 inside a node, gossip across nodes."""

from typing import Any

import numpy as np

import gossamer as gs
from tests.torch_engine import quadratics

STEPS = 6
RULE = gs.BiasedDMT(eta=0.05, lam=0.3)


def of_nodes():
    """The two nodes' Hessians, centres and biases, each the mean of its two processes' losses; and the start."""
    A, b, E, start = quadratics.problem(4)
    H = A.reshape(2, 2, 6, 6).mean(1)
    slope = np.einsum("nde,ne->nd", A, b).reshape(2, 2, 6).mean(1)
    return (
        H,
        np.stack([np.linalg.solve(*pair) for pair in zip(H, slope, strict=True)]),
        E.reshape(2, 2, 6).mean(1),
        start,
    )


def simulated():
    """Where the simulator has the two nodes, [2, d]: an optimizer shows where the next gradient is asked for."""
    H, centres, biases, start = of_nodes()
    result = gs.simulate(
        RULE, gs.problems.quadratic(H, centres), gs.networks.complete(2),
        gs.oracles.exact() | gs.oracles.additive_bias(vectors=biases),
        steps=STEPS, start=start, dtype="float64", seeds=1, progress=False,
    )  # fmt: skip
    return result.iterates["biased-dmt"][0]


def trained(rank, size, folder):
    """Where this process's node ends, with each way inside; straight, and resumed after three steps."""
    import torch
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.nn.parallel import DistributedDataParallel

    from gossamer.torch import decentralize, resume, save

    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("nodes", "within"))
    A, b, E, start = (torch.from_numpy(a) for a in quadratics.problem(4))

    class Loss(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.x = torch.nn.Parameter(start.clone())

        def forward(self):
            away = self.x - b[rank]
            return away @ A[rank] @ away / 2 + E[rank] @ self.x

    def with_ddp(module):
        return DistributedDataParallel(module, process_group=mesh["within"].get_group())

    def with_fsdp(module):
        return fully_shard(module, mesh=mesh["within"])

    found = {}
    for name, wrapped in (("ddp", with_ddp), ("fsdp", with_fsdp)):
        for first, last in ((0, 3), (3, STEPS)):  # two lives
            module = Loss()
            model = wrapped(module)
            optimizer = decentralize(model, mesh["nodes"], RULE, "complete", timeout=30)
            assert resume(f"{folder}/{name}", module, optimizer) == first
            for _ in range(first, last):
                optimizer.zero_grad()
                model().backward()
                optimizer.step()
            save(f"{folder}/{name}", last, module, optimizer)
        x: Any = module.x.detach()
        found[name] = (x.full_tensor() if hasattr(x, "full_tensor") else x).numpy()
        found[f"{name}, sent"] = optimizer.counters.bytes_sent
        found[f"{name}, place"] = optimizer.world.rank, optimizer.world.size
    return found


def refused(rank, size):
    """What this process is told of meshes and models over which it cannot gossip, and what it is warned of."""
    import warnings

    import torch
    from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.nn.parallel import DistributedDataParallel

    from gossamer.torch import decentralize

    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("across", "within"))
    half = DeviceMesh("cpu", [0, 1])

    def model():
        return torch.nn.Linear(4, 4)

    def told(given, over, **options):
        try:
            decentralize(given, over, RULE, "complete", timeout=20, **options)
        except gs.InputError as error:
            return str(error)

    found = {
        "two dimensions": told(model(), mesh),
        "a group": told(model(), mesh["across"].get_group()),
        "not in it": told(model(), half) if rank > 1 else "",
        "parameters": told(model().parameters(), mesh["across"]),
        "ddp over all": told(DistributedDataParallel(model()), mesh["across"]),
        "ddp across": told(
            torch.nn.Sequential(DistributedDataParallel(model(), process_group=mesh["across"].get_group())),
            mesh["across"],
        ),
        "sharded across": told(fully_shard(model(), mesh=mesh["across"]), mesh["across"]),
        "sharded within, copied across": told(fully_shard(model(), mesh=mesh), mesh["across"]),
        "another device": told(model().to("meta"), mesh["across"]),
        "sharded within": told(fully_shard(model(), mesh=mesh["within"]), mesh["across"]),
    }
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found["alone"] = told(model(), mesh["across"])
    found["warned"] = [str(warning.message) for warning in caught]
    return found
