"""Habits of training loops that take two ranks: checkpoints by tools of PyTorch, a compiled step, wrapped models."""

import warnings
from typing import Any

import gossamer as gs

RULES = {
    "biased-dmt": gs.BiasedDMT(eta=0.1, lam=0.3),
    "d-psgd": gs.DPSGD(eta=0.1),
    "gnsd": gs.GNSD(eta=0.1),
    "adamw inside": gs.DPSGD(eta=1.0),
}
SAVING = ("dcp.save", "dcp.async_save", "get_state_dict", "torch.save a rank")


def all_of_them(rank, size, folder):
    """One start of processes for all of it."""
    found = {(way, rule): saved(rank, f"{folder}/{way}-{rule}", way, rule) for way in SAVING for rule in RULES}
    found["wrapped"] = wrapped(rank)
    found["mean"] = mean(rank)
    found["compiled step"] = compiled_step(rank)
    found["uneven"] = uneven(rank)  # the last one, since its ranks part
    return found


def made(rule="biased-dmt"):
    """A model, and its optimizer."""
    from functools import partial

    import torch

    from gossamer.torch import Decentralized

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Tanh(), torch.nn.Linear(3, 1)).double()
    inner = partial(torch.optim.AdamW, lr=0.1) if rule == "adamw inside" else None
    return model, Decentralized(model.parameters(), RULES[rule], "complete", inner=inner, timeout=20)


def train(rank, model, optimizer, first, last, step=None):
    import torch

    for k in range(first, last):
        draw = torch.Generator().manual_seed(100 * rank + k)
        optimizer.zero_grad()
        model(torch.randn(4, 3, generator=draw, dtype=torch.float64)).square().sum().backward()
        (step or optimizer.step)()


def numbers(model):
    import torch

    return torch.cat([p.detach().reshape(-1) for p in model.parameters()]).tolist()


def saved(rank, folder, way, rule):
    """Where a run of six steps ends, and where one ends that another process of this rank went on with after three."""
    import torch
    import torch.distributed as dist
    from torch.distributed import checkpoint
    from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

    dcp: Any = checkpoint
    model, optimizer = made(rule)
    train(rank, model, optimizer, 0, 3)
    if way.startswith("dcp"):
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
        if way == "dcp.save":
            dcp.save(state, checkpoint_id=folder)
        else:
            dcp.async_save(state, checkpoint_id=folder).result()
    elif way == "get_state_dict":
        of_model, of_optimizer = get_state_dict(model, optimizer)
        dcp.save({"model": of_model, "optimizer": of_optimizer}, checkpoint_id=folder)
    else:
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, f"{folder}-{rank}.pt")
    dist.barrier()
    train(rank, model, optimizer, 3, 6)
    straight = numbers(model)

    model, optimizer = made(rule)
    if way.startswith("dcp"):
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
        dcp.load(state, checkpoint_id=folder)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
    elif way == "get_state_dict":
        of_model, of_optimizer = get_state_dict(model, optimizer)
        dcp.load({"model": of_model, "optimizer": of_optimizer}, checkpoint_id=folder)
        set_state_dict(model, optimizer, model_state_dict=of_model, optim_state_dict=of_optimizer)
    else:
        state = torch.load(f"{folder}-{rank}.pt")
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
    train(rank, model, optimizer, 3, 6)
    return straight, numbers(model)


def compiled_step(rank):
    """Where three steps end, and three compiled ones; or what is said of them."""
    import torch

    model, optimizer = made()
    train(rank, model, optimizer, 0, 3)
    plain = numbers(model)
    model, optimizer = made()
    try:
        train(rank, model, optimizer, 0, 3, step=torch.compile(optimizer.step, backend="eager"))
    except gs.InputError as error:
        return plain, str(error)
    return plain, numbers(model)


def wrapped(rank):
    """Warnings of a model whose gradients are averaged before the rule sees them."""
    from torch.nn.parallel import DistributedDataParallel

    model, optimizer = made()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        train(rank, DistributedDataParallel(model), optimizer, 0, 2)
    return [str(warning.message) for warning in caught if "same first gradient" in str(warning.message)]


def mean(rank):
    """The mean model, evaluated between steps, and this rank's own."""
    model, optimizer = made()
    train(rank, model, optimizer, 0, 2)
    with optimizer.average_model(model):
        shared = numbers(model)
    own = numbers(model)
    train(rank, model, optimizer, 2, 3)
    return shared, own


def uneven(rank):
    """What is said where rank 1 has taken a step more."""
    import torch

    from gossamer.torch import Decentralized

    x = torch.nn.Parameter(torch.ones(2))
    optimizer = Decentralized([x], gs.DPSGD(eta=0.1), "complete", timeout=20)
    for _ in range(1 + rank):  # the message of the neighbour is there already
        x.sum().backward()
        optimizer.step()
    try:
        optimizer.consensus_error()
    except gs.InputError as error:
        return str(error)
    return ""
