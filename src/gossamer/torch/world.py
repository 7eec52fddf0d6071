"""The processes that train together: joining them, and checking that they agree on what they train."""

import atexit
import json
import os
import re
import socket
import time
import weakref
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import HashStore, TCPStore  # pyright: ignore[reportPrivateImportUsage]
from torch.distributed.rendezvous import rendezvous

from gossamer.core import InputError
from gossamer.torch.faults import GRACE, LastWords, NeighborLost, alive, last_words

LOOPBACK = ("127.0.0.1", "localhost")  # addresses of this machine that no other can reach
LOOK = 0.05  # seconds between two looks at who has come


class ProcessWorld:
    """This process among those that gossip: all of them, or those of a group.

    It joins them here unless the script has done so before; by `form`, where that is given. Ranks are those in the
    group.
    """

    def __init__(
        self,
        device: torch.device,
        dtype: torch.dtype,
        timeout: float,
        start_timeout: float,
        group: Any = None,
        form: Callable[[], None] | None = None,
    ):
        self.device, self.dtype, self.timeout = device, dtype, timedelta(seconds=timeout)
        check_device(device)
        if form is not None:
            form()
        elif not dist.is_initialized():
            start = timedelta(seconds=start_timeout)
            join(device, start, max(self.timeout, start))
        self.enter(dist.group.WORLD if group is None else group)
        self.part = "" if group is None else f"-part-{self.everywhere(0)}"
        """Tells apart the files of groups that train the same model together, in nodes of several processes."""

    @property
    def group(self) -> Any:
        """The group, for a call: whoever keeps it keeps its threads, see `gossamer.torch.faults.let_go`."""
        return alive(self._group)

    def enter(self, group: Any) -> None:
        """Be one of this group from now on."""
        if not isinstance(group, dist.ProcessGroup) or dist.get_rank(group) < 0:
            raise InputError(
                "process_group must be a group of torch.distributed that this process (rank "
                f"{dist.get_rank()} of all) is in, but is {group!r}: use dist.new_group, or get_group() of a "
                "DeviceMesh's dimension across nodes."
            )
        self.rank, self.size = dist.get_rank(group), dist.get_world_size(group)
        self._group = weakref.ref(group)
        self.words: LastWords = last_words(group)

    def leave(self) -> None:
        """Leave all groups, so that the others notice at once."""
        if dist.is_initialized():
            self.words.hang_up()
            dist.destroy_process_group()

    def everywhere(self, rank: int) -> int:
        """Return the number of a rank of the group among all processes."""
        return dist.get_global_rank(self.group, rank)

    def total(self, a: torch.Tensor) -> torch.Tensor:
        """Return Σ_i a_i over all ranks, as a new tensor: an all-reduce."""
        summed = a.clone(memory_format=torch.contiguous_format)  # the order of numbers is the same on all ranks
        if self.size > 1:
            self.finish(dist.all_reduce(summed, group=self.group, async_op=True), "all-reduce")
        return summed

    def broadcast(self, a: torch.Tensor) -> torch.Tensor:
        """Put what rank 0 has into a contiguous tensor, and return it."""
        if self.size > 1:
            self.finish(dist.broadcast(a, self.everywhere(0), group=self.group, async_op=True), "broadcast")
        return a

    def texts(self, text: str) -> list[str]:
        """Return the text of every rank. Bytes travel, so that nothing is unpickled."""
        encoded = torch.tensor(list(text.encode()), dtype=torch.uint8, device=self.device)
        sizes = self._gather(torch.tensor([encoded.numel()], device=self.device))
        longest = max(int(size) for size in sizes)
        padded = torch.zeros(longest, dtype=torch.uint8, device=self.device)
        padded[: encoded.numel()] = encoded
        return [
            bytes(part[: int(size)].tolist()).decode() for part, size in zip(self._gather(padded), sizes, strict=True)
        ]

    def agree(self, facts: Mapping[str, str]) -> None:
        """Refuse to go on where ranks differ in one of the facts, which must have the same names on all of them."""
        rows = [json.loads(text) for text in self.texts(json.dumps(dict(facts)))]
        for name, first in rows[0].items():
            others = [rank for rank, theirs in enumerate(rows) if theirs.get(name) != first]
            if others:
                raise InputError(
                    f"the ranks disagree on the {name}: rank 0 has {first}, but rank {others[0]} has "
                    f"{rows[others[0]].get(name)}"
                    + (f" (and {len(others) - 1} more differ from rank 0)" if len(others) > 1 else "")
                    + ". Start all ranks from one script with the same arguments."
                )

    def refuse(self, problem: str) -> None:
        """Refuse to go on where some rank has a problem; all say whose. All ranks must call it."""
        problems = [json.loads(text) for text in self.texts(json.dumps(problem))]
        if problem:
            raise InputError(problem)
        if others := [rank for rank, theirs in enumerate(problems) if theirs]:
            raise InputError(f"rank {others[0]} (of {len(others)} ranks) refuses: {problems[others[0]]}")

    def numbers(self, number: int) -> list[int]:
        """Return the number of every rank."""
        return [int(count) for count in self._gather(torch.tensor([number], device=self.device))]

    def wait(self, work: Any) -> None:
        """Wait for a work.

        On a GPU ``work.wait()`` makes the current stream wait, and returns at once; with a timeout it would stop the
        host. A message that never comes is then noticed by NCCL's own watchdog, after the timeout of the group.
        """
        if self.device.type == "cuda":
            work.wait()
        else:
            work.wait(self.timeout)

    def finish(self, work: Any, what: str) -> None:
        """Wait for a collective."""
        try:
            self.wait(work)
        except RuntimeError as error:
            if reason := self.words.reason(GRACE):
                raise reason from error
            raise NeighborLost(
                f"rank {self.rank}: the {what} did not end within {self.timeout.total_seconds():g} s, or a rank left "
                f"it ({in_short(error)}). Some rank died, stopped or never came; see the output of the others."
            ) from error

    def _gather(self, a: torch.Tensor) -> list[torch.Tensor]:
        parts = [torch.empty_like(a) for _ in range(self.size)]
        if self.size == 1:
            return [a]
        self.finish(dist.all_gather(parts, a, group=self.group, async_op=True), "all-gather")
        return parts


def in_short(error: BaseException) -> str:
    """Return what an error of PyTorch says, without where in its source, what it guesses and the stack."""
    line = (str(error).splitlines() or [type(error).__name__])[0]
    return re.sub(r"^\[[^\]]*\]\s*", "", line.partition(". This is typically")[0]).strip()


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
    """Return the store of the rendezvous, once all ranks are there."""
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
    except RuntimeError:  # whoever serves the store has given up, or died
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
    """Return the store where the processes meet: torchrun's own, or one that rank 0 serves."""
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


def check_device(device: torch.device) -> None:
    """Refuse parameters on another GPU than the current one: NCCL would hang."""
    if device.type == "cuda" and device.index != (current := torch.cuda.current_device()):
        raise InputError(
            f"the parameters are on {device}, but the current GPU of this process is cuda:{current}, and NCCL would "
            'hang: call torch.cuda.set_device(int(os.environ["LOCAL_RANK"])) first, and make the model there.'
        )
