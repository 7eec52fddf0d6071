"""Processes of one machine, which read each other's memory in place of sending what stands there.

Over the loopback interface the kernel copies a message twice, and wakes a thread for each part of it. On Linux,
`process_vm_readv` copies it once, a block at a time to where a sum is computed, so that nothing is received and then
looked for again. A process tells its neighbours where its arrays stand, by a Unix socket, and they say when they have
read them; until then those must stay as they are.

A process may read another one of the same user, if the kernel lets it: containers may forbid it, and where Yama guards
processes from each other, each lets in what was started by the process that started it. Who may is tried at the start,
with bytes drawn at random. All others send, as processes of several machines do.
"""

import contextlib
import ctypes
import json
import os
import secrets
import socket
import struct
import sys
import tempfile
import weakref
from collections import deque
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gossamer.torch.world import ProcessWorld

PR_SET_PTRACER = 0x59616D61
PROOF = 16
"""Bytes that show whose memory was read, and who may connect."""
LONGEST_COPY = 1 << 30
"""Bytes that are copied at a time: the kernel copies less than 2 GiB in one call."""


class Elsewhere(NamedTuple):
    """A vector, or a block of it, in the memory of another process."""

    pid: int
    address: int
    size: int
    dtype: torch.dtype
    lost: Callable[[OSError], Exception]
    """The error to raise where it cannot be read any more."""

    def numel(self) -> int:
        return self.size

    def split(self, length: int) -> list["Elsewhere"]:
        """The vector in blocks of this length, the last of which may be shorter."""
        pid, address, size, dtype, lost = self
        width = dtype.itemsize
        return [
            Elsewhere(pid, address + start * width, min(length, size - start), dtype, lost)
            for start in range(0, size, length)
        ]


def read(a: Elsewhere, out: Tensor | None = None) -> Tensor:
    """The numbers of a vector, in memory of this process."""
    to = torch.empty(a.size, dtype=a.dtype) if out is None else out
    try:
        _copy(a.pid, a.address, to.data_ptr(), to.nbytes)
    except OSError as error:
        raise a.lost(error) from error
    return to


def here(a: Tensor | Elsewhere) -> Tensor:
    """An array in memory of this process."""
    return read(a) if isinstance(a, Elsewhere) else a


class Nearby:
    """The other ranks of a world whose memory this one can read and which can read its own. All ranks make it.

    Args:
        world: the ranks.
        wanted: whether to look for any.
    """

    def __init__(self, world: ProcessWorld, wanted: bool = True):
        self.pids: dict[int, int] = {}
        """Their process numbers."""
        self._lines: dict[int, socket.socket] = {}
        self._words: dict[int, deque[Word]] = {}
        """What each of them is to say, in the order in which it will."""
        if wanted and world.size > 1:
            with _folder() as folder:
                self._connect(world, Path(folder) / "door")
            world.words.others.add(self)
            _ALL.add(self)
            weakref.finalize(self, _close, self._lines)

    def say(self, peer: int, *numbers: int) -> None:
        """Say some numbers to a neighbour."""
        self._lines[peer].sendall(struct.pack(f"{len(numbers)}q", *numbers))

    def listening(self, peer: int, count: int) -> "Word":
        """What will hear so many numbers from a neighbour, after all that it was to say before."""
        self._words[peer].append(word := Word(self._lines[peer], count, self._words[peer]))
        return word

    def hang_up(self) -> None:
        """End all connections, so that the others need not wait for this process."""
        for line in self._lines.values():
            with contextlib.suppress(OSError):
                line.shutdown(socket.SHUT_RDWR)

    def _connect(self, world: ProcessWorld, path: Path) -> None:
        """Look whom this rank can read, and connect with those of them that can read it."""
        proof = torch.tensor(list(secrets.token_bytes(PROOF)), dtype=torch.uint8)
        with socket.socket(getattr(socket, "AF_UNIX", socket.AF_INET)) as door:
            machine = _machine() if world.device.type == "cpu" and _opened(door, path, world.size) else ""
            about = {"machine": machine, "pid": os.getpid(), "at": proof.data_ptr(), "door": str(path)}
            told = [json.loads(text) for text in world.texts(json.dumps(about | {"proof": proof.tolist()}))]
            for rank, of in enumerate(told):
                if rank != world.rank and machine and of["machine"] == machine and _shows(of):
                    if rank < world.rank:  # the higher one of two connects
                        with contextlib.suppress(OSError):
                            self._lines[rank] = _called(of, world.rank)
                    self.pids[rank] = of["pid"]
            mine = json.dumps([[*self.pids], [*self._lines]])
            seen = [json.loads(text) for text in world.texts(mine)]  # by then all have looked and called
            callers = {rank for rank, (_, calls) in enumerate(seen) if world.rank in calls}
            while not callers <= {*self._lines}:
                self._answer(door, bytes(proof.tolist()), world)
        for rank in [*self.pids]:
            if world.rank not in seen[rank][0] or rank not in self._lines:
                del self.pids[rank]
        for rank in {*self._lines} - {*self.pids}:
            self._lines.pop(rank).close()
        self._words = {rank: deque() for rank in self._lines}

    def _answer(self, door: socket.socket, proof: bytes, world: ProcessWorld) -> None:
        door.settimeout(world.timeout.total_seconds())
        line, _ = door.accept()
        line.settimeout(world.timeout.total_seconds())
        shown, rank = line.recv(PROOF, socket.MSG_WAITALL), struct.unpack("q", line.recv(8, socket.MSG_WAITALL))[0]
        if secrets.compare_digest(shown, proof):
            self._lines[rank] = line


class Word:
    """Some numbers that a neighbour says.

    Args:
        line: the connection with it.
        count: how many numbers they are.
        due: all that it is to say.
    """

    def __init__(self, line: socket.socket, count: int, due: "deque[Word]"):
        self._line, self._length, self._heard, self._due = line, 8 * count, b"", due

    def wait(self, timeout: timedelta) -> None:
        """Hear them, and what was to be said before, or it is an error."""
        while len(self._heard) < self._length:
            self._due[0]._listen(timeout)

    def _listen(self, timeout: timedelta) -> None:
        self._line.settimeout(timeout.total_seconds())
        if not (heard := self._line.recv(self._length - len(self._heard))):
            raise ConnectionResetError("the connection has ended")
        self._heard += heard
        if len(self._heard) == self._length:
            self._due.popleft()

    @property
    def numbers(self) -> tuple[int, ...]:
        """What was said."""
        return struct.unpack(f"{self._length // 8}q", self._heard)


_ALL: "weakref.WeakSet[Nearby]" = weakref.WeakSet()


def _leave() -> None:
    """A fork, such as a worker of a DataLoader, is nobody's neighbour, and must not keep connections of its parent."""
    for one in _ALL:
        _close(one._lines)


def _close(lines: dict[int, socket.socket]) -> None:
    for line in lines.values():
        line.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave)


def _called(of: dict[str, Any], rank: int) -> socket.socket:
    line = socket.socket(socket.AF_UNIX)
    try:
        line.connect(of["door"])
        line.sendall(bytes(of["proof"]) + struct.pack("q", rank))
    except OSError:
        line.close()
        raise
    return line


def _shows(of: dict[str, Any]) -> bool:
    """Whether the memory of another process shows its proof."""
    seen = torch.zeros(PROOF, dtype=torch.uint8)
    try:
        _copy(of["pid"], of["at"], seen.data_ptr(), PROOF)
    except OSError:
        return False
    return seen.tolist() == of["proof"]


def _machine() -> str:
    """The same for all processes that one kernel runs; empty where they cannot read each other's memory."""
    if sys.platform != "linux" or not hasattr(_libc(), "process_vm_readv"):
        return ""
    # let the process that started this one, and what it started, read its memory, where Yama would refuse it
    _libc().prctl(PR_SET_PTRACER, os.getppid(), 0, 0, 0)
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text()
    except OSError:
        return ""


def _folder() -> Any:
    """A directory for a door, into which nobody else may look; where none can be made, one that holds nothing."""
    try:
        return tempfile.TemporaryDirectory()
    except OSError:
        return contextlib.nullcontext(os.devnull)


def _opened(door: socket.socket, path: Path, size: int) -> bool:
    """Whether others can knock at this door: the path of a temporary directory may be too long for a socket."""
    if not hasattr(socket, "AF_UNIX"):  # as under Windows
        return False
    try:
        door.bind(str(path))
    except OSError:
        return False
    door.listen(size)
    return True


class _Span(ctypes.Structure):
    _fields_ = (("start", ctypes.c_void_p), ("length", ctypes.c_size_t))


def _copy(pid: int, source: int, target: int, length: int) -> None:
    """Copy bytes of another process, all or it is an error."""
    for start in range(0, length, LONGEST_COPY):
        wanted = min(LONGEST_COPY, length - start)
        to, of = _Span(target + start, wanted), _Span(source + start, wanted)
        copied = _libc().process_vm_readv(pid, ctypes.byref(to), 1, ctypes.byref(of), 1, 0)
        if copied != wanted:
            number = ctypes.get_errno() if copied < 0 else 0
            raise OSError(number, os.strerror(number) if number else f"{copied} of {wanted} bytes could be read")


_LIBC: list[Any] = []


def _libc() -> Any:
    if not _LIBC:
        libc = ctypes.CDLL(None, use_errno=True)
        if hasattr(libc, "process_vm_readv"):
            libc.process_vm_readv.restype = ctypes.c_ssize_t
            libc.process_vm_readv.argtypes = [ctypes.c_int, *[ctypes.c_void_p, ctypes.c_ulong] * 2, ctypes.c_ulong]
        libc.prctl.argtypes = [ctypes.c_int, *[ctypes.c_ulong] * 4]
        _LIBC.append(libc)
    return _LIBC[0]
