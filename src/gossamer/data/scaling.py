"""Features on one scale: each with mean 0 and standard deviation 1 over the training rows."""

import dataclasses
import warnings

import numpy as np

from gossamer.core import InputError
from gossamer.data.dataset import Dataset
from gossamer.data.sparse import Sparse

UNEVEN = 1000.0
"""Features whose standard deviations differ by more than this factor hardly share a step size."""

LARGE = 100.0
"""A feature of a larger standard deviation needs a step size far below the usual ones, which go with its square."""

LOOKED_AT = 2**26
"""Larger arrays of features are not looked at."""


def standardised(data: Dataset) -> Dataset:
    """The data with each feature less its mean, divided by its standard deviation, both over the training rows.

    A feature that is the same in all of these, such as a column of ones, stays as it is. The test part is moved and
    divided by the same numbers.
    """
    if isinstance(data.features, Sparse):
        raise InputError(f"scale = true would fill the zeros of {data.name}, which is sparse. Scale it before, or not.")
    features = data.features / data.divisor
    mean, spread = features.mean(0), features.std(0)
    mean, spread = np.where(spread > 0, mean, 0.0), np.where(spread > 0, spread, 1.0)
    tested = None if data.test_features is None else (data.test_features / data.divisor - mean) / spread
    return dataclasses.replace(data, features=(features - mean) / spread, test_features=tested, divisor=1)


def warn_of_uneven(data: Dataset) -> None:
    """Say so if features differ in scale so much, or are so large, that no usual step size suits them."""
    features = data.features
    if isinstance(features, Sparse) or features.dtype != np.float64 or features.size > LOOKED_AT:
        return
    spreads = features.std(0)
    spreads = spreads[spreads > 0]
    if spreads.size and spreads.max() > min(LARGE, UNEVEN * spreads.min()):
        warnings.warn(
            f"the features of {data.name} have standard deviations from {spreads.min():.3g} to {spreads.max():.3g}, so "
            "hardly any step size suits them all. scale = true in the problem brings each to mean 0 and deviation 1.",
            stacklevel=4,
        )
