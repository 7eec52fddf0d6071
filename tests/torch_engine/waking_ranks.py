"""Ranks that wait for nobody, on quadratics of uneven curvature."""

import os
import signal
import threading
import time
from pathlib import Path

import numpy as np

import gossamer as gs
from tests.torch_engine import forked

DIM, TIMEOUT = 6, 8.0
STOPPED, KILLED, FAR = 1, 2, 3
"""On a ring of four; the last is no neighbour of the one that stops."""


def problem(agents):
    """Curvatures and minima of all agents."""
    rng = np.random.default_rng(agents)
    return rng.uniform(0.5, 2.0, (agents, DIM)), rng.normal(size=(agents, DIM))


def optimum(agents, among=None):
    """The minimum of the sum of the losses, of all agents or of those named."""
    curvature, minima = (a[list(among or range(agents))] for a in problem(agents))
    return (curvature * minima).sum(0) / curvature.sum(0)


def made(rank, size):
    """A model, its loss and its optimizer."""
    import torch

    from gossamer.torch import Decentralized

    curvature, minima = (torch.from_numpy(a[rank]) for a in problem(size))
    model = torch.nn.ParameterList([torch.nn.Parameter(torch.zeros(DIM, dtype=torch.float64))])
    rule = gs.BiasedDMT(eta=0.2, lam=0.5)
    optimizer = Decentralized(model.parameters(), rule, "ring", timeout=TIMEOUT, asynchronous=True)
    return model, lambda: (curvature * (model[0] - minima) ** 2).sum() / 2, optimizer


def train(loss, optimizer, steps, pause=0.0):
    """The longest step, in seconds."""
    longest = 0.0
    for _ in range(steps):
        optimizer.zero_grad()
        loss().backward()
        time.sleep(pause)
        began = time.monotonic()
        optimizer.step()
        longest = max(longest, time.monotonic() - began)
    return longest


def standing(model, optimizer):
    """The parameters, the state and what became of meetings."""
    state = {name: a.numpy().copy() for name, a in optimizer.state_dict()["rule"]["state"].items()}
    tally = dict(vars(optimizer.meetings))
    return {"model": model[0].detach().numpy().copy(), "tally": tally, **state}


def together(model, optimizer):
    """Where all ranks stand at a moment at which none of them changes."""
    optimizer.check_together()
    found = standing(model, optimizer)
    optimizer.check_together()
    return found


def uneven(rank, size, folder):
    """The last rank is slower and steps less often. All save, and go back there, and again with new optimizers."""
    from gossamer.torch import resume, save

    slow, found = rank == size - 1, {}
    model, loss, optimizer = made(rank, size)
    train(loss, optimizer, 5 if slow else 20, pause=0.004 * slow)
    found["saved"] = together(model, optimizer)
    save(folder, 1, model, optimizer)
    train(loss, optimizer, 5)
    undo_late(rank, optimizer._rounds.meetings)  # pyright: ignore[reportAttributeAccessIssue]
    resume(folder, model, optimizer)
    found["gone back"] = together(model, optimizer)
    optimizer.finish()
    model, loss, optimizer = made(rank, size)
    resume(folder, model, optimizer)
    found["resumed"] = together(model, optimizer)
    train(loss, optimizer, 100 if slow else 300, pause=0.003 if slow else 0.001)
    optimizer.finish()
    found["error"] = optimizer.consensus_error()
    return found | {"ended": standing(model, optimizer)}


def undo_late(rank, meetings):
    """Rank 1 has met rank 0, which takes that back a moment later."""
    from gossamer.torch.letters import Kind

    if rank == 1:
        meetings._kept[0, -1] = {name: a + 1 for name, a in meetings.state.items()}
    if rank == 0:
        threading.Timer(0.3, meetings._send, (1, Kind.VOID, -1)).start()


def disturbed(rank, size, folder):
    """One rank stops itself, until the others have trained on and it is woken; then another one kills itself."""
    folder, found = Path(folder), {}
    model, loss, optimizer = made(rank, size)
    longest = train(loss, optimizer, 20)
    if rank == STOPPED:
        (folder / "stopped").touch()
        os.kill(os.getpid(), signal.SIGSTOP)
    else:
        forked.wait_until((folder / "stopped").exists, 60)
        found["longest"] = max(longest, train(loss, optimizer, 40, pause=0.001))
        (folder / f"trained-{rank}").touch()
        forked.wait_until((folder / "go on").exists, 60)
    train(loss, optimizer, 250, pause=0.001)
    found["all"] = together(model, optimizer)
    (folder / f"stood-{rank}").touch()
    if rank == KILLED:
        forked.wait_until(lambda: len(list(folder.glob("stood-*"))) == size, 60)
        os.kill(os.getpid(), signal.SIGKILL)
    train(loss, optimizer, 250, pause=0.001)
    optimizer.finish()
    return found | {"left": standing(model, optimizer)}
