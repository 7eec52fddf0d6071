"""Where the processes of an elastic run meet: a store that is kept by none of them."""

import os
import socket
from datetime import timedelta
from typing import Any

import torch.distributed as dist
from torch.distributed import HashStore, TCPStore  # pyright: ignore[reportPrivateImportUsage]
from torch.distributed.rendezvous import rendezvous

from gossamer.core import InputError
from gossamer.torch.stopping import NeighborLost
from gossamer.torch.world import in_short

MEETING = "GOSSAMER_MEETING"
"""The environment variable with the address of a store that outlives all processes, ``host:port``."""
JOINS = "GOSSAMER_JOINS"
"""The environment variable that is set where processes join what others began."""


def kept_at(host: str, port: int) -> tuple[Any, str]:
    """A store that listens at this address alone, at a free port for 0, and its address: it lasts as this process does.

    By default PyTorch would listen on all interfaces.
    """
    listener = socket.create_server((host, port), backlog=128)
    port = listener.getsockname()[1]
    return (
        TCPStore(host, port, None, is_master=True, wait_for_workers=False, master_listen_fd=listener.detach()),
        f"{host}:{port}",
    )


def meeting(start_timeout: float) -> tuple[Any, str, int, int]:
    """The store that outlives all processes, this machine's address, this process's place, and how many there are."""
    rank, size = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    start = timedelta(seconds=start_timeout)
    if address := os.environ.get(MEETING):
        host, _, port = address.rpartition(":")
        try:
            store = TCPStore(host, int(port), None, timeout=start, wait_for_workers=False)
        except RuntimeError as error:
            raise NeighborLost(f"nobody keeps a meeting place at {address} ({in_short(error)}).") from error
        with socket.create_connection((host, int(port))) as line:
            return store, line.getsockname()[0], rank, 0 if os.environ.get(JOINS) else size
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
        store, *_ = next(rendezvous("env://", rank, size, timeout=start))
        with socket.create_connection((os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))) as line:
            return store, line.getsockname()[0], rank, size
    if "RANK" not in os.environ:
        return HashStore(), "127.0.0.1", 0, 1
    raise InputError(
        "elastic=True needs a meeting place that outlives every rank, but here rank 0 would keep it: start the script "
        "by `gossamer launch --elastic`, or by torchrun without TORCH_DISABLE_SHARE_RDZV_TCP_STORE and with one "
        f"process for each torchrun; or set {MEETING}=host:port to that of a torch.distributed.TCPStore that you keep."
    )


def count_anew() -> None:
    """After a group that failed, let PyTorch count groups from 0 again, as one does that has just begun.

    It puts that number before what members look for in the store, and takes it back only where a group is destroyed.
    """
    dist.init_process_group("gloo", store=HashStore(), rank=0, world_size=1)
    dist.destroy_process_group()
