"""Ranks that wait for nobody: exact whoever is slow, stopped or killed, and never in a circle."""

import os
import queue
import random
import signal
import threading
import time
from datetime import timedelta
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import gossamer as gs
from gossamer import networks
from gossamer.core import State
from gossamer.torch import meetings
from gossamer.torch.exchange import Counters
from gossamer.torch.meetings import Anew, Meetings
from gossamer.torch.waking import Starting, without_rounds
from tests.torch_engine import forked, waking_ranks
from tests.torch_engine.waking_ranks import FAR, KILLED, STOPPED, TIMEOUT


def balance(found):
    """By how much the trackers of these ranks miss the sum of the momenta."""
    return np.abs(sum(rank["v"] - rank["m"] for rank in found)).max()


def test_uneven_speeds_are_exact_also_after_a_checkpoint(tmp_path):
    found = forked.run(waking_ranks.uneven, 3, str(tmp_path))
    for moment in ("saved", "resumed", "ended"):
        assert balance([rank[moment] for rank in found]) < 1e-12
    for rank in found:
        for moment in ("gone back", "resumed"):
            np.testing.assert_array_equal(rank[moment]["v"], rank["saved"]["v"])
        np.testing.assert_array_equal(rank["ended"]["model"], rank["ended"]["x"])
        np.testing.assert_allclose(rank["ended"]["x"], waking_ranks.optimum(3), atol=1e-8)
        assert rank["error"] < 1e-16
    assert sum(rank["ended"]["tally"]["met"] for rank in found) > 100


def test_a_stopped_rank_delays_its_neighbours_once_and_a_killed_one_leaves_the_others_exact(tmp_path):
    with forked.Ranks(waking_ranks.disturbed, 4, str(tmp_path)) as ranks:
        forked.wait_until(lambda: len(list(tmp_path.glob("trained-*"))) == 3, 90)
        (tmp_path / "go on").touch()
        os.kill(ranks.processes[STOPPED].pid, signal.SIGCONT)
        found = ranks.results()
    assert found[KILLED] is None
    left = [rank for rank in range(4) if rank != KILLED]
    for rank in left:
        assert isinstance(found[rank], dict), found[rank].trace
        np.testing.assert_allclose(found[rank]["all"]["x"], waking_ranks.optimum(4), atol=1e-8)
        np.testing.assert_allclose(found[rank]["left"]["x"], waking_ranks.optimum(4, left), atol=1e-8)
    assert balance([found[rank]["left"] for rank in left]) < 1e-12
    # two that ask each other at the same time may take one meeting back; how often depends on how busy the machine is
    tallies = [found[rank]["all"]["tally"] for rank in left]
    assert 10 * sum(tally["undone"] for tally in tallies) < sum(tally["answered"] for tally in tallies)
    # a neighbour asked the stopped one once, and not again until it was heard; the other one never waited
    assert [found[rank]["all"]["tally"]["silent"] for rank in (0, FAR)] == [1, 0]
    assert TIMEOUT <= found[0]["longest"] < TIMEOUT + 5
    assert found[FAR]["longest"] < TIMEOUT


class Wire:
    """Carries letters from thread to thread, each after a time that is drawn; letters of a pair stay in order."""

    def __init__(self, seed):
        self.chance, self.ends, self.dead = random.Random(seed), {}, set()

    def letters(self, world, near, received, lost):
        boxes = {peer: queue.SimpleQueue() for peer in near}
        self.ends[world.rank] = received, lost, near

        def carry(peer):
            while True:
                letter = boxes[peer].get()
                time.sleep(self.chance.choice([0, 0, 0.0005, 0.004]))
                if not {peer, world.rank} & self.dead:
                    self.ends[peer][0](world.rank, letter)

        def begin():
            for peer in near:
                threading.Thread(target=carry, args=(peer,), daemon=True).start()

        return SimpleNamespace(begin=begin, send=lambda peer, letter: boxes[peer].put(letter), end=lambda *_: None)

    def kill(self, rank):
        self.dead.add(rank)
        for peer in self.ends[rank][2]:
            self.ends[peer][1](rank)


@pytest.mark.parametrize("killed", [None, 2])
def test_what_is_tracked_adds_up_whatever_is_late(killed, monkeypatch):
    """Five threads for ranks, with a timeout shorter than many letters travel: yes is often too late."""
    wire, rule = Wire(0), gs.BiasedDMT(eta=0.1, lam=0.5)
    monkeypatch.setattr(meetings, "Letters", wire.letters)
    network = networks.asynchronous(networks.complete(5))
    tables = [
        Meetings(SimpleNamespace(rank=rank, timeout=timedelta(seconds=0.003)), network, Counters(), rule.restart)
        for rank in range(5)
    ]

    def enough():
        """Whether much has come too late, and much has not, however fast this machine is."""
        left = [table.tally for rank, table in enumerate(tables) if rank != killed]
        return sum(tally.undone for tally in left) > 10 and sum(tally.answered for tally in left) > 50

    def live(rank):
        chance = random.Random(rank)
        g = torch.randn(3, dtype=torch.float64, generator=torch.Generator().manual_seed(rank))
        tables[rank].put(State(x=g, m=g, v=g))
        for turn in range(10_000):
            if turn >= 100 and enough():
                return None
            if rank == killed and turn == 50:
                return wire.kill(rank)
            tables[rank].begin()
            while True:
                s = tables[rank].present()
                m = s.m + g * chance.random()
                try:
                    arrays = {"x": s.x, "v": s.v + m - s.m}
                    tables[rank].news.silent.clear()
                    theirs = tables[rank].ask(chance.choice([k for k in range(5) if k != rank]), arrays)
                    break
                except Anew:
                    continue
            means = arrays if theirs is None else {name: (a + theirs[name]) / 2 for name, a in arrays.items()}
            tables[rank].commit(State(x=means["x"], m=m, v=means["v"]))
        return None

    threads = [threading.Thread(target=live, args=(rank,)) for rank in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    left = [table for rank, table in enumerate(tables) if rank != killed]
    for table in left:
        table._seconds = 60.0
    gathering = [threading.Thread(target=table.gather) for table in left]
    for thread in gathering:
        thread.start()
    for thread in gathering:
        thread.join(60)
        assert not thread.is_alive()
    total = sum((table.state["v"] - table.state["m"] for table in left), torch.zeros(3, dtype=torch.float64))
    assert float(total.abs().max()) < 1e-12
    assert sum(table.tally.undone for table in left) > 10
    assert sum(table.tally.answered for table in left) > 50
    assert {frozenset(table.news.gone()) for table in left} == {frozenset({killed} - {None})}


def test_what_needs_rounds_is_refused():
    ring = networks.ring(4)
    with pytest.raises(gs.InputError, match="asynchronous=True has none"):
        without_rounds(ring, True, "stop", False)
    with pytest.raises(gs.InputError, match="lets nobody wait"):
        without_rounds(ring, None, "skip", False)
    with pytest.raises(gs.InputError, match=r"agent\.mean at its start"):
        gs.MomentumTracking(eta=0.1, beta=0.5).init(torch.zeros(2), Starting("momentum-tracking", torch.ones(2)))
    with pytest.raises(gs.InputError, match="leave one out"):
        without_rounds(ring, None, "stop", True)
    assert without_rounds(ring, None, "stop", False).asynchronous
