"""Ranks of one machine that read each other's memory."""

import os
import signal
import time

import gossamer as gs
from gossamer import compressors
from tests.torch_engine import quadratics

CASES = {
    "biased-dmt": (gs.BiasedDMT(eta=0.05, lam=0.3), "ring", None),
    "biased-dmt, in phase": (gs.BiasedDMT(eta=0.05, lam=0.3), "ring", False),
    "biased-dmt, one-peer": (gs.BiasedDMT(eta=0.05, lam=0.3), "one-peer-exponential", None),
    "push-pull": (gs.PushPull(eta=0.02), "directed-ring", None),
    "choco-sgd": (gs.ChocoSGD(eta=0.05, gamma=0.3, compressor=compressors.top_k(2)), "ring", None),
}


def trained(rank, agents, blind):
    """By case, the parameters after some steps, with the mean looked at on the way, and the counters: sent, and read.

    Rank 1 cannot see the memory of rank 2 where it is `blind`. Vectors are computed in blocks of four numbers.
    """
    from gossamer.torch import Decentralized, fused, nearby

    fused.SHORTEST, fused.BLOCK = 1, 4
    if blind and rank == 1:
        shows, others = nearby._shows, iter((0, 2, 3) * 2 * len(CASES))
        nearby._shows = lambda of: next(others) != 2 and shows(of)
    found = {}
    for name, (rule, network, overlap) in CASES.items():
        found[name] = []
        for direct in (False, True):
            halves, loss = quadratics.model(rank, agents)
            optimizer = Decentralized(halves, rule, network, overlap=overlap, direct=direct, timeout=20)
            quadratics.train(optimizer, loss, 5)
            with optimizer.average_model():
                pass
            quadratics.train(optimizer, loss, 5)
            counters = optimizer.counters.bytes_sent, optimizer.counters.messages
            found[name].append((quadratics.joined(halves), counters, sorted(optimizer.exchange.nearby.pids)))
    return found


def lost(rank, agents, how):
    """Rank 1 leaves after its message; its worker, a fork that lives on, must not keep the others waiting."""
    import torch

    from gossamer.torch import Decentralized

    x = torch.nn.Parameter(torch.ones(1000))
    # in phase, so that the others wait for a word of rank 1, and do not read in memory that is gone
    optimizer = Decentralized([x], gs.BiasedDMT(eta=0.1, lam=0.5), "complete", timeout=30, overlap=False)
    for _ in range(3):
        optimizer.zero_grad()
        (x + rank).square().sum().backward()
        optimizer.step()
    if rank == 1 and how == "killed":
        if os.fork() == 0:
            time.sleep(20)
            os._exit(0)
        os.kill(os.getpid(), signal.SIGKILL)
    if rank == 1:
        raise ValueError("no more data")
    time.sleep(0.5)
    optimizer.step()


def kept(rank, agents):
    """Rank 1 keeps its first optimizer, with a message on its way, and the others do not."""
    from gossamer.torch import Decentralized

    optimizers = []
    for _ in range(2):
        halves, loss = quadratics.model(rank, agents)
        optimizers.append(Decentralized(halves, gs.BiasedDMT(eta=0.05, lam=0.3), "ring", timeout=5))
        quadratics.train(optimizers[-1], loss, 3)
        if rank != 1:
            optimizers.clear()
    return "trained"


def doorless(rank, agents, without):
    """Whom each rank can read where rank 1 has no Unix sockets, or no temporary directory."""
    import socket
    import tempfile

    from gossamer.torch import Decentralized

    if rank == 1 and without == "socket":
        del socket.AF_UNIX
    if rank == 1 and without == "folder":
        tempfile.tempdir = "/nowhere"
    halves, loss = quadratics.model(rank, agents)
    optimizer = Decentralized(halves, gs.BiasedDMT(eta=0.05, lam=0.3), "complete", timeout=20)
    quadratics.train(optimizer, loss, 3)
    return sorted(optimizer.exchange.nearby.pids)
