import numpy as np
import polars as pl
import pytest

from gossamer.core import InputError
from gossamer.data import DATASETS, from_arrays, load, load_a9a
from tests import sparse
from tests.table import table


@pytest.mark.parametrize("name", ["a9a", "digits", "breast-cancer"])
def test_registered_names_load_and_tell_their_size(name):
    data = load(name)
    assert data.name == name
    assert "CC BY 4.0" in data.source
    assert data.test_features is not None
    description = DATASETS[name].__doc__
    assert f"{data.rows:,} + {len(data.test_features):,} rows" in description
    assert f"{len(data.classes)} classes" in description


@pytest.mark.parametrize("name", ["digits", "breast-cancer"])
def test_held_out_part_has_a_fifth_of_each_class_and_no_row_of_training(name):
    data = load(name)
    assert data.test_features is not None
    assert data.test_labels is not None
    for label in data.classes:
        held, kept = (data.test_labels == label).sum(), (data.labels == label).sum()
        assert abs(held - 0.2 * (held + kept)) <= 0.5
    train, test = ({row.tobytes() for row in part} for part in (data.features, data.test_features))
    assert not train & test


def test_bundled_features_are_scaled():
    digits, cancer = load("digits"), load("breast-cancer")
    assert (digits.features.min(), digits.features.max()) == (0, 1)
    np.testing.assert_allclose(cancer.features.mean(0), 0, atol=1e-12)
    np.testing.assert_allclose(cancer.features.std(0), 1, rtol=1e-12)


def test_bundled_data_never_changes():
    assert load("digits").sha256.startswith("e1764bd95baf2811")
    assert load("a9a").sha256.startswith("10e530b51cc22d7f")


def test_dataset_and_pair():
    data = from_arrays([[1.5]], [0])
    assert load(data) is data
    assert load(([[1.5]], [0])).sha256 == data.sha256
    assert load(([[1.5]], [0]), test=([[2]], [1])).test_labels == [1]
    with pytest.raises(InputError, match="data must be a pair"):
        load(3)


def test_exported_a9a_loads_as_the_same_data(tmp_path):
    data = load_a9a()
    for name, features, labels in (
        ("train", data.features, data.labels),
        ("test.t", data.test_features, data.test_labels),  # has no row with the last column
    ):
        sparse.write_libsvm(features, labels, tmp_path / name)
    again = load(tmp_path / "train", test=tmp_path / "test.t")
    for part in ("features", "test_features"):
        np.testing.assert_array_equal(getattr(again, part).toarray(), getattr(data, part))
    np.testing.assert_array_equal(again.labels, data.labels)
    assert again.name == "train"


@pytest.mark.parametrize(("train", "test"), [("1 2:1\n", "1 4:1\n"), ("1 4:1\n", "1 2:1\n")])
def test_libsvm_parts_are_padded_to_one_width(tmp_path, train, test):
    (tmp_path / "train").write_text(train)
    (tmp_path / "test").write_text(test)
    data = load(tmp_path / "train", test=tmp_path / "test")
    assert data.test_features is not None
    assert data.dim == data.test_features.shape[1] == 4
    assert data.features.sum() == data.test_features.sum() == 1


def test_table_with_holders_and_a_test_table_in_another_order(tmp_path):
    frame = pl.DataFrame({"x": [1, 2], "y": [3.5, 4], "class": ["a", "b"], "site": [7, 8]})
    frame.write_csv(tmp_path / "train.csv")
    frame.select("y", "class", "x").write_parquet(tmp_path / "test.parquet")
    data = load(str(tmp_path / "train.csv"), label="class", holder="site", test=tmp_path / "test.parquet")
    assert data.holders is not None
    assert data.holders.tolist() == [7, 8]
    assert data.holder == "site"
    np.testing.assert_array_equal(data.features, data.test_features)
    frame.drop("y").write_csv(tmp_path / "short.csv")
    with pytest.raises(InputError, match=r"short\.csv has no column 'y'"):
        load(tmp_path / "train.csv", label="class", holder="site", test=tmp_path / "short.csv")
    frame.with_columns(z=1, w=2).write_csv(tmp_path / "long.csv")
    with pytest.raises(
        InputError, match=r"long\.csv has the column 'z', which the training .* not have \(and 1 more\)"
    ):
        load(tmp_path / "train.csv", label="class", holder="site", test=tmp_path / "long.csv")


def test_names_win_over_files_but_paths_do_not(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a9a").write_text("1 2:1\n")
    assert load("a9a").rows == 32_561
    assert load("./a9a").rows == 1


@table(
    ("data", "options", "message"),
    [
        ("a9", {}, "no file 'a9' in .* Nor is there a data set of that name: did you mean 'a9a'"),
        ("breast_cancer", {}, "did you mean 'breast-cancer'"),
        ("data/rows.libsvm", {}, r"no file 'data/rows\.libsvm' in [^.]*\.?[^.]*$"),
        ("rows.csv", {}, r"no file 'rows\.csv'"),
        ("a9a", {"holder": "site"}, r"holder='site' names a column, which only tables \(.csv, .parquet\) and frames"),
        ("rows.libsvm", {"holder": "site"}, "only tables"),
        ("a9a", {"label": "class"}, "label='class' names a column, which only tables .*, but the data are a9a"),
        ("a9a", {"test": "more"}, "test='more' cannot be added to a whole data set"),
        ("there.csv", {"test": "t.libsvm"}, "test='t.libsvm' must be a table"),
        ("there", {"test": "t.csv"}, "test='t.csv' must be a LIBSVM file"),
        ("there", {"test": "gone"}, "there is no file 'gone'"),
    ],
)
def test_bad_requests_are_named(tmp_path, monkeypatch, data, options, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there.csv").write_text("x,label\n1,2\n")
    (tmp_path / "there").write_text("1 1:1\n")
    with pytest.raises(InputError, match=message):
        load(data, **options)
