"""Tables of runs for other packages: pandas, xarray, all that read Arrow, and logs."""

import abc
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import polars as pl

from gossamer.core import MissingPackage
from gossamer.logs import Tracker, open_log
from gossamer.metrics import COLUMNS, Label

PAID = ("queries", "bytes_sent", "messages", "releases")
"""The columns in which all seeds of a method have the same."""

OTHERWISE = "or take frame(), a frame of polars"


class RunTable(abc.ABC):
    """A table of runs, `frame`, in the forms of other packages. By ``__arrow_c_stream__`` any reader of Arrow takes it,
    such as ``pyarrow.table(result)`` or ``polars.DataFrame(result)``."""

    metrics: Mapping[str, Label]

    @abc.abstractmethod
    def frame(self) -> pl.DataFrame:
        """Return one row for each method, seed and measured round."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.frame().__arrow_c_stream__(requested_schema)

    def to_pandas(self) -> Any:
        """Return the rows of `frame` as a pandas DataFrame: a number that is missing is NaN."""
        pandas = MissingPackage.import_for("to_pandas()", "pandas", OTHERWISE)
        return pandas.DataFrame({column.name: column.to_numpy() for column in self.frame()})

    def to_xarray(self) -> Any:
        """Return the metrics as an xarray Dataset over (variant,) label, seed and round.

        A label is that of `Result.labels`: an algorithm, with its setting where it has several. The
        variants of a study are a dimension of their own. What was paid are coordinates: queries, bytes and messages by
        label and round, a clock's seconds by seed as well. So are `status` and `end`, the status and the round of the
        last row of each run. Metrics of the end have no rounds. A value that was not measured is NaN, and a text "".
        """
        xarray = MissingPackage.import_for("to_xarray()", "xarray", OTHERWISE)
        outer = ["variant"] if "variant" in (frame := self.frame()).columns else []
        is_single = pl.col("setting").n_unique().over(*outer, "algorithm") == 1
        title = pl.when(is_single).then("algorithm").otherwise(pl.format("{}({})", "algorithm", "setting"))
        frame = frame.with_columns(label=title)
        ends = frame.group_by(*outer, "label", "seed", maintain_order=True).last()
        alive = frame.filter(pl.col("status") != "diverged")  # the row of a divergence has no metrics
        index = {dim: frame[dim].unique(maintain_order=True).to_list() for dim in (*outer, "label", "seed")}
        index["round"] = alive["round"].unique().sort().to_list()

        place = {dim: {value: number for number, value in enumerate(values)} for dim, values in index.items()}

        def spread(rows: pl.DataFrame, name: str, *inner: str) -> tuple[list[str], np.ndarray]:
            """Return the dimensions of a column and its values in an array over them."""
            dims, values = [*outer, *inner], rows[name].to_numpy()
            # floats, because only they have a NaN for what was not measured
            values = values.astype(str) if values.dtype == object else values.astype(float)
            array = np.full([len(index[dim]) for dim in dims], "" if values.dtype.kind == "U" else np.nan, values.dtype)
            array[tuple([place[dim][value] for value in rows[dim]] for dim in dims)] = values
            return dims, array

        def about(name: str) -> dict[str, str]:
            return {"long_name": self.metrics[name].text, "description": self.metrics[name].about}

        each = "label", "seed", "round"
        measured = [name for name in self.metrics if name in frame.columns and frame[name].null_count() < len(frame)]
        variables = {
            name: (
                *(spread(ends, name, *each[:2]) if self.metrics[name].end else spread(alive, name, *each)),
                about(name),
            )
            for name in measured
        }
        coordinates: dict[str, Any] = {dim: values for dim, values in index.items()}
        coordinates |= {name: spread(ends, name, "label") for name in ("algorithm", "setting")}
        coordinates |= {name: spread(ends, name, "label", "seed") for name in ("replicate", "status")}
        coordinates["end"] = spread(ends, "round", "label", "seed")
        paid = [column.name for column in COLUMNS if column.kind == "number" and column.name in frame.columns]
        for name in paid:
            coordinates[name] = spread(alive, name, *(("label", "round") if name in PAID else each))
        return xarray.Dataset(variables, coordinates)

    def log(self, log: Any) -> None:
        """Write the rows of `frame` into a log: a function of a row, or a text as ``simulate(log=…)`` takes it.

        The round is the row's ``step``; trackers get a run for every method and seed.
        """
        write = open_log(log, new=True)
        if write is None:
            return
        try:
            for row in self.frame().rename({"round": "step"}).iter_rows(named=True):
                write(row)
        finally:
            if write is not log and isinstance(write, Tracker):  # a log that was handed over open stays open
                write.close()


@contextmanager
def keeping_log(log: Any) -> Iterator[Callable[[RunTable], None]]:
    """Yield a function that logs tables of runs as they end. A log that fails then is warned of, as no run is lost."""
    write = opened = open_log(log, new=True)

    def attempt(act: Callable[[], None]) -> None:
        nonlocal write
        try:
            act()
        except Exception as error:
            if write is not None:  # the first failure says it
                said = " ".join(str(error).split())[:300]
                warnings.warn(
                    f"log= failed, and gets no more rows: {type(error).__name__}: {said}. The result is whole; its "
                    "log(…) writes all rows again.",
                    stacklevel=4,
                )
            write = None

    try:
        yield lambda table: attempt(lambda: table.log(write))
    finally:
        if opened is not log and isinstance(opened, Tracker):
            attempt(opened.close)  # which may send the last rows
