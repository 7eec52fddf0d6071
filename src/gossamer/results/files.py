"""Files that are whole or not there, and that say so when they are not the ones that were written."""

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

FORMAT = 2
"""The number of the format that every file of a run carries; another one is refused."""

BLANK = "0" * 64
"""Stands for a checksum while it is computed."""


class Damaged(ValueError):
    """What is read is not what was written; the message says how it shows."""


class OtherFormat(Damaged):
    """It may be whole, but only another version of Gossamer can read it."""


@contextmanager
def atomic(path: Path, *, folder: bool = False) -> Iterator[Path]:
    """A path to write to, of a file or a directory, that takes the place of another when all went well.

    While it is written it is locked, and the lock ends with the process, however that ends: see `sweep`.
    """
    lock, part = _locked(path, folder)
    try:
        yield part
        os.replace(part, path)
    finally:
        _remove(part)
        os.close(lock)


@contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """Wait until no other process writes files of this directory that belong together."""
    lock = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def write(path: Path, data: bytes) -> dict[str, Any]:
    """Make a file hold these bytes, and touch nothing if it does; what `read` asks for to know it again."""
    if not _holds(path, data):
        with atomic(path) as part:
            part.write_bytes(data)
    return mark(data)


def mark(data: bytes) -> dict[str, Any]:
    """The length and the checksum of a file's bytes."""
    return {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def read(path: Path, marked: dict[str, Any] | None = None) -> bytes:
    """The bytes of a file, if they are those that `write` marked."""
    if not path.is_file():
        raise Damaged(f"{path.name} is {'not a file' if os.path.lexists(path) else 'missing'}")
    if marked is not None and path.stat().st_size != marked["bytes"]:
        raise Damaged(f"{path.name} has {path.stat().st_size:,} bytes, but {marked['bytes']:,} were written")
    data = path.read_bytes()
    if marked is not None and mark(data) != marked:
        raise Damaged(f"{path.name} does not match its checksum")
    return data


def sealed(known: dict[str, Any]) -> bytes:
    """A record as JSON that holds a format number and a checksum of all its bytes but the checksum's own."""
    blank = json.dumps({"format": FORMAT, "sha256": BLANK, **known}, indent=2) + "\n"
    return blank.replace(BLANK, hashlib.sha256(blank.encode()).hexdigest(), 1).encode()


def unsealed(name: str, data: bytes) -> dict[str, Any]:
    """The record that `sealed` wrote, without its format and checksum. The name is for errors."""
    try:
        known = json.loads(data.decode())
        json.dumps(known, ensure_ascii=False).encode()  # half of a surrogate pair is no text
        _modest(known)
    except (ValueError, RecursionError) as error:
        raise Damaged(f"{name} is not JSON text: {error}") from error
    if not isinstance(known, dict):
        raise Damaged(f"{name} holds no table, but a {type(known).__name__}")
    number, checksum = known.pop("format", None), known.pop("sha256", None)
    if number != FORMAT or isinstance(number, bool):
        raise OtherFormat(f"{name} is of format {str(number)[:20]}; this version reads format {FORMAT}")
    blank = data.replace(checksum.encode(), BLANK.encode(), 1) if isinstance(checksum, str) and checksum else b""
    if hashlib.sha256(blank).hexdigest() != checksum:
        raise Damaged(f"{name} does not match its checksum")
    return known


def sweep(folder: Path, pattern: str = ".*.part", *, deep: bool = True) -> None:
    """Remove what killed processes left half written, and nothing that a process is still writing.

    A number of a process may be another's by now, so it is the lock that tells: only a living writer holds it.
    """
    for part in list(folder.rglob(pattern) if deep else folder.glob(pattern)):
        try:
            lock = os.open(part, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            continue  # gone, or not ours to read
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _remove(part)
        except OSError:
            continue  # somebody writes it
        finally:
            os.close(lock)


def _locked(path: Path, folder: bool) -> tuple[int, Path]:
    """A new part, locked before anyone can take it for a leftover."""
    while True:
        part = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.part")
        if folder:
            part.mkdir()
        try:
            lock = os.open(part, os.O_RDONLY if folder else os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
        except FileNotFoundError:
            if folder:
                continue  # swept before it was opened
            raise
        with suppress(OSError):  # a file system without locks, where nothing is swept
            fcntl.flock(lock, fcntl.LOCK_EX)
        if part.exists():
            return lock, part
        os.close(lock)  # swept before it was locked


def _modest(value: Any, left: int = 20) -> None:
    """Refuse what a record of ours never holds, and what would break those who show it."""
    if not left:
        raise ValueError("it is nested deeper than any record of ours")
    if isinstance(value, int) and abs(value) >= 2**63:
        raise ValueError("it holds a whole number of more than 64 bits")
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _modest(inner, left - 1)


def _remove(part: Path) -> None:
    if part.is_dir() and not part.is_symlink():
        shutil.rmtree(part, ignore_errors=True)
    else:
        part.unlink(missing_ok=True)


def _holds(path: Path, data: bytes) -> bool:
    try:
        return path.is_file() and path.stat().st_size == len(data) and path.read_bytes() == data
    except OSError:
        return False
