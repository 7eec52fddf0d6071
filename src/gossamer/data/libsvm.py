"""LIBSVM text: one row a line, ``label index:value index:value …``, indices from 1 and increasing.

Data sets of LIBSVM's collection that are too large to embed are known by name: the user has the files, under the names
that the collection gives them, mostly with .bz2 behind it, and the name checks what they hold.
"""

import bz2
import gzip
import lzma
import math
import os
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from gossamer.core import InputError
from gossamer.data.dataset import Dataset, Features, Labels, Sparse, matrix, values
from gossamer.data.files import SYSTEM, VARIABLE, existing_file, first_file, not_here, own_folders

EXPECTED = "Expected lines such as `+1 3:1 11:0.5`"
OPENERS: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
CHUNK = 4096  # rows that are turned into text at once
LARGEST_INDEX = 2**31 - 1
SUFFIXES = ("", ".bz2", ".xz", ".gz")
COLLECTION = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary.html"


def read_libsvm(path: str | os.PathLike[str], dim: int | None = None) -> tuple[Features, Labels]:
    """Read features, as a CSR array, and labels from a LIBSVM file, plain or .gz, .bz2, .xz.

    `dim` is the number of columns if that is more than the largest index in the file.
    """
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
    """Raise InputError for the first line that is wrong. Slow, so only for files that the fast reader refused."""
    with _open(file) as stream:
        for number, line in enumerate(stream, 1):
            wrong = _fault(line, dim)
            if wrong:
                raise InputError(f"{file}, line {number}: {wrong}. {EXPECTED}.")


def _fault(line: bytes, dim: int | None) -> str | None:
    """Return the fault of a line, if it has one."""
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


class Known(NamedTuple):
    """The names of a data set's files, and the rows, columns and labels that they must hold."""

    name: str
    dim: int
    train: str
    rows: int
    test: str | None = None
    test_rows: int = 0
    labels: tuple[int, int] = (-1, 1)

    def load(self) -> Dataset:
        """Load the data set, with its test part if that file is there."""
        looked = [place for folder in own_folders() for place in (folder / self.name, folder)] + [SYSTEM / self.name]
        folder = next((folder for folder in looked if first_file(folder, [self.train], SUFFIXES)), None)
        if folder is None:
            raise not_here(
                self.name,
                looked,
                f"Put its file {self.train}, plain or compressed, from {COLLECTION} into a directory that {VARIABLE} "
                "names in the environment.",
            )
        features, labels = self._read(folder, self.train, self.rows)
        test_features = test_labels = None
        if self.test is not None and first_file(folder, [self.test], SUFFIXES):
            test_features, test_labels = self._read(folder, self.test, self.test_rows)
        source = f"LIBSVM's collection; files in {folder}"
        return Dataset(self.name, features, labels, test_features, test_labels, source=source)

    def _read(self, folder: Path, stem: str, rows: int) -> tuple[Features, Labels]:
        file = first_file(folder, [stem], SUFFIXES) or folder / stem
        features, labels = read_libsvm(file, self.dim)
        found = np.unique(labels)
        if len(labels) != rows or found.tolist() != list(self.labels):
            shown = ", ".join(map(str, found[:4])) + (", …" if len(found) > 4 else "")
            raise InputError(
                f"{file} holds {len(labels):,} rows with the labels {shown}, but {stem} of {self.name} has {rows:,} "
                f"with {self.labels[0]} and {self.labels[1]}: it is cut short, or another file. Give its path as the "
                "data if this is what you want."
            )
        return features, labels


def load_w8a() -> Dataset:
    """Web pages: 49,749 + 14,951 rows, 300 binary features, 2 classes; you bring w8a and w8a.t."""
    return Known("w8a", 300, "w8a", 49_749, "w8a.t", 14_951).load()


def load_ijcnn1() -> Dataset:
    """Engine misfires: 49,990 + 91,701 rows, 22 features, 2 classes; you bring ijcnn1 and ijcnn1.t."""
    return Known("ijcnn1", 22, "ijcnn1", 49_990, "ijcnn1.t", 91_701).load()


def load_covtype() -> Dataset:
    """Forest cover: 581,012 rows, 54 features in [0, 1], 2 classes; you bring covtype.libsvm.binary.scale.

    The labels are 1 and 2, as in the file.
    """
    return Known("covtype", 54, "covtype.libsvm.binary.scale", 581_012, labels=(1, 2)).load()


def load_rcv1() -> Dataset:
    """News: 20,242 + 677,399 rows, 47,236 features, 2 classes; you bring rcv1_train.binary and rcv1_test.binary."""
    return Known("rcv1", 47_236, "rcv1_train.binary", 20_242, "rcv1_test.binary", 677_399).load()
