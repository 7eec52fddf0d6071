"""Data sets of the LIBSVM collection that are too large to embed: the user has the files, and the name checks them.

The collection is https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary.html. It links each file under the name
that is looked for, mostly with .bz2 behind it.
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from gossamer.core import InputError
from gossamer.data.dataset import Dataset, Features, Labels
from gossamer.data.files import SYSTEM, VARIABLE, first_file, not_here, own_folders
from gossamer.data.libsvm import read_libsvm

SUFFIXES = ("", ".bz2", ".xz", ".gz")
COLLECTION = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary.html"


class Known(NamedTuple):
    """What a data set's files are called, and what they must hold."""

    name: str
    dim: int
    train: str
    rows: int
    test: str | None = None
    test_rows: int = 0
    labels: tuple[int, int] = (-1, 1)

    def load(self) -> Dataset:
        """The data set, its test part too if that file is there."""
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
