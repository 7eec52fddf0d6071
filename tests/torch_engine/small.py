"""A small model whose loss changes with the step, and how it is trained."""

import torch

STEPS = 8


def problem(seed=0):
    """Two parameters, and a loss that changes with the step."""
    generator = torch.Generator().manual_seed(seed)
    x, y = torch.randn(2, 40, 3, generator=generator, dtype=torch.float64)
    start = [torch.randn(3, 3, generator=generator, dtype=torch.float64), torch.zeros(3, dtype=torch.float64)]
    params = [torch.nn.Parameter(a.clone()) for a in start]

    def loss(k=0):
        rows = slice(4 * k, 4 * k + 4)
        return ((torch.tanh(x[rows] @ params[0]) + params[1] - y[rows]) ** 2).mean()

    return params, loss


def steps(optimizer, loss, scheduler=None, count=STEPS, first=0):
    for k in range(first, first + count):
        optimizer.zero_grad()
        loss(k).backward()
        optimizer.step()
        if scheduler:
            scheduler.step()


def same(mine, theirs, **tolerance):
    for a, b in zip(mine, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-13, **tolerance)


def weight(dtype=torch.float32):
    return torch.nn.Parameter(torch.zeros(2, dtype=dtype))
