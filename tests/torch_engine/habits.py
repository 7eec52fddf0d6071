"""Habits of training loops that take two ranks: checkpoints by tools of PyTorch, a compiled step, wrapped models."""

import warnings
from pathlib import Path

import gossamer as gs

RULES = {
    "biased-dmt": gs.BiasedDMT(eta=0.1, lam=0.3),
    "d-psgd": gs.DPSGD(eta=0.1),
    "gnsd": gs.GNSD(eta=0.1),
    "adamw inside": gs.DPSGD(eta=1.0),
}
SAVING = {
    "dcp.save": "dcp",
    "dcp.async_save": "dcp async",
    "get_state_dict": "state_dict of dcp",
    "torch.save a rank": "torch.save",
}
"""Ways to save, by their names in `kept_states`."""


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
    import torch.distributed as dist

    from tests.torch_engine import kept_states

    model, optimizer = made(rule)
    train(rank, model, optimizer, 0, 3)
    kept_states.stored(SAVING[way], Path(folder), model, optimizer, rank)
    dist.barrier()
    train(rank, model, optimizer, 3, 6)
    straight = numbers(model)

    model, optimizer = made(rule)
    kept_states.loaded(SAVING[way], Path(folder), model, optimizer, rank)
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
