"""Ranks of which one has numbers that are not finite."""

import gossamer as gs

BAD, STEP, STEPS = 2, 4, 7
"""The rank, the step (from 1) at which it has them, and how many are wanted."""


def one_gradient(rank, size, rule, spoiled, options):
    """The parameters after each step, and how many were left out; the first or second gradient of a step is spoiled."""
    from gossamer.torch import Decentralized
    from tests.torch_engine import quadratics

    halves, loss = quadratics.model(rank, size)
    optimizer = Decentralized(halves, rule, "ring", timeout=30, **options)
    called = 0
    # a rule with two points asks at one in the first step, and then at two
    bad = {"first": STEP, "second": 2 * STEP - 1, "none": 0, "none of two": 0}[spoiled] if rank == BAD else 0

    def closure():
        nonlocal called
        optimizer.zero_grad()
        value = loss()
        value.backward()
        called += 1
        if called == bad:
            halves[1].grad[0, 1:3] = float("nan")
        return value

    path = []
    for _ in range(STEPS):
        if spoiled in ("second", "none of two"):
            optimizer.step(closure)
        else:
            closure()
            optimizer.step()
        path.append(quadratics.joined(halves))
    return path, optimizer.counters.skipped


def in_the_closure(rank, size):
    """An error of the script in one closure."""
    import torch

    from gossamer.torch import Decentralized

    x = torch.nn.Parameter(torch.ones(2))
    optimizer = Decentralized([x], gs.DPSGD(eta=0.1), "ring", timeout=30)

    def closure():
        if rank == BAD:
            raise KeyError("a row that is not there")
        optimizer.zero_grad()
        x.square().sum().backward()

    for _ in range(3):
        optimizer.step(closure)


def diverging(rank, size):
    """Finite gradients of one rank that are too large for float32 in the state."""
    import torch

    from gossamer.torch import Decentralized

    x = torch.nn.Parameter(torch.ones(2))
    optimizer = Decentralized([x], gs.BiasedDMT(eta=10.0, lam=0.5), "ring", timeout=30)
    for k in range(STEPS):
        optimizer.zero_grad()
        (x.sum() * (3e38 if rank == BAD and k + 1 == STEP else 1.0)).backward()
        optimizer.step()
