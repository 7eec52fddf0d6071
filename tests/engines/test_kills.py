"""A launched run of which a process is killed: all of it ends, and the same command goes on to the same bits."""

import random

import pytest

from benchmarks import kills
from tests.engines.test_devices import environment


@pytest.mark.slow
def test_a_killed_process_ends_the_others_and_the_same_command_goes_on_to_the_same_bits(tmp_path, monkeypatch):
    for name, value in environment().items():
        monkeypatch.setenv(name, value)
    spec, reference = kills.undisturbed(tmp_path, steps=5500)
    out = tmp_path / "killed"
    _, seconds, cells = kills.killed(spec, out, random.Random(3))
    assert seconds < kills.PATIENCE
    assert cells >= 1
    assert kills.launched(spec, out).wait() == 0
    assert kills.same(reference, out)
