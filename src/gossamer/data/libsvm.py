"""LIBSVM text: one row a line, ``label index:value index:value …``, indices from 1 and increasing."""

import bz2
import gzip
import lzma
import math
import os
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from gossamer.core import InputError
from gossamer.data.dataset import Features, Labels, matrix, values
from gossamer.data.files import existing_file
from gossamer.data.sparse import Sparse

EXPECTED = "Expected lines such as `+1 3:1 11:0.5`"
OPENERS: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
CHUNK = 4096  # rows that are turned into text at once
LARGEST_INDEX = 2**31 - 1


def read_libsvm(path: str | os.PathLike[str], dim: int | None = None) -> tuple[Features, Labels]:
    """Features, as a CSR array of SciPy, and labels of a LIBSVM file, plain or .gz, .bz2, .xz. `dim` is the number of
    columns if that is more than the largest index in the file."""
    from sklearn.datasets import load_svmlight_file  # a second to import, so only when a file is read

    file = existing_file(path)
    if dim is not None and (not isinstance(dim, int) or dim < 1):
        raise InputError(f"dim must be a whole number of columns from 1, but is {dim!r}.")
    try:
        with _open(file) as stream:
            loaded: Any = load_svmlight_file(stream, zero_based=False)  # pyright: ignore[reportArgumentType]
            sparse, labels = loaded[:2]
    except (EOFError, OSError, lzma.LZMAError) as error:
        raise InputError(f"{file} cannot be read: {error}.") from None
    except (ValueError, OverflowError, TypeError) as error:
        _raise_fault(file, dim)
        raise InputError(f"{file} is not LIBSVM text: {error}. {EXPECTED}.") from None
    if not labels.size:
        raise InputError(f"{file} holds no rows. {EXPECTED}.")
    largest = int(sparse.indices.max(initial=-1)) + 1
    lost = largest > (dim or LARGEST_INDEX) or sparse.indices.min(initial=0) < 0
    if lost or not (np.isfinite(sparse.data).all() and np.isfinite(labels).all()):
        _raise_fault(file, dim)
    if not largest and dim is None:
        raise InputError(f"{file} holds labels only, so its number of columns is unknown: give `dim`. {EXPECTED}.")
    sparse.resize(labels.size, dim or largest)
    return matrix(sparse, str(file)), values(labels, "labels")


def write_libsvm(features: Any, labels: Any, file: str | os.PathLike[str] | BinaryIO) -> None:
    """Write LIBSVM text to a path or an open binary file. Each number is the shortest that reads back exactly."""
    features, labels = matrix(features, "features"), values(labels, "labels")
    if labels.dtype.kind == "U":
        raise InputError(
            f"LIBSVM labels are numbers, but these are text, such as {str(labels[0])!r}. Number them first."
        )
    if len(labels) != features.shape[0]:
        raise InputError(f"there are {len(labels)} labels for {features.shape[0]} rows. They must agree.")
    if isinstance(file, (str, os.PathLike)):
        with open(file, "wb") as stream:
            _write(features, labels, stream)
    else:
        _write(features, labels, file)


def _write(features: Features, labels: Labels, stream: BinaryIO) -> None:
    signed = np.isin(labels, (-1, 1)).all()
    for start in range(0, features.shape[0], CHUNK):
        block = Sparse(features[start : start + CHUNK])
        distinct, which = np.unique(block.data, return_inverse=True)
        texts = [_shortest(value) for value in distinct.tolist()]
        words = [f"{c}:{texts[v]} " for c, v in zip((block.indices + 1).tolist(), which.tolist(), strict=True)]
        ends = block.indptr[1:].tolist()
        begin, lines = 0, []
        for label, end in zip(labels[start : start + CHUNK].tolist(), ends, strict=True):
            lines.append(f"{f'{label:+d}' if signed else _shortest(label)} {''.join(words[begin:end])}\n")
            begin = end
        stream.write("".join(lines).encode("ascii"))


def _shortest(value: float) -> str:
    return repr(value).removesuffix(".0")


def _open(file: Path) -> BinaryIO:
    return OPENERS.get(file.suffix, open)(file, "rb")


def _raise_fault(file: Path, dim: int | None) -> None:
    """Raise for the first line that is wrong. Slow, so only for files that the fast reader refused."""
    with _open(file) as stream:
        for number, line in enumerate(stream, 1):
            wrong = _fault(line, dim)
            if wrong:
                raise InputError(f"{file}, line {number}: {wrong}. {EXPECTED}.")


def _fault(line: bytes, dim: int | None) -> str | None:
    if b"\0" in line:
        return "there is a zero byte, so this is not a text file"
    words = [word.decode("latin-1").encode("unicode_escape").decode() for word in line.split(b"#", 1)[0].split()]
    if not words:
        return None
    label = _number(words[0])
    if label is None or not math.isfinite(label):
        return f"the label {_short(words[0])} is not a finite number"
    previous = 0
    for word in words[1:]:
        left, colon, right = word.partition(":")
        if left == "qid":
            continue
        if not colon or not right:
            return f"{_short(word)} is cut short: it should be index:value"
        index, value = _number(left, int), _number(right)
        if index is None:
            return f"the index in {_short(word)} is not a whole number"
        if index < 1:
            return f"the index in {_short(word)} is below 1: indices count from 1"
        if index <= previous:
            return f"index {index} comes after {previous}: indices must increase within a line"
        if index > (dim or LARGEST_INDEX):
            limit = f"dim={dim}" if dim else f"the largest that can be read, {LARGEST_INDEX}"
            return f"index {index} is above {limit}"
        if value is None or not math.isfinite(value):
            return f"the value in {_short(word)} is not a finite number"
        previous = index
    return None


def _number(word: str, kind: type[int] | type[float] = float) -> float | None:
    try:
        return kind(word)
    except ValueError:
        return None


def _short(word: str) -> str:
    return f"'{word if len(word) <= 24 else word[:24] + '…'}'"
