"""How a process ends: without threads of gloo that could abort it."""

import os
import subprocess
import sys

import pytest

from gossamer.torch import faults
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
