"""What the files of a run must hold: whatever is read back is checked here before it is believed."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import polars as pl
import pydantic

from gossamer.core import InputError
from gossamer.metrics import Label, checked_name
from gossamer.results.files import Damaged, OtherFormat
from gossamer.results.privacy import RELEASES

Whole = Annotated[int, pydantic.Field(ge=0)]
Digest = Annotated[str, pydantic.Field(pattern="^[0-9a-f]{64}$")]
Scalar = str | int | float | None

MANY = 200
"""More metrics than any result has."""


class Mark(pydantic.BaseModel, strict=True, extra="forbid"):
    """How a file is known again."""

    bytes: Whole
    sha256: Digest


class LabelRecord(pydantic.BaseModel, strict=True, extra="forbid"):
    """What is shown of a metric."""

    about: str
    text: str
    latex: str | None
    log: bool
    better: Literal["lower", "higher"]
    summary: bool
    end: bool

    @pydantic.model_validator(mode="after")
    def _fit(self) -> "LabelRecord":
        self.label()
        return self

    def label(self) -> Label:
        return Label(**self.model_dump())


class PrivacyRecord(pydantic.BaseModel, strict=True, extra="forbid"):
    """What decides the ε of a private oracle."""

    clip: Annotated[float, pydantic.Field(gt=0)]
    noise: Annotated[float, pydantic.Field(ge=0, allow_inf_nan=False)]
    rate: Annotated[float, pydantic.Field(gt=0, le=1)]
    delta: Annotated[float, pydantic.Field(gt=0, lt=1)]


MetricName = Annotated[str, pydantic.AfterValidator(checked_name)]


class Manifest(pydantic.BaseModel, strict=True, extra="allow"):
    """`manifest.json`; what else it notes of a run are facts for readers."""

    files: dict[str, Mark]
    algorithms: list[Annotated[list[str], pydantic.Field(min_length=2, max_length=2)]]
    seeds: Annotated[list[Whole], pydantic.Field(min_length=1)]
    versions: dict[str, str] | None = None
    machine: dict[str, Scalar] | None = None
    seconds: dict[str, float] | None = None
    metrics: Annotated[dict[MetricName, LabelRecord], pydantic.Field(min_length=1, max_length=MANY)] | None = None
    clock: str | None = None
    privacy: PrivacyRecord | None = None


class Facts(pydantic.BaseModel, strict=True, extra="allow"):
    """What a study knows of a variant; what is not drawn may be anything."""

    agents: Annotated[int, pydantic.Field(ge=1)] | None = None
    network: str | None = None
    gap: float | None = None
    edges: list[Annotated[list[Whole], pydantic.Field(min_length=2, max_length=2)]] | None = None
    classes: list[str | int | float] | None = None
    counts: list[list[Whole]] | None = None

    @pydantic.model_validator(mode="after")
    def _fit(self) -> "Facts":
        if any(max(pair) >= (self.agents or 0) for pair in self.edges or []):
            raise ValueError(f"an edge names an agent beyond the {self.agents}")
        if any(len(held) != len(self.classes or []) for held in self.counts or []):
            raise ValueError("counts and classes differ in length")
        return self


class Record(pydantic.BaseModel, strict=True, extra="forbid"):
    """`study.json`."""

    files: dict[str, Mark]
    name: str
    title: str
    variants: Annotated[dict[str, str], pydantic.Field(min_length=1)]
    facts: dict[str, Facts]


LABELS = ("algorithm", "setting", "status")
COUNTS = ("replicate", "seed", "round")
PAID = ("queries", "bytes_sent", "messages")
"""Columns of a result's table that are never null: texts, whole numbers, and other numbers."""


STATUSES = ("ok", "diverged", "reached", "stopped")
"""What a row says of its run: it goes on or came to its last round, or it ended for one of these reasons."""

MOST = 1e250
"""More than any metric can be, and what a figure can still show."""


@contextmanager
def believed(source: Path) -> Iterator[None]:
    """Turn whatever shows that files are not what was written into one kind of error."""
    try:
        yield
    except InputError:
        raise
    except OtherFormat as error:
        raise InputError(
            f"{source} was written by another version of Gossamer ({error}): run its command again."
        ) from None
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError, MemoryError) as error:
        raise InputError(f"{source} is damaged ({_first(error)}): run its command again, or remove it.") from error
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise InputError(f"{source} is damaged ({_first(error)}): run its command again, or remove it.") from error


def table(name: str, data: bytes) -> pl.DataFrame:
    """A parquet file, of texts, numbers and truths alone."""
    frame = pl.read_parquet(BytesIO(data))
    for column, kind in frame.schema.items():
        if not (kind.is_numeric() or kind in (pl.String, pl.Boolean, pl.Null)):
            raise Damaged(f"{name}: the column {column!r} is of {kind}")
    return frame


def checked_runs(
    name: str, frame: pl.DataFrame, keys: list[tuple[str, str]], seeds: list[int], metrics: list[str]
) -> pl.DataFrame:
    """The table of a result, if it holds runs of these algorithms and seeds; metrics nobody measured are null."""
    _columns(name, frame, dict.fromkeys(LABELS, pl.String) | dict.fromkeys(COUNTS, pl.Int64))
    for column in (*PAID, *({RELEASES} & {*frame.columns})):
        if column not in frame.columns or not frame[column].is_finite().all() or frame[column].null_count():
            raise Damaged(f"{name}: the column {column!r} must be numbers")
    for column in set(frame.columns) - {*LABELS}:
        if not frame[column].dtype.is_numeric() and frame[column].null_count() < len(frame):
            raise Damaged(f"{name}: the column {column!r} is of {frame[column].dtype}, not of numbers")
    present = set(frame.select("algorithm", "setting").unique().iter_rows())
    if present != set(keys) or set(frame["seed"].unique()) != set(seeds):
        raise Damaged(f"{name} holds other algorithms or seeds than manifest.json names")
    if not frame["status"].is_in(STATUSES).all() or not frame["round"].is_between(0, 2**53).all():
        raise Damaged(f"{name} holds runs that are neither {' nor '.join(STATUSES)}, or rounds that cannot be")
    missing = [metric for metric in metrics if metric not in frame.columns]
    frame = frame.with_columns(pl.lit(None, pl.Float64).alias(metric) for metric in missing)
    _columns(name, frame, dict.fromkeys(metrics, pl.Float64), nulls=True)
    for metric in metrics:
        if (frame[metric].is_finite() & (frame[metric].abs() > MOST)).any():
            raise Damaged(
                f"{name}: the column {metric!r} has numbers beyond {MOST:g}, long before which a run diverges"
            )
    return frame


def checked_tuning(name: str, frame: pl.DataFrame, variants: Iterable[str]) -> pl.DataFrame:
    """The table of all settings that were tried."""
    texts = dict.fromkeys(("variant", "algorithm", "setting", "criterion"), pl.String)
    counts = dict.fromkeys(("replicate", "diverged", "extension"), pl.Int64)
    _columns(name, frame, texts | counts | {"chosen": pl.Boolean, "eta": pl.Float64})
    _columns(name, frame, {"value": pl.Float64}, nulls=True)
    if set(frame["variant"].unique()) - set(variants):
        raise Damaged(f"{name} holds other variants than study.json names")
    return frame


def checked_arrays(name: str, arrays: dict[str, np.ndarray], algorithms: int, seeds: int) -> list[np.ndarray]:
    """The final models, [seeds, agents, d], of each algorithm."""
    wanted = [f"iterates/{number}" for number in range(algorithms)]
    if set(arrays) - {"biases"} != set(wanted):
        raise Damaged(f"{name} holds {', '.join(sorted(arrays))[:80]}, not the iterates of {algorithms} algorithms")
    shapes = {array.shape for array in arrays.values()}
    first = next(iter(shapes), (seeds, 0, 0))
    if len(shapes) > 1 or len(first) != 3 or first[0] != seeds:
        raise Damaged(f"{name} holds arrays of shapes {sorted(shapes)}, not one [{seeds} seeds, agents, d]")
    if any(array.dtype.kind != "f" for array in arrays.values()):
        raise Damaged(f"{name} holds other than floating point numbers")
    return [arrays[name] for name in wanted]


def _columns(name: str, frame: pl.DataFrame, wanted: Mapping[Any, Any], nulls: bool = False) -> None:
    for column, kind in wanted.items():
        if column not in frame.columns:
            raise Damaged(f"{name} has no column {column!r}")
        if frame[column].dtype != kind:
            raise Damaged(f"{name}: the column {column!r} is of {frame[column].dtype}, not {kind}")
        if not nulls and frame[column].null_count():
            raise Damaged(f"{name}: the column {column!r} has {frame[column].null_count()} nulls")


def _first(error: BaseException) -> str:
    """What is wrong, in one line."""
    if isinstance(error, pydantic.ValidationError):
        first = error.errors(include_url=False)[0]
        return f"{'.'.join(map(str, first['loc'])) or 'it'}: {first['msg']}"[:200]
    if isinstance(error, OSError):
        return error.strerror or str(error)
    if isinstance(error, KeyError):
        return f"{error} is missing"
    return (str(error).splitlines() or [type(error).__name__])[0][:200]
