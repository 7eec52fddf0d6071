"""Who waits for whom at the start, and how long: ranks as threads, since all they need is the meeting place."""

import socket
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest

import gossamer as gs
from gossamer.torch import Decentralized, NeighborLost, world
from tests.torch_engine.small import weight

START = timedelta(seconds=1)


@pytest.fixture
def place(monkeypatch):
    """A free port of this machine, as torchrun would give it."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    monkeypatch.setenv("MASTER_PORT", str(port))
    monkeypatch.delenv("TORCHELASTIC_USE_AGENT_STORE", raising=False)


def come(ranks, size):
    """What each of these ranks finds: the meeting place, or an error."""

    def one(rank):
        try:
            return world._together(rank, size, START)
        except NeighborLost as error:
            return error

    with ThreadPoolExecutor(len(ranks)) as pool:
        return list(pool.map(one, ranks))


@pytest.mark.usefixtures("place")
def test_all_that_come_find_each_other():
    stores: list[Any] = come(range(4), 4)
    stores[3].set("said by", "rank 3")
    assert [store.get("said by") for store in stores] == [b"rank 3"] * 4


@pytest.mark.usefixtures("place")
def test_those_that_came_name_those_that_did_not():
    for rank, error in zip((0, 2), come((0, 2), 4), strict=True):
        assert isinstance(error, NeighborLost)
        assert error.ranks == (1, 3)
        assert str(error).startswith(f"rank {rank} waited 1.")
        assert "for ranks 1, 3 at the start, in vain: " in str(error)
        assert "ranks 0, 2 came" in str(error)
        assert "use Decentralized(…, start_timeout=…), which is 1 s" in str(error)


@pytest.mark.usefixtures("place")
def test_the_one_that_keeps_the_meeting_place_is_named():
    (error,) = come((1,), 2)
    assert isinstance(error, NeighborLost)
    assert error.ranks == (0,)
    assert "rank 1 waited 1 s for rank 0 at the start, in vain: the meeting place is not there" in str(error)


@pytest.mark.usefixtures("place")
def test_a_port_that_is_taken_is_said_at_once():
    host_port = ("127.0.0.1", int(world.os.environ["MASTER_PORT"]))
    with socket.create_server(host_port), pytest.raises(OSError, match="in use"):
        world._together(0, 2, START)


@pytest.mark.parametrize("seconds", [0, -1.0, float("nan"), float("inf")])
def test_a_start_timeout_is_a_number_of_seconds(seconds):
    with pytest.raises(gs.InputError, match="start_timeout must be a number of seconds above 0"):
        Decentralized([weight()], gs.DPSGD(0.1), start_timeout=seconds)
