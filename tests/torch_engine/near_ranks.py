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
    optimizer = Decentralized([x], gs.BiasedDMT(eta=0.1, lam=0.5), "complete", timeout=30)
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
