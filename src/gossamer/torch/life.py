"""Who is dead, and who is silent, among those that another process waits for.

Dead is a process whose door is shut: each listens at a port that it never serves. The kernel answers for a process that
hangs, and refuses for one that is gone, without a heartbeat and without a wait.

Silent is one that lives, but has done nothing for as long as the timeout. While a process is in a call of PyTorch that
cannot be interrupted, a thread of it gives signs: it is not silent, and is waited for until that call ends.
"""

import contextlib
import os
import socket
import threading
import time
import weakref
from collections.abc import Iterable, Iterator
from typing import Any

from gossamer.torch.generations import Member

KNOCK = 0.5
"""Seconds between two knocks at the doors of those that have not come, and that a knock may take."""


class Door:
    """A port that says that this process lives."""

    def __init__(self, host: str):
        self._socket = socket.create_server((host, 0), backlog=128)
        self._socket.setblocking(False)
        self.address: tuple[str, int] = self._socket.getsockname()[:2]
        known = weakref.ref(self._socket)

        def leave_to_parent() -> None:
            if (mine := known()) is not None:
                mine.close()

        # a fork, such as a worker of a DataLoader, must not keep the door open when its parent is gone
        os.register_at_fork(after_in_child=leave_to_parent)

    def serve(self) -> None:
        """Make room for those that knock."""
        with contextlib.suppress(OSError):  # there is none
            while True:
                self._socket.accept()[0].close()

    def shut(self) -> None:
        self._socket.close()


@contextlib.contextmanager
def signs(store: Any, name: str, timeout: float) -> Iterator[None]:
    """Inside, this process is not silent, whatever it waits for."""
    over = threading.Event()

    def show() -> None:
        with contextlib.suppress(RuntimeError):  # the store is gone, which is noticed elsewhere
            while not over.wait(min(1.0, timeout / 4)):
                store.add(_signs_of(name), 1)

    thread = threading.Thread(target=show, daemon=True, name="gossamer-signs")
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


class Watch:
    """Looks after those that a process waits for, for as long as one wait lasts."""

    def __init__(self, store: Any, timeout: float):
        self._store, self._timeout = store, timeout
        self._began, self._looked = time.monotonic(), float("-inf")
        self._signs: dict[str, tuple[int, float]] = {}
        self.dead: set[str] = set()
        """The names of those whose door is shut."""
        self.silent: set[str] = set()
        """The names of those that live and have done nothing for as long as the timeout, since this wait began."""

    @property
    def due(self) -> bool:
        """Whether the last look is long enough ago."""
        return time.monotonic() - self._looked >= min(KNOCK, self._timeout / 4)

    def look(self, members: Iterable[Member]) -> None:
        """Look at those that are waited for, if that is due."""
        if not self.due:
            return
        for member in members:
            if _is_shut(member.door):
                self.dead.add(member.name)
            count = self._store.add(_signs_of(member.name), 0)
            known, last = self._signs.get(member.name, (count, self._began))
            self._signs[member.name] = count, last if count == known else time.monotonic()
        now = self._looked = time.monotonic()
        self.silent = {name for name, (_, last) in self._signs.items() if now - last > self._timeout} - self.dead


def _signs_of(name: str) -> str:
    return f"gossamer/signs/{name}"


def _is_shut(door: tuple[str, int]) -> bool:
    try:
        socket.create_connection(door, timeout=KNOCK).close()
    except ConnectionRefusedError:
        return True
    except OSError:  # no answer: it may be there
        return False
    return False
