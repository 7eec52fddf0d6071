"""Which form features are held in, and what all forms have in common."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jaxtyping import Int

from gossamer.basics.sparse import checked
from gossamer.data.sparse import Sparse
from gossamer.problems.inputs import native
from gossamer.problems.inputs.bits import Bits
from gossamer.problems.inputs.bytes import Bytes
from gossamer.problems.inputs.rows import Rows, compressed

FEW, FEW_ONES, FEW_VALUES = 0.15, 0.1, 0.05
"""The largest share of non-zeros at which lists of columns are faster than a matrix: by our own kernels, and by XLA of
ones and of other values.

Microseconds of a gradient of a linear model, 20 agents, batch 64, float32, one core of a busy machine; lists first by
XLA and then, in a run of their own, by kernels:

| columns | non-zeros a row | ones: matrix, bits, lists | values: matrix, lists |
| ---: | ---: | ---: | ---: |
| 123 | 14 | 57, 36, 64 | 63, 150 |
| 1,000 | 10 | 770, 720, 86 | 880, 75 |
| 1,000 | 30 | 1160, 850, 270 | 890, 360 |
| 1,000 | 100 | 690, 660, 280 | 890, 970 |
| 5,000 | 150 | | 7590, 2510 |
| 123 | 14 | 76, 45, 37 | 82, 57 |
| 123 | 25 | 47, 35, 45 | 78, 101 |
| 1,000 | 100 | 780, 760, 190 | 1020, 370 |
| 1,000 | 200 | 790, 710, 340 | 980, 680 |
"""

DENSE_BYTES = 2**30
"""The largest matrix that is made of sparse features for a model that needs one. Beyond, the rows of a batch are."""


def hold(features: Any, linear: bool, order: Int[np.ndarray, " held"] | None = None, divisor: int = 1) -> Any:
    """The same features, or these rows of them, in the form that is fastest for a model: one that is `linear` needs no
    array of them. Bytes with a divisor stay bytes."""
    if divisor != 1:
        return Bytes(features if order is None else features[order], divisor)
    sparse = isinstance(features, Sparse)
    if sparse:  # whoever gave their arrays may have changed these since, and kernels read without a check
        features = checked(features, "features")
    rows, dim = features.shape
    values = features.data if sparse else features
    zero_or_one = _zero_or_one(values)
    share = np.count_nonzero(values) / (rows * dim)
    most = FEW if share > FEW_VALUES and native.likely() else FEW_ONES if zero_or_one else FEW_VALUES
    few = linear and share <= most
    large = sparse and rows * dim * (1 / 8 if zero_or_one else values.dtype.itemsize) > DENSE_BYTES
    if zero_or_one and not few and not large:
        bits = Bits.of(features)  # before they are put in order, for then there is no second matrix
        return bits if order is None else bits[order]
    features = compressed(features) if few else features  # again before they are put in order
    features = features if order is None else features[order]
    if few or large:
        return Rows.of(features)
    return features.toarray() if sparse else features


def _zero_or_one(values: np.ndarray) -> bool:
    """Whether there are no other values; of whole numbers the least and the largest say it, and take no memory."""
    if values.dtype.kind in "iu" and values.size:
        return bool(values.min() >= 0 and values.max() <= 1)
    return bool(((values == 0) | (values == 1)).all())


def rows_from(inputs: Any, first: Any, length: int) -> Any:
    """So many rows, from this one on, in a compiled program."""
    if isinstance(inputs, Rows):
        return inputs.from_row(first, length)
    return jax.tree.map(lambda a: jax.lax.dynamic_slice_in_dim(a, first, length), inputs)


def in_runs(function: Callable[..., Any], runs: int, inputs: Any, *arrays: Any) -> Any:
    """Return what the function makes of each of so many runs of equally many chosen rows, in a compiled program."""

    def cut(array: Any) -> Any:
        return array.reshape(runs, -1, *array.shape[1:])

    if isinstance(inputs, Rows):
        return jax.vmap(lambda at, *own: function(inputs._chosen(at), *own))(*map(cut, (inputs.at, *arrays)))
    return jax.vmap(function)(jax.tree.map(cut, inputs), *map(cut, arrays))


def in_blocks(inputs: Any, order: np.ndarray, blocks: int) -> Any:
    """The rows in this order, outside of compiled programs, as a number of blocks of equal size."""
    if isinstance(inputs, Rows):
        return Rows.of(inputs.sparse()[order], blocks)
    return jax.tree.map(lambda a: np.asarray(a)[order], inputs)


def sparse_rows(inputs: Any, first: int, length: int) -> Any:
    """So many rows, from this one on, outside of compiled programs: a CSR array of sparse rows, else a NumPy array."""
    return inputs.sparse(first, length) if isinstance(inputs, Rows) else np.asarray(inputs[first : first + length])
