"""Losses and joins while training: who is left goes on by the rule itself, on the network of those that are left."""

import os
import signal

import numpy as np
import pytest

import gossamer as gs
from gossamer.torch.generations import Member, placed
from tests.torch_engine import forked, quadratics
from tests.torch_engine.elastic_ranks import ETA, LAM, ElasticRanks, optimum, trained, walked

DMT = gs.BiasedDMT(eta=ETA, lam=LAM)


def gone_on(found):
    """What processes returned that none of them failed; None for those that were lost."""
    for one in found:
        assert not isinstance(one, forked.Failed), f"{one.kind}: {one.message}\n{one.trace}"
    return found


def test_survivors_go_on_to_the_last_one():
    """Two are lost at once, then one in the middle of an exchange, then the other of two."""
    faults = {1: (20, signal.SIGKILL), 4: (20, signal.SIGKILL), 0: (40, "in an exchange"), 2: (60, signal.SIGKILL)}
    with ElasticRanks(trained, 5, DMT, "ring", faults=faults, steps=30) as ranks:
        found = gone_on(ranks.results())
    assert [one is None for one in found] == [True, True, True, False, True]
    last = found[3]
    assert last["steps"] == 90
    assert last["place"] == 3
    left = [row["places"] for row in last["seen"]]
    assert left[0] == [0, 1, 2, 3, 4]
    assert [0, 2, 3] in left  # in one generation after both losses, or in two
    assert left[-2:] == [[2, 3], [3]]
    for row in last["seen"][1:]:
        np.testing.assert_array_equal(row["state"]["v"], row["state"]["m"])
    alone = last["seen"][-1]
    start = [alone["state"][key][None] for key in "xmv"]
    x, _, _ = walked(5, [3], np.eye(1), start, 90 - alone["steps"])
    np.testing.assert_allclose(last["x"], x[0], rtol=1e-12, atol=1e-12)


@pytest.fixture(scope="module")
def replaced():
    """Four on a graph lose one, whose place another takes while they train; one of another run is refused."""
    graph = quadratics.irregular(4)
    faults = {1: (20, signal.SIGKILL)}
    with ElasticRanks(trained, 4, DMT, graph, faults=faults, steps=400, full=4) as ranks:
        ranks.processes[1].join(60)
        ranks.start(3, rule=gs.BiasedDMT(eta=0.2, lam=LAM))
        refused = ranks.pipes.pop()
        assert refused.poll(60)
        ranks.start(1)
        found = ranks.results()
    return refused.recv(), found[0], found[4], found[2], found[3]


@pytest.mark.slow
def test_a_given_graph_is_cut_down_to_those_that_are_left(replaced):
    """0–1–2–3 with 0–2 loses 1: a path 0–2–3, with Metropolis weights."""
    after = next(row for row in replaced[1]["seen"] if row["places"] == [0, 2, 3])
    np.testing.assert_allclose(after["W"], np.array([[2, 1, 0], [1, 1, 1], [0, 1, 2]]) / 3)


@pytest.mark.slow
def test_one_that_joins_takes_the_lost_place_and_all_settle_at_the_optimum_of_all(replaced):
    four = gone_on(replaced[1:])
    assert [one["place"] for one in four] == [0, 1, 2, 3]
    assert len({one["steps"] for one in four}) == 1
    np.testing.assert_allclose(
        four[1]["seen"][-1]["W"], gs.networks.from_graph(quadratics.irregular(4)).mixing, rtol=1e-15
    )
    for one in four:
        np.testing.assert_allclose(one["x"], optimum(4, range(4)), rtol=1e-9, atol=1e-9)


@pytest.mark.slow
def test_one_that_joins_begins_with_its_neighbours_state_and_all_walk_as_a_plain_loop_does(replaced):
    four = gone_on(replaced[1:])
    rows = [one["seen"][-1] for one in four]
    assert len({(row["t"], row["steps"], row["generation"]) for row in rows}) == 1
    for key in "xmv":
        np.testing.assert_array_equal(rows[1]["state"][key], rows[0]["state"][key])
    start = [np.stack([row["state"][key] for row in rows]) for key in "xmv"]
    x, m, v = walked(4, range(4), rows[0]["W"], start, four[0]["steps"] - rows[0]["steps"])
    np.testing.assert_allclose([one["x"] for one in four], x, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(v.sum(0), m.sum(0), atol=1e-12)  # what the restart is for


@pytest.mark.slow
def test_one_of_another_run_is_refused_and_the_others_go_on(replaced):
    assert replaced[0].kind == "InputError"
    assert "this process cannot join: its rule is biased-dmt with" in replaced[0].message


@pytest.mark.slow
def test_one_that_stopped_comes_back_as_a_new_one(tmp_path):
    """Its neighbours go on after the timeout; it then has no part in the group, and joins with a neighbour's state."""
    options = {"faults": {1: (20, signal.SIGSTOP)}, "steps": 700, "full": 3, "timeout": 2.0, "folder": str(tmp_path)}
    with ElasticRanks(trained, 3, gs.DSGT(eta=0.1), "complete", **options) as ranks:
        forked.wait_until(lambda: len(list(tmp_path.glob("2-*"))) == 2, 60)
        os.kill(ranks.processes[1].pid, signal.SIGCONT)
        found = gone_on(ranks.results())
    assert found[0]["seen"][1]["places"] == [0, 2]
    for one in found:
        assert one["seen"][-1]["places"] == [0, 1, 2]
        np.testing.assert_allclose(one["x"], optimum(3, range(3)), rtol=1e-9, atol=1e-9)


def test_those_that_are_not_connected_any_more_are_told_so():
    faults = {2: (5, signal.SIGKILL)}
    with ElasticRanks(trained, 4, DMT, quadratics.irregular(4), faults=faults, steps=100) as ranks:
        found = ranks.results()
    for one in (found[0], found[1], found[3]):
        assert one.kind == "InputError", one.trace
        assert (
            "without 2 must be connected, but falls into 2 components; the smallest has 1 of 3 agents: 3" in one.message
        )


def test_places_stay_and_those_that_are_free_are_given_out():
    def member(name, place, veteran):
        return Member(name, ("127.0.0.1", 1), place, veteran)

    found = placed([member("new", 0, False), member("b", 3, True), member("a", 0, True), member("also", 2, False)])
    assert [(one.name, one.place) for one in found] == [("a", 0), ("new", 1), ("also", 2), ("b", 3)]


def test_what_cannot_be_elastic_is_refused_before_any_work(monkeypatch):
    import torch

    from gossamer.torch import Decentralized

    monkeypatch.setattr("torch.distributed.is_initialized", lambda: False)  # whatever ran before in this process

    def make(rule=DMT, network="ring", **others):
        return Decentralized([torch.nn.Parameter(torch.zeros(2))], rule, network, elastic=True, **others)

    with pytest.raises(
        gs.InputError, match=r"restart\(self, s\), which frost does not. Those that do: beer, biased-dmt"
    ):
        make(gs.FROST(eta=0.1))
    with pytest.raises(gs.InputError, match="forms the groups of processes itself: leave process_group out"):
        make(process_group=object())
    with pytest.raises(gs.InputError, match="changes or is directed, so that nothing says how its agents talk"):
        make(network=gs.networks.make("one-peer-exponential", 4))
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.delenv("TORCHELASTIC_USE_AGENT_STORE", raising=False)
    with pytest.raises(gs.InputError, match="needs a meeting place that outlives every rank, but here rank 0 would"):
        make()


def killed_at_the_start(rank, size, rule, network, phase):
    """Trains with two others after rank 0 was killed in a phase of the start."""
    if rank == 0:
        import torch.distributed as dist

        from gossamer.torch.world import ProcessWorld

        where, name = {"connects": (dist, "init_process_group"), "agrees": (ProcessWorld, "agree")}[phase]
        setattr(where, name, lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL))
    return trained(rank, size, rule, network, {}, 20, timeout=3.0)


@pytest.mark.slow
@pytest.mark.parametrize("phase", ["connects", "agrees"])
def test_those_that_lose_one_before_anything_is_trained_begin_again_without_it(phase):
    with ElasticRanks(killed_at_the_start, 3, DMT, "ring", phase=phase) as ranks:
        lost, *found = gone_on(ranks.results())
    assert lost is None
    A, b, E, start = quadratics.problem(3)
    g = np.einsum("nde,ne->nd", A[1:], start - b[1:]) + E[1:]
    x, _, _ = walked(3, [1, 2], found[0]["seen"][0]["W"], (start - ETA * g, g, g), 19)
    for place, one in enumerate(found, 1):
        assert one["place"] == place
        assert [(row["places"], row["steps"]) for row in one["seen"]] == [([1, 2], 0)]
        np.testing.assert_allclose(one["x"], x[place - 1], rtol=1e-12, atol=1e-12)


def formed_after_a_failure(rank, size, folder):
    """Rank 0 fails to form a group before both form one: whether they find each other."""
    from datetime import timedelta

    import torch
    import torch.distributed as dist
    from torch.distributed import FileStore, HashStore  # pyright: ignore[reportPrivateImportUsage]

    from gossamer.torch.meeting import count_anew

    dist.destroy_process_group()
    if rank == 0:
        with pytest.raises(RuntimeError):
            dist.init_process_group("gloo", store=HashStore(), rank=0, world_size=2, timeout=timedelta(seconds=0.1))
        count_anew()
    store = FileStore(os.path.join(folder, "again"), 2)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=2, timeout=timedelta(seconds=20))
    ones = torch.ones(1)
    dist.all_reduce(ones)
    return float(ones)


def test_one_that_failed_to_form_a_group_finds_those_that_have_just_begun(tmp_path):
    assert forked.run(formed_after_a_failure, 2, str(tmp_path)) == [2, 2]
