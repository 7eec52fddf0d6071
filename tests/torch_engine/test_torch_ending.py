"""How a process ends: without threads of gloo that could abort it."""

import os
import subprocess
import sys

import pytest

from gossamer.torch import faults
from gossamer.torch.launch import command, environment
from tests.seldom import seldom
from tests.torch_engine import forked

SCRIPT = """
import atexit

seen = []
atexit.register(lambda: print("kept" if seen[0]() else "gone"))  # the first is called last

import weakref
import torch
import torch.distributed as dist
import gossamer as gs
from gossamer.torch import Decentralized

x = torch.nn.Parameter(torch.ones(2))
optimizer = Decentralized([x], gs.DPSGD(eta=0.1), "ring")
x.square().sum().backward()
optimizer.step()
dist.all_reduce(x.data)  # a thread of gloo does it
seen.append(weakref.ref(dist.group.WORLD))
"""


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
"""


@pytest.mark.parametrize("last", seldom(["", "dist.destroy_process_group()"], always=[""]))
def test_the_group_of_an_optimizer_that_still_lives_is_gone_before_the_interpreter_ends(last):
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT + last],
        env=os.environ | forked.LIGHT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "gone\n"


class Group:
    """As good as one of PyTorch."""


@pytest.mark.parametrize("kept", [False, True])
def test_threads_of_a_group_that_somebody_else_keeps_are_given_time(kept, monkeypatch):
    pauses, group = [], Group()
    monkeypatch.setattr(faults, "_OF_GROUPS", [(group, group, None)])
    monkeypatch.setattr(faults.time, "sleep", pauses.append)
    if not kept:
        del group
    faults.let_go()
    assert pauses == [faults.PAUSE] * kept


def test_ranks_that_wait_for_letters_end_well_without_a_finish(tmp_path):
    """Each loses its neighbours while its interpreter ends, if they go at the same time."""
    script = tmp_path / "unfinished.py"
    script.write_text(UNFINISHED)
    done = subprocess.run(
        command(3, script, folder=tmp_path),
        env=environment(3) | forked.LIGHT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-5000:]
