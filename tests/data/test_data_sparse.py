from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from gossamer.core import InputError
from gossamer.data import Dataset, from_arrays, load, split
from tests import sparse
from tests.table import table

MATRIX = sparse.drawn((40, 300), 0.02, np.random.default_rng(0))
LABELS = np.arange(40) % 2


def test_what_is_given_sparse_stays_sparse_and_in_order():
    shuffled = sp.coo_array(MATRIX.tocoo())
    data = from_arrays(shuffled, LABELS, test=(MATRIX[:5].tolil(), LABELS[:5]))
    for part, expected in ((data.features, MATRIX), (data.test_features, MATRIX[:5])):
        assert isinstance(part, sp.csr_array)
        assert part.has_canonical_format
        np.testing.assert_array_equal(part.toarray(), expected.toarray())
    assert repr(data) == "Dataset('arrays', rows=40, dim=300, classes=2, test_rows=5)"


def test_small_integers_become_int8_and_zeros_are_dropped():
    given = sp.csr_array(([1.0, 0.0, -3.0], ([0, 0, 1], [2, 1, 0])), shape=(2, 3))
    features = from_arrays(given, [0, 1]).features
    assert (features.dtype, features.nnz) == (np.int8, 2)
    assert given.nnz == 3, "the caller's matrix stays as it is"
    with pytest.raises(ValueError, match="read-only"):
        features.data[0] = 5


def test_parts_take_one_form():
    data = from_arrays(MATRIX, LABELS, test=(np.ones((2, 300)), [0, 1]))
    assert isinstance(data.test_features, sp.csr_array)


def test_the_hash_does_not_depend_on_the_sparse_form():
    hashes = {from_arrays(form, LABELS).sha256 for form in (MATRIX, MATRIX.tocoo(), MATRIX.tocsc())}
    assert len(hashes) == 1
    moved = MATRIX.copy()
    moved.indices[0] += 1
    assert from_arrays(moved, LABELS).sha256 not in hashes


def test_a_file_of_many_columns_is_read_and_split_sparse(tmp_path):
    """Dense, it would take 3 TB."""
    wide: Any = sparse.drawn((300, 1_300_000_000), 1e-8, np.random.default_rng(0))
    sparse.write_libsvm(wide, np.arange(300) % 3, tmp_path / "wide")
    data = load(tmp_path / "wide", test=tmp_path / "wide")
    for part in (data.features, data.test_features):
        np.testing.assert_array_equal(part.indices, wide.indices)
        np.testing.assert_array_equal(part.data, wide.data)
    assert len(data.sha256) == 64
    parts = split(data, 7, "labels:2")
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(300))


@table(
    ("features", "message"),
    [
        (sp.csr_array(([1, np.nan], ([0, 2], [1, 3])), shape=(3, 4)), r"features: row 2, column 3 \(from 0\) is nan"),
        (sp.csr_array((0, 3)), r"at least one row and one column, but has shape \(0, 3\)"),
        (sp.csr_array(np.array([[1j]])), "must be a matrix of numbers .* type is complex128"),
        (sp.coo_array(np.array([1.0, 2.0])), r"must be a matrix \[rows, d\], but has shape \(2,\)"),
        (sp.csr_array(np.eye(3)), "labels has 2 values, but features has 3 rows"),
    ],
)
def test_bad_features_are_refused(features, message):
    with pytest.raises(InputError, match=message):
        Dataset("bad", features, np.array([0, 1]))
