"""What goes wrong silently elsewhere, on two ranks: states of another rank, wrapped models, random buffers, halves."""

import json
import warnings
from typing import Any

import gossamer as gs


def all_of_them(rank, size, folder):
    """One process start for all of it."""
    return {
        "wrong rank": loading_the_state_of_rank_0(rank, folder),
        "warned": warned_of(rank, wrapped=True),
        "not warned": warned_of(rank, wrapped=False),
        "buffers": buffers(rank),
        "halves": halves(rank),
        "saved": saved(rank, folder),
        "unfit": unfit(rank, folder),
    }


def loading_the_state_of_rank_0(rank, folder):
    """What each rank is told, as popular trainers save what rank 0 has and load it everywhere."""
    import torch
    import torch.distributed as dist

    from tests.torch_engine.worlds import pair

    model, optimizer = pair()
    (rank * model[0].sum()).backward()
    optimizer.step()
    own = optimizer.state_dict()
    if rank == 0:
        torch.save(own, f"{folder}/everybody.pt")
    dist.barrier()
    before = model[0].detach().clone()
    try:
        optimizer.load_state_dict(torch.load(f"{folder}/everybody.pt", weights_only=True))
    except gs.InputError as error:
        told = str(error)
    else:
        told = ""
    optimizer.load_state_dict(own)
    return told, torch.equal(model[0], before)


def warned_of(rank, wrapped):
    """The warnings of two steps on data of each rank's own; DistributedDataParallel averages gradients."""
    import torch

    from gossamer.torch import Decentralized

    torch.manual_seed(0)
    model = torch.nn.Linear(3, 1)
    inner = torch.nn.parallel.DistributedDataParallel(model) if wrapped else model
    optimizer = Decentralized(model.parameters(), gs.BiasedDMT(eta=0.1, lam=0.5), "complete", timeout=20)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            optimizer.zero_grad()
            inner(torch.full((2, 3), rank + 1.0)).sum().backward()
            optimizer.step()
    return [str(warning.message) for warning in caught if "same first gradient" in str(warning.message)]


def buffers(rank):
    """A buffer that each rank drew for itself, without and with the module, and one that is no float."""
    import torch

    from gossamer.torch import Decentralized

    found = []
    for given in (False, True):
        module: Any = torch.nn.BatchNorm1d(2)
        module.register_buffer("drawn", torch.full((2,), float(rank)))
        module.num_batches_tracked.fill_(7 - rank)
        Decentralized(module.parameters(), gs.DPSGD(eta=0.1), "complete", module=module if given else None, timeout=20)
        found.append((module.drawn.tolist(), int(module.num_batches_tracked)))
    return found


def halves(rank):
    """Parameters in bfloat16 for 300 steps: the types of the state, and sums of trackers and of momenta."""
    import torch

    from gossamer.torch import Decentralized

    x = torch.nn.Parameter(torch.ones(4, dtype=torch.bfloat16))
    optimizer = Decentralized([x], gs.BiasedDMT(eta=0.01, lam=0.1), "complete", timeout=20)
    generator = torch.Generator().manual_seed(rank)
    for _ in range(300):
        optimizer.zero_grad()
        (x * (1 + torch.randn(4, generator=generator)).bfloat16()).sum().backward()
        optimizer.step()
    state = optimizer._rounds.buffers
    types = {str(value.dtype) for value in state.values()} | {str(x.dtype)}
    shown = torch.equal(x.detach(), state["x"].bfloat16())
    return types, shown, *(optimizer.world.total(state[key]).tolist() for key in "vm")


def saved(rank, folder):
    """Models of each rank's own, in a folder of checkpoints."""
    import torch

    from gossamer.torch import Decentralized, save

    model = torch.nn.BatchNorm1d(2, dtype=torch.float64)
    optimizer = Decentralized(model.parameters(), gs.DPSGD(eta=1.0), "complete", timeout=20)
    ((rank + 1) * model.weight.sum()).backward()
    optimizer.step()
    model.running_mean.fill_(rank)
    save(f"{folder}/checkpoints", 1, model, optimizer)
    return model.weight.tolist()


def unfit(rank, folder):
    """What each rank is told where only the folder of rank 0 is of another world; then both take a step."""
    from pathlib import Path

    from gossamer.torch import resume
    from tests.torch_engine.worlds import pair

    mine = Path(folder, f"of-{rank}")
    mine.mkdir()
    if rank == 0:
        (mine / "step-000000004").mkdir()
        for k in range(3):
            told = {"format": 4, "step": 4, "ranks": 3, "agents": 3, "files": {}}
            (mine / "step-000000004" / f"sum-{k}.json").write_text(json.dumps(told))
    model, optimizer = pair()
    try:
        resume(mine, model, optimizer)
    except gs.InputError as error:
        model[0].sum().backward()
        optimizer.step()
        return str(error)
