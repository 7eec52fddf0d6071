"""Compiled programs that outlive a process, in a directory of the user's own.

JAX keeps a program under a digest of all that it was compiled from: its text, the compiler's version and options. The
place adds the machine's instructions, since a home directory may be shared by machines of several kinds. What JAX reads
there becomes code that runs, so nothing is read that another user could have written, and nothing that does not have
the digest that was noted once it was whole: a killed process or a bad disk costs a compilation and no more.
"""

import hashlib
import os
import platform
import stat
import zlib
from contextlib import suppress
from pathlib import Path

LIMIT = 100_000_000
"""Bytes that are kept, the latest used: some hundred programs of rounds, which take 0.1 s to look through."""

SEAL = ".sha256"


def place() -> Path:
    """Where programs are kept: below ``$XDG_CACHE_HOME``, or ``~/.cache``."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return home / "gossamer" / "compiled" / _machine()


def remember(folder: Path) -> bool:
    """Let JAX, which must not have been imported, keep its programs there, in this process and those that it starts.

    A directory named by ``JAX_COMPILATION_CACHE_DIR`` goes before ours. The answer is whether ours is used.
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
    """Note the digests of programs that have none yet, so that the next process believes them."""
    if os.environ.get("JAX_COMPILATION_CACHE_DIR") != str(place()):
        return
    for entry in _entries(place()):
        note = entry.with_name(entry.name + SEAL)
        if not note.exists():
            with suppress(OSError, zlib.error):
                contents = entry.read_bytes()
                if (
                    contents[:1] == b"\x78"
                ):  # zlib's: a program that another process is still writing is no whole stream
                    zlib.decompress(contents)
                part = note.with_name(f"{note.name}.{os.getpid()}")
                part.write_text(hashlib.sha256(contents).hexdigest())
                part.replace(note)


def is_private(folder: Path) -> bool:
    """Return True if the directory is there, or could be made, and nobody else may write into it."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.lstat()
    except OSError:
        return False
    if not stat.S_ISDIR(found.st_mode) or not os.access(folder, os.W_OK | os.X_OK):
        return False
    return not hasattr(os, "getuid") or (found.st_uid == os.getuid() and not found.st_mode & 0o022)


def _sweep(folder: Path) -> None:
    """Remove what is not as it was noted, and the oldest of what is beyond the limit."""
    kept = 0
    with suppress(OSError):
        for entry in sorted(_entries(folder), key=_last_used, reverse=True):
            note = entry.with_name(entry.name + SEAL)
            sound = kept < LIMIT and _digest(entry) == _noted(note)
            kept += entry.stat().st_size
            if not sound:
                note.unlink(missing_ok=True)
                entry.unlink(missing_ok=True)
        for note in folder.glob(f"*{SEAL}*"):
            if not (folder / note.name.split(SEAL)[0]).exists():
                note.unlink(missing_ok=True)


def _entries(folder: Path) -> list[Path]:
    return [entry for entry in folder.glob("*-cache") if entry.is_file() and not entry.is_symlink()]


def _last_used(entry: Path) -> float:
    return max(entry.stat().st_atime, entry.stat().st_mtime)


def _digest(entry: Path) -> str:
    return hashlib.sha256(entry.read_bytes()).hexdigest()


def _noted(note: Path) -> str | None:
    try:
        return note.read_text()
    except OSError:
        return None


def _machine() -> str:
    """A name for the processor's kind and the compiler's version."""
    from importlib.metadata import version

    told = [platform.machine(), platform.system(), version("jax"), version("jaxlib")]
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        told += sorted({line for line in lines if line.startswith(("model name", "flags", "Features"))})
    return hashlib.sha256("\n".join(told).encode()).hexdigest()[:16]
