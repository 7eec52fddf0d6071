"""Frames in memory give what the same table in a file gives, and are refused alike."""

import datetime

import numpy as np
import polars as pl
import pytest

import gossamer as gs
from gossamer.core import InputError
from gossamer.data import load, read_table
from tests.table import table

COLUMNS = {
    "age": [31, 45, 27, 60],
    "site": ["b", "a", "b", "a"],
    "dose": [0.5, 1.5, 2.5, 0.25],
    "answer": ["yes", "no", "yes", "no"],
    "smokes": [True, False, False, True],
}
POLARS = pl.DataFrame(COLUMNS)


class Arrow:
    """A frame of another library, such as pandas: it exports an Arrow stream."""

    def __init__(self, columns):
        self.frame = pl.DataFrame(columns)

    def __arrow_c_stream__(self, requested_schema=None):
        return self.frame.__arrow_c_stream__(requested_schema)


FRAMES = {"polars": pl.DataFrame, "lazy": pl.LazyFrame, "arrow": Arrow}


@pytest.fixture(params=FRAMES)
def frame(request):
    return FRAMES[request.param]


def test_a_frame_is_the_same_data_as_its_file(frame, tmp_path):
    POLARS.write_parquet(tmp_path / "t.parquet")
    file = load(tmp_path / "t.parquet", label="answer", holder="site")
    data = load(frame(COLUMNS), label="answer", holder="site", test=frame(COLUMNS))
    assert data.name == "frame"
    assert data.holder == "site"
    for part in ("features", "labels", "holders"):
        np.testing.assert_array_equal(getattr(data, part), getattr(file, part))
    np.testing.assert_array_equal(data.test_features, file.features)


def test_problems_take_frames(frame):
    data = {"x": [0.1, -0.4, 2.0, 1.0], "y": [0, 1, 1, 0], "who": [7, 7, 9, 9]}
    problem = gs.problems.logistic(frame(data), label="y", split="column:who", test=frame({"y": [0, 1], "x": [0, 1]}))
    assert (problem.agents, problem.dim, problem.has_accuracy) == (2, 1, True)
    both = gs.problems.logistic(([[0.1], [-0.4], [2.0], [1.0]], [0, 1, 1, 0]), agents=1)
    alone = {key: data[key] for key in "xy"}
    assert gs.problems.logistic(frame(alone), agents=1, label="y").loss([0.3]) == both.loss([0.3])


@table(
    ("change", "message"),
    [
        ({"answer": [1, 0, 1]}, "has no column 'label': choose from answer, x"),
        ({"label": [1, 0, 1], "label ": [1, 0, 1]}, "has the columns 'label' and 'label ', likely the same twice"),
        ({"label": [1, 0, 1], "word": ["1", "two", "3"]}, "column 'word', row 2: 'two' is not a number"),
        ({"label": [1, 0, 1], "hole": [1.5, None, 2.5]}, r"column 'hole', row 2: the value is missing \(1 in all\)"),
        ({"label": ["a", None, "b"]}, r"column 'label', row 2: the value is missing"),
        ({"label": [1, 0, 1], "copy": [1, 0, 1]}, "column 'copy' equals the label 'label' in all 3 rows"),
    ],
)
def test_a_frame_is_refused_as_its_file_is(change, message, frame, tmp_path):
    columns = {"x": [1.0, 2.0, 3.0]} | change
    with pytest.raises(InputError, match=f"the frame.*{message}"):
        load(frame(columns))
    file = tmp_path / "t.parquet"
    pl.DataFrame(columns).write_parquet(file)
    with pytest.raises(InputError, match=f"t.parquet.*{message}"):
        load(file)


def test_a_frame_that_cannot_be_exported_names_the_way_out():
    class WithoutPyarrow:
        def __arrow_c_stream__(self, requested_schema=None):
            raise ImportError("`Import pyarrow` failed.")

    with pytest.raises(InputError, match=r"the frame cannot be read as Arrow: .* failed.*need the package pyarrow"):
        load(WithoutPyarrow())


def test_an_index_of_rows_is_no_feature():
    assert read_table(Arrow({"x": [1, 2], "label": [0, 1], "__index_level_0__": [5, 7]})).columns == ("x",)


def test_dates_are_no_features():
    with pytest.raises(InputError, match=r"column 'when' has type Date.*, not numbers"):
        load(Arrow({"when": [datetime.date(2020, 1, 1), datetime.date(2020, 1, 2)], "label": [0, 1]}))


def test_what_does_not_go_with_a_frame():
    with pytest.raises(InputError, match=r"must be a table \(.csv, .parquet\) or a frame, as the frame is one"):
        load(POLARS.drop("site"), label="answer", test=(np.eye(3), [0, 1, 1]))
    with pytest.raises(InputError, match="the frame has the column 'site', which the training part does not have"):
        load(POLARS.drop("site"), label="answer", test=POLARS)
    with pytest.raises(InputError, match="the frame has no column 'label'"):
        load(POLARS["age"])
