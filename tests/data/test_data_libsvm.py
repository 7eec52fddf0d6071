import bz2
import gzip
import lzma

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from gossamer.core import InputError
from gossamer.data import read_libsvm
from tests.table import table


@pytest.fixture
def file(tmp_path):
    def make(text, name="rows.libsvm"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return make


@settings(deadline=None)  # the machine may be shared
@given(
    features=hnp.arrays(
        np.float64,
        st.tuples(st.integers(1, 6), st.integers(1, 5)),
        elements=st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from([0.0, 1.0]),
    ),
    data=st.data(),
)
def test_what_was_written_is_read(tmp_path_factory, features, data):
    number = st.floats(-1e6, 1e6) | st.integers(-3, 3)
    labels = data.draw(st.lists(number, min_size=len(features), max_size=len(features)))
    path = tmp_path_factory.mktemp("round") / "rows"
    rows = [" ".join(f"{column}:{value!r}" for column, value in enumerate(row, 1)) for row in features.tolist()]
    path.write_text("".join(f"{label!r} {row}\n" for label, row in zip(labels, rows, strict=True)))
    again, label_again = read_libsvm(path, dim=features.shape[1])
    assert scipy.sparse.issparse(again)
    np.testing.assert_array_equal(again.toarray(), features)
    np.testing.assert_array_equal(label_again, labels)


def test_binary_values_become_int8(file):
    features, labels = read_libsvm(file("+1 1:1 3:1\n-1 2:1\n"))
    assert features.dtype == np.int8
    assert features.toarray().tolist() == [[1, 0, 1], [0, 1, 0]]
    assert labels.tolist() == [1, -1]


def test_comments_and_blank_lines_are_skipped(file):
    features, labels = read_libsvm(file("# made by hand\n\n1 1:0.5 # note\n\n2 2:1\n"))
    assert features.toarray().tolist() == [[0.5, 0], [0, 1]]
    assert labels.tolist() == [1, 2]


def test_dim_widens(file):
    assert read_libsvm(file("1 2:1\n"), dim=5)[0].toarray().tolist() == [[0, 1, 0, 0, 0]]
    assert read_libsvm(file("1\n2\n"), dim=2)[0].toarray().tolist() == [[0, 0], [0, 0]]


@pytest.mark.parametrize(("suffix", "packed"), [(".gz", gzip.compress), (".bz2", bz2.compress), (".xz", lzma.compress)])
def test_compressed(file, suffix, packed):
    whole = packed(b"1 1:1 2:0.25\n" * 50)
    assert read_libsvm(file(whole, f"rows{suffix}"))[0].shape == (50, 2)
    with pytest.raises(InputError, match=f"rows{suffix} cannot be read"):
        read_libsvm(file(whole[:-12], f"rows{suffix}"))


@table(
    ("text", "message"),
    [
        ("1 1:1\n-1 3:1 12:", "line 2, '-1 3:1 12:': .*Expected lines such as"),
        ("1 1:1\n\n-1 3:1 12", "line 3, "),
        ("1 1:1\n1 2:x\n1 1:1\n", "line 2, '1 2:x': could not convert string to float"),
        ("1 1:1\n1 2:nan\n", r"row 1, column 1 \(from 0\) is nan"),
        ("1 1:inf\n", r"row 0, column 0 \(from 0\) is inf"),
        ("1 1.5:1\n", "line 1, .*: invalid literal for int"),
        ("1 0:1 2:1\n", "line 1, .*: Invalid index 0"),
        ("1 3:1 2:1\n", "line 1, .*: Feature indices .* should be sorted and unique"),
        ("1 1:1\n" * 999 + "yes 1:1\n", "line 1000, 'yes 1:1': could not convert string to float"),
        ("1 1:1\nnan 1:1\n", r"labels: row 1 \(from 0\) is nan"),
        ("a,b,label\n1,2,3\n", "line 1, 'a,b,label'"),
        ("1 99999999999:1\n", "line 1, .*: value too large"),
        (b"\x80\x04\xff\xfe junk\n", r"line 1, '\\\\x80"),
        (b"1 1:1\n\x00\x01\x02\x00", "line 2, "),
        ("", "holds no rows. Expected lines such as"),
        ("\n# nothing\n", "holds no rows"),
        ("1\n-1\n", "holds labels only, so its number of columns is unknown: give `dim`"),
    ],
)
def test_faults_are_named(file, text, message):
    with pytest.raises(InputError, match=rf"rows\.libsvm.*{message}"):
        read_libsvm(file(text))


def test_index_above_dim(file):
    with pytest.raises(InputError, match="line 2, '1 7:1': n_features was set to 5"):
        read_libsvm(file("1 5:1\n1 7:1\n"), dim=5)
    with pytest.raises(InputError, match="dim must be a whole number of at least 1, but is 0"):
        read_libsvm(file("1 5:1\n"), dim=0)


def test_missing_file_and_directory(tmp_path):
    with pytest.raises(InputError, match=r"there is no file .*nowhere"):
        read_libsvm(tmp_path / "nowhere")
    with pytest.raises(InputError, match="is a directory"):
        read_libsvm(tmp_path)
