"""LIBSVM's a9a, embedded: 32,561 training and 16,281 test rows, 123 binary features, labels ±1.

The rows are UCI Adult: B. Becker and R. Kohavi, "Adult", UCI Machine Learning Repository, 1996,
doi 10.24432/C5XW20, licensed CC BY 4.0. The encoding is LIBSVM's: each of 14 attributes is one-hot in a block of
columns of its own, numbers being cut into intervals first; a missing value sets no column of its block.

So a row is 14 small integers, 0 for a missing value, and a label. `a9a.train.xz` and `a9a.test.xz` hold them attribute
by attribute, the label last, one byte each, xz-compressed.
"""

import functools
import lzma
from importlib import resources

import numpy as np

from gossamer.data.dataset import Dataset, Dense, Labels

BLOCKS = {
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

SOURCE = (
    "UCI Adult (B. Becker and R. Kohavi, 1996, doi 10.24432/C5XW20, CC BY 4.0), "
    "one-hot encoded as in LIBSVM's a9a and a9a.t"
)


@functools.cache
def load_a9a() -> Dataset:
    """Census income: 32,561 + 16,281 rows, 123 binary features, 2 classes.

    This is LIBSVM's a9a, with a9a.t as the test part.
    """
    return Dataset("a9a", *_unpack("a9a.train.xz"), *_unpack("a9a.test.xz"), source=SOURCE)


def _unpack(file: str) -> tuple[Dense, Labels]:
    packed = lzma.decompress(resources.files("gossamer.data").joinpath(file).read_bytes())
    *attributes, positive = np.frombuffer(packed, np.uint8).reshape(len(BLOCKS) + 1, -1)
    features = np.zeros((positive.size, sum(BLOCKS.values())), np.int8)
    start = 0
    for codes, width in zip(attributes, BLOCKS.values(), strict=True):
        (present,) = np.nonzero(codes)
        features[present, start + codes[present] - 1] = 1
        start += width
    return features, np.where(positive == 1, 1, -1)
