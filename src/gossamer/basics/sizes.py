"""Cores and memory of this machine, and refusals of what does not fit, before anything is made."""

import os
import re
from contextlib import suppress
from pathlib import Path

from gossamer.core import InputError


def refuse_beyond_memory(what: str, needed: float, way_out: str, own: float | None = None) -> None:
    """Raise InputError if more bytes are needed than are free.

    `what` names the number that they grow with, and `own` is what it needs itself if others need memory too; `way_out`
    says what to do.
    """
    free = free_memory()
    if needed > free:
        size = format_bytes(needed if own is None else own)
        raise InputError(
            f"{what} needs about {size} of memory, but this machine has {format_bytes(free)} free: {way_out}."
        )


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def format_bytes(size: float) -> str:
    """Return a number of bytes as a reader would write it: ``490 TB``."""
    for unit in ("bytes", "kB", "MB", "GB", "TB", "PB"):
        if size < 999.5:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:,.0f} EB"


def free_memory() -> float:
    """Return the bytes that this process may still take: what is free, or less where its control group has a limit."""
    # all memory, where nothing says how much of it is free
    free = float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    with suppress(OSError):  # Linux also says how much of it is in use
        available = re.search(r"^MemAvailable:\s*(\d+) kB", Path("/proc/meminfo").read_text(), re.M)
        free = 1024.0 * int(available[1]) if available else free
    return min([free, *map(_left_in, _control_groups())])


def _control_groups() -> list[Path]:
    """Return the folders of this process's control group and of the one around all: none where there are none."""
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return []
    root = Path("/sys/fs/cgroup")
    # of version 2, which has one hierarchy for all kinds of limits
    own = [root / line.removeprefix("0::").lstrip("/") for line in lines if line.startswith("0::")]
    return [*own, root]


def _left_in(folder: Path) -> float:
    """Return the bytes that a control group may still take; infinity where it says nothing."""
    try:
        most = float((folder / "memory.max").read_text().strip().replace("max", "inf"))
        used = float((folder / "memory.current").read_text())
        inactive = re.search(r"^inactive_file (\d+)", (folder / "memory.stat").read_text(), re.M)
        # files that are cached but not in use count as used, and are given up when memory is needed
        return max(0.0, most - used + (float(inactive[1]) if inactive else 0.0))
    except (OSError, ValueError):
        return float("inf")
