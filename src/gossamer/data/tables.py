"""Tables in CSV and Parquet files or frames: a record a row, a label column, perhaps a column of holders.

A frame is one of polars, or any object that exports an Arrow stream, as frames of pandas do where pyarrow is installed.
"""

import csv
import re
import sys
from collections import Counter
from collections.abc import Sequence
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

MISSING = {"", "-", ".", "?", "na", "n/a", "nan", "nil", "none", "null", "missing"}
"""Words that stand for a missing value in files, in small letters."""


class Table(NamedTuple):
    """Features, labels and holders of a table; `columns` are the names of the features."""

    features: Dense
    labels: Labels
    holders: Labels | None
    columns: tuple[str, ...]


def read_table(
    table: Any,
    label: str = "label",
    holder: str | None = None,
    columns: Sequence[str] | None = None,
) -> Table:
    """Read the columns of a .csv or .parquet file, or of a frame.

    Features are `columns`, or all but the label and the holder.

    A column that occurs twice is refused. So is a copy of the label under another name, since a model would read its
    answer there: a name that differs only in capitals and spaces, or a column of numbers equal to the labels. Name
    such a column in `columns` to use it all the same.
    """
    source, frame = _open(table)
    _refuse_missing(source, frame, [label, *([holder] if holder else []), *(columns or ())])
    if label == holder:
        raise InputError(f"{source}: column {label!r} cannot be both the label and the holder.")
    _refuse_twice(source, frame.columns, (label, holder) if columns is None else ())
    if columns is not None:
        _refuse_choice(source, columns, label, holder)
    parts = _table(source, frame, label, holder, columns)
    if columns is None:
        _refuse_copy(source, parts, label)
    return parts


def read_test_table(table: Any, label: str, holder: str | None, columns: Sequence[str]) -> Table:
    """Read a test part with the columns of its training part, in any order; the holder may be missing."""
    source, frame = _open(table)
    _refuse_missing(source, frame, [label, *columns])
    other = [name for name in frame.columns if name not in (label, holder, *columns)]
    if other:
        raise InputError(
            f"{source} has the column {other[0]!r}, which the training part does not have"
            f"{f' (and {len(other) - 1} more)' if len(other) > 1 else ''}. Train and test rows need the same columns."
        )
    return _table(source, frame, label, None, columns)


def _table(source: str, frame: "pl.DataFrame", label: str, holder: str | None, columns: Sequence[str] | None) -> Table:
    if not frame.height:
        raise InputError(f"{source} has columns but no rows.")
    chosen = tuple(name for name in frame.columns if name not in (label, holder)) if columns is None else tuple(columns)
    if not chosen:
        raise InputError(f"{source} has no feature column: all it has is {', '.join(map(repr, frame.columns))}.")
    features = np.empty((frame.height, len(chosen)))
    for position, name in enumerate(chosen):
        features[:, position] = _feature(source, frame[name])
    held = _named(source, frame[holder], "holder") if holder else None
    return Table(matrix(features, "features"), _named(source, frame[label], "label"), held, chosen)


def _refuse_missing(source: str, frame: "pl.DataFrame", names: Sequence[str]) -> None:
    for name in names:
        if name not in frame.columns:
            raise InputError(f"{source} has no column {name!r}: {nearest(name, frame.columns)}")


def _refuse_twice(source: str, names: Sequence[str], roles: Sequence[str | None]) -> None:
    """Raise InputError if a name stands in the header twice, or is spelt like the label or the holder."""
    # the reader of CSV calls a second column x x_duplicated_0
    stems = [re.sub(r"_duplicated_\d+$", "", name) for name in names]
    read = [(stem if stem in names else name).strip() for stem, name in zip(stems, names, strict=True)]
    repeated, times = Counter(read).most_common(1)[0] if read else ("", 0)
    if times > 1:
        raise InputError(
            f"{source} has {times} columns of the name {repeated!r}. Each column needs a name of its own: drop or "
            "rename those that are too many."
        )
    for role in filter(None, roles):
        for name in names:
            if name != role and name.strip().casefold() == role.strip().casefold():
                raise InputError(
                    f"{source} has the columns {role!r} and {name!r}, likely the same twice, and the second would be a "
                    "feature. Drop or rename it, or choose the features with read_table(columns=…)."
                )


def _refuse_choice(source: str, columns: Sequence[str], label: str, holder: str | None) -> None:
    if isinstance(columns, str) or not columns:
        raise InputError(f"{source}: columns must be a list of at least one name, but is {columns!r}.")
    for name, role in ((label, "label"), (holder, "holder")):
        if name in columns:
            raise InputError(f"{source}: column {name!r} is the {role}, so it cannot be a feature as well.")
    name, times = Counter(columns).most_common(1)[0]
    if times > 1:
        raise InputError(f"{source}: columns names {name!r} {times} times. Name each feature once.")


def _refuse_copy(source: str, table: Table, label: str) -> None:
    if table.labels.dtype.kind == "U":
        return
    (copies,) = np.nonzero((table.features == table.labels[:, None]).all(0))
    if copies.size:
        name = table.columns[copies[0]]
        raise InputError(
            f"{source}: column {name!r} equals the label {label!r} in all {len(table.labels)} rows, so a model would "
            "read its answer there. Drop it, or choose the features with read_table(columns=…)."
        )


def is_frame(given: Any) -> bool:
    """Return True if this is a frame with named columns."""
    if "polars" in sys.modules:  # nobody has one of its objects before it is imported
        if isinstance(given, pl.Series):
            return False
        if isinstance(given, pl.LazyFrame):
            return True
    return hasattr(given, "__arrow_c_stream__")


def _open(table: Any) -> "tuple[str, pl.DataFrame]":
    """Return the name of a table in messages, and its frame."""
    if not is_frame(table):
        file = existing_file(table)
        return str(file), _read(file)
    if isinstance(table, pl.LazyFrame):
        return "the frame", table.collect()
    try:
        frame = table if isinstance(table, pl.DataFrame) else pl.DataFrame(table)
    except Exception as error:  # whatever the owner of the frame raises: pandas without pyarrow an ImportError
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise InputError(
            f"the frame cannot be read as Arrow: {reason}. Frames of pandas need the package pyarrow; else give a "
            "frame of polars or a pair (features, labels)."
        ) from None
    return "the frame", frame.drop([name for name in frame.columns if re.fullmatch(r"__index_level_\d+__", name)])


def _read(file: Path) -> "pl.DataFrame":
    try:
        if file.suffix.lower() == ".parquet":
            return pl.read_parquet(file)
        # all rows decide a column's type, so one late word cannot stop the reader before it is named below
        return pl.read_csv(file, infer_schema_length=None)
    except (pl.exceptions.PolarsError, OSError, ValueError) as error:
        _refuse_ragged(file)
        reason = str(error).strip().splitlines()[0]
        raise InputError(f"{file} cannot be read as {file.suffix.lower()[1:]}: {reason}.") from None


def _refuse_ragged(file: Path) -> None:
    """Raise InputError for the first row that is longer than the header; the fast reader does not say which."""
    if file.suffix.lower() == ".parquet":
        return
    with open(file, newline="", encoding="utf-8", errors="replace") as stream:
        rows = csv.reader(stream)
        width = len(next(rows, []))
        for number, row in enumerate(rows, 1):
            if len(row) > width:
                raise InputError(
                    f"{file}, row {number}: there are {len(row)} values, but the header names {width} columns. "
                    "Quote values that hold commas."
                )


def _feature(source: str, column: "pl.Series") -> np.ndarray:
    advice = (
        "Remove the column, or turn it into numbers: 0 and 1, or a column for each value, as polars' to_dummies does."
    )
    where = f"{source}, column {column.name!r}"
    if column.dtype == pl.String:
        _refuse_nulls(source, column)
        wrong = column.cast(pl.Float64, strict=False).is_null()
        row = int(wrong.arg_max() or 0)
        if column[row].strip().lower() in MISSING:
            advice = "If that stands for a missing value, drop such rows or fill in a number."
        raise InputError(f"{where}, row {row + 1}: {column[row]!r} is not a number. {advice}")
    if not column.dtype.is_numeric() and column.dtype != pl.Boolean:
        raise InputError(f"{where} has type {column.dtype}, not numbers. {advice}")
    _refuse_nulls(source, column)
    numbers = column.cast(pl.Float64).to_numpy()
    finite = np.isfinite(numbers)
    if not finite.all():
        row = int(np.argmin(finite))
        raise InputError(f"{where}, row {row + 1}: {numbers[row]} is not finite. Drop the row or fill in a number.")
    return numbers


def _named(source: str, column: "pl.Series", role: str) -> Labels:
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
            f"{source}, column {column.name!r}, row {row + 1}: the value is missing ({column.null_count()} in all). "
            "Drop such rows or fill in a value."
        )
