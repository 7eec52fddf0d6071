"""Habits of training loops that take two ranks: a compiled step, wrapped models, the mean between steps."""

import warnings

import gossamer as gs


def all_of_them(rank, size):
    """One start of processes for all of it."""
    found = {"wrapped": wrapped(rank), "mean": mean(rank), "compiled step": compiled_step(rank)}
    return found | {"uneven": uneven(rank)}  # the last one, since its ranks part


def made():
    """A model, and its optimizer."""
    import torch

    from gossamer.torch import Decentralized

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Tanh(), torch.nn.Linear(3, 1)).double()
    rule = gs.BiasedDMT(eta=0.1, lam=0.3)
    return model, Decentralized(model.parameters(), rule, "complete", timeout=20)


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
