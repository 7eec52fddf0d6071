"""How a script is started and ended: by torchrun as it is, and by `gossamer launch`."""

import os
import signal
import subprocess
import sys

import pytest

from gossamer.core import InputError
from gossamer.torch import tether
from gossamer.torch.launch import command, environment, launch
from tests.seldom import seldom
from tests.torch_engine import forked

ONE_STEP = """
import torch
import gossamer as gs
from gossamer.torch import Decentralized

x = torch.nn.Parameter(torch.zeros(2))
optimizer = Decentralized([x], gs.DPSGD(eta=1.0), "complete", timeout=20)
(x * optimizer.world.rank).sum().backward()
optimizer.step()
with optimizer.average_model():
    print(f"mean of rank {optimizer.world.rank} {x.tolist()}\\n", end="", flush=True)  # in one piece
"""

SLEEPS = """
import os, sys, time
open(os.path.join(sys.argv[1], os.environ["RANK"]), "w").write(f"{os.getppid()} {os.getpid()}\\n")
time.sleep(120)
"""


def test_torchrun_as_it_is(tmp_path):
    """It opens the meeting place itself, on an address of this machine."""
    (tmp_path / "one.py").write_text(ONE_STEP)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    env = os.environ | {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    done = subprocess.run([*torchrun, "one.py"], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr[-3000:]
    assert sorted(done.stdout.splitlines()) == [f"mean of rank {rank} [-0.5, -0.5]" for rank in range(2)]


@pytest.mark.parametrize("number", seldom([signal.SIGTERM, signal.SIGINT, signal.SIGKILL], always=[signal.SIGKILL]))
def test_a_signal_to_launch_ends_all_processes(number, tmp_path):
    (tmp_path / "sleeps.py").write_text(SLEEPS)
    call = [sys.executable, "-m", "gossamer", "launch", "--processes", "2", "sleeps.py", str(tmp_path)]
    started = subprocess.Popen(call, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    files = [tmp_path / str(rank) for rank in range(2)]
    try:
        forked.wait_until(lambda: all(file.exists() and "\n" in file.read_text() for file in files), 120)
        started.send_signal(number)
        assert started.wait(60) == (-number if number == signal.SIGKILL else 128 + number)
    finally:
        started.kill()
    pids = {int(pid) for file in files for pid in file.read_text().split()}
    assert len(pids) == 3  # torchrun and its two processes
    if number == signal.SIGKILL:  # it could not wait for them
        forked.wait_until(lambda: not any(map(forked.runs, pids)), 30)
    assert not [pid for pid in pids if forked.runs(pid)]


SAYS = """
import os, sys
print("out of", os.environ["RANK"], flush=True)
print("error of", os.environ["RANK"], file=sys.stderr, flush=True)
"""


def test_what_processes_print_begins_with_their_rank(tmp_path):
    (tmp_path / "says.py").write_text(SAYS)
    call = command(2, tmp_path / "says.py", folder=tmp_path, prefix=True)
    done = subprocess.run(call, env=environment(2), capture_output=True, text=True, timeout=120)
    assert sorted(done.stdout.splitlines()) == ["[rank 0] out of 0", "[rank 1] out of 1"]
    assert {"[rank 0] error of 0", "[rank 1] error of 1"} <= set(done.stderr.splitlines())


KEEPS = """
import os, subprocess, sys
os.environ["GOSSAMER_KEEPER"] = sys.argv[1] if sys.argv[1] != "me" else str(os.getpid())
says = "import os, time; print(os.getpid(), os.environ['GOSSAMER_KEEPER'], flush=True); time.sleep(120)"
subprocess.run([sys.executable, "-S", sys.argv[2], "SIGKILL", sys.executable, "-S", "-c", says])
"""


def test_what_is_tethered_ends_with_its_keeper():
    keeper = subprocess.Popen(
        [sys.executable, "-S", "-c", KEEPS, "me", tether.__file__], stdout=subprocess.PIPE, text=True
    )
    with keeper:
        pid, its_own = map(int, keeper.stdout.readline().split())
        assert pid == its_own  # for those that it starts
        assert forked.runs(pid)
        keeper.kill()
    forked.wait_until(lambda: not forked.runs(pid), 10)


def test_what_would_be_tethered_to_a_process_that_is_gone_does_not_start():
    gone = subprocess.Popen([sys.executable, "-S", "-c", ""])
    gone.wait()
    call = [sys.executable, "-S", "-c", KEEPS, str(gone.pid), tether.__file__]
    assert subprocess.run(call, capture_output=True, timeout=30).stdout == b""


@pytest.mark.parametrize(
    ("processes", "script", "restarts", "message"),
    [
        (0, __file__, 0, "processes must be a whole number of at least 1, but is 0"),
        (2, __file__, -1, "max_restarts must be a whole number of at least 0, but is -1"),
        (2, "nowhere.py", 0, "there is no script 'nowhere.py' to launch"),
    ],
)
def test_launch_refuses(processes, script, restarts, message):
    with pytest.raises(InputError, match=message):
        launch(processes, script, max_restarts=restarts)
