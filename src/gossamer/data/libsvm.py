"""LIBSVM text: one row a line, ``label index:value index:value …``, indices from 1 and increasing."""

import bz2
import gzip
import io
import lzma
import os
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from gossamer.core import InputError, whole
from gossamer.data.dataset import Features, Labels, matrix, values
from gossamer.data.files import existing_file

OPENERS: dict[str, Any] = {"": open, ".bz2": bz2.open, ".xz": lzma.open, ".gz": gzip.open}
EXPECTED = "Expected lines such as `+1 3:1 11:0.5`"


def read_libsvm(path: str | os.PathLike[str], dim: int | None = None) -> tuple[Features, Labels]:
    """Read features, as a CSR array, and labels from a LIBSVM file, plain or .gz, .bz2, .xz.

    `dim` is the number of columns if that is more than the largest index in the file.
    """
    file = existing_file(path)
    columns = None if dim is None else whole("dim", dim)
    try:
        with _open(file) as stream:
            features, labels = _parse(stream, columns)
    except (EOFError, OSError, lzma.LZMAError) as error:
        raise InputError(f"{file} cannot be read: {error}.") from None
    except (ValueError, OverflowError, TypeError) as error:
        number, line, reason = _find_fault(file, columns, str(error))
        raise InputError(f"{file}, line {number}, {line!r}: {reason}. {EXPECTED}.") from None
    if not labels.size:
        raise InputError(f"{file} holds no rows. {EXPECTED}.")
    if columns is None and not features.nnz:
        raise InputError(f"{file} holds labels only, so its number of columns is unknown: give `dim`. {EXPECTED}.")
    return matrix(features, str(file)), values(labels, f"{file}, labels")


def _open(file: Path) -> BinaryIO:
    return OPENERS.get(file.suffix, open)(file, "rb")


def _parse(stream: BinaryIO, dim: int | None) -> tuple[Any, np.ndarray]:
    from sklearn.datasets import load_svmlight_file  # a second to import, so only when a file is read

    loaded: Any = load_svmlight_file(stream, n_features=dim, zero_based=False)  # pyright: ignore[reportArgumentType]
    return loaded[:2]


def _find_fault(file: Path, dim: int | None, reason: str) -> tuple[int, str, str]:
    """Return the number, the beginning and the fault of the first line that the reader refuses.

    The reader names no line, so the lines are halved: that takes twice the time of reading them all.
    """
    with _open(file) as stream:
        lines = stream.readlines()
    first, last = 0, len(lines)
    while last - first > 1:
        middle = (first + last) // 2
        try:
            _parse(io.BytesIO(b"".join(lines[first:middle])), dim)
            first = middle
        except (ValueError, OverflowError, TypeError) as error:
            last, reason = middle, str(error)
    return first + 1, lines[first][:40].decode("utf-8", "backslashreplace").strip(), reason
