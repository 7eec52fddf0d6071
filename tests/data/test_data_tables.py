import datetime

import numpy as np
import polars as pl
import pytest

from gossamer.core import InputError
from gossamer.data import read_table
from tests.table import table

FRAME = pl.DataFrame(
    {
        "age": [31, 45, 27],
        "site": ["b", "a", "b"],
        "dose": [0.5, 1.5, 2.5],
        "label": [1, 0, 1],
        "smokes": [True, False, False],
    }
)


def save(frame, path):
    if path.suffix == ".csv":
        frame.write_csv(path)
    else:
        frame.write_parquet(path)
    return path


@pytest.fixture(params=[".csv", ".parquet"])
def path(request, tmp_path):
    return tmp_path / f"table{request.param}"


def test_columns_find_their_place(path):
    table = read_table(save(FRAME, path), holder="site")
    assert table.columns == ("age", "dose", "smokes")
    assert table.features.tolist() == [[31, 0.5, 1], [45, 1.5, 0], [27, 2.5, 0]]
    assert table.labels.tolist() == [1, 0, 1]
    assert table.holders is not None
    assert table.holders.tolist() == ["b", "a", "b"]


def test_text_labels(path):
    table = read_table(save(FRAME, path), label="site")
    assert table.labels.tolist() == ["b", "a", "b"]
    assert table.columns == ("age", "dose", "label", "smokes")
    assert table.holders is None


def test_categories_are_text(tmp_path):
    frame = FRAME.with_columns(pl.col("site").cast(pl.Categorical), pl.col("age").cast(pl.Decimal(10, 2)))
    table = read_table(save(frame, tmp_path / "t.parquet"), label="age", holder="site")
    assert table.holders is not None
    assert table.holders.dtype.kind == "U"
    assert table.labels.dtype == np.int64


@table(
    ("change", "arguments", "message"),
    [
        ({}, {"label": "lable"}, "has no column 'lable': did you mean 'label'"),
        ({}, {"holder": "sites"}, "has no column 'sites': did you mean 'site'"),
        ({}, {}, "column 'site', (row 1|line 2): 'b' is not a number. Remove the column"),
        ({"dose": ["1", "2", "high"]}, {"holder": "site"}, "column 'dose', (row 3|line 4): 'high' is not a number"),
        (
            {"dose": ["1", "NA", "3"]},
            {"holder": "site"},
            "(row 2|line 3): 'NA' is not a number. .* If .* a missing value, drop",
        ),
        (
            {"dose": [1.0, None, 2.0]},
            {"holder": "site"},
            r"'dose', (row 2|line 3): the value is missing \(1 in all\). Drop",
        ),
        ({"dose": [1.0, 2.0, float("nan")]}, {"holder": "site"}, "column 'dose', (row 3|line 4): nan is not finite"),
        ({"label": [None, 1, None]}, {"holder": "site"}, r"'label', (row 1|line 2): the value is missing \(2 in all\)"),
        ({"site": ["a", None, "b"]}, {"holder": "site"}, "'site', (row 2|line 3): the value is missing"),
        ({"label ": [1, 1, 1]}, {"holder": "site"}, "has the columns 'label' and 'label ', likely the same twice"),
        ({"dose": [1, 0, 1]}, {"holder": "site"}, "column 'dose' equals the label 'label' in all 3 rows, .* Drop it"),
        ({"dose ": [1, 2, 3]}, {"holder": "site"}, "has the columns 'dose' and 'dose ', likely .* needs a name of its"),
        ({"age_duplicated_0": [1, 2, 3]}, {"holder": "site"}, "has the columns 'age' and 'age_duplicated_0'"),
    ],
)
def test_faults_are_named(path, change, arguments, message):
    frame = FRAME.with_columns(pl.Series(key, value) for key, value in change.items())
    with pytest.raises(InputError, match=rf"table\..*{message}"):
        read_table(save(frame, path), **arguments)


def test_types_that_are_no_numbers(tmp_path):
    frame = FRAME.with_columns(pl.lit(datetime.date(2020, 1, 1)).alias("day"))
    path = save(frame, tmp_path / "t.parquet")
    with pytest.raises(InputError, match="column 'day' has type Date, not numbers"):
        read_table(path, holder="site")
    with pytest.raises(InputError, match="column 'day': a label is a number or text, but this is Date"):
        read_table(path, label="day", holder="site")


def test_one_late_word_in_a_long_column_is_found(tmp_path):
    path = tmp_path / "long.csv"
    path.write_text("x,label\n" + "1,0\n" * 5000 + "oops,1\n")
    with pytest.raises(InputError, match="column 'x', line 5002: 'oops' is not a number"):
        read_table(path)


@table(
    ("name", "text", "message"),
    [
        ("t.csv", "", "cannot be read as csv"),
        ("t.csv", "x,label\n", "has columns but no rows"),
        ("t.csv", "label\n1\n", "has no feature column: all it has is 'label'"),
        ("t.csv", "x,label,label\n1,0,1\n", "has the columns 'label' and 'label_duplicated_0', likely the same twice"),
        ("t.csv", "x,label, x\n1,0,1\n", "has the columns 'x' and ' x', likely the same twice"),
        ("t.csv", "label,,\n1,0,1\n", "has the columns '' and '_duplicated_0'"),
        ("t.csv", "x,label\n1,2\n1,2,3\n", "line 3: there are 3 values, but the header names 2 columns"),
        ("t.csv", 'x,label\n"1\n\n",2\noops,3\n', "column 'x', line 2: "),
        ("t.csv", 'x,y,label\n1,"a\nb",0\n,"c",1\n', "column 'x', line 4: the value is missing"),
        (
            "t.csv",
            "x;label\n1;0\n",
            r"no column 'label': its columns seem to be separated by ';': separate them by com",
        ),
        ("t.csv", "x;label\n1,5;0\n", r"line 2: there are 2 values, .* 1 columns. Its columns seem to be .* by ';'"),
        ("t.parquet", "junk", "cannot be read as parquet"),
    ],
)
def test_broken_files(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=message):
        read_table(tmp_path / name)
