"""The processes that train together: joining them, and checking that they agree on what they train."""

import json
import re
import weakref
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from gossamer.core import InputError
from gossamer.torch.gpus import check_device
from gossamer.torch.joining import join
from gossamer.torch.stopping import GRACE, LastWords, NeighborLost, alive, last_words


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
        """The group, for a call: whoever keeps it keeps its threads, see `gossamer.torch.stopping.let_go`."""
        return alive(self._group)

    def enter(self, group: Any) -> None:
        """Be one of this group from now on."""
        self.rank, self.size = _place(group)
        self._group = weakref.ref(group)
        self.words: LastWords = last_words(group)

    def leave(self) -> None:
        """Leave all groups, so that the others notice at once."""
        if dist.is_initialized():
            self.words.hang_up()
            dist.destroy_process_group()

    def everywhere(self, rank: int) -> int:
        """The number of a rank of the group among all processes."""
        return dist.get_global_rank(self.group, rank)

    def total(self, a: torch.Tensor) -> torch.Tensor:
        """Σ_i a_i over all ranks, as a new tensor: an all-reduce."""
        summed = a.clone(memory_format=torch.contiguous_format)  # the order of numbers is the same on all ranks
        if self.size > 1:
            self.finish(dist.all_reduce(summed, group=self.group, async_op=True), "all-reduce")
        return summed

    def broadcast(self, a: torch.Tensor) -> torch.Tensor:
        """What rank 0 has, as a new tensor."""
        received = a.clone(memory_format=torch.contiguous_format)
        if self.size > 1:
            self.finish(dist.broadcast(received, self.everywhere(0), group=self.group, async_op=True), "broadcast")
        return received

    def texts(self, text: str) -> list[str]:
        """The text of every rank. Bytes travel, so that nothing is unpickled."""
        encoded = torch.tensor(list(text.encode()), dtype=torch.uint8, device=self.device)
        sizes = self._gathered(torch.tensor([encoded.numel()], device=self.device))
        longest = max(int(size) for size in sizes)
        padded = torch.zeros(longest, dtype=torch.uint8, device=self.device)
        padded[: encoded.numel()] = encoded
        return [
            bytes(part[: int(size)].tolist()).decode() for part, size in zip(self._gathered(padded), sizes, strict=True)
        ]

    def agree(self, facts: Mapping[str, str]) -> None:
        """Refuse to go on where ranks differ in one of the facts, which must have the same names on all of them."""
        told = [json.loads(text) for text in self.texts(json.dumps(dict(facts)))]
        for name, first in told[0].items():
            others = [rank for rank, theirs in enumerate(told) if theirs.get(name) != first]
            if others:
                raise InputError(
                    f"the ranks disagree on the {name}: rank 0 has {first}, but rank {others[0]} has "
                    f"{told[others[0]].get(name)}"
                    + (f" (and {len(others) - 1} more differ from rank 0)" if len(others) > 1 else "")
                    + ". Start all ranks from one script with the same arguments."
                )

    def refuse(self, problem: str) -> None:
        """Refuse to go on where some rank has a problem; all say whose. All ranks must call it."""
        told = [json.loads(text) for text in self.texts(json.dumps(problem))]
        if problem:
            raise InputError(problem)
        if others := [rank for rank, theirs in enumerate(told) if theirs]:
            raise InputError(f"rank {others[0]} (of {len(others)} ranks) refuses: {told[others[0]]}")

    def numbers(self, number: int) -> list[int]:
        """The number of every rank."""
        return [int(count) for count in self._gathered(torch.tensor([number], device=self.device))]

    def wait(self, work: Any) -> None:
        """Wait for a work, on a GPU in the order of its stream alone."""
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

    def _gathered(self, a: torch.Tensor) -> list[torch.Tensor]:
        parts = [torch.empty_like(a) for _ in range(self.size)]
        if self.size == 1:
            return [a]
        self.finish(dist.all_gather(parts, a, group=self.group, async_op=True), "all-gather")
        return parts


def _place(group: Any) -> tuple[int, int]:
    if not isinstance(group, dist.ProcessGroup) or (rank := dist.get_rank(group)) < 0:
        raise InputError(
            f"process_group must be a group of torch.distributed that this process (rank {dist.get_rank()} of all) is "
            f"in, but is {group!r}: use dist.new_group, or get_group() of a DeviceMesh's dimension across nodes."
        )
    return rank, dist.get_world_size(group)


def in_short(error: BaseException) -> str:
    """What an error of PyTorch says, without where in its source, what it guesses and the stack."""
    line = (str(error).splitlines() or [type(error).__name__])[0]
    return re.sub(r"^\[[^\]]*\]\s*", "", line.partition(". This is typically")[0]).strip()
