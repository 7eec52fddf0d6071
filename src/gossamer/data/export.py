"""The data sets of the package as LIBSVM text, for use elsewhere."""

import os
from pathlib import Path

from gossamer.core import InputError, nearest
from gossamer.data.datasets import DATASETS, load
from gossamer.data.libsvm import write_libsvm


def export(name: str, file: str | Path) -> int:
    """Write a data set to a new file, its test part if `name` ends in ``.t``, and say how many rows it has."""
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
