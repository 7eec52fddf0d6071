import bz2

import numpy as np
import pytest
import scipy.sparse

from gossamer.core import InputError
from gossamer.data import DATASETS, files, libsvm, load

TRAIN, TEST = "1 2:0.5\n2 6:1\n1 1:1\n", "2 1:1\n1 3:0.25\n"
SIZES = {
    "w8a": (300, "49,749 + 14,951"),
    "ijcnn1": (22, "49,990 + 91,701"),
    "covtype": (54, "581,012"),
    "rcv1": (47_236, "20,242 + 677,399"),
}


def load_small():
    return libsvm.load_known("small", 6, ("small.scale", 3), ("small.t", 2), labels=(1, 2))


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A directory of the user's own data sets; the system has none."""
    monkeypatch.setenv("GOSSAMER_DATA", str(tmp_path))
    monkeypatch.setattr(files, "SYSTEM", tmp_path / "system")
    return tmp_path


@pytest.mark.parametrize("inner", ["", "small", "system/small"])
def test_files_are_found_plain_or_compressed_and_stay_sparse(own, inner):
    (own / inner).mkdir(parents=True, exist_ok=True)
    (own / inner / "small.scale.bz2").write_bytes(bz2.compress(TRAIN.encode()))
    data = load_small()
    assert scipy.sparse.issparse(data.features)
    np.testing.assert_array_equal(data.features.toarray()[1], [0, 0, 0, 0, 0, 1])
    assert data.labels.tolist() == [1, 2, 1]
    assert data.test_features is None
    (own / inner / "small.t").write_text(TEST)
    tested = load_small().test_features
    assert tested.shape == (2, 6)  # the file itself shows three columns only


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (TRAIN[:-6], "holds 2 rows with the labels 1, 2, but small.scale of small has 3 with 1 and 2: it is cut short"),
        (TRAIN.replace("2 6", "-1 6"), "with the labels -1, 1, but .* with 1 and 2: .* Give its path as the data"),
        (TRAIN.replace("6:1", "7:1"), "line 2, '2 7:1': n_features was set to 6, but input file contains 7 features"),
    ],
)
def test_files_that_hold_something_else_are_refused(own, text, message):
    (own / "small.scale").write_text(text)
    with pytest.raises(InputError, match=message):
        load_small()


@pytest.mark.parametrize("name", SIZES)
def test_a_name_knows_its_size_and_says_where_the_file_comes_from(own, name, monkeypatch):
    dim, rows = SIZES[name]
    about = DATASETS[name].__doc__
    assert f"{rows} rows, {dim:,} " in about
    with pytest.raises(InputError, match=rf"^{name} does not come with Gossamer, .*libsvmtools/datasets/binary\.html"):
        load(name)
    asked = []
    monkeypatch.setattr(libsvm, "read_libsvm", lambda file, dim: asked.append((file.name, dim)) or ([], np.zeros(0)))
    stem = next(word for word in about.rstrip(".\n ").split("you bring ")[1].split() if word)
    (own / stem.rstrip(".")).write_text("")
    with pytest.raises(InputError, match="holds 0 rows"):
        load(name)
    assert asked == [(stem.rstrip("."), dim)]


def test_w8a_as_it_is(own):
    """As many rows as the real one, in its labels and columns."""
    (own / "w8a").write_text("+1 300:1\n" + 49_748 * "-1 7:1 9:1\n")
    data = load("w8a")
    assert (data.rows, data.dim, data.name, data.classes.tolist()) == (49_749, 300, "w8a", [-1, 1])
