"""How the processes find each other at the start, and who is missing if they do not."""

import atexit
import os
import socket
import time
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import HashStore, TCPStore  # pyright: ignore[reportPrivateImportUsage]
from torch.distributed.rendezvous import rendezvous

from gossamer.torch.stopping import NeighborLost

LOOPBACK = ("127.0.0.1", "localhost")
"""Addresses of this machine that no other can reach."""
LOOK = 0.05
"""Seconds between two looks at who has come."""


def join(device: torch.device, start: timedelta, timeout: timedelta) -> None:
    """Join the process group of all ranks.

    Args:
        device: where the parameters are.
        start: how long to wait for the last rank.
        timeout: the group's timeout, for whatever has none of its own.
    """
    backend = "nccl" if device.type == "cuda" else "gloo"
    if "RANK" not in os.environ:  # not started by torchrun: a world of one
        dist.init_process_group(backend, timeout=timeout, store=HashStore(), rank=0, world_size=1)
    else:
        rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        store = _together(rank, size, start)
        store.set_timeout(timeout)
        dist.init_process_group(backend, timeout=timeout, store=store, rank=rank, world_size=size)
    atexit.register(_leave)


def _together(rank: int, size: int, start: timedelta) -> Any:
    """The meeting place, once all ranks are there."""
    began, came, why = time.monotonic(), {rank}, ""
    try:
        store = _meeting(rank, size, start)
    except RuntimeError as error:
        raise _missing(rank, (0,), f"{start.total_seconds():g} s", "the meeting place is not there", start) from error
    try:
        store.set(_here(rank), "")
        while len(came) < size and time.monotonic() - began < start.total_seconds():
            came |= {peer for peer in set(range(size)) - came if store.check([_here(peer)])}
            time.sleep(0.0 if len(came) == size else LOOK)
    except RuntimeError:  # whoever keeps the meeting place has given up, or died
        why = "the meeting place is gone; "
    if len(came) < size:
        lost = tuple(sorted(set(range(size)) - came))
        raise _missing(rank, lost, f"{time.monotonic() - began:.1f} s", f"{why}{_ranks(sorted(came))} came", start)
    return store


def _here(rank: int) -> str:
    return f"gossamer/here/{rank}"


def _missing(rank: int, lost: tuple[int, ...], waited: str, what: str, start: timedelta) -> NeighborLost:
    return NeighborLost(
        f"rank {rank} waited {waited} for {_ranks(lost)} at the start, in vain: {what}. See the output of those that "
        "did not come; if they only start late, use Decentralized(…, start_timeout=…), which is "
        f"{start.total_seconds():g} s.",
        lost,
    )


def _ranks(which: Any) -> str:
    return ("rank " if len(which) == 1 else "ranks ") + ", ".join(map(str, which))


def _meeting(rank: int, size: int, start: timedelta) -> Any:
    """Where the processes meet: torchrun's own place, or one that rank 0 opens."""
    host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
        store, *_ = next(rendezvous("env://", rank, size, timeout=start))
        return store
    if rank:
        return TCPStore(host, port, None, timeout=start, wait_for_workers=False)
    if host not in LOOPBACK:
        return TCPStore(host, port, None, is_master=True, timeout=start, wait_for_workers=False)
    # by default PyTorch would listen on all interfaces
    listener = socket.create_server((host, port), backlog=size)
    return TCPStore(
        host, port, None, is_master=True, timeout=start, wait_for_workers=False, master_listen_fd=listener.detach()
    )


def _leave() -> None:
    if dist.is_initialized():
        dist.destroy_process_group()
