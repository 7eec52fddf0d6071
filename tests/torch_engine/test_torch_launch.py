"""How a script is started and ended: by torchrun as it is, and by `gossamer launch`."""

import io
import os
import re
import signal
import subprocess
import sys

import pytest

from gossamer.core import InputError
from gossamer.torch.launch import _Output, command, environment, launch
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
rank = os.environ.get("REPLICA_GROUP_ID", os.environ["RANK"])
open(os.path.join(sys.argv[1], rank), "w").write(f"{os.getppid()} {os.getpid()}\\n")
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
    end_launch(number, tmp_path, torchruns=1)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_signal_to_an_elastic_launch_ends_all_processes(number, tmp_path):
    pytest.importorskip("torchft", reason="needs torchft, from `pip install -e '.[elastic]'`")
    end_launch(number, tmp_path, "--elastic", torchruns=2)


def end_launch(number, tmp_path, *options, torchruns):
    """Send the signal to a launcher of two processes, and see that nothing is left."""
    (tmp_path / "sleeps.py").write_text(SLEEPS)
    call = [sys.executable, "-m", "gossamer", "launch", *options, "--processes", "2", "sleeps.py", str(tmp_path)]
    started = subprocess.Popen(call, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    files = [tmp_path / str(rank) for rank in range(2)]
    try:
        forked.wait_until(lambda: all(file.exists() and "\n" in file.read_text() for file in files), 120)
        started.send_signal(number)
        assert started.wait(60) == (-number if number == signal.SIGKILL else 128 + number)
    finally:
        started.kill()
    pids = {int(pid) for file in files for pid in file.read_text().split()}
    assert len(pids) == torchruns + 2
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


def said_of(lines, prefix=True, capsys=None):
    """Return what is printed of these lines of a torchrun, and at its end."""
    output, out = _Output(prefix), io.StringIO()
    output.pass_on(io.StringIO("".join(f"{line}\n" for line in lines)), out, "")
    output.close(failed=True)
    return out.getvalue().splitlines(), capsys.readouterr().err.splitlines()


TRACEBACK = ["Traceback (most recent call last):", '  File "a.py", line 1, in <module>', "    1 / 0"]
REPORT = "E1118 api.py:984] failed (exitcode: 1) local_rank: 0 (pid: 77) of binary: python"


def test_an_error_of_all_ranks_is_printed_once(capsys):
    """By the first that raises it, also where it names ranks or has a cause; torchrun's report is left out."""
    lines = []
    for rank in range(3):
        block = [*TRACEBACK, "ZeroDivisionError: division by zero", "", _Output.CHAINED[1] + " of the following:", ""]
        block += [*TRACEBACK, f"InputError: rank {rank} is wrong"]
        lines += [f"[rank {rank}] [rank{rank}]: {line}" if line else f"[rank {rank}] " for line in block]
    out, end = said_of([*lines, "[rank 1] but this is another line", REPORT, "torchrun's own summary"], capsys=capsys)
    first = [*TRACEBACK, "ZeroDivisionError: division by zero", "", _Output.CHAINED[1] + " of the following:", ""]
    first += [*TRACEBACK, "InputError: rank 0 is wrong"]
    assert out == [
        *(f"[rank 0] {line}" for line in first),
        "[rank 1] but this is another line",
        "[rank 0] ended with exit code 1",
    ]
    assert end == ["[rank 1] [rank 2] raised the same error"]


def test_errors_that_differ_are_all_printed_and_so_is_one_that_is_cut_off(capsys):
    lines = [f"[rank 0] {line}" for line in (*TRACEBACK, "ValueError: a")]
    lines += [f"[rank 1] {line}" for line in (*TRACEBACK, "TypeError: b")]
    lines += [f"[rank 2] {line}" for line in TRACEBACK]
    out, end = said_of(lines, prefix=False, capsys=capsys)
    assert out == [*TRACEBACK, "ValueError: a", *TRACEBACK, "TypeError: b"]
    assert end == TRACEBACK


def test_what_torchrun_says_is_printed_where_no_process_says_why_it_failed(capsys):
    out, end = said_of(["usage: torchrun", REPORT.replace("exitcode: 1", "exitcode: -9")], capsys=capsys)
    assert out == ["[rank 0] ended with SIGKILL"]
    assert end[0] == "usage: torchrun"


FAILS = """
import os
raise ValueError(f"rank {os.environ['RANK']} has no data")
"""


@pytest.mark.slow
def test_launch_prints_the_error_of_a_script_once(tmp_path):
    (tmp_path / "fails.py").write_text(FAILS)
    call = [sys.executable, "-m", "gossamer", "launch", "--processes", "2", "fails.py"]
    done = subprocess.run(call, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert done.stderr.count("Traceback") == done.stderr.count("has no data") - done.stderr.count("raise ") == 1
    assert "ChildFailedError" not in done.stderr


STARTS = """
import subprocess, sys
from gossamer.basics.children import tether

if sys.argv[1] == "late":
    import os
    os.getpid = lambda: 1  # as where the parent had ended before the child looked
subprocess.run(tether([sys.executable, "-S", "-c", "import os, time; print(os.getpid(), flush=True); time.sleep(120)"]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a process with its parent")
def test_what_is_tethered_ends_with_its_parent_and_does_not_start_without():
    with subprocess.Popen([sys.executable, "-c", STARTS, "now"], stdout=subprocess.PIPE, text=True) as parent:
        pid = int(parent.stdout.readline())
        assert forked.runs(pid)
        parent.kill()
    forked.wait_until(lambda: not forked.runs(pid), 10)
    late = subprocess.run([sys.executable, "-c", STARTS, "late"], capture_output=True, timeout=30)
    assert late.stdout == b""


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


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bind": "nowhere"}, "a Lighthouse is served at host:port, such as 10.0.0.1:29510, but this is 'nowhere'"),
        ({"bind": "0.0.0.0:29510"}, "set GOSSAMER_RUN_KEY to the same secret on all machines"),
    ],
)
def test_an_elastic_launch_refuses(options, message, monkeypatch):
    monkeypatch.delenv("GOSSAMER_RUN_KEY", raising=False)
    with pytest.raises(InputError, match=re.escape(message)):
        launch(2, __file__, elastic=True, **options)


def test_a_run_over_several_machines_is_not_kept_on_loopback(monkeypatch):
    monkeypatch.delenv("GLOO_SOCKET_IFNAME", raising=False)
    assert "GLOO_SOCKET_IFNAME" in environment(2)
    assert "GLOO_SOCKET_IFNAME" not in environment(2, loopback=False)
