"""Processes of one machine read each other's arrays: the same bits as where they are sent, and no wait for the dead."""

import os
import socket
import time
from datetime import timedelta

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gossamer.torch import nearby
from tests.torch_engine import forked, near_ranks

pytestmark = pytest.mark.skipif(not os.path.exists("/proc/self/mem"), reason="only Linux lets processes read others")


def mine(a, lost=lambda error: RuntimeError("lost")):
    """A vector of this process, as another one would see it."""
    return nearby.Elsewhere(os.getpid(), a.data_ptr(), a.numel(), a.dtype, lost)


@given(size=st.integers(1, 50), length=st.integers(1, 60), dtype=st.sampled_from([torch.float32, torch.float64]))
def test_the_blocks_of_a_vector_are_the_vector(size, length, dtype):
    a = torch.arange(size, dtype=dtype)
    blocks = mine(a).split(length)
    assert [block.numel() for block in blocks] == [part.numel() for part in a.split(length)]
    assert torch.equal(torch.cat([nearby.read(block) for block in blocks]), a)


def test_what_is_too_long_for_one_call_is_copied_in_parts(monkeypatch):
    monkeypatch.setattr(nearby, "LONGEST_COPY", 12)  # the kernel copies less than 2 GiB at a time
    a = torch.arange(10.0)
    assert torch.equal(nearby.read(mine(a)), a)


def test_what_is_not_there_is_an_error_of_its_own():
    told = []
    elsewhere = nearby.Elsewhere(os.getpid(), 8, 4, torch.float32, lambda error: told.append(error) or KeyError("gone"))
    with pytest.raises(KeyError, match="gone"):
        nearby.read(elsewhere)
    assert isinstance(told[0], OSError)


def test_words_are_heard_in_the_order_in_which_they_are_expected():
    here, there = socket.socketpair()
    with here, there:
        due = nearby.deque()
        for count in (2, 1):
            due.append(nearby.Word(here, count, due))
        first, second = due
        there.sendall(b"".join(int(k).to_bytes(8, "little") for k in (7, 8, 9)))
        second.wait(timedelta(seconds=5))  # hears the first as well, which was to come before
        assert (first.numbers, second.numbers, len(due)) == ((7, 8), (9,), 0)
        due.append(third := nearby.Word(here, 1, due))
        with pytest.raises(TimeoutError):
            third.wait(timedelta(milliseconds=10))
        there.close()
        with pytest.raises(ConnectionResetError):
            third.wait(timedelta(seconds=5))


@pytest.mark.parametrize("blind", [False, True])
def test_what_is_read_has_the_bits_of_what_is_sent(blind):
    found = forked.run(near_ranks.trained, 4, blind)
    for rank, of_rank in enumerate(found):
        others = {0, 1, 2, 3} - {rank} - ({1, 2} if blind and rank in (1, 2) else set())
        for name, ((sent, paid, nobody), (read, paid_too, near)) in of_rank.items():
            assert np.array_equal(sent, read), name
            assert (paid, nobody, near) == (paid_too, [], sorted(others)), name


@pytest.mark.parametrize("how", ["killed", "stopped by an error"])
def test_one_that_is_lost_is_noticed_at_once(how):
    began = time.monotonic()
    with forked.Ranks(near_ranks.lost, 3, how) as ranks:
        found = ranks.results(60, stopped=1)  # its fork keeps the pipe
    assert time.monotonic() - began < 20  # as long as its fork lives; the timeout is 30
    for rank in (0, 2):
        assert found[rank].kind == "NeighborLost", found[rank].message
        assert 1 in found[rank].ranks


def test_an_optimizer_that_only_some_ranks_keep_keeps_nobody_waiting():
    assert forked.run(near_ranks.kept, 2) == ["trained", "trained"]


@pytest.mark.parametrize("without", ["socket", "folder"])
def test_one_without_a_door_sends(without):
    for rank, found in enumerate(forked.run(near_ranks.doorless, 3, without)):
        assert found == [[2], [], [0]][rank]
