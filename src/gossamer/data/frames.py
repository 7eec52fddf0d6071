"""Frames in memory: those of polars, of pandas and its like, and whatever Arrow can describe."""

import sys
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np

from gossamer.basics.lazy import Lazy
from gossamer.core import InputError

if TYPE_CHECKING:
    import polars as pl
else:
    pl = Lazy("polars")

MISSING = ("NAType", "NaTType")
"""What the types of pandas' missing values are called; they are equal to nothing, not even to themselves."""


def is_frame(given: Any) -> bool:
    """Whether this is a frame with named columns."""
    polars = "polars" in sys.modules  # nobody has a frame of its before it is imported
    return (polars and isinstance(given, (pl.DataFrame, pl.LazyFrame))) or _like_pandas(given) or _speaks_arrow(given)


def as_polars(given: Any) -> "pl.DataFrame":
    """The frame as one of polars. An index of rows is left out."""
    if isinstance(given, pl.DataFrame):
        return given
    if isinstance(given, pl.LazyFrame):
        return given.collect()
    if not _like_pandas(given):
        return pl.DataFrame(given)
    keys = list(given.columns)
    names = [str(key) for key in keys]
    refuse_repeated("the frame", names)
    return pl.DataFrame([_series(name, given[key]) for name, key in zip(names, keys, strict=True)])


def refuse_repeated(source: Any, names: Sequence[str]) -> None:
    """Refuse a name that several columns have."""
    name, times = Counter(names).most_common(1)[0] if names else ("", 0)
    if times > 1:
        raise InputError(
            f"{source} has {times} columns of the name {name!r}. Each column needs a name of its own: drop or rename "
            "those that are too many."
        )


def _like_pandas(given: Any) -> bool:
    return all(hasattr(given, part) for part in ("columns", "to_numpy", "__getitem__"))


def _speaks_arrow(given: Any) -> bool:
    return hasattr(given, "__arrow_c_stream__") and not isinstance(given, pl.Series)


def _series(name: str, column: Any) -> "pl.Series":
    values = np.asarray(column.to_numpy())
    try:
        if values.dtype.kind == "O":
            return _of_objects(name, values)
        if values.dtype.kind == "f":
            values = values.astype(np.float64)
        return pl.Series(name, values, nan_to_null=True)  # pandas writes NaN where a value is missing
    except (TypeError, ValueError, OverflowError, pl.exceptions.PolarsError) as error:
        reason = str(error).strip().splitlines()[0]
        raise InputError(f"the frame, column {name!r} cannot be read: {reason}.") from None


def _of_objects(name: str, values: np.ndarray) -> "pl.Series":
    """A column whose values are Python's: all numbers, or all text, or, as a CSV reader would, text for both."""
    # NumPy's own numbers as Python's: polars would round a 2.5 that comes after an np.int64
    plain = [value.item() if isinstance(value, np.generic) else value for value in values]
    given = [None if _is_missing(value) else value for value in plain]
    kinds = {type(value) for value in given if value is not None}
    if kinds <= {str, bool, int, float, Decimal}:
        if str in kinds:
            return pl.Series(name, [None if value is None else str(value) for value in given], dtype=pl.String)
        whole = kinds <= {bool, int}
        return pl.Series(name, given if whole else [None if value is None else float(value) for value in given])
    return pl.Series(name, given, dtype=pl.Object)


def _is_missing(value: Any) -> bool:
    return value is None or type(value).__name__ in MISSING or (isinstance(value, float) and value != value)
