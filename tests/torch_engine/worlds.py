"""What four ranks see of each other."""

from functools import partial
from typing import Any

import gossamer as gs
from gossamer import networks


def differing(rank, size, what):
    """Rank 2 is made otherwise than the others."""
    import torch

    from gossamer.torch import Decentralized

    odd = rank == 2
    shape = (4,) if odd and what == "shape" else (3,)
    dtype = torch.float64 if odd and what == "dtype" else torch.float32
    rule = gs.DPSGD(eta=0.2 if odd and what == "rule" else 0.1)
    network = "complete" if odd and what == "network" else "ring"
    if what == "later":
        rounds = [networks.ring(4)] * 5 + [networks.complete(4) if odd else networks.ring(4)]
        network = networks.sequence(rounds)
    options: dict[str, Any] = {"asynchronous": odd} if what == "asynchronous" else {}
    if what == "inner":
        options["inner"] = partial(torch.optim.AdamW, lr=0.02 if odd else 0.01)
    Decentralized([torch.nn.Parameter(torch.zeros(shape, dtype=dtype))], rule, network, timeout=10, **options)


def together(rank, size):
    """Facts about helpers, on ranks that start apart."""
    import torch

    from gossamer import compressors
    from gossamer.torch import Decentralized

    module: Any = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2)).double()
    with torch.no_grad():
        module[0].weight.fill_(float(rank))
    optimizer = Decentralized(module.parameters(), gs.DPSGD(eta=1.0), "ring", timeout=20)
    found = {"start": module[0].weight.detach().clone().numpy()}
    optimizer.zero_grad()
    (rank * module[0].weight.sum()).backward()
    optimizer.step()  # D-PSGD from a common start: x_i = −i
    module[1].running_mean.fill_(float(rank))
    found["own"] = module[0].weight.detach().clone().numpy()
    with optimizer.average_model(module):
        found["mean"] = module[0].weight.detach().clone().numpy()
        found["buffer"] = module[1].running_mean.clone().numpy()
    found["after"] = module[0].weight.detach().clone().numpy()
    found["buffer after"] = module[1].running_mean.clone().numpy()
    found["consensus"] = optimizer.consensus_error()
    found["counters"] = optimizer.counters
    found["compressed"] = sent_by(gs.ChocoSGD(0.1, 0.5, compressors.top_k(3)))
    found["idle"] = idle_buffers(gs.BiasedDMT(0.1, 0.3))
    found["overflow"] = overflowing(rank)
    return found


def sent_by(rule):
    """Bytes and messages of three steps with 100 numbers in float32."""
    import torch

    from gossamer.torch import Decentralized

    x = torch.nn.Parameter(torch.zeros(100))
    optimizer = Decentralized([x], rule, "ring", timeout=20)
    for _ in range(3):
        optimizer.zero_grad()
        (x * torch.arange(100)).sum().backward()
        optimizer.step()
    return optimizer.counters.bytes_sent, optimizer.counters.messages


def idle_buffers(rule):
    """How many buffers are in no message, after steps that overlap."""
    import torch

    from gossamer.torch import Decentralized

    x = torch.nn.Parameter(torch.zeros(100))
    optimizer = Decentralized([x], rule, "ring", timeout=20)
    for _ in range(2):
        optimizer.zero_grad()
        x.sum().backward()
        optimizer.step()
    return len(optimizer.exchange._free)


def overflowing(rank):
    """Only rank 1 overflows; no other rank waits for it in vain."""
    import torch

    from gossamer.torch import Decentralized

    x = torch.nn.Parameter(torch.ones(2))
    optimizer = Decentralized([x], gs.BiasedDMT(eta=0.1, lam=0.5), "ring", timeout=10)
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    for k in range(4):
        optimizer.zero_grad()
        scaler.scale(x.square().sum()).backward()
        if rank == 1 and k == 2:
            x.grad[0] = float("nan")
        scaler.step(optimizer)
        scaler.update()
    return optimizer.counters.overflows, bool(torch.isfinite(x).all())


def leaving_early(rank, size):
    """The last step of a slow rank ends well after its neighbours have gone."""
    import time

    import torch

    from gossamer.torch import Decentralized

    x = torch.nn.Parameter(torch.ones(2))
    optimizer = Decentralized([x], gs.BiasedDMT(eta=0.1, lam=0.5), "ring", timeout=10)
    for k in range(3):
        optimizer.zero_grad()
        x.square().sum().backward()
        if rank == 1 and k == 2:
            time.sleep(2)
        optimizer.step()
    return optimizer.overlap


def two_at_once(rank, size):
    """Two optimizers that take turns, and then a third while messages of the first are still on their way."""
    import torch

    from gossamer.torch import Decentralized

    def made(value):
        x = torch.nn.Parameter(torch.full((3,), value, dtype=torch.float64))
        return x, Decentralized([x], gs.BiasedDMT(eta=0.1, lam=0.5), "ring", timeout=20)

    def step(x, optimizer):
        optimizer.zero_grad()
        ((x - rank) ** 2).sum().backward()
        optimizer.step()

    both = [made(0.0), made(10.0)]
    for _ in range(10):
        for pair in both:
            step(*pair)
    del both[0]
    third = made(0.0)
    for _ in range(10):
        step(*third)
        step(*both[0])
    return third[0].detach().numpy(), both[0][0].detach().numpy()


def saved_twice(rank, size, folder):
    """The parameters after the first of two steps, both of which are saved."""
    from gossamer.torch import save

    model, optimizer = pair()
    found = None
    for step in (1, 2):
        optimizer.zero_grad()
        ((rank + 1) * model[0].square().sum()).backward()
        optimizer.step()
        save(folder, step, model, optimizer)
        found = model[0].detach().clone().numpy() if found is None else found
    return found


def resumed(rank, size, folder):
    """The step from which it goes on, the parameters there, and what was warned of."""
    import warnings

    from gossamer.torch import resume

    model, optimizer = pair()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        step = resume(folder, model, optimizer)
    return step, model[0].detach().numpy(), [str(warning.message) for warning in caught]


def pair():
    """A small model and its optimizer."""
    import torch

    from gossamer.torch import Decentralized

    model = torch.nn.ParameterList([torch.nn.Parameter(torch.ones(3, dtype=torch.float64))])
    return model, Decentralized(model.parameters(), gs.BiasedDMT(eta=0.1, lam=0.5), "complete", timeout=20)


def apart(rank, size):
    """What the ranks are told where they took different numbers of steps, or have different rates; and of layouts."""
    import torch

    from gossamer.torch import Decentralized, NeighborLost

    def told(change):
        x = torch.nn.Parameter(torch.ones(2))
        optimizer = Decentralized([x], gs.DPSGD(eta=0.1), "complete", timeout=20)
        x.square().sum().backward()
        optimizer.step()
        change(optimizer)
        try:
            optimizer.consensus_error()
        except gs.InputError as error:
            return str(error)

    def once_more(optimizer):
        if rank == 0:  # the message of the neighbour is there already
            optimizer.step()

    def slower(optimizer):
        optimizer.param_groups[0]["lr"] /= 2 - rank

    found = {"rates": told(slower)}
    x = torch.nn.Parameter(torch.ones(2))
    optimizer = Decentralized([x], gs.DPSGD(eta=0.1), "complete", timeout=20)
    (rank * x.sum()).backward()
    optimizer.step()
    # the same shape, but rank 0 keeps its numbers in another order
    frozen = torch.nn.Parameter(torch.arange(24.0).view(1, 2, 3, 4) + rank, requires_grad=False)
    frozen.data = frozen.data.to(memory_format=torch.channels_last if rank == 0 else torch.contiguous_format)
    Decentralized([torch.nn.Parameter(torch.ones(2)), frozen], gs.DPSGD(eta=0.1), "complete", timeout=20)
    found["frozen"] = frozen.detach().numpy()
    found["steps"] = told(once_more)
    with optimizer.average_model():
        try:
            optimizer.step()
        except (gs.InputError, NeighborLost) as error:  # its own, or the other's, which was first
            found["at the mean"] = str(error)
    return found
