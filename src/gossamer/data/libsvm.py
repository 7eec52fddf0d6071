"""LIBSVM text: one row a line, ``label index:value index:value …``, indices from 1 and increasing.

Data sets of LIBSVM's collection that are too large to embed are known by name. The user brings the files, under the
names that the collection gives them, plain or compressed, and their numbers of rows and labels are checked.
"""

import bz2
import gzip
import io
import lzma
import os
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from gossamer.core import InputError, whole
from gossamer.data.dataset import Dataset, Features, Labels, Sparse, matrix, values
from gossamer.data.files import VARIABLE, dataset_folders, existing_file, first_file, missing_dataset

OPENERS: dict[str, Any] = {"": open, ".bz2": bz2.open, ".xz": lzma.open, ".gz": gzip.open}
EXPECTED = "Expected lines such as `+1 3:1 11:0.5`"
CHUNK = 4096  # rows that are turned into text at once
COLLECTION = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary.html"


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
            return write_libsvm(features, labels, stream)
    signed = np.isin(labels, (-1, 1)).all()
    # not scikit-learn's writer: its 16 digits do not read back exactly, and its labels have no sign
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
        file.write("".join(lines).encode("ascii"))


def _shortest(value: float) -> str:
    return repr(value).removesuffix(".0")


def load_known(
    name: str,
    dim: int,
    train: tuple[str, int],
    test: tuple[str, int] | None = None,
    labels: tuple[int, int] = (-1, 1),
) -> Dataset:
    """Load a data set of LIBSVM's collection, with its test part if that file is there.

    `train` and `test` are the name of a file and the number of its rows.
    """
    looked = dataset_folders(name)
    folder = next((folder for folder in looked if first_file(folder, train[:1], tuple(OPENERS))), None)
    if folder is None:
        raise missing_dataset(
            name,
            looked,
            f"Put its file {train[0]}, plain or compressed, from {COLLECTION} into a directory that {VARIABLE} names "
            "in the environment.",
        )
    parts: list[Any] = []
    for stem, rows in filter(None, (train, test)):
        file = first_file(folder, [stem], tuple(OPENERS))
        if file is None:
            continue
        features, found = read_libsvm(file, dim)
        if len(found) != rows or np.unique(found).tolist() != list(labels):
            shown = ", ".join(map(str, np.unique(found)[:4]))
            raise InputError(
                f"{file} holds {len(found):,} rows with the labels {shown}, but {stem} of {name} has {rows:,} with "
                f"{labels[0]} and {labels[1]}: it is cut short, or another file. Give its path as the data if this is "
                "what you want."
            )
        parts += [features, found]
    return Dataset(name, *parts, source=f"LIBSVM's collection; files in {folder}")


def load_w8a() -> Dataset:
    """Web pages: 49,749 + 14,951 rows, 300 binary features, 2 classes; you bring w8a and w8a.t."""
    return load_known("w8a", 300, ("w8a", 49_749), ("w8a.t", 14_951))


def load_ijcnn1() -> Dataset:
    """Engine misfires: 49,990 + 91,701 rows, 22 features, 2 classes; you bring ijcnn1 and ijcnn1.t."""
    return load_known("ijcnn1", 22, ("ijcnn1", 49_990), ("ijcnn1.t", 91_701))


def load_covtype() -> Dataset:
    """Forest cover: 581,012 rows, 54 features in [0, 1], 2 classes; you bring covtype.libsvm.binary.scale.

    The labels are 1 and 2, as in the file.
    """
    return load_known("covtype", 54, ("covtype.libsvm.binary.scale", 581_012), labels=(1, 2))


def load_rcv1() -> Dataset:
    """News: 20,242 + 677,399 rows, 47,236 features, 2 classes; you bring rcv1_train.binary and rcv1_test.binary."""
    return load_known("rcv1", 47_236, ("rcv1_train.binary", 20_242), ("rcv1_test.binary", 677_399))
