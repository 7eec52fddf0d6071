"""Several devices and processes: the same runs as on one, and what cannot be shared out is refused."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import jax
import numpy as np
import pytest

import gossamer as gs
from gossamer.engines import devices as places
from gossamer.engines import processes, program, runs
from gossamer.engines.processes import LOST, find_port, judge_exits, launch
from gossamer.experiments import running
from gossamer.specs.spec import Spec
from tests.engines import shares
from tests.table import table

ROOT = Path(__file__).parents[2]


def environment() -> dict[str, str]:
    """As in tests/conftest.py. XLA ends a process that names an option unknown to it."""
    haste = " ".join(f"--{name}={str(value).lower()}" for name, value in program.known_options(program.QUICK).items())
    return os.environ | {"XLA_FLAGS": haste, "JAX_DISABLE_MOST_OPTIMIZATIONS": "1", "PYTHONPATH": str(ROOT / "src")}


def start(file: Path, devices: int, cases: tuple[str, ...], *meeting: object) -> "subprocess.Popen[bytes]":
    given = [str(file), str(devices), ",".join(cases), *map(str, meeting)]
    command = [sys.executable, "-m", "tests.engines.shares", *given]
    return subprocess.Popen(command, cwd=ROOT, env=environment(), stdout=subprocess.DEVNULL)


@pytest.fixture(scope="module")
def alone():
    return {case: shares.simulated(case) for case in shares.FEW}


@pytest.fixture(scope="module")
def eight(tmp_path_factory):
    file = tmp_path_factory.mktemp("devices") / "eight.npz"
    assert start(file, 8, shares.FEW).wait() == 0
    return dict(np.load(file))


def test_agents_over_eight_devices_do_what_they_do_on_one(alone, eight):
    for case in shares.FEW:
        np.testing.assert_allclose(eight[case], alone[case], rtol=0, atol=1e-12, err_msg=case)
        assert np.abs(alone[case]).max() > 1e-3


@pytest.mark.slow
def test_other_rules_and_networks_over_eight_devices_do_what_they_do_on_one(tmp_path):
    others = tuple(case for case in shares.CASES if case not in shares.FEW)
    assert start(tmp_path / "x.npz", 8, others).wait() == 0
    made = np.load(tmp_path / "x.npz")
    for case in others:
        np.testing.assert_allclose(made[case], shares.simulated(case), rtol=0, atol=1e-12, err_msg=case)
        assert np.abs(made[case]).max() > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize(("count", "devices"), [(2, 2), (4, 8)])
def test_agents_over_processes_do_what_they_do_on_one(count, devices, alone, eight, tmp_path):
    with socket.socket() as tried:
        tried.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{tried.getsockname()[1]}"
    started = [start(tmp_path / "x.npz", devices, shares.TOGETHER, address, count, process) for process in range(count)]
    assert [process.wait() for process in started] == [0] * count
    made = np.load(tmp_path / "x.npz")
    for case in shares.TOGETHER:
        np.testing.assert_allclose(made[case], alone[case], rtol=0, atol=1e-12, err_msg=case)
        if devices == 8:
            np.testing.assert_array_equal(made[case], eight[case])  # whichever processes the devices belong to


def test_seeds_over_devices_have_the_bits_of_blocks_of_that_width(eight):
    np.testing.assert_array_equal(eight["runs"], eight["apart"])
    assert eight["rounds"].tolist() == [0, 3, 6]


def test_what_is_shared_out_is_chosen_and_said(eight):
    assert eight["choices"].tolist() == [
        "one device of 8: a round is too short to be shared out",
        "12 agents over 6 devices, 2 each (8 devices, but the agents must be shared equally)",
        "runs over 3 devices, 1 seed of 1 setting on each",
        "runs over 4 devices, 5 seeds of 1 setting on each",
        "16 agents over 2 devices, 8 each",
    ]


@table(
    ("given", "said"),
    [
        ({"devices": 0}, "devices must be a whole number of at least 1, but is 0"),
        ({"devices": "many"}, "devices must be a whole number of at least 1, but is 'many'. Or give \"all\"."),
        ({"devices": 2.5}, "devices must be a whole number of at least 1, but is 2.5"),
        ({"split": "agents"}, 'split = "agents" says how to share out over devices: give devices as well'),
        ({"devices": "all", "split": "rows"}, 'split must be "runs" or "agents", but is \'rows\''),
        ({"devices": 2}, "devices = 2, but JAX sees 1 device. On a CPU call gossamer.devices(2) before"),
    ],
)
def test_devices_that_are_none_are_refused(given, said):
    with pytest.raises(gs.InputError) as error:
        shares.simulated("ring", **given)
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("agents", "devices", "split", "said"),
    [
        (16, 3, None, "16 agents cannot be shared equally by 3 devices: take one of 1, 2, 4, 8, 16."),
        (5, 8, "agents", "5 agents cannot be shared equally by 8 devices: take one of 1, 5."),
        (16, 8, "runs", "there is one block of one seed, which 8 devices cannot share: take more seeds"),
    ],
)
def test_shares_that_are_not_equal_are_refused(agents, devices, split, said, monkeypatch):
    monkeypatch.setattr(jax, "device_count", lambda: 8)
    network = gs.networks.ring(agents)
    with places.use_devices(devices, split), pytest.raises(gs.InputError) as error:
        places.choose_layout(1, 1, places.Width(1, 1), shares.problem(agents), network, gs.oracles.exact())
    assert said in str(error.value)


def test_a_run_that_devices_cannot_share_writes_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(jax, "device_count", lambda: 8)
    spec = Spec.of(
        {
            "problem": {"name": "quadratic", "A": [[2.0]], "b": [[1.0], [0.0], [3.0]]},
            "network": {"name": "ring"},
            "run": {"steps": 10},
            "algorithm": [{"name": "d-psgd", "eta": 0.1}],
        }
    )
    with places.use_devices(8, "agents"), pytest.raises(gs.InputError, match="3 agents cannot be shared equally by 8"):
        running.run(spec, tmp_path / "run", progress=False)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("rows", "what"), [([0], "its spec"), ([1], "its versions"), ([0, 2], "its spec and its files of your own")]
)
def test_processes_that_would_compute_something_else_are_refused(rows, what, monkeypatch):
    def gathered(digests):
        theirs = digests.copy()
        theirs[rows] += 1
        return np.stack([digests, digests, theirs])

    monkeypatch.setattr(processes, "are_several", lambda: True)
    monkeypatch.setattr(processes.multihost_utils, "process_allgather", gathered)
    with pytest.raises(gs.InputError, match=f"process 2 differs from the first in {what}: make them the same"):
        processes.check_same("steps = 10", [])


def test_jax_is_told_of_devices_before_it_starts():
    jax.devices()
    gs.devices(1)  # what it shows already
    with pytest.raises(gs.InputError, match=r"devices\(3\) comes too late: JAX has started and shows 1 device"):
        gs.devices(3)


def test_a_rule_whose_state_has_no_axis_of_agents_is_refused(monkeypatch):
    @gs.rule(name="counting", needs="nothing")
    class Counting:
        eta: gs.StepSize

        def init(self, x, agent):
            return gs.State(x=x, count=x[0, 0] * 0)

        def step(self, s, agent):
            return gs.State(x=s.x - self.eta * agent.gradient(s.x), count=s.count + 1)

    split = SimpleNamespace(settings=1, seeds=1, agents=2, mesh=())
    monkeypatch.setattr(runs, "choose_layout", lambda *given: (split, places.Width(1, 1)))
    with pytest.raises(gs.InputError, match="counting: count of its State has no axis of agents"):
        gs.simulate(Counting(eta=0.1), shares.problem(), gs.networks.ring(16), steps=1, progress=False)


@pytest.mark.parametrize(
    ("codes", "ends", "said"),
    [
        ((0, -signal.SIGKILL), LOST, "process 1 was ended by SIGKILL"),
        ((LOST, -signal.SIGKILL), LOST, "process 1 was ended by SIGKILL"),
        ((1, -signal.SIGKILL), LOST, "process 1 was ended by SIGKILL"),  # what failed, failed for the loss
        ((-signal.SIGKILL, -signal.SIGABRT), LOST, "process 0 was ended by SIGKILL"),
        ((0, 1, LOST), LOST, "process 1 ended with code 1"),
        ((1, -signal.SIGABRT), 1, ""),  # an error of the first, for which the runtime ends the other
        ((2, 2), 2, ""),
        ((2, 0), 2, ""),
    ],
)
def test_what_a_run_ends_with_is_decided_by_who_fell_first(codes, ends, said, capsys):
    assert judge_exits(codes) == ends
    assert capsys.readouterr().err.startswith(said)


def test_a_port_that_is_taken_is_refused():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(gs.InputError, match=f"cannot listen at 127.0.0.1:{port} .*choose another port"):
            launch(2, ["spec.toml"], port=port)
    with pytest.raises(gs.InputError, match=r"where processes meet is HOST:PORT, such as .*, but is 'here'"):
        find_port("here")
