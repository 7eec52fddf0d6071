"""Datasets by name, file, frame or arrays, and the export of named ones as LIBSVM text."""

import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from gossamer.core import InputError, Registry, brief, nearest
from gossamer.data.a9a import load_a9a
from gossamer.data.dataset import Dataset, Labels, from_arrays, pair
from gossamer.data.files import existing_file
from gossamer.data.images import load_cifar_10, load_fashion_mnist, load_mnist, read_images, refuse_one_of_many
from gossamer.data.libsvm import load_covtype, load_ijcnn1, load_rcv1, load_w8a, read_libsvm, write_libsvm
from gossamer.data.tables import is_frame, read_table, read_test_table

TABLES = (".csv", ".parquet")
TEST_SHARE = 0.2


@functools.cache
def load_digits() -> Dataset:
    """Handwritten digits: 1,438 + 359 rows, 64 features in [0, 1], 10 classes.

    They are 8 × 8 pixels. The test part is a fifth of every class, drawn with seed 0.
    """
    from sklearn.datasets import load_digits as bundled  # a second to import, so only when needed

    features, labels = bundled(return_X_y=True)
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

    features, labels = bundled(return_X_y=True)
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
        "covtype": load_covtype,
        "ijcnn1": load_ijcnn1,
        "rcv1": load_rcv1,
        "w8a": load_w8a,
    },
)
"""The functions that load data sets, by the names of these."""

register = DATASETS.register
"""Register a function that returns a `Dataset` under a name, so that a spec can name it."""


def load(
    data: Any, *, label: str = "label", holder: str | None = None, test: Any = None, dim: int | None = None
) -> Dataset:
    """Return the data set that `data` means.

    `data` is a `Dataset` (returned as it is), a name in `DATASETS`, the path of a file, or of a directory of images
    (MNIST's IDX files, CIFAR-10's binary ones), a frame of polars or one that exports Arrow, as pandas' do, or a pair
    (features, labels), where the features may be a sparse matrix of SciPy. A registered name wins over a file of the
    same name; write ``./a9a`` for the file. Files that end in .csv or .parquet are tables as frames are, with columns
    `label` and `holder`; others are LIBSVM text with `dim` columns, or as many as occur, and stay sparse. `test` is the
    test part in the same format; a table's has the same columns, in any order, and may lack `holder`.
    """
    for key, column in (("label", label), ("holder", holder)):
        if not isinstance(column, str) and (key == "label" or column is not None):
            raise InputError(f"load({key}=…) must be the name of a column, but is {brief(column)}.")
    named = isinstance(data, str) and data in DATASETS
    path = Path(data) if isinstance(data, (str, os.PathLike)) and not named else None
    table = _is_table(data) and not named
    images = path is not None and os.path.isdir(os.path.expanduser(path))
    shown = data if named else data.name if isinstance(data, Dataset) else _shown(data)
    if not table and (holder is not None or label != "label"):
        asked = f"holder={brief(holder)}" if holder is not None else f"label={brief(label)}"
        raise InputError(
            f"{asked} names a column, but only tables ({', '.join(TABLES)}) and frames have columns; {shown} has none."
        )
    if dim is not None and (table or images or path is None):
        raise InputError(
            f"dim={brief(dim)} is for LIBSVM files only, but {shown} has a width of its own. Leave it out."
        )
    if test is not None and (named or images or isinstance(data, Dataset)):
        raise InputError(f"{shown} is a whole data set, so test={brief(test)} cannot be added. Leave it out.")
    if isinstance(data, Dataset):
        return data
    if named:
        return DATASETS[str(data)]()
    if images:
        return read_images(data)
    if table:
        return _load_table(data, label, holder, test)
    return from_arrays(*pair(data, "data"), test=test) if path is None else _load_libsvm(data, test, dim)


def _is_table(data: Any) -> bool:
    return Path(data).suffix.lower() in TABLES if isinstance(data, (str, os.PathLike)) else is_frame(data)


def _shown(data: Any) -> str:
    return str(data) if isinstance(data, (str, os.PathLike)) else "the frame" if is_frame(data) else "the pair"


def _load_table(data: Any, label: str, holder: str | None, test: Any) -> Dataset:
    train = read_table(data, label, holder)
    test_features = test_labels = None
    if test is not None:
        if not _is_table(test):
            raise InputError(f"test={brief(test)} must be a table ({', '.join(TABLES)}), as {_shown(data)} is one.")
        test_features, test_labels, *_ = read_test_table(test, label, holder, train.columns)
    name, source = ("frame", "frame given by the caller") if is_frame(data) else (Path(data).name, f"file {data}")
    return Dataset(name, *train[:2], test_features, test_labels, train.holders, source, holder)


def _load_libsvm(data: str | os.PathLike[str], test: Any, dim: int | None) -> Dataset:
    looks_like_a_name = isinstance(data, str) and not os.path.dirname(data) and not Path(data).suffix
    hint = f"Nor is there a data set of that name: {nearest(str(data), DATASETS)}" if looks_like_a_name else ""
    file = existing_file(data, hint)
    refuse_one_of_many(file)
    if test is not None and (not isinstance(test, (str, os.PathLike)) or Path(test).suffix.lower() in TABLES):
        raise InputError(f"test={brief(test)} must be a LIBSVM file, as {data} is one.")
    features, labels = read_libsvm(file, dim)
    test_features = test_labels = None
    if test is not None:
        test_features, test_labels = read_libsvm(test, dim)
        # a file shows only the columns that occur in it
        width = max(features.shape[1], test_features.shape[1])
        features.resize(features.shape[0], width)
        test_features.resize(test_features.shape[0], width)
    return Dataset(Path(data).name, features, labels, test_features, test_labels, source=f"file {data}")


def _hold_out(labels: Labels) -> tuple[np.ndarray, np.ndarray]:
    """Return the indices of training and test rows: the same share of every class, always the same rows."""
    rng = np.random.default_rng(0)
    held = np.zeros(len(labels), bool)
    for value in np.unique(labels):
        rows = rng.permutation(np.flatnonzero(labels == value))
        held[rows[: round(TEST_SHARE * rows.size)]] = True
    return np.flatnonzero(~held), np.flatnonzero(held)


def export(name: str, file: str | Path) -> int:
    """Write a data set to a new file, its test part if `name` ends in ``.t``, and return the number of its rows."""
    base = name.removesuffix(".t")
    if base not in DATASETS:
        raise InputError(f"there is no data set {name!r}; {nearest(base, DATASETS)} NAME.t is the test part.")
    dataset, path = load(base), Path(file)
    if os.path.lexists(path):
        raise InputError(f"{path} exists: remove it first, or choose another name.")
    features, labels = (
        (dataset.test_features, dataset.test_labels) if base != name else (dataset.features, dataset.labels)
    )
    if features is None:
        raise InputError(f"{base} has no test part.")
    if dataset.divisor != 1:
        features = features / dataset.divisor
    try:
        write_libsvm(features, labels, path)
    except (OSError, ValueError) as error:
        raise InputError(f"cannot write {path}: {getattr(error, 'strerror', None) or error}.") from error
    return 0 if labels is None else len(labels)
