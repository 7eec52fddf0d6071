"""Provenance of a result: the source that computed it, versions, and the machine."""

import hashlib
import platform
import subprocess
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax

from gossamer.core import InputError

HERE = Path(__file__).resolve().parents[1]

ABOVE = ("__main__", "cli", "papers", "explore", "report", "theory", "worst", "experiments", "specs", "torch")
"""The rooms above the engine, or beside it, which no number of a run depends on: a cell's key holds the contents of
all that they hand to the engine. Every other room counts, and so does a new one."""


def digest_rooms(folder: Path) -> dict[str, str]:
    """Return a digest of the source of each room that can decide a number: none where there is no source."""
    rooms: dict[str, Any] = {}
    for path in sorted([*folder.rglob("*.py"), *folder.rglob("*.cc")]):
        name = path.relative_to(folder)
        room = name.parts[0].removesuffix(".py")
        if room not in ABOVE and room != "examples":  # which installed packages hold
            data = path.read_bytes()
            rooms.setdefault(room, hashlib.sha256()).update(f"{name.as_posix()} {len(data)}\n".encode() + data)
    return {room: digest.hexdigest()[:24] for room, digest in rooms.items()}


_ROOMS = digest_rooms(HERE)  # at import: a file that is edited later is not what this process runs


def rooms() -> dict[str, str]:
    """Return a digest of the source of each room from `core` up to the engine."""
    if "core" not in _ROOMS:
        raise InputError(f"the source of Gossamer is not at {HERE}, so that nothing can tell whether it changed.")
    return _ROOMS


@cache
def versions() -> dict[str, str]:
    """Return the versions of all that can change a number."""
    packages = {name: version(name) for name in ("gossamer", "jax", "jaxlib", "numpy")}
    code = hashlib.sha256(repr(rooms()).encode()).hexdigest()[:16]
    return {**packages, "python": platform.python_version(), "source": _find_commit(), "code": code}


@cache
def machine() -> dict[str, Any]:
    """Return the device that JAX computes on, and the CPU."""
    device = jax.devices()[0]
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        cpu = next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        cpu = platform.processor() or platform.machine()
    return {"device": f"{device.platform}: {device.device_kind}", "cpu": cpu, "system": platform.platform()}


def _find_commit() -> str:
    """Return the commit of the source tree, with + if it was changed since, or "installed" where there is no tree."""

    def ask_git(*arguments: str) -> str:
        command = ["git", "-C", str(HERE), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()

    if not (HERE.parents[1] / ".git").exists():
        return "installed"
    try:
        changed = ask_git("status", "--porcelain", "--untracked-files=no")
        return ask_git("rev-parse", "--short=12", "HEAD") + ("+" if changed else "")
    except (OSError, subprocess.SubprocessError):
        return "unknown"
