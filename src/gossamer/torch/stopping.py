"""Ranks that stop: the errors that name them, and how a rank says why before it goes.

A rank that stops with an error sends its last words to all others first. They lie ready there, and are read only when
a message fails to come or the next step begins, so that they cost nothing while all goes well. They travel by gloo; a
group without it has none.
"""

import atexit
import contextlib
import itertools
import json
import time
import weakref
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

LENGTH = 1024
"""The length of the last words, in bytes."""
TAG = 0x60551
"""The tag of the last words, apart from those of messages, which count from 1, and from those of scripts."""
HEARING = timedelta(seconds=2)
"""How long a rank that stops stays until the others have its words."""
MOMENT = timedelta(milliseconds=1)
"""A wait that is too short for anything to arrive."""
GRACE = 0.05
"""Seconds that words may be behind the loss of the rank that said them: torchrun soon ends those that are left."""
PAUSE = 0.1
"""Seconds for the threads of a group that somebody else keeps to give back what they hold, at the end of a process."""


class NeighborLost(RuntimeError):
    """Neighbours died, stopped, or were silent for longer than the timeout: `ranks`, empty where it cannot be told."""

    def __init__(self, message: str, ranks: tuple[int, ...] = ()):
        super().__init__(message)
        self.ranks = ranks


class NotFinite(RuntimeError):
    """A gradient or a state of `rank` has inf or NaN at `step`. All ranks raise it."""

    def __init__(self, message: str, rank: int, step: int):
        super().__init__(message)
        self.rank, self.step = rank, step


@dataclass(frozen=True)
class Words:
    """What a rank said when it stopped: at which step of which optimizer, with what error."""

    step: int
    rank: int
    optimizer: int
    error: str
    message: str

    def packed(self) -> torch.Tensor:
        """The words as `LENGTH` bytes; a message that is too long is cut."""
        cut = self.message
        while len(text := json.dumps(asdict(self) | {"message": cut}).encode()) > LENGTH:
            cut = cut[: len(cut) * 9 // 10] + "…"
        return torch.tensor(list(text.ljust(LENGTH)), dtype=torch.uint8)

    @classmethod
    def read(cls, row: torch.Tensor) -> "Words":
        """What was packed."""
        return cls(**json.loads(bytes(row.tolist())))

    def as_error(self, mine: int) -> RuntimeError:
        """The error that rank `mine` raises when it hears these words."""
        if self.error == NotFinite.__name__:
            return NotFinite(f"{self.message} (Rank {mine} stops because of it.)", self.rank, self.step)
        why = f"{self.error}: {self.message}"
        return NeighborLost(
            f"rank {mine} lost rank {self.rank}, which stopped at step {self.step} by {why}", (self.rank,)
        )


class LastWords:
    """Hears the last words of all ranks of a group, and says those of this one."""

    def __init__(self, group: Any, rank: int, size: int):
        self._group, self._rank = weakref.ref(group), rank
        self._others = [peer for peer in range(size) if peer != rank] if _has_gloo(group) else []
        self.carried = size == 1 or bool(self._others)
        """Whether words reach the others."""
        self._rows = torch.zeros(size, LENGTH, dtype=torch.uint8)
        self._heard: list[Words] = []
        self._over: set[int] = set()
        self._works = {peer: self._listen(peer) for peer in self._others}
        self.others: weakref.WeakSet[Any] = weakref.WeakSet()
        """Other connections between the same ranks, which end with these: they have `hang_up`."""
        self.tags = itertools.count(1)
        """The tags of the optimizers on this group, told apart by them."""

    def say(self, words: Words) -> None:
        """Tell all ranks that can still hear it, and leave the group."""
        self._over.add(words.optimizer)
        sent, works = words.packed(), []
        for peer in self._others:
            with contextlib.suppress(RuntimeError):  # it may have gone itself
                works.append(alive(self._group).send([sent], peer, TAG))
        for work in works:
            with contextlib.suppress(RuntimeError):
                work.wait(HEARING)
        self.hang_up()

    def hang_up(self) -> None:
        """End all connections, as gloo does where a wait runs out of time: the others need not wait for the process.

        One wait ends all of them, unless it was for a rank that is gone: then it fails before it waits.
        """
        for peer in self._others:
            with contextlib.suppress(RuntimeError):
                alive(self._group).recv([torch.zeros(1)], peer, TAG + 1).wait(MOMENT)
        for line in self.others:
            line.hang_up()

    def reason(self, grace: float = 0.0) -> RuntimeError | None:
        """Why this rank must stop, if another has said so. Of several stops the first counts, once for each optimizer.

        Before it is returned, it is passed on to those ranks that would only notice the loss of this one.

        Args:
            grace: how many seconds to wait if nothing was said yet.
        """
        end = time.monotonic() + grace
        while True:
            self._read()
            if pending := [words for words in self._heard if words.optimizer not in self._over]:
                first = min(pending, key=lambda words: (words.step, words.rank))
                self.say(first)
                return first.as_error(self._rank)
            if not self._others or time.monotonic() >= end:
                return None
            time.sleep(0.01)

    def _read(self) -> None:
        if not self._rows[:, -1].any():
            return
        for peer in self._others:
            if self._rows[peer, -1]:
                self._heard.append(Words.read(self._rows[peer]))
                self._rows[peer] = 0
                self._works[peer] = self._listen(peer)

    def _listen(self, peer: int) -> Any:
        try:
            return alive(self._group).recv([self._rows[peer]], peer, TAG)
        except RuntimeError:  # it has gone since
            return None


def _has_gloo(group: Any) -> bool:
    return "cpu:gloo" in dist.get_backend_config(group)


_OF_GROUPS: list[tuple[Any, Any, LastWords]] = []
"""Groups with their world. All others hold them weakly, so that they can be let go."""


def alive(group: "weakref.ref[Any]") -> Any:
    """The group that is referred to."""
    if (found := group()) is None:
        raise RuntimeError("this process group is gone: its world was left, or the process ends.")
    return found


@atexit.register  # when this is imported, and so after all that leaves groups at the end
def let_go() -> None:
    """Let go of all groups, which ends their threads while the interpreter is whole, unless somebody else keeps them.

    A thread of gloo may give back the tensors of a collective later than that is over. PyTorch asks for the lock of the
    interpreter then; if that ends just now, CPython ends the thread, inside of a destructor, and the process aborts:
    "terminate called without an active exception" (pytorch issue 190489). `destroy_process_group` waits for the threads
    only where nobody else holds the group; PyTorch itself does, as default of functions of torch.distributed.nn, where
    the first optimizer is made after the group, and so does DistributedDataParallel.
    """
    groups = [weakref.ref(group) for _, group, _ in _OF_GROUPS]
    _OF_GROUPS.clear()
    if any(group() is not None for group in groups):
        time.sleep(PAUSE)


def last_words(group: Any) -> LastWords:
    """The last words of a group of ranks: one listener for all optimizers of this process on it."""
    # a world that was left is gone with its groups
    _OF_GROUPS[:] = [row for row in _OF_GROUPS if row[0] is dist.group.WORLD]
    for _, known, words in _OF_GROUPS:
        if known is group:
            return words
    words = LastWords(group, dist.get_rank(group), dist.get_world_size(group))
    _OF_GROUPS.append((dist.group.WORLD, group, words))
    return words
