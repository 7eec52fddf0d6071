"""Tables in CSV and Parquet files or frames: a record a row, a label column, perhaps a column of holders.

A frame is one of polars, or any object that exports an Arrow stream, as frames of pandas do where pyarrow is installed.
"""

import csv
import re
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gossamer.basics.lazy import Lazy
from gossamer.core import InputError, nearest
from gossamer.data.dataset import Dense, Labels, matrix, values
from gossamer.data.files import existing_file

if TYPE_CHECKING:
    import polars as pl
else:
    pl = Lazy("polars")


class LabelledTable(NamedTuple):
    """Features, labels and holders of a table; `columns` are the names of the features."""

    features: Dense
    labels: Labels
    holders: Labels | None
    columns: tuple[str, ...]


def read_table(table: Any, label: str = "label", holder: str | None = None) -> LabelledTable:
    """Read a .csv or .parquet file, or a frame. All columns but the label and the holder are features.

    A column that occurs twice is refused. So is a column of numbers equal to the labels, since a model would read its
    answer there.
    """
    source, frame = _open(table)
    _refuse_twice(source, frame.columns)
    selected = _select(source, frame, label, holder, [name for name in frame.columns if name not in (label, holder)])
    if selected.labels.dtype.kind != "U":
        # a copy of the label is a usual mistake of exports, and makes every result look perfect
        (copies,) = np.nonzero((selected.features == selected.labels[:, None]).all(0))
        if copies.size:
            raise InputError(
                f"{source}: column {selected.columns[copies[0]]!r} equals the label {label!r} in all {frame.height} "
                "rows, so a model would read its answer there. Drop it."
            )
    return selected


def read_test_table(table: Any, label: str, holder: str | None, columns: Sequence[str]) -> LabelledTable:
    """Read a test part with the columns of its training part, in any order; the holder may be missing."""
    source, frame = _open(table)
    selected = _select(source, frame, label, None, columns)
    other = [name for name in frame.columns if name not in (label, holder, *columns)]
    if other:
        raise InputError(
            f"{source} has the column {other[0]!r}, which the training part does not have"
            f"{f' (and {len(other) - 1} more)' if len(other) > 1 else ''}. Train and test rows need the same columns."
        )
    return selected


def is_frame(given: Any) -> bool:
    """Return True if this is a frame with named columns."""
    # polars' lazy frames export no Arrow stream before they are collected
    return hasattr(given, "__arrow_c_stream__") or hasattr(given, "collect_schema")


def _open(table: Any) -> "tuple[str, pl.DataFrame]":
    """Return the name of a table in messages, and its frame."""
    if not is_frame(table):
        file = existing_file(table)
        return str(file), _read_file(file)
    try:
        frame = table.collect() if isinstance(table, pl.LazyFrame) else pl.DataFrame(table)
    except Exception as error:  # whatever the owner of the frame raises: pandas without pyarrow an ImportError
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise InputError(
            f"the frame cannot be read as Arrow: {reason}. Frames of pandas need the package pyarrow; else give a "
            "frame of polars or a pair (features, labels)."
        ) from None
    # the index of pandas' rows comes as columns of these names
    return "the frame", frame.drop([name for name in frame.columns if re.fullmatch(r"__index_level_\d+__", name)])


def _read_file(file: Path) -> "pl.DataFrame":
    kind = file.suffix.lower()[1:]
    try:
        if kind == "parquet":
            return pl.read_parquet(file)
        # all rows decide a column's type, so one late word cannot stop the reader before it is named below
        return pl.read_csv(file, infer_schema_length=None)
    except (pl.exceptions.PolarsError, OSError, ValueError) as error:
        reason = str(error).strip().splitlines()[0]
    if kind == "csv":  # the reader does not say which row is longer than the header
        with open(file, newline="", encoding="utf-8", errors="replace") as stream:
            rows = csv.reader(stream)
            header = next(rows, [])
            long = next(((rows.line_num, len(row)) for row in rows if len(row) > len(header)), None)
        if long:
            raise InputError(
                f"{file}, line {long[0]}: there are {long[1]} values, but the header names {len(header)} columns. "
                f"{_advise_separator(header) or 'Quote values that hold commas.'}"
            )
    raise InputError(f"{file} cannot be read as {kind}: {reason}.")


def _advise_separator(header: Sequence[str]) -> str:
    """Return the way out for a file whose columns are separated by something else than commas; "" for others."""
    other = next((mark for mark in (";", "\t", "|") if len(header) == 1 and mark in header[0]), None)
    if other is None:
        return ""
    return (
        f"Its columns seem to be separated by {other!r}: separate them by commas, as "
        f"polars.read_csv(FILE, separator={other!r}).write_csv(OTHER) does (with decimal_comma=True for 0,5)."
    )


def _name_place(source: str, row: int) -> str:
    """Return the place of a row, counted from 0: a line of a CSV file, or a row from 1."""
    if not source.lower().endswith(".csv"):
        return f"row {row + 1}"
    with open(source, newline="", encoding="utf-8", errors="replace") as stream:
        rows = csv.reader(stream)  # a value in quotes may hold line ends
        next(islice(rows, row, None))
        return f"line {rows.line_num + 1}"


def _refuse_twice(source: str, names: Sequence[str]) -> None:
    """Raise InputError if a name stands in the header twice, but for spaces around it."""
    seen: dict[str, str] = {}
    for name in names:
        stem = re.sub(r"_duplicated_\d+$", "", name)  # the reader of CSV calls a second column x x_duplicated_0
        key = (stem if stem in names else name).strip()
        if key in seen:
            raise InputError(
                f"{source} has the columns {seen[key]!r} and {name!r}, likely the same twice. Each column needs a name "
                "of its own: drop or rename one."
            )
        seen[key] = name


def _select(
    source: str, frame: "pl.DataFrame", label: str, holder: str | None, columns: Sequence[str]
) -> LabelledTable:
    for name in (label, *([holder] if holder else []), *columns):
        if name not in frame.columns:
            advice = _advise_separator(frame.columns) or nearest(name, frame.columns)
            raise InputError(f"{source} has no column {name!r}: {advice[0].lower()}{advice[1:]}")
    if not frame.height:
        raise InputError(f"{source} has columns but no rows.")
    if not columns:
        raise InputError(f"{source} has no feature column: all it has is {', '.join(map(repr, frame.columns))}.")
    features = np.empty((frame.height, len(columns)))
    for position, name in enumerate(columns):
        features[:, position] = _read_feature(source, frame[name])
    labels = _read_names(source, frame[label], "label")
    holders = _read_names(source, frame[holder], "holder") if holder else None
    return LabelledTable(matrix(features, "features"), labels, holders, tuple(columns))


def _read_feature(source: str, column: "pl.Series") -> np.ndarray:
    """Return the numbers of a column of features; raise InputError for the first value that is none."""
    _refuse_nulls(source, column)
    where = f"{source}, column {column.name!r}"
    advice = (
        "Remove the column, or turn it into numbers: 0 and 1, or a column for each value, as polars' to_dummies does."
    )
    if column.dtype == pl.String:
        row = int(column.cast(pl.Float64, strict=False).is_null().arg_max() or 0)
        raise InputError(
            f"{where}, {_name_place(source, row)}: {column[row]!r} is not a number. {advice} If it stands for a "
            "missing value, drop such rows or fill in a number."
        )
    if not column.dtype.is_numeric() and column.dtype != pl.Boolean:
        raise InputError(f"{where} has type {column.dtype}, not numbers. {advice}")
    numbers = column.cast(pl.Float64).to_numpy()
    finite = np.isfinite(numbers)
    if not finite.all():
        row = int(np.argmin(finite))
        place = _name_place(source, row)
        raise InputError(f"{where}, {place}: {numbers[row]} is not finite. Drop the row or fill in a number.")
    return numbers


def _read_names(source: str, column: "pl.Series", role: str) -> Labels:
    """Return the values of the label or holder column: whole numbers, fractions or text."""
    _refuse_nulls(source, column)
    if isinstance(column.dtype, (pl.Categorical, pl.Enum)):
        column = column.cast(pl.String)
    if column.dtype == pl.String:
        return column.to_numpy().astype(str)
    if not column.dtype.is_numeric() and column.dtype != pl.Boolean:
        raise InputError(f"{source}, column {column.name!r}: a {role} is a number or text, but this is {column.dtype}.")
    if isinstance(column.dtype, pl.Decimal):
        column = column.cast(pl.Float64)
    return values(column.to_numpy(), f"{source}, column {column.name!r}")


def _refuse_nulls(source: str, column: "pl.Series") -> None:
    if column.null_count():
        row = int(column.is_null().arg_max() or 0)
        raise InputError(
            f"{source}, column {column.name!r}, {_name_place(source, row)}: the value is missing "
            f"({column.null_count()} in all). Drop such rows or fill in a value."
        )
