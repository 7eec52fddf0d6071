"""The memory of long vectors that nobody holds any more, kept for the next ones of the same length.

A round makes some new vectors and lets as many old ones go. The C library would give their memory back to the system
and ask for it anew, and the system hands it out page by page, which costs about as much as what is computed there. So
an optimizer keeps a few, in huge pages where there are any. While they are spare, the system may take their pages away
if it is short of memory. On GPUs PyTorch does all this by itself.

A vector is lent as an array of NumPy, around which PyTorch puts a tensor: when the last tensor on that memory is gone,
so is the array, and the memory may be lent again. So nobody can see a vector change that they still hold.
"""

import contextlib
import mmap
import weakref

import torch
from torch import Tensor

MOST = 4
"""How many vectors of one length are kept. A round of Biased-DMT makes three."""
HUGE = 1 << 21
"""Bytes of a huge page."""


class Spares:
    """Vectors of one length and type."""

    def __init__(self, size: int, dtype: torch.dtype):
        self._size, self._dtype = size, dtype
        self._free: list[mmap.mmap] = []

    def take(self) -> Tensor:
        """A vector with anything in it."""
        room = self._free.pop() if self._free else _room(self._size * self._dtype.itemsize)
        lent = _inside(room, self._size, self._dtype).numpy()
        weakref.finalize(lent, self._back, room).atexit = False
        return torch.from_numpy(lent)

    def _back(self, room: mmap.mmap) -> None:
        if len(self._free) < MOST:
            if len(room) > 2 * HUGE:  # long, and not a block
                _advise(room, "MADV_FREE", 0, len(room))
            self._free.append(room)


_ALL: "weakref.WeakValueDictionary[tuple[int, torch.dtype], Spares]" = weakref.WeakValueDictionary()


def spares(size: int, dtype: torch.dtype) -> Spares:
    """Those of a length, which last as long as somebody holds them."""
    if (known := _ALL.get((size, dtype))) is None:
        known = _ALL[size, dtype] = Spares(size, dtype)
    return known


def empty(size: int, like: Tensor) -> Tensor:
    """A vector with anything in it, of the type of another one: a spare one where vectors of this length are kept."""
    known = _ALL.get((size, like.dtype)) if like.is_cpu else None
    return like.new_empty(size) if known is None else known.take()


def copied(a: Tensor) -> Tensor:
    """A vector in memory of its own that it keeps: huge pages, if it is long."""
    if not a.is_cpu or a.nbytes < HUGE:
        return a.clone()
    return _inside(_room(a.nbytes), a.numel(), a.dtype).copy_(a)


def _room(length: int) -> mmap.mmap:
    """New memory of this length, from its first huge page on."""
    if not hasattr(mmap, "MAP_PRIVATE"):  # Windows
        return mmap.mmap(-1, length + HUGE)
    up = -(-length // HUGE) * HUGE
    room = mmap.mmap(-1, up + HUGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    # of the last huge page, nearly all must be used
    _advise(room, "MADV_HUGEPAGE", _start(room), up if 16 * (up - length) <= length else up - HUGE)
    return room


def _start(room: mmap.mmap) -> int:
    return -torch.frombuffer(room, dtype=torch.uint8).data_ptr() % HUGE


def _inside(room: mmap.mmap, size: int, dtype: torch.dtype) -> Tensor:
    return torch.frombuffer(room, dtype=dtype, offset=_start(room), count=size)


def _advise(room: mmap.mmap, what: str, start: int, length: int) -> None:
    """Tell the system what will become of memory, if it knows the word."""
    if hasattr(mmap, what) and length:
        with contextlib.suppress(OSError):
            room.madvise(getattr(mmap, what), start, length)
