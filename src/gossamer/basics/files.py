"""Atomic writes and checksummed reads."""

import fcntl
import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

FORMAT = 3
"""The format number that every record carries. Records of another number are refused."""

BLANK = "0" * 64
"""The placeholder of a record's checksum while the checksum is computed."""


class Damaged(ValueError):
    """A file whose bytes are not those that were written."""


class OtherFormat(Damaged):
    """A record that only another version of Gossamer can read."""


@contextmanager
def atomic(path: Path, *, folder: bool = False) -> Iterator[Path]:
    """Yield a temporary file, or an empty directory, that replaces `path` when the block ends without an error.

    The temporary file is locked until then. The lock ends with the process, so that `sweep` can tell leftovers of
    killed processes from files that are being written.
    """
    while True:
        part = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.part")
        part.mkdir() if folder else part.touch()
        with suppress(FileNotFoundError):  # another process swept it before it was opened
            lock = os.open(part, os.O_RDONLY if folder else os.O_RDWR)
            with suppress(OSError):  # a file system without locks, where nothing is swept
                fcntl.flock(lock, fcntl.LOCK_EX)
            if part.exists():
                break
            os.close(lock)  # another process swept it before it was locked
    try:
        yield part
        os.replace(part, path)
    finally:
        _remove(part)
        os.close(lock)


@contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """Hold a lock on a directory while several files that belong together are written."""
    lock = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def sweep(folder: Path, pattern: str = ".*.part", *, deep: bool = True) -> None:
    """Remove the temporary files of killed processes, and none that a living process holds locked."""
    for part in list(folder.rglob(pattern) if deep else folder.glob(pattern)):
        try:
            lock = os.open(part, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            continue  # gone, or not ours to read
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _remove(part)
        except OSError:
            continue  # a living process holds the lock
        finally:
            os.close(lock)


def _remove(part: Path) -> None:
    if part.is_dir() and not part.is_symlink():
        shutil.rmtree(part, ignore_errors=True)
    else:
        part.unlink(missing_ok=True)


def write(path: Path, data: bytes) -> dict[str, Any]:
    """Write a file atomically, unless it holds these bytes already. Return its checksum for `read`."""
    try:
        same = path.is_file() and path.stat().st_size == len(data) and path.read_bytes() == data
    except OSError:
        same = False
    if not same:
        with atomic(path) as part:
            part.write_bytes(data)
    return checksum(data)


def checksum(data: bytes) -> dict[str, Any]:
    """Return the length and the SHA-256 of some bytes."""
    return {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def read(path: Path, expected: dict[str, Any] | None = None) -> bytes:
    """Return the bytes of a file. Raise `Damaged` if their checksum is not the expected one."""
    if not path.is_file():
        raise Damaged(f"{path.name} is {'not a file' if os.path.lexists(path) else 'missing'}")
    data = path.read_bytes()
    if expected is not None and checksum(data) != expected:
        length = f" ({len(data):,} bytes, but {expected['bytes']:,} were written)" * (len(data) != expected["bytes"])
        raise Damaged(f"{path.name} does not match its checksum{length}")
    return data


def seal(record: dict[str, Any], indent: int | None = 2) -> bytes:
    """Return a record as JSON with the format number and a checksum of all its bytes but the checksum's own."""
    blank = json.dumps({"format": FORMAT, "sha256": BLANK, **record}, indent=indent) + "\n"
    return blank.replace(BLANK, hashlib.sha256(blank.encode()).hexdigest(), 1).encode()


def unseal(name: str, data: bytes) -> dict[str, Any]:
    """Return the record that `seal` wrote, without its format and checksum. Errors name it by `name`."""
    try:
        record = dict(json.loads(data))
        number, written = record.pop("format"), record.pop("sha256").encode()
    except Exception as error:  # whatever bytes that were not written by `seal` lead to
        raise Damaged(f"{name} is no record of Gossamer's ({type(error).__name__})") from error
    if number != FORMAT:
        raise OtherFormat(f"{name} is of format {str(number)[:20]}; this version reads format {FORMAT}")
    if hashlib.sha256(data.replace(written, BLANK.encode(), 1)).hexdigest().encode() != written:
        raise Damaged(f"{name} does not match its checksum")
    return record
