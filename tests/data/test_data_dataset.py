import numpy as np
import pytest
import scipy.sparse

from gossamer.core import InputError
from gossamer.data import Dataset, from_arrays
from tests.table import table


def test_small_integers_become_int8_and_others_float64():
    assert from_arrays([[0, 1], [1, 0]], [0, 1]).features.dtype == np.int8
    assert from_arrays(np.array([[-128.0], [127.0]]), [0, 1]).features.dtype == np.int8
    assert from_arrays([[0, 128], [1, 0]], [0, 1]).features.dtype == np.float64
    assert from_arrays([[0.5, 1]], [0]).features.dtype == np.float64


def test_both_parts_have_one_type():
    data = from_arrays([[0, 1]], [1], test=([[0.5, 1]], [0.5]))
    assert data.test_features is not None
    assert data.features.dtype == data.test_features.dtype == np.float64
    assert data.labels.dtype == np.float64


def test_integer_valued_labels_are_int64_and_text_stays_text():
    assert from_arrays([[1], [2]], [-1.0, 1.0]).labels.dtype == np.int64
    assert from_arrays([[1], [2]], [0.5, 1.0]).labels.dtype == np.float64
    assert from_arrays([[1], [2], [3]], np.array(["yes", "no", "yes"], object)).classes.tolist() == ["no", "yes"]


def test_rows_dim_classes():
    data = from_arrays(np.eye(3, 4), [2, 0, 2])
    assert (data.rows, data.dim, data.classes.tolist()) == (3, 4, [0, 2])
    assert repr(data) == "Dataset('arrays', rows=3, dim=4, classes=2)"


@pytest.mark.parametrize("form", [scipy.sparse.csr_matrix, scipy.sparse.coo_array, scipy.sparse.csc_array])
def test_sparse_equals_dense(form):
    array = np.array([[0, 1.5, 0], [2, 0, 0]])
    np.testing.assert_array_equal(from_arrays(form(array), [0, 1]).features.toarray(), array)


def test_sparse_duplicates_add_up_before_the_type_is_chosen():
    twice = scipy.sparse.coo_array(([100, 100], ([0, 0], [0, 0])), shape=(1, 2))
    assert from_arrays(twice, [0]).features.toarray().tolist() == [[200, 0]]


def test_sha256_sees_every_array_and_no_name():
    features, labels = np.eye(3), [0, 1, 0]
    base = from_arrays(features, labels)
    same = Dataset("other", np.asfortranarray(features), np.array(labels, np.int32), source="elsewhere")
    assert same.sha256 == base.sha256
    others = [
        from_arrays(1 - features, labels),
        from_arrays(features, [0, 1, 1]),
        from_arrays(features, labels, test=(features, labels)),
        from_arrays(features, labels, holders=[0, 1, 0]),
        from_arrays(features, ["0", "1", "0"]),
    ]
    assert len({data.sha256 for data in [base, *others]}) == 6
    pixels = np.eye(3, dtype=np.uint8)
    assert Dataset("a", pixels, labels, divisor=255).sha256 != Dataset("a", pixels, labels).sha256


def test_arrays_are_read_only_but_the_callers_is_not():
    mine = np.eye(2, dtype=np.int8)
    data = from_arrays(mine, [0, 1])
    with pytest.raises(ValueError, match="read-only"):
        data.features[0, 0] = 5
    mine[0, 0] = 5


@table(
    ("arguments", "message"),
    [
        (([[1, 2], [3, np.nan]], [0, 1]), r"features: row 1, column 1 \(from 0\) is nan"),
        (([[1, np.inf]], [0]), "column 1 .* is inf"),
        (([1, 2], [0, 1]), r"must be a matrix \[rows, d\], but has shape \(2,\)"),
        ((np.empty((0, 3)), []), r"at least one row and one column, but has shape \(0, 3\)"),
        (([["a", "b"]], [0]), "must be a matrix of numbers"),
        (([[1, 2], [3]], [0, 1]), "must be a matrix of numbers"),
        (([[1], [2]], [0]), "labels has 1 values, but features has 2 rows"),
        (([[1], [2]], [[0], [1]]), r"labels must be one value for each row, but has shape \(2, 1\)"),
        (([[1], [2]], [0, np.nan]), "labels: row 1 .* is nan"),
        (([[1], [2]], np.array([0, "x"], object)), "all be numbers or all be strings"),
        (([[1]], [0], ([[1, 2]], [0])), "test_features has 2 columns, but features has 1"),
        (([[1]], [0], ([[1]], [0, 1])), "test_labels has 2 values, but test_features has 1 rows"),
        (([[1]], [0], ([[1]], ["a"])), "numbers in one part and text in the other"),
        (([[1]], [0], [[1]]), r"test must be a pair \(features, labels\)"),
        (([[1], [2]], [0, 1], None, [1]), "holders has 1 values, but features has 2 rows"),
        (([[1], [2]], [0, 1], None, [1, 0.5]), "holders must be integers or strings"),
    ],
)
def test_bad_input_is_named(arguments, message):
    with pytest.raises(InputError, match=message):
        from_arrays(*arguments)


def test_half_a_test_part_is_refused():
    with pytest.raises(InputError, match="needs both test_features and test_labels"):
        Dataset("half", np.eye(2), np.array([0, 1]), test_features=np.eye(2))
