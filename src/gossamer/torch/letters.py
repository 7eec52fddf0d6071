"""Letters between neighbours that wait for nobody: one thread reads those of each neighbour, another writes to it.

They travel by gloo, over connections of their own. A wait of gloo that runs out of time ends all its connections, so
none here ever does: threads wait for as long as it takes, and time-outs are kept by those that wait for the threads. A
neighbour that is stopped holds up two threads and nothing else; one that dies ends its connection, which both notice.
"""

import atexit
import contextlib
import enum
import queue
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from gossamer.torch.arguments import LONGEST
from gossamer.torch.stopping import MOMENT
from gossamer.torch.world import ProcessWorld

HEAD, BODY, NEVER = 1, 2, 3
"""Tags of the two parts of a letter, and of what nobody sends."""
FOREVER = timedelta(seconds=LONGEST)
SECONDS = 1.0
"""How long the process waits at its end for each thread that it has ended."""


class Kind(enum.IntEnum):
    """What a letter says."""

    ASK = 0
    """Will you meet me? Here are my arrays."""
    YES = 1
    """Here are mine, as they were; I hold our means now."""
    NO = 2
    """Not now."""
    KEPT = 3
    """I have your yes, and hold our means as well."""
    VOID = 4
    """Your yes came too late: go back."""
    NEWS = 5
    """No more than the news."""
    CALL = 6
    """Are you there? Answer with your news."""
    BYE = 7
    """I have ended, and shall write no more."""


@dataclass(frozen=True)
class Letter:
    """What one agent writes to another. Every letter carries all the news that its writer has."""

    kind: Kind
    number: int
    """Of the meeting."""
    which: int
    """Which arrays of the state it carries, as bits by the order of their names."""
    news: Tensor
    body: Tensor | None = None
    """The arrays, one after the other."""

    def head(self) -> Tensor:
        """All but the body, as whole numbers."""
        size = -1 if self.body is None else self.body.numel()
        return torch.cat([torch.tensor([self.kind, self.number, self.which, size]), self.news])

    @property
    def nbytes(self) -> int:
        return 8 * (4 + self.news.numel()) + (0 if self.body is None else self.body.nbytes)


class Letters:
    """The letters of one rank.

    Args:
        world: the ranks.
        neighbours: those that it writes to.
        received: is called with a rank and its letter, by the thread that read it.
        lost: is called with a rank whose connection has ended.
    """

    def __init__(
        self,
        world: ProcessWorld,
        neighbours: Iterable[int],
        received: Callable[[int, Letter], None],
        lost: Callable[[int], None],
    ):
        self._world, self._received, self._lost = world, received, lost
        members = [world.everywhere(rank) for rank in range(world.size)]
        self._group: Any = dist.new_group(
            members, timeout=world.timeout, backend="gloo", use_local_synchronization=True
        )
        self._queues: dict[int, queue.SimpleQueue[Letter | None]] = {peer: queue.SimpleQueue() for peer in neighbours}
        self._threads = [
            threading.Thread(target=run, args=(peer,), daemon=True, name=f"gossamer-{run.__name__}-{peer}")
            for peer in self._queues
            for run in (self._reads, self._writes)
        ]

    def begin(self) -> None:
        """Read, and write, from now on."""
        atexit.register(self._hang_up)
        for thread in self._threads:
            thread.start()

    def send(self, peer: int, letter: Letter) -> None:
        """Hand over a letter, without waiting for it to leave."""
        self._queues[peer].put(letter)

    def end(self, gone: Iterable[int], seconds: float) -> None:
        """Wait until all has been written and read, up to the last letters, but for ranks that are gone."""
        left = {f"gossamer-{what}-{peer}" for peer in gone for what in ("_reads", "_writes")}
        for thread in self._threads:
            if thread.name not in left:
                thread.join(seconds)
        if not any(thread.is_alive() for thread in self._threads):
            atexit.unregister(self._hang_up)

    def _hang_up(self) -> None:
        """End all connections and threads before the interpreter ends, where a script ends without `end`.

        A wait of gloo that returned while the interpreter ends, since a neighbour goes at the same time, would abort
        the process: see `gossamer.torch.stopping.let_go`.
        """
        for peer, letters in self._queues.items():
            letters.put(None)
            with contextlib.suppress(RuntimeError):
                self._group.recv([torch.zeros(1)], peer, NEVER).wait(MOMENT)
        for thread in self._threads:
            thread.join(SECONDS)

    def _writes(self, peer: int) -> None:
        while letter := self._queues[peer].get():
            try:
                self._group.send([letter.head()], peer, HEAD).wait(FOREVER)
                if letter.body is not None:
                    self._group.send([letter.body], peer, BODY).wait(FOREVER)
            except RuntimeError:
                return self._lost(peer)
            if letter.kind == Kind.BYE:
                return None

    def _reads(self, peer: int) -> None:
        while True:
            head = torch.zeros(4 + self._world.size, dtype=torch.int64)
            try:
                self._group.recv([head], peer, HEAD).wait(FOREVER)
                kind, number, which, size = head[:4].tolist()
                body = None
                if size >= 0:
                    body = torch.empty(size, dtype=self._world.dtype)
                    self._group.recv([body], peer, BODY).wait(FOREVER)
            except RuntimeError:
                return self._lost(peer)
            self._received(peer, Letter(Kind(kind), number, which, head[4:], body))
            if kind == Kind.BYE:
                return None
