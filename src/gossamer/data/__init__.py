"""Datasets, and the splits of their rows over agents."""

from gossamer.data.dataset import Dataset, from_arrays
from gossamer.data.datasets import DATASETS, load, load_a9a, load_breast_cancer, load_digits, register
from gossamer.data.images import read_idx, read_images
from gossamer.data.libsvm import read_libsvm
from gossamer.data.splits import SIZES, SPLITS, split
from gossamer.data.tables import read_table

__all__ = [
    "DATASETS",
    "SIZES",
    "SPLITS",
    "Dataset",
    "from_arrays",
    "load",
    "load_a9a",
    "load_breast_cancer",
    "load_digits",
    "read_idx",
    "read_images",
    "read_libsvm",
    "read_table",
    "register",
    "split",
]
