"""How a script is started and ended: by torchrun as it is, and by `gossamer launch`."""

import os
import signal
import subprocess
import sys
import time

import pytest
from torch_engine import forked

from gossamer.core import InputError
from gossamer.torch.launch import launch

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
open(os.path.join(sys.argv[1], os.environ["RANK"]), "w").write(str(os.getpid()))
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


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_launch_ends_all_processes(number, tmp_path):
    (tmp_path / "sleeps.py").write_text(SLEEPS)
    call = [sys.executable, "-m", "gossamer", "launch", "--processes", "2", "sleeps.py", str(tmp_path)]
    started = subprocess.Popen(call, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        files = [tmp_path / str(rank) for rank in range(2)]
        end = time.monotonic() + 120
        while not all(file.exists() and file.read_text() for file in files):
            assert started.poll() is None
            assert time.monotonic() < end
            time.sleep(0.1)
        started.send_signal(number)
        assert started.wait(60) == 128 + number
    finally:
        started.kill()
    pids = [int(file.read_text()) for file in files]
    assert not [pid for pid in pids if forked.runs(pid)]


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
