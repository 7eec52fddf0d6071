"""Data sets by name, file, frame or arrays."""

import functools
import lzma
import os
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from gossamer.core import InputError, Registry, brief, nearest
from gossamer.data.dataset import Dataset, Dense, Labels, from_arrays, pair
from gossamer.data.files import existing_file
from gossamer.data.images import load_cifar_10, load_fashion_mnist, load_mnist, read_images, refuse_one_of_many
from gossamer.data.libsvm import read_libsvm
from gossamer.data.tables import is_frame, read_table, read_test_table

TABLES = (".csv", ".parquet")
TEST_SHARE = 0.2

ALIKE = {
    "pair": "a pair (features, labels)",
    "libsvm": "a LIBSVM file",
    "table": f"a table ({', '.join(TABLES)}) or a frame",
}


# --- data sets that come along ---

A9A_BLOCKS = {
    "age": 5,
    "workclass": 8,
    "fnlwgt": 5,
    "education": 16,
    "education-num": 5,
    "marital-status": 7,
    "occupation": 14,
    "relationship": 6,
    "race": 5,
    "sex": 2,
    "capital-gain": 2,
    "capital-loss": 2,
    "hours-per-week": 5,
    "native-country": 41,
}
"""The attributes in column order, and how many columns each takes."""

A9A_SOURCE = (
    "UCI Adult (B. Becker and R. Kohavi, 1996, doi 10.24432/C5XW20, CC BY 4.0), "
    "one-hot encoded as in LIBSVM's a9a and a9a.t"
)


@functools.cache
def load_a9a() -> Dataset:
    """Census income: 32,561 + 16,281 rows, 123 binary features, 2 classes.

    This is LIBSVM's a9a, with a9a.t as the test part. The rows are UCI Adult, and the encoding is LIBSVM's: each of 14
    attributes is one-hot in a block of columns of its own, numbers being cut into intervals first; a missing value sets
    no column of its block. The package holds the attributes as small integers, one byte each, 0 for a missing value.
    """
    return Dataset("a9a", *_unpack_a9a("a9a.train.xz"), *_unpack_a9a("a9a.test.xz"), source=A9A_SOURCE)


def _unpack_a9a(file: str) -> tuple[Dense, Labels]:
    packed = lzma.decompress(resources.files("gossamer.data").joinpath(file).read_bytes())
    *attributes, positive = np.frombuffer(packed, np.uint8).reshape(len(A9A_BLOCKS) + 1, -1)
    features = np.zeros((positive.size, sum(A9A_BLOCKS.values())), np.int8)
    start = 0
    for codes, width in zip(attributes, A9A_BLOCKS.values(), strict=True):
        (present,) = np.nonzero(codes)
        features[present, start + codes[present] - 1] = 1
        start += width
    return features, np.where(positive == 1, 1, -1)


@functools.cache
def load_digits() -> Dataset:
    """Handwritten digits: 1,438 + 359 rows, 64 features in [0, 1], 10 classes.

    They are 8 × 8 pixels. The test part is a fifth of every class, drawn with seed 0.
    """
    from sklearn.datasets import load_digits as bundled  # a second to import, so only when needed

    features, labels = map(np.asarray, bundled(return_X_y=True))
    train, test = _hold_out(labels)
    features = features / 16
    source = "E. Alpaydin and C. Kaynak, 1998, doi 10.24432/C50P49, CC BY 4.0, as bundled with scikit-learn"
    parts = (features[train], labels[train], features[test], labels[test])
    return Dataset("digits", *parts, source=source, image=(1, 8, 8))


@functools.cache
def load_breast_cancer() -> Dataset:
    """Tumour diagnosis: 456 + 113 rows, 30 standardised features, 2 classes.

    Breast cancer Wisconsin (diagnostic): measurements of cell nuclei, labels 0 (malignant) and 1 (benign).
    The test part is a fifth of each class, drawn with seed 0. Every column is shifted and scaled to mean 0 and
    standard deviation 1 over the training part.
    """
    from sklearn.datasets import load_breast_cancer as bundled  # a second to import, so only when needed

    features, labels = map(np.asarray, bundled(return_X_y=True))
    train, test = _hold_out(labels)
    features = (features - features[train].mean(0)) / features[train].std(0)
    source = "W. Wolberg et al., 1993, doi 10.24432/C5DW2B, CC BY 4.0, as bundled with scikit-learn"
    return Dataset("breast-cancer", features[train], labels[train], features[test], labels[test], source=source)


DATASETS: Registry[Callable[[], Dataset]] = Registry(
    "data set",
    "gossamer.datasets",
    {
        "a9a": load_a9a,
        "digits": load_digits,
        "breast-cancer": load_breast_cancer,
        "fashion-mnist": load_fashion_mnist,
        "mnist": load_mnist,
        "cifar-10": load_cifar_10,
    },
)
"""The functions that load data sets, by name."""

register = DATASETS.register
"""Register a function that returns a `Dataset` under a name, so that a spec can name it."""


def load(data: Any, *, label: str = "label", holder: str | None = None, test: Any = None) -> Dataset:
    """Return the data set that `data` means.

    `data` is a `Dataset` (returned as it is), a name in `DATASETS`, the path of a file, or of a directory of images
    (MNIST's IDX files, CIFAR-10's binary ones), a frame of polars or one that exports Arrow, as pandas' do, or a pair
    (features, labels), where the features may be a sparse matrix of SciPy. A registered name wins over a file of the
    same name; write ``./a9a`` for the file. Files that end in .csv or .parquet are tables as frames are, with columns
    `label` and `holder`; others are LIBSVM text with as many columns as occur, and stay sparse. `test` is the test part
    in the same format; a table's has the same columns, in any order, and may lack `holder`.
    """
    for key, column in {"label": label, "holder": holder or ""}.items():
        if not isinstance(column, str):
            raise InputError(f"load({key}=…) must be the name of a column, but is {brief(column)}.")
    kind, shown = _kind_of(data)
    for key, given in {"label": None if label == "label" else label, "holder": holder}.items():
        if given is not None and kind != "table":
            raise InputError(
                f"{key}={given!r} names a column, which only tables ({', '.join(TABLES)}) and frames have, but the "
                f"data are {shown}. Leave it out."
            )
    if test is not None and kind not in ALIKE:
        raise InputError(f"test={brief(test)} cannot be added to a whole data set, but the data are {shown}.")
    if test is not None and _kind_of(test)[0] != kind:
        raise InputError(f"test={brief(test)} must be {ALIKE[kind]}, as {shown} is one.")
    if kind == "data set":
        return data if isinstance(data, Dataset) else DATASETS[data]()
    if kind == "images":
        return read_images(data)
    if kind == "pair":
        return from_arrays(*pair(data, "data"), test=test)
    parts: list[Any] = [None, None]
    if kind == "table":
        train = read_table(data, label, holder)
        if test is not None:
            parts = list(read_test_table(test, label, holder, train.columns)[:2])
        name, source = ("frame", "frame given by the caller") if is_frame(data) else (Path(data).name, f"file {data}")
        return Dataset(name, *train[:2], *parts, holders=train.holders, source=source, holder=holder)
    looks_like_a_name = isinstance(data, str) and not os.path.dirname(data) and not Path(data).suffix
    hint = f"Nor is there a data set of that name: {nearest(str(data), DATASETS)}" if looks_like_a_name else ""
    file = existing_file(data, hint)
    refuse_one_of_many(file)
    features, labels = read_libsvm(file)
    if test is not None:
        parts = list(read_libsvm(test))
        # a file shows only the columns that occur in it
        width = max(features.shape[1], parts[0].shape[1])
        features.resize(features.shape[0], width)
        parts[0].resize(parts[0].shape[0], width)
    return Dataset(Path(data).name, features, labels, *parts, source=f"file {data}")


def _kind_of(data: Any) -> tuple[str, str]:
    """Return the kind of data, a key of `ALIKE` if there may be a test part, and its name in messages."""
    if isinstance(data, Dataset):
        return "data set", data.name
    if is_frame(data):
        return "table", "the frame"
    if not isinstance(data, (str, os.PathLike)):
        return "pair", "the pair"
    if isinstance(data, str) and data in DATASETS:
        return "data set", data
    if os.path.isdir(os.path.expanduser(data)):
        return "images", str(data)
    return ("table" if Path(data).suffix.lower() in TABLES else "libsvm"), str(data)


def _hold_out(labels: Labels) -> tuple[np.ndarray, np.ndarray]:
    """Return the indices of training and test rows: the same share of every class, always the same rows."""
    rng = np.random.default_rng(0)
    held = np.zeros(len(labels), bool)
    for value in np.unique(labels):
        rows = rng.permutation(np.flatnonzero(labels == value))
        held[rows[: round(TEST_SHARE * rows.size)]] = True
    return np.flatnonzero(~held), np.flatnonzero(held)
