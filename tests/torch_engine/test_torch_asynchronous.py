"""Asynchronous ranks: exact whoever is slow or stopped, never in a deadlock, and a lost rank is named by all."""

import os
import queue
import random
import signal
import subprocess
import sys
import threading
import time
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import gossamer as gs
from gossamer import networks
from gossamer.torch import asynchronous
from gossamer.torch.asynchronous import (
    Kind,
    Meetings,
    PeerMessage,
    Preempted,
    StartingAgent,
    WakingAgent,
    without_rounds,
)
from gossamer.torch.exchange import Counters
from gossamer.torch.faults import NeighborLost
from tests.torch_engine import asynchronous_ranks, forked
from tests.torch_engine.asynchronous_ranks import DIM, ETA, FAR, LAM, LOST, SHORT, STOPPED, TIMEOUT


def imbalance(found):
    """Return by how much the trackers of these ranks miss the sum of their momenta."""
    return np.abs(sum(rank["v"] - rank["m"] for rank in found)).max()


def test_every_event_is_that_of_a_loop():
    """One rank steps at a time, so that who meets whom is known."""
    gradient = [lambda x, a=a, b=b: a * (x - b) for a, b in zip(*asynchronous_ranks.problem(2), strict=True)]
    x = np.zeros((2, DIM))
    m, at = np.stack([gradient[i](x[i]) for i in range(2)]), x.copy()
    v = m.copy()
    for i in np.repeat([0, 1, 1, 0], 3):
        j = 1 - i
        new = (1 - LAM) * m[i] + LAM * gradient[i](at[i])
        tracker = v[i] + new - m[i]
        mean = x.mean(0)
        x[i], x[j] = mean - ETA * tracker, mean
        v[i] = v[j] = (tracker + v[j]) / 2
        m[i], at[i] = new, x[i]
    found = forked.run(asynchronous_ranks.one_by_one, 2)
    for rank in range(2):
        for name, expected in (("x", x), ("m", m), ("v", v), ("model", at)):
            np.testing.assert_allclose(found[rank][name], expected[rank], rtol=1e-13, atol=1e-13)
        assert found[rank]["tally"] == {"met": 6, "alone": 0, "answered": 6, "refused": 0, "silent": 0, "undone": 0}


def test_uneven_speeds_are_exact_also_after_a_checkpoint(tmp_path):
    found = forked.run(asynchronous_ranks.uneven, 3, str(tmp_path))
    for moment in ("saved", "resumed", "still", "ended"):
        assert imbalance([rank[moment] for rank in found]) < 1e-12
    for rank in found:
        for moment in ("gone back", "resumed"):
            np.testing.assert_array_equal(rank[moment]["v"], rank["saved"]["v"])
        np.testing.assert_array_equal(rank["ended"]["model"], rank["ended"]["x"])
        np.testing.assert_allclose(rank["ended"]["x"], asynchronous_ranks.optimum(3), atol=1e-8)
        assert rank["error"] < 1e-16
    assert sum(rank["ended"]["tally"]["met"] for rank in found) > 100


def test_a_stopped_rank_delays_its_neighbours_once(tmp_path):
    with forked.Ranks(asynchronous_ranks.stopped, 4, str(tmp_path)) as ranks:
        forked.wait_until(lambda: len(list(tmp_path.glob("trained-*"))) == 3, 90)
        (tmp_path / "go on").touch()
        os.kill(ranks.processes[STOPPED].pid, signal.SIGCONT)
        found = ranks.results()
    for rank in found:
        assert isinstance(rank, dict), rank.trace
        np.testing.assert_allclose(rank["x"], asynchronous_ranks.optimum(4), atol=1e-8)
    assert imbalance(found) < 1e-12
    # two that ask each other at the same time may revert one meeting; how often depends on how busy the machine is
    tallies = [rank["tally"] for rank in found]
    assert 10 * sum(tally["undone"] for tally in tallies) < sum(tally["answered"] for tally in tallies)
    # a neighbour asked the stopped one once, and not again until it was heard; the other one never waited
    assert [tallies[rank]["silent"] for rank in (0, FAR)] == [1, 0]
    assert TIMEOUT <= found[0]["longest"] < TIMEOUT + 5
    assert found[FAR]["longest"] < TIMEOUT


@pytest.mark.parametrize("how", ["killed", "returns", "stopped", "nan"])
def test_a_lost_rank_is_named_by_all(how, tmp_path):
    """Also by the rank that is no neighbour of it."""
    with forked.Ranks(asynchronous_ranks.lost, 4, str(tmp_path), how) as ranks:
        found = ranks.results(60, stopped=LOST)
    happened, limit = float((tmp_path / "when").read_text()), 2 * SHORT if how == "stopped" else 0.0
    for rank in {0, 1, 3}:
        error = found[rank]
        assert error.kind == ("NotFinite" if how == "nan" else "NeighborLost"), error.trace
        assert error.when - happened < limit + 3  # a margin for a busy machine
        assert f"rank {LOST}" in error.message
        if how != "nan":
            assert error.ranks == (LOST,)
            assert ("silent for longer than timeout=3 s" if how == "stopped" else "optimizer.finish()") in error.message


UNFINISHED = """
import os
import torch
import gossamer as gs
from gossamer.torch import Decentralized

torch.manual_seed(int(os.environ["RANK"]))
x = torch.nn.Parameter(torch.ones(2))
optimizer = Decentralized([x], gs.DPSGD(eta=0.1), "ring", asynchronous=True)
for _ in range(5):
    optimizer.zero_grad()
    (x * torch.rand(2)).sum().backward()
    optimizer.step()
optimizer.check_together()
"""


def test_ranks_that_read_messages_end_well_without_finish(tmp_path):
    """Each loses its neighbours while its interpreter ends, since they end at the same time."""
    script = tmp_path / "unfinished.py"
    script.write_text(UNFINISHED)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=3", str(script)]
    done = subprocess.run(torchrun, env=os.environ | forked.LIGHT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-5000:]


class Wire:
    """Carries messages from thread to thread, each after a random time; those of a pair stay in order."""

    def __init__(self, monkeypatch, seed=0):
        self.random, self.receivers, self.sent, self.said = random.Random(seed), {}, [], []
        self.is_open = threading.Event()
        self.is_open.set()
        monkeypatch.setattr(asynchronous, "Transport", self.transport)

    def meetings(self, rank, network, seconds):
        words = SimpleNamespace(reason=lambda *_: None, is_over=lambda _: False, say=self.said.append)
        world = SimpleNamespace(rank=rank, timeout=timedelta(seconds=seconds), dtype=torch.float64, words=words)
        return Meetings(world, network, Counters(), 1)  # pyright: ignore[reportArgumentType]

    def transport(self, world, peers, receive):
        self.receivers[world.rank] = receive
        queues = {peer: queue.SimpleQueue() for peer in peers}

        def carry(peer):
            while True:
                message = queues[peer].get()
                self.is_open.wait()
                time.sleep(self.random.choice([0, 0, 0.0005, 0.004]))
                self.receivers[peer](world.rank, message)

        def send(peer, message):
            self.sent.append((world.rank, peer, message))
            queues[peer].put(message)

        for peer in peers:
            threading.Thread(target=carry, args=(peer,), daemon=True).start()
        return SimpleNamespace(send=send, finish=lambda _: None)


def run_threads(functions):
    """Run functions at the same time, and fail if one of them does not end."""
    threads = [threading.Thread(target=function, daemon=True) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()


def test_what_is_tracked_adds_up_whatever_is_late(monkeypatch):
    """Five threads for ranks, with a timeout shorter than many messages travel: ACCEPT is often too late."""
    wire, network = Wire(monkeypatch), networks.asynchronous(networks.complete(5))
    tables = [wire.meetings(rank, network, 0.003) for rank in range(5)]

    def tallied(name):
        return sum(getattr(table.tally, name) for table in tables)

    def live(rank):
        table, chance = tables[rank], random.Random(rank)
        g = torch.randn(3, dtype=torch.float64, generator=torch.Generator().manual_seed(rank))
        table.end_step({"x": g.clone(), "m": g.clone(), "v": g.clone()})
        for turn in range(10_000):
            # much has come too late, and much has not, however fast this machine is
            if turn >= 100 and tallied("undone") > 10 and tallied("answered") > 50:
                return
            table.begin_step()
            while True:
                s = {name: a.clone() for name, a in table.state.items()}
                m = s["m"] + g * chance.random()
                arrays = {"x": s["x"], "v": s["v"] + m - s["m"]}
                try:
                    table._silent.clear()
                    theirs = table.request(chance.choice(table.peers), arrays)
                    break
                except Preempted:
                    continue
            means = arrays if theirs is None else {name: (a + theirs[name]) / 2 for name, a in arrays.items()}
            table.end_step({"m": m, **means})

    run_threads([lambda rank=rank: live(rank) for rank in range(5)])
    for table in tables:
        table._timeout = 60.0
    run_threads([table.gather for table in tables])
    total = sum((table.state["v"] - table.state["m"] for table in tables), torch.zeros(3, dtype=torch.float64))
    assert float(total.abs().max()) < 1e-12
    assert tallied("undone") > 10
    assert tallied("answered") > 50


def test_of_two_requests_that_cross_the_lower_rank_has_its_way(monkeypatch):
    wire, network = Wire(monkeypatch), networks.asynchronous(networks.complete(2))
    low, high = tables = [wire.meetings(rank, network, 60.0) for rank in range(2)]
    found: dict[int, Any] = {}
    for rank, table in enumerate(tables):
        table.end_step({"v": torch.full((2,), rank + 1.0, dtype=torch.float64)})
        table.begin_step()

    def ask(rank):
        try:
            found[rank] = tables[rank].request(1 - rank, {"v": tables[rank].state["v"] + 2})
        except Preempted as error:
            found[rank] = error

    wire.is_open.clear()  # so that both have asked before a request arrives
    threads = [threading.Thread(target=ask, args=(rank,), daemon=True) for rank in range(2)]
    for thread in threads:
        thread.start()
    forked.wait_until(lambda: len(wire.sent) == 2, 10)
    wire.is_open.set()
    for thread in threads:
        thread.join(10)
    assert isinstance(found[1], Preempted)
    assert found[0]["v"].tolist() == [2.0, 2.0]  # as it was before the meeting
    assert high.state["v"].tolist() == [2.5, 2.5]
    assert (low.tally.answered, high.tally.answered) == (0, 1)


def test_a_closed_connection_is_told_only_by_a_script_that_goes_on(monkeypatch):
    """A process that ends closes its connections itself, and must not tell rank 2 that rank 1 is gone."""
    wire, network = Wire(monkeypatch), networks.asynchronous(networks.complete(3))
    table = wire.meetings(0, network, 60.0)
    table._receive(1, None)
    table._receive(2, None)  # as ranks do that have lost rank 1 as well
    assert wire.sent == []
    assert wire.said == []
    with pytest.raises(NeighborLost, match=r"rank 0 lost rank 1, .* ended without optimizer\.finish"):
        table.check_alive()
    assert [(words.rank, words.error, words.lost) for words in wire.said] == [(0, "NeighborLost", (1,))]


def test_a_peer_may_end_as_soon_as_all_have_arrived(monkeypatch):
    wire, network = Wire(monkeypatch), networks.asynchronous(networks.complete(2))
    wire.receivers[1] = lambda *_: None
    table, errors = wire.meetings(0, network, 60.0), []

    def gather():
        try:
            table.gather()
        except NeighborLost as error:
            errors.append(error)

    thread = threading.Thread(target=gather, daemon=True)
    thread.start()
    forked.wait_until(lambda: wire.sent, 10)
    with table.lock:  # both are known before the thread that waits goes on
        table._receive(1, PeerMessage(Kind.ARRIVED, 1, 1))
        table._receive(1, None)
    thread.join(10)
    assert not thread.is_alive()
    assert errors == []
    with pytest.raises(NeighborLost, match="rank 0 lost rank 1"):
        table.gather()


def test_what_needs_rounds_is_refused():
    ring = networks.ring(4)
    for arguments in ((True, "stop", False, None), (None, "skip", False, None), (None, "stop", True, None)):
        with pytest.raises(gs.InputError, match="needs rounds that all ranks take together"):
            without_rounds(ring, *arguments)
    assert without_rounds(ring, None, "stop", False, None).asynchronous
    with pytest.raises(gs.InputError, match=r"agent\.mean at its start"):
        gs.MomentumTracking(eta=0.1, beta=0.5).init(torch.zeros(2), StartingAgent("momentum-tracking", torch.ones(2)))


def test_processes_that_are_one_agent_are_refused():
    for message in forked.run(asynchronous_ranks.refused, 4):
        assert "their copies would drift apart" in message
        assert "Leave process_group out" in message


def test_a_wake_that_meets_wrongly_is_refused():
    course = SimpleNamespace(rule=SimpleNamespace(name="own"), check=lambda *_: None)
    meetings = SimpleNamespace(state={"x": torch.zeros(2)}, tally=asynchronous.Tally())
    agent = WakingAgent(course, meetings, [], None)  # pyright: ignore[reportArgumentType]
    with pytest.raises(gs.InputError, match="own meets with y, but has only x"):
        agent.meet(y=torch.zeros(2))
    agent.meet(x=torch.zeros(2))
    with pytest.raises(gs.InputError, match="twice in one wake"):
        agent.meet(x=torch.zeros(2))
