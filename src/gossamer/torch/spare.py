"""The memory of long vectors that nobody holds any more, kept for the next ones of the same length.

A round makes some new vectors and lets as many old ones go. The C library would give their memory back to the system
and ask for it anew, and the system hands it out page by page, each of which costs some microseconds. So an optimizer
keeps a few, in huge pages where there are any. On GPUs PyTorch does this by itself.

A vector is lent as an array of NumPy, around which PyTorch puts a tensor: when the last tensor on that memory is gone,
so is the array, and the memory may be lent again. So nobody can see a vector change that they still hold.
"""

import contextlib
import mmap
import weakref
from typing import Any

import numpy as np
import torch
from torch import Tensor

MOST = 3
"""How many long vectors are kept: a round of Biased-DMT makes three."""
MOST_BLOCKS = 8
"""How many blocks of them are kept."""
HUGE = 1 << 21
"""Bytes of a huge page."""


class Spares:
    """Vectors of one length and type, of which so many are kept."""

    def __init__(self, size: int, dtype: torch.dtype, most: int):
        self._size, self._dtype, self._most = size, dtype, most
        self._free: list[np.ndarray[Any, Any]] = []

    def take(self) -> Tensor:
        """A vector with anything in it."""
        memory = self._free.pop() if self._free else _room(self._size, self._dtype).numpy()
        lent = memory.view()
        weakref.finalize(lent, self._back, memory).atexit = False
        return torch.from_numpy(lent)

    def _back(self, memory: np.ndarray[Any, Any]) -> None:
        if len(self._free) < self._most:
            self._free.append(memory)


_ALL: "weakref.WeakValueDictionary[tuple[int, torch.dtype], Spares]" = weakref.WeakValueDictionary()


def spares(size: int, dtype: torch.dtype, most: int = MOST) -> Spares:
    """Those of a length, which last as long as somebody holds them."""
    if (known := _ALL.get((size, dtype))) is None:
        known = _ALL[size, dtype] = Spares(size, dtype, most)
    return known


def empty(size: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """A vector with anything in it: a spare one where vectors of this length are kept."""
    known = _ALL.get((size, dtype)) if device.type == "cpu" else None
    return torch.empty(size, dtype=dtype, device=device) if known is None else known.take()


def copied(a: Tensor) -> Tensor:
    """A vector in memory of its own, in huge pages if it is long."""
    return _room(a.numel(), a.dtype).copy_(a) if a.is_cpu and a.nbytes >= HUGE else a.clone()


def _room(size: int, dtype: torch.dtype) -> Tensor:
    """A new vector that begins at a huge page."""
    length = size * dtype.itemsize
    up = -(-length // HUGE) * HUGE
    kind = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_PRIVATE") else {}  # not under Windows
    room = mmap.mmap(-1, up + HUGE, **kind)
    start = -torch.frombuffer(room, dtype=torch.uint8).data_ptr() % HUGE
    # the last huge page would be used in part: it is taken where there are few others and little of it is left empty
    whole = up if length < 4 * HUGE and 16 * (up - length) <= length else up - HUGE
    if whole and hasattr(mmap, "MADV_HUGEPAGE"):
        with contextlib.suppress(OSError):  # the system has none
            room.madvise(mmap.MADV_HUGEPAGE, start, whole)
    return torch.frombuffer(room, dtype=dtype, offset=start, count=size)
