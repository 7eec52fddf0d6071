"""The compilation cache: compiled programs that outlive a process, in a directory of the user's own.

JAX names a program by a digest of its text and of the compiler's version and options. The directory is also named by
the machine's instructions, since machines of several kinds may share a home directory. What JAX reads there becomes
code that runs. So the directory is used only if no other user can write to it, and a program only if it has the digest
that was noted when it was whole: a killed process or a bad disk costs a compilation and no more.
"""

import hashlib
import os
import platform
import stat
import zlib
from contextlib import suppress
from pathlib import Path

from gossamer.basics.files import write

LIMIT = 100_000_000
"""Bytes that are kept, the latest used: some hundred programs of rounds, which take 0.1 s to look through."""

SEAL = ".sha256"


def place() -> Path:
    """Return the directory of programs, below ``$XDG_CACHE_HOME`` or ``~/.cache``."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return home / "gossamer" / "compiled" / _machine()


def remember(folder: Path) -> bool:
    """Let JAX, which must not have been imported, cache programs there, in this process and those that it starts.

    A directory named by ``JAX_COMPILATION_CACHE_DIR`` goes before ours. Return whether ours is used.
    """
    if os.environ.get("JAX_COMPILATION_CACHE_DIR") or not is_private(folder):
        return False
    _sweep(folder)
    os.environ |= {
        "JAX_COMPILATION_CACHE_DIR": str(folder),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }
    return True


def seal() -> None:
    """Write the digests of programs that have none yet, so that the next process uses them."""
    if os.environ.get("JAX_COMPILATION_CACHE_DIR") != str(place()):
        return
    for entry in _entries(place()):
        note = entry.with_name(entry.name + SEAL)
        if not note.exists():
            with suppress(OSError, zlib.error):
                contents = entry.read_bytes()
                if contents[:1] == b"\x78":  # zlib's: what another process is still writing is no whole stream
                    zlib.decompress(contents)
                write(note, hashlib.sha256(contents).hexdigest().encode())


def is_private(folder: Path) -> bool:
    """Return whether the directory exists, or can be made, and no other user may write into it."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.lstat()
    except OSError:
        return False
    if not stat.S_ISDIR(found.st_mode) or not os.access(folder, os.W_OK | os.X_OK):
        return False
    return not hasattr(os, "getuid") or (found.st_uid == os.getuid() and not found.st_mode & 0o022)


def _sweep(folder: Path) -> None:
    """Remove programs that do not have their digests, and the oldest beyond the limit."""
    total = 0
    with suppress(OSError):
        for entry in sorted(
            _entries(folder), key=lambda entry: max(entry.stat().st_atime, entry.stat().st_mtime), reverse=True
        ):
            note = entry.with_name(entry.name + SEAL)
            digest, noted = hashlib.sha256(entry.read_bytes()).hexdigest(), None
            with suppress(OSError):  # a program without a digest is not used
                noted = note.read_text()
            is_whole = total < LIMIT and noted == digest
            total += entry.stat().st_size
            if not is_whole:
                note.unlink(missing_ok=True)
                entry.unlink(missing_ok=True)
        for note in folder.glob(f"*{SEAL}*"):
            if not (folder / note.name.split(SEAL)[0]).exists():
                note.unlink(missing_ok=True)


def _entries(folder: Path) -> list[Path]:
    return [entry for entry in folder.glob("*-cache") if entry.is_file() and not entry.is_symlink()]


def _machine() -> str:
    """Return a digest of the kind of processor and of the compiler's version."""
    from importlib.metadata import version

    told = [platform.machine(), platform.system(), version("jax"), version("jaxlib")]
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        told += sorted({line for line in lines if line.startswith(("model name", "flags", "Features"))})
    return hashlib.sha256("\n".join(told).encode()).hexdigest()[:16]
