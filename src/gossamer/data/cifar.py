"""CIFAR-10's binary version: records of a label byte and 3,072 bytes, the red, green and blue of 32 × 32 pixels."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import UInt8

from gossamer.core import InputError
from gossamer.data.files import existing_file

IMAGE = (3, 32, 32)
RECORD = 1 + 3 * 32 * 32
CLASSES = 10

Parts = tuple[UInt8[np.ndarray, "rows d"], UInt8[np.ndarray, " rows"]]


def read_cifar10(files: Sequence[Path]) -> Parts:
    """The images, a row of 3,072 bytes each, and the labels of files in CIFAR-10's binary format, in their order."""
    records = np.concatenate([_records(existing_file(file)) for file in files])
    return records[:, 1:], records[:, 0]


def _records(file: Path) -> UInt8[np.ndarray, "rows record"]:
    size = file.stat().st_size
    if not size or size % RECORD:
        raise InputError(
            f"{file} has {size:,} bytes, which is no whole number of records of {RECORD:,}: it is cut short, or not of "
            "CIFAR-10's binary version. Unpack cifar-10-binary.tar.gz again."
        )
    records = np.fromfile(file, np.uint8).reshape(-1, RECORD)
    wrong = records[:, 0] >= CLASSES
    if wrong.any():
        row = int(wrong.argmax())
        raise InputError(
            f"{file}, record {row} (from 0): the label is {records[row, 0]}, but those of CIFAR-10 are 0 to 9. "
            "CIFAR-100 has two labels in a record, and is not read."
        )
    return records
