"""Asynchronous ranks on quadratics of uneven curvature."""

import os
import signal
import threading
import time
from pathlib import Path

import numpy as np

import gossamer as gs
from tests.torch_engine import forked

DIM, TIMEOUT, SHORT = 6, 8.0, 3.0
ETA, LAM = 0.2, 0.5
LOST, STOPPED, FAR = 2, 1, 3
"""On a ring of four, where rank 3 is no neighbour of rank 1, nor rank 0 of rank 2."""


def problem(agents):
    """Return the curvatures and minima of all agents."""
    rng = np.random.default_rng(agents)
    return rng.uniform(0.5, 2.0, (agents, DIM)), rng.normal(size=(agents, DIM))


def optimum(agents):
    """Return the minimum of the sum of all losses."""
    curvature, minima = problem(agents)
    return (curvature * minima).sum(0) / curvature.sum(0)


def build(rank, size, timeout=TIMEOUT):
    """Return a model, its loss and its optimizer."""
    import torch

    from gossamer.torch import Decentralized

    curvature, minima = (torch.from_numpy(a[rank]) for a in problem(size))
    model = torch.nn.ParameterList([torch.nn.Parameter(torch.zeros(DIM, dtype=torch.float64))])
    rule = gs.BiasedDMT(eta=ETA, lam=LAM)
    optimizer = Decentralized(model.parameters(), rule, "ring", timeout=timeout, asynchronous=True)
    return model, lambda: (curvature * (model[0] - minima) ** 2).sum() / 2, optimizer


def train(loss, optimizer, steps, pause=0.0):
    """Train, and return the seconds of the longest step."""
    longest = 0.0
    for _ in range(steps):
        optimizer.zero_grad()
        loss().backward()
        time.sleep(pause)
        began = time.monotonic()
        optimizer.step()
        longest = max(longest, time.monotonic() - began)
    return longest


def snapshot(model, optimizer):
    """Return copies of the parameters, of the state, and of the tally of meetings."""
    state = {name: a.numpy().copy() for name, a in optimizer._rounds.buffers.items()}
    return {"model": model[0].detach().numpy().copy(), "tally": dict(vars(optimizer.meetings)), **state}


def one_by_one(rank, size):
    """Let one rank step while the other one waits, in turns."""
    import torch.distributed as dist

    model, loss, optimizer = build(rank, size)
    train(loss, optimizer, 1)  # the start, without a meeting
    for turn in (0, 1, 1, 0):
        dist.barrier()
        if turn == rank:
            train(loss, optimizer, 3)
    optimizer.check_together()
    found = snapshot(model, optimizer)
    optimizer.finish()
    return found


def uneven(rank, size, folder):
    """Let the last rank be slow and step less often. All save, and go back there, and again with new optimizers."""
    from gossamer.torch import resume, save

    slow, found = rank == size - 1, {}
    model, loss, optimizer = build(rank, size)
    train(loss, optimizer, 5 if slow else 20, pause=0.004 * slow)
    optimizer.check_together()
    found["saved"] = snapshot(model, optimizer)
    save(folder, 1, model, optimizer)
    train(loss, optimizer, 5)
    abort_late(rank, optimizer._rounds.meetings)
    resume(folder, model, optimizer)
    found["gone back"] = snapshot(model, optimizer)
    optimizer.finish()
    model, loss, optimizer = build(rank, size)
    resume(folder, model, optimizer)
    found["resumed"] = snapshot(model, optimizer)
    train(loss, optimizer, 10)
    optimizer.check_together()
    time.sleep(0.5 * slow)  # the others go on, and ask for meetings
    found["still"] = snapshot(model, optimizer)
    train(loss, optimizer, 100 if slow else 300, pause=0.003 if slow else 0.001)
    optimizer.finish()
    found["error"] = optimizer.consensus_error()
    return found | {"ended": snapshot(model, optimizer)}


def abort_late(rank, meetings):
    """Let rank 1 hold a meeting with rank 0 that rank 0 aborts a moment later."""
    from gossamer.torch.asynchronous import Kind

    if rank == 1:
        meetings._unsettled[0, -1] = {name: a + 1 for name, a in meetings.state.items()}
    if rank == 0:
        threading.Timer(0.3, meetings._send, (1, Kind.ABORT, -1)).start()


def stopped(rank, size, folder):
    """Stop one rank until the others have trained on."""
    folder, found = Path(folder), {}
    model, loss, optimizer = build(rank, size)
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
    optimizer.check_together()
    found |= snapshot(model, optimizer)
    optimizer.finish()
    return found


def lost(rank, size, folder, how):
    """Lose one rank: it dies or fails while some train on and rank 0 waits at the end; or it stops, and all wait."""
    import torch

    model, loss, optimizer = build(rank, size, SHORT)
    train(loss, optimizer, 20)
    optimizer.check_together()
    if rank == LOST:
        time.sleep(1)
        (Path(folder) / "when").write_text(str(time.time()))
        if how == "nan":
            with torch.no_grad():
                model[0].grad.fill_(torch.nan)
            optimizer.step()
        elif how == "returns":
            return None
        else:
            os.kill(os.getpid(), signal.SIGKILL if how == "killed" else signal.SIGSTOP)
    if rank != 0 and how != "stopped":
        train(loss, optimizer, 10_000, pause=0.001)
    return optimizer.finish()


def refused(rank, size):
    """Give a process group to asynchronous ranks, and return what they say."""
    import torch
    import torch.distributed as dist

    from gossamer.torch import Decentralized

    nodes = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    x = torch.nn.Parameter(torch.zeros(2))
    try:
        Decentralized([x], gs.BiasedDMT(eta=0.1, lam=0.5), process_group=nodes[rank // 2], asynchronous=True)
    except gs.InputError as error:
        return str(error)
    return None
