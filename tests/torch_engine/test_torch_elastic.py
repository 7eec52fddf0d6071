"""Losses and joins while training: who is left goes on by the rule itself, on the network of those that are left."""

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest

import gossamer as gs
from gossamer.torch.elastic import Member, decide, import_torchft
from tests.torch_engine import forked, quadratics
from tests.torch_engine.elastic_ranks import ETA, HEARTBEAT, LAM, ElasticRanks, optimum, serve, trained, walked

DMT = gs.BiasedDMT(eta=ETA, lam=LAM)


@pytest.fixture(scope="module")
def torchft():
    """Skips a test where torchft is not installed."""
    try:
        import_torchft("LighthouseClient")
    except gs.InputError as missing:
        pytest.skip(str(missing))


def gone_on(found):
    """Return what processes returned, none of which may have failed; None for those that were lost."""
    for one in found:
        assert not isinstance(one, forked.Failed), f"{one.kind}: {one.message}\n{one.trace}"
    return found


# ---- who belongs to the next group ----------------------------------------------------------------------------------


def member(name, **others):
    return Member(name, "127.0.0.1", **{"first": 3, "size": 3, **others})


VETERANS = [member(name, place=place, generation=4) for name, place in (("a", 0), ("b", 1), ("c", 2))]


def test_a_run_begins_once_all_agents_have_come():
    new = [member("x", place=0), member("y", place=0), member("z", place=1)]
    assert not decide(new[:2]).enough
    plan = decide(new)
    assert plan.enough
    assert [(one.name, one.place) for one in plan.members] == [("x", 0), ("y", 1), ("z", 2)]
    assert (plan.veterans, plan.generation) == ((), 1)
    assert not decide([replace(one, first=0) for one in new]).enough  # they only join


def test_places_stay_and_those_that_are_free_are_given_out():
    known = [member("b", place=3, generation=2), member("a", place=0, generation=2)]
    plan = decide([member("new", place=0), *known, member("also", place=2)])
    assert [(one.name, one.place) for one in plan.members] == [("a", 0), ("new", 1), ("also", 2), ("b", 3)]
    assert plan.veterans == (0, 3)


def test_a_loss_is_believed_only_from_a_lighthouse_that_has_answered_for_a_while():
    """One that has just been started again knows only those that have asked it."""
    assert decide(VETERANS[:2]).enough
    assert not decide([VETERANS[0], replace(VETERANS[1], sure=False)]).enough
    assert decide([VETERANS[0], replace(VETERANS[1], sure=False), VETERANS[2]]).enough


def test_one_that_the_others_went_on_without_is_as_good_as_new():
    plan = decide([*VETERANS[:2], replace(VETERANS[2], generation=3)])
    assert (plan.names, plan.veterans, plan.generation) == (["a", "b", "c"], (0, 1), 5)


def test_one_that_joins_and_cannot_connect_is_refused_unless_a_member_vanished_meanwhile():
    failed = tuple("abcj")
    told = [replace(one, failed=failed, broken=True) for one in VETERANS]
    new = member("j", place=3, failed=failed)
    assert decide([*told, new]).refused == ("j",)
    assert decide([*told, new]).names == ["a", "b", "c"]
    assert decide([*told[:2], new]).refused == ()  # c may have been the reason


def test_nobody_joins_while_members_are_busy_together():
    plan = decide([replace(VETERANS[0], busy=True), *VETERANS[1:], member("j", place=3)])
    assert (plan.names, plan.refused) == (["a", "b", "c"], ())


def test_addresses_of_loopback_and_others_are_not_mixed():
    assert decide([*VETERANS, replace(member("j"), host="10.0.0.2")]).refused == ("j",)
    begin = [replace(member(name), host=host) for name, host in (("x", "10.0.0.1"), ("y", "127.0.0.1"))]
    assert decide(begin).refused == ("y",)


def test_what_a_participant_says_counts_only_with_the_key_and_under_its_name():
    one = replace(VETERANS[0], failed=("x",))
    data = one.sign(b"secret")
    assert Member.read("a", data, b"secret") == one
    assert Member.read("a", data, b"another") is None
    assert Member.read("b", data, b"secret") is None
    assert Member.read("a", data | {"member": data["member"].replace('"place": 0', '"place": 1')}, b"secret") is None
    for bad in (None, {}, {"member": 3, "code": "x"}, {"member": "x", "code": None}):
        assert Member.read("a", bad, b"secret") is None


def test_what_cannot_be_elastic_is_refused_before_any_work(monkeypatch):
    import torch

    from gossamer.torch import Decentralized, elastic

    monkeypatch.setattr("torch.distributed.is_initialized", lambda: False)  # whatever ran before in this process

    def make(rule=DMT, network="ring", **others):
        return Decentralized([torch.nn.Parameter(torch.zeros(2))], rule, network, elastic=True, **others)

    with pytest.raises(gs.InputError, match=r"restart\(self, s\), which frost does not. Those that do: beer, biased"):
        make(gs.FROST(eta=0.1))
    with pytest.raises(gs.InputError, match=r"forms the process group itself.* leave process_group and"):
        make(process_group=object())
    with pytest.raises(gs.InputError, match="changes or is directed, so that nothing says how its agents talk"):
        make(network=gs.networks.make("one-peer-exponential", 4))
    with monkeypatch.context() as patch:
        patch.setenv("GOSSAMER_OVER", __file__)  # a process that is started again after all others have ended
        with pytest.raises(SystemExit, match="0"):
            make()
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "torchft", None)
        with pytest.raises(gs.InputError, match=r"torchft.* not installed.*`pip install -e '\.\[elastic\]'`"):
            make()
    monkeypatch.setattr(elastic, "import_torchft", lambda name: None)
    monkeypatch.delenv("TORCHFT_LIGHTHOUSE", raising=False)
    with pytest.raises(gs.InputError, match=r"needs a Lighthouse.*start the script by `gossamer launch --elastic`"):
        make()
    monkeypatch.setenv("TORCHFT_LIGHTHOUSE", "http://10.0.0.1:29510")
    monkeypatch.delenv("GOSSAMER_RUN_KEY", raising=False)
    monkeypatch.setattr(elastic, "_own_address", lambda *_: "10.0.0.2")
    with pytest.raises(gs.InputError, match="needs GOSSAMER_RUN_KEY in the environment, a secret"):
        make()


# ---- losses and joins -----------------------------------------------------------------------------------------------


def test_survivors_go_on_to_the_last_one(torchft):
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
def replaced(torchft, tmp_path_factory):
    """Four on a graph lose one, whose place another takes while they train; one of another run is refused."""
    options = {"faults": {1: (20, signal.SIGKILL)}, "steps": 400, "full": 4}
    folder = tmp_path_factory.mktemp("replaced")
    with ElasticRanks(trained, 4, DMT, quadratics.irregular(4), folder=str(folder), **options) as ranks:
        ranks.processes[1].join(60)
        killed = time.monotonic()
        forked.wait_until(lambda: len(list(folder.glob("2-*"))) == 3, 60)
        ranks.start(3, rule=gs.BiasedDMT(eta=0.2, lam=LAM))
        refused = ranks.pipes.pop()
        assert refused.poll(60)
        ranks.start(1)
        found = ranks.results()
    return refused.recv(), [found[0], found[4], found[2], found[3]], killed


@pytest.mark.slow
def test_a_given_graph_is_cut_down_to_those_that_are_left(replaced):
    """0–1–2–3 with 0–2 loses 1: a path 0–2–3, with Metropolis weights; soon after its heartbeats have ceased."""
    after = next(row for row in replaced[1][0]["seen"] if row["places"] == [0, 2, 3])
    np.testing.assert_allclose(after["W"], np.array([[2, 1, 0], [1, 1, 1], [0, 1, 2]]) / 3)
    assert after["when"] - replaced[2] < HEARTBEAT / 1000 + 3.0


@pytest.mark.slow
def test_one_that_joins_takes_the_lost_place_and_all_settle_at_the_optimum_of_all(replaced):
    four = gone_on(replaced[1])
    assert [one["place"] for one in four] == [0, 1, 2, 3]
    assert len({one["steps"] for one in four}) == 1
    np.testing.assert_allclose(
        four[1]["seen"][-1]["W"], gs.networks.from_graph(quadratics.irregular(4)).mixing, rtol=1e-15
    )
    for one in four:
        np.testing.assert_allclose(one["x"], optimum(4, range(4)), rtol=1e-9, atol=1e-9)


@pytest.mark.slow
def test_one_that_joins_begins_with_its_neighbours_state_and_all_walk_as_a_plain_loop_does(replaced):
    four = gone_on(replaced[1])
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
def test_one_that_stopped_comes_back_as_a_new_one(torchft, tmp_path):
    """Its neighbours go on after the timeout; it then has no part in the group, and joins with a neighbour's state."""
    options = {"faults": {1: (20, signal.SIGSTOP)}, "steps": 700, "full": 3, "timeout": 4.0, "folder": str(tmp_path)}
    with ElasticRanks(trained, 3, gs.DSGT(eta=0.1), "complete", **options) as ranks:
        pid = ranks.processes[1].pid
        forked.wait_until(lambda: Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T", 90)
        stopped = time.monotonic()
        forked.wait_until(lambda: len(list(tmp_path.glob("2-*"))) == 2, 60)
        os.kill(pid, signal.SIGCONT)
        found = gone_on(ranks.results())
    assert found[0]["seen"][1]["places"] == [0, 2]
    assert found[0]["seen"][1]["when"] - stopped < 4.0 + HEARTBEAT / 1000 + 4.0  # both, at most, and time to connect
    for one in found:
        assert one["seen"][-1]["places"] == [0, 1, 2]
        np.testing.assert_allclose(one["x"], optimum(3, range(3)), rtol=1e-9, atol=1e-9)


def test_those_that_are_not_connected_any_more_are_told_so(torchft):
    faults = {2: (5, signal.SIGKILL)}
    with ElasticRanks(trained, 4, DMT, quadratics.irregular(4), faults=faults, steps=100) as ranks:
        found = ranks.results()
    for one in (found[0], found[1], found[3]):
        assert one.kind == "InputError", one.trace
        assert (
            "without 2 must be connected, but falls into 2 components; the smallest has 1 of 3 agents: 3" in one.message
        )


def killed_at_the_start(rank, size, rule, network, phase, again=False):
    """Trains with two others after rank 0 was killed in a phase of the start, and was started again."""
    if rank == 0 and not again:
        import torch.distributed as dist

        from gossamer.torch.world import ProcessWorld

        where, name = {"connects": (dist, "init_process_group"), "agrees": (ProcessWorld, "texts")}[phase]
        setattr(where, name, lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL))
    return trained(rank, size, rule, network, {}, 20, timeout=3.0)


@pytest.mark.slow
@pytest.mark.parametrize("phase", ["connects", "agrees"])
def test_those_that_lose_one_before_anything_is_trained_begin_again_with_its_successor(torchft, phase):
    with ElasticRanks(killed_at_the_start, 3, DMT, "ring", phase=phase) as ranks:
        ranks.processes[0].join(60)
        ranks.start(0, again=True)
        lost, *found = gone_on(ranks.results())
    assert lost is None
    found = [found[2], *found[:2]]
    A, b, E, start = quadratics.problem(3)
    g = np.einsum("nde,ne->nd", A, start - b) + E
    x, _, _ = walked(3, range(3), found[0]["seen"][0]["W"], (start - ETA * g, g, g), 19)
    for place, one in enumerate(found):
        assert one["place"] == place
        assert [(row["places"], row["steps"]) for row in one["seen"]] == [([0, 1, 2], 0)]
        np.testing.assert_allclose(one["x"], x[place], rtol=1e-12, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("away", [0.0, 3.0])
def test_a_lighthouse_that_restarts_is_waited_for_and_nobody_is_lost(torchft, tmp_path, away):
    with ElasticRanks(slowly, 3, DMT, "ring", folder=str(tmp_path), seconds=12.0) as ranks:
        forked.wait_until(lambda: len(list(tmp_path.glob("begun-*"))) == 3, 90)
        ranks.lighthouse.shutdown()
        ranks.lighthouse = None  # ends its connections, too
        time.sleep(away)
        ranks.lighthouse, _ = serve(int(ranks.address.rpartition(":")[2]))
        found = gone_on(ranks.results())
    assert [(one["members"], one["joined"]) for one in found] == [(3, False)] * 3
    assert len({one["steps"] for one in found}) == 1


def slowly(rank, size, rule, network, folder, seconds, start_timeout=60.0):
    """Trains until a member says that so many seconds are over: by rank 0's clock, in steps that all know."""
    import torch

    from gossamer.torch import Decentralized

    halves, loss = quadratics.model(rank, size)
    optimizer = Decentralized(halves, rule, network, elastic=True, timeout=20.0, start_timeout=start_timeout)
    began, over, gap = time.monotonic(), False, 0.0
    Path(folder, f"begun-{rank}").touch()
    while not over:
        optimizer.zero_grad()
        loss().backward()
        before = time.monotonic()
        optimizer.step()
        gap = max(gap, time.monotonic() - before)
        time.sleep(0.01)
        if optimizer.steps % 50 == 0:
            mine = torch.tensor([float(time.monotonic() - began > seconds)], dtype=torch.float64)
            over = optimizer.together(lambda mine=mine: bool(optimizer.world.broadcast(mine)))
    optimizer.finish()
    membership = optimizer.elastic.membership
    return {
        "steps": optimizer.steps,
        "generation": membership.generation,
        "members": len(membership.members),
        "gap": gap,
        "joined": optimizer.elastic.joined,
    }


@pytest.mark.slow
def test_one_that_joins_and_cannot_connect_stalls_the_members_once(torchft, tmp_path):
    """It has the key and sends heartbeats, but never comes to the store."""
    with ElasticRanks(slowly, 3, DMT, "ring", folder=str(tmp_path), seconds=20.0) as ranks:
        forked.wait_until(lambda: len(list(tmp_path.glob("begun-*"))) == 3, 90)
        client = import_torchft("LighthouseClient")(ranks.address, timedelta(seconds=2))
        data = member("j", place=3).sign(b"secret")

        def ask():
            told = client.quorum("j", timedelta(seconds=20), data=data).participants
            return decide([Member.read(one.replica_id, one.data, b"secret") for one in told])

        forked.wait_until(lambda: "j" in ask().names, 20)
        until = time.monotonic() + 4.5  # in which the members wait for it
        while time.monotonic() < until:
            client.heartbeat("j")
            time.sleep(0.2)
        refused = ask().refused
        found = gone_on(ranks.results())
    assert refused == ("j",)
    for one in found:
        assert (one["generation"], one["members"]) == (3, 3)
        assert 4.0 < one["gap"] < 9.0


# ---- who listens, and what a stranger can do ------------------------------------------------------------------------


def listeners(*pids):
    """Return the addresses at which processes listen, as (address, port), by `ss -ltnp`."""
    rows = subprocess.run(["ss", "-ltnpH"], capture_output=True, text=True, check=True).stdout.splitlines()
    mine = [row for row in rows if any(f"pid={pid}," in row for pid in pids)]
    return sorted(tuple(row.split()[3].rsplit(":", 1)) for row in mine)


def disturb(address, port):
    """Connect, send garbage, hang on for a moment and go."""
    for garbage in (b"", b"\0" * 64, b"GET / HTTP/1.1\r\n\r\n", os.urandom(4096)):
        with contextlib.suppress(OSError), socket.create_connection((address, int(port)), timeout=2) as line:
            line.sendall(garbage)
            time.sleep(0.05)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("ss") is None, reason="needs ss, of iproute2")
def test_strangers_reach_loopback_alone_and_neither_end_the_run_nor_get_into_it(torchft, tmp_path):
    """While they train, a process listens for gloo alone; the store is there only while a group is formed."""
    with ElasticRanks(slowly, 3, DMT, "ring", folder=str(tmp_path), seconds=25.0) as ranks:
        forked.wait_until(lambda: len(list(tmp_path.glob("begun-*"))) == 3, 90)
        time.sleep(1.0)
        of_each = [listeners(process.pid) for process in ranks.processes]
        assert [len(rows) for rows in of_each] == [1, 1, 1]
        lighthouse = ("127.0.0.1", ranks.address.rpartition(":")[2])
        assert {address for rows in of_each for address, _ in rows} == {"127.0.0.1"}
        assert lighthouse in listeners(os.getpid())
        for row in (*(row for rows in of_each for row in rows), lighthouse):
            disturb(*row)
        client = import_torchft("LighthouseClient")(ranks.address, timedelta(seconds=2))
        asked = dict[str, list[str]]()

        def ask(name, data):
            with contextlib.suppress(TimeoutError, RuntimeError):
                quorum = client.quorum(name, timedelta(seconds=8), data=data)
                asked[name] = [one.replica_id for one in quorum.participants]

        for name, data in (("stranger", {"x": 1}), ("forger", VETERANS[0].sign(b"guess"))):
            thread = threading.Thread(target=ask, args=(name, data))
            thread.start()
            thread.join()
        ranks.start(7, env={"GOSSAMER_RUN_KEY": "guess"}, start_timeout=6.0)  # the same program without the key
        *found, intruder = ranks.results()
    assert any("stranger" in names and len(names) == 4 for names in asked.values())  # it was in a quorum
    for one in gone_on(found):
        assert (one["generation"], one["members"]) == (1, 3)
    assert intruder.kind == "NoQuorum"
    assert re.search(r"had no quorum for this process within [67] s", intruder.message)


# ---- several machines -----------------------------------------------------------------------------------------------

RUN = Path(__file__).with_name("elastic_run.py")


@pytest.fixture
def machines():
    """Two network namespaces with a link between them, 10.77.0.1 and 10.77.0.2: as good as two machines."""
    if os.geteuid() or not shutil.which("ip"):
        pytest.skip("needs root and ip, of iproute2, to make network namespaces")
    names = [f"gossamer-{os.getpid()}-{number}" for number in (1, 2)]
    ends = [f"gs{os.getpid()}{letter}" for letter in "ab"]

    def ip(*words):
        subprocess.run(["ip", *words], check=True, capture_output=True, text=True)

    try:
        for name in names:
            ip("netns", "add", name)
        ip("link", "add", ends[0], "netns", names[0], "type", "veth", "peer", "name", ends[1], "netns", names[1])
        for number, (name, end) in enumerate(zip(names, ends, strict=True), 1):
            ip("-n", name, "addr", "add", f"10.77.0.{number}/24", "dev", end)
            for link in (end, "lo"):
                ip("-n", name, "link", "set", link, "up")
    except subprocess.CalledProcessError as error:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)
        pytest.skip(f"network namespaces cannot be made here: {error.stderr.strip()}")
    yield names
    for name in names:
        subprocess.run(["ip", "netns", "del", name], capture_output=True)


@pytest.mark.slow
def test_an_agent_that_is_lost_on_another_machine_is_started_again_and_joins(torchft, machines, tmp_path):
    """Two agents on one machine, one on the other; a fourth, which gives an address of loopback, is not let in."""
    common = {"GOSSAMER_RUN_KEY": "secret", "OMP_NUM_THREADS": "1", "JAX_PLATFORMS": "cpu"}
    unset = ("GLOO_SOCKET_IFNAME", "REPLICA_GROUP_ID")
    env = {key: value for key, value in os.environ.items() if key not in unset} | common
    fault = [str(RUN), str(tmp_path), '[2, 30, "SIGKILL"]', "3"]
    there = ["--lighthouse", "http://10.77.0.1:29510"]

    def start(machine, *options, **more):
        call = ["ip", "netns", "exec", machines[machine], sys.executable, "-m", "gossamer", "launch", "--elastic"]
        return subprocess.Popen([*call, *options], env=env | more, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    agents = ["--agents", "3", "--max-restarts", "1"]
    runs = [
        start(0, "--bind", "10.77.0.1:29510", *agents, "--processes", "2", *fault),
        start(1, *there, *agents, "--processes", "1", *fault, REPLICA_GROUP_ID="2"),
        start(1, *there, "--processes", "1", *fault, REPLICA_GROUP_ID="3", GLOO_SOCKET_IFNAME="lo"),
    ]
    try:
        seen = set()
        while any(run.poll() is None for run in runs[:2]):
            for machine in machines:
                rows = subprocess.run(["ip", "netns", "exec", machine, "ss", "-ltnH"], capture_output=True, text=True)
                seen |= {row.split()[3].rpartition(":")[0] for row in rows.stdout.splitlines()}
            time.sleep(0.2)
        said = [run.communicate(timeout=120)[0].decode() for run in runs]
    finally:
        for run in runs:
            run.kill()
    assert [run.returncode for run in runs] == [0, 0, 1], "\n".join(said)
    assert "[agent 2] ended with SIGKILL" in said[1] or "ended with SIGKILL" in said[1]
    assert "this process, at 127.0.0.1, and the members cannot connect to each other" in said[2]
    found = [json.loads(path.read_text()) for path in sorted(tmp_path.glob("result-*"))]
    assert [one["place"] for one in found] == [0, 1, 2]
    # If the new process starts before the heartbeats of the lost one time out, it joins in the very next generation;
    # otherwise two go on alone in between.
    left = found[0]["left"]
    assert left[0] == left[-1] == [0, 1, 2]
    assert all(row in ([0, 1], [0, 1, 2]) for row in left)
    assert [one["generations"][0] == 1 for one in found] == [
        True,
        True,
        False,
    ]  # place 2 is another process, which joined
    assert len(list(tmp_path.glob("pid-*"))) >= 4
    assert all(one["apart"] < 1e-9 for one in found)
    assert seen == {"10.77.0.1", "10.77.0.2"}
