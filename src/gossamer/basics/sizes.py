"""Cores and memory of this machine, and forecasts of memory from sizes, before anything is made."""

import os
import re
from pathlib import Path

from gossamer.core import InputError


def refuse_beyond_memory(what: str, needed: float, way_out: str) -> None:
    """Refuse what needs more bytes than are free, before it is made: `what` names the number, `way_out` what to do."""
    free = free_memory()
    if needed > free:
        raise InputError(
            f"{what} needs about {shown(needed)} of memory, but this machine has {shown(free)} free: {way_out}."
        )


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def shown(size: float) -> str:
    """A number of bytes as a reader would write it: ``490 TB``."""
    for unit in ("bytes", "kB", "MB", "GB", "TB", "PB"):
        if size < 999.5:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:,.0f} EB"


def free_memory() -> float:
    """Bytes that this process may still take: what is free, or less where its control group has a limit."""
    return min([_available(), *(limit for limit in map(_left, _groups()) if limit is not None)])


def _available() -> float:
    try:
        available = re.search(r"^MemAvailable:\s*(\d+) kB", Path("/proc/meminfo").read_text(), re.M)
        if available:
            return 1024.0 * int(available[1])
    except OSError:
        pass
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):
        return float("inf")  # where nothing says, nothing is refused


def _groups() -> list[tuple[Path, str, str]]:
    """Folders of the control groups that this process is in, with the files for the limit and for what is used."""
    try:
        lines = [line.split(":", 2) for line in Path("/proc/self/cgroup").read_text().splitlines()]
    except OSError:
        return []
    groups = []
    for _, kinds, path in (line for line in lines if len(line) == 3):
        if kinds == "" or "memory" in kinds.split(","):
            root = Path("/sys/fs/cgroup" if kinds == "" else "/sys/fs/cgroup/memory")
            files = (
                ("memory.max", "memory.current") if kinds == "" else ("memory.limit_in_bytes", "memory.usage_in_bytes")
            )
            groups += [(folder, *files) for folder in (root / path.lstrip("/"), root)]
    return groups


def _left(group: tuple[Path, str, str]) -> float | None:
    folder, limit, used = group
    try:
        most = (folder / limit).read_text().strip()
        if most == "max":
            return None
        inactive = re.search(r"^inactive_file (\d+)", (folder / "memory.stat").read_text(), re.M)
        return max(0.0, float(most) - float((folder / used).read_text()) + (float(inactive[1]) if inactive else 0.0))
    except (OSError, ValueError):
        return None
