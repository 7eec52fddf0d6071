"""IDX files, the format of MNIST: a magic number, the sizes, and the bytes.

The magic number is two zero bytes, a byte for the type (8 for unsigned bytes) and one for how many sizes follow, each
of four bytes, the highest first. What is read is what the sizes say, and not a byte more, so that a small file cannot
unpack to a large one.
"""

import gzip
import math
import os
import zlib
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from jaxtyping import UInt8

from gossamer.basics.sizes import refuse_beyond_memory
from gossamer.core import InputError
from gossamer.data.files import existing_file

UNSIGNED_BYTES = 8
GZIP = b"\x1f\x8b"
MOST_SIZES = 4
RATIO = 1100
"""More than gzip can shrink anything."""


def read_idx(path: str | os.PathLike[str]) -> UInt8[np.ndarray, "..."]:
    """The unsigned bytes in an IDX file, gzipped or not, as an array of the shape that it states."""
    file = existing_file(path)
    try:
        with open(file, "rb") as start:
            gzipped = start.read(2) == GZIP
        with gzip.open(file) if gzipped else open(file, "rb") as stream:
            return _read(stream, file, RATIO * file.stat().st_size if gzipped else file.stat().st_size)
    except (EOFError, OSError, zlib.error) as error:
        raise InputError(f"{file} cannot be read: {error}. It may be cut short: copy or unpack it again.") from None


def _read(stream: Any, file: Path, largest: int) -> UInt8[np.ndarray, "..."]:
    """The array in a stream that cannot hold more than `largest` bytes."""
    magic = stream.read(4)
    if len(magic) < 4 or magic[:2] != b"\0\0":
        raise InputError(f"{file} is not an IDX file: it begins with {magic.hex(' ') or 'nothing'}, not with 00 00.")
    kind, count = magic[2:]
    if kind != UNSIGNED_BYTES or not 1 <= count <= MOST_SIZES:
        raise InputError(
            f"{file} is an IDX file of the type {kind:#04x} with {count} sizes, but only unsigned bytes (0x08) with 1 "
            f"to {MOST_SIZES} are read."
        )
    header = stream.read(4 * count)
    if len(header) < 4 * count:
        raise InputError(f"{file} is cut short within its {count} sizes: copy or unpack it again.")
    shape = tuple(int.from_bytes(header[at : at + 4], "big") for at in range(0, 4 * count, 4))
    wanted, said = math.prod(shape), " × ".join(f"{size:,}" for size in shape)
    if not wanted:
        raise InputError(f"{file} states the sizes {said}, so it holds nothing.")
    if wanted > largest:
        raise InputError(
            f"{file} states {said} bytes, more than a file of its size can hold: it is cut short or no IDX file."
        )
    refuse_beyond_memory(f"{file} with its {said} bytes", wanted, "use a smaller file")
    values = np.empty(wanted, np.uint8)
    room: Any = values
    read = _fill(stream, memoryview(room))
    if read < wanted:
        raise InputError(
            f"{file} is cut short: it states {said} = {wanted:,} bytes, but holds {read:,}. Copy or unpack it again."
        )
    if stream.read(1):
        raise InputError(f"{file} holds more than the {said} = {wanted:,} bytes that it states: it is no IDX file.")
    return values.reshape(shape)


def _fill(stream: BinaryIO, room: memoryview) -> int:
    """How many bytes there were to put into the room."""
    read = 0
    while read < len(room):
        got: Any = stream.readinto(room[read:])  # pyright: ignore[reportAttributeAccessIssue]
        if not got:
            break
        read += got
    return read
