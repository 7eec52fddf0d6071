"""Compute times: the seconds of a query, constant, random, or as measured, by agent."""

import abc
import dataclasses
import os
from typing import Any

import numpy as np
import polars as pl
from jaxtyping import Float

from gossamer.core import InputError, Range, Registry, brief
from gossamer.data.files import existing_file

SECONDS = Range(0, 1e9, advice="It is a number of seconds.")
POSITIVE = Range(0, 1e9, low_open=True, advice="It is a number of seconds above 0.")
SPREAD = Range(0, 10, advice="It is the standard deviation of the logarithm; 0.5 is a spread of about one half.")

BLOCK = 256
"""Queries that are drawn together."""


class Compute(abc.ABC):
    """The time of one query of an agent that is not slow."""

    random: bool = True
    """True if another seed gives other times."""

    @abc.abstractmethod
    def times(self, seed: tuple[int, ...], first: int, count: int, agents: int) -> Float[np.ndarray, "queries agents"]:
        """Return the seconds of the queries from `first` on of every agent, whatever else is asked for."""

    def check(self, agents: int) -> None:
        """Raise InputError if the times of so many agents are not known."""
        del agents  # most know nothing of single agents


class Drawn(Compute):
    """Independent random times."""

    @abc.abstractmethod
    def draw(self, rng: np.random.Generator, shape: tuple[int, int]) -> Float[np.ndarray, "queries agents"]:
        """Draw the seconds of queries."""

    def times(self, seed: tuple[int, ...], first: int, count: int, agents: int) -> Float[np.ndarray, "queries agents"]:
        blocks = range(first // BLOCK, (first + count - 1) // BLOCK + 1)
        drawn = [self.draw(np.random.default_rng([*seed, block]), (BLOCK, agents)) for block in blocks]
        begin = first - blocks[0] * BLOCK if count else 0
        return np.concatenate(drawn)[begin : begin + count] if drawn else np.zeros((0, agents))


@dataclasses.dataclass(frozen=True)
class Constant(Compute):
    """A constant time."""

    seconds: float
    random = False

    def times(self, seed: tuple[int, ...], first: int, count: int, agents: int) -> np.ndarray:
        return np.full((count, agents), self.seconds)

    def __str__(self) -> str:
        return f"{self.seconds:g} s"


@dataclasses.dataclass(frozen=True)
class LogNormal(Drawn):
    """A log-normal time with this mean, not median."""

    mean: float
    sigma: float

    def draw(self, rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
        return self.mean * np.exp(self.sigma * rng.standard_normal(shape) - self.sigma**2 / 2)

    def __str__(self) -> str:
        return f"log-normal, mean {self.mean:g} s, sigma {self.sigma:g}"


@dataclasses.dataclass(frozen=True)
class ShiftedExponential(Drawn):
    """A time of at least `least`, and an exponential one with mean `mean` − `least` on top."""

    least: float
    mean: float

    def draw(self, rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
        return self.least + (self.mean - self.least) * rng.standard_exponential(shape)

    def __str__(self) -> str:
        return f"exponential from {self.least:g} s on, mean {self.mean:g} s"


@dataclasses.dataclass(frozen=True)
class Trace(Compute):
    """Measured times, replayed in their order by every agent from a place of its own, and from the start again."""

    seconds: tuple[tuple[float, ...], ...]
    """The times of each agent."""
    name: str

    def check(self, agents: int) -> None:
        known = len(self.seconds)
        if known != agents:
            wrong = f"none of agent {known}" if known < agents else f"times of agent {known - 1}"
            raise InputError(
                f"the trace {self.name} has {wrong}, but there are {agents} agents, 0 … {agents - 1}: give a line "
                "`agent,seconds` for at least one query of each of them, and of no other."
            )

    def times(self, seed: tuple[int, ...], first: int, count: int, agents: int) -> np.ndarray:
        begins = np.random.default_rng([*seed]).random(agents)
        replayed = [
            np.take(times, np.arange(first, first + count) + int(begin * len(times)), mode="wrap")
            for times, begin in zip(self.seconds, begins, strict=True)
        ]
        return np.stack(replayed, axis=1)

    def __str__(self) -> str:
        return f"the trace {self.name}"


def constant(seconds: float) -> Compute:
    """Make a constant compute time."""
    return Constant(SECONDS.check("constant(seconds=…)", seconds))


def log_normal(mean: float, sigma: float) -> Compute:
    """Make log-normal times with this mean; sigma is the standard deviation of their logarithm."""
    return LogNormal(POSITIVE.check("log_normal(mean=…)", mean), SPREAD.check("log_normal(sigma=…)", sigma))


def shifted_exponential(least: float, mean: float) -> Compute:
    """Make times of a least and an exponential part, with this mean in all: the usual model of stragglers."""
    low, middle = (
        SECONDS.check(f"shifted_exponential({key}=…)", value) for key, value in {"least": least, "mean": mean}.items()
    )
    if low > middle:
        raise InputError(
            f"shifted_exponential(least={low:g}, mean={middle:g}): the mean must be at least the least time. Swap them?"
        )
    return ShiftedExponential(low, middle)


def trace(file: str | os.PathLike[str]) -> Compute:
    """Read measured times from a CSV file with the columns `agent` and `seconds`, a line for each query in order."""
    path = existing_file(file, "A trace is a CSV file with the columns agent and seconds.")
    try:
        table = pl.read_csv(path, infer_schema_length=None)  # what stands in the last line has a say, too
    except (OSError, pl.exceptions.PolarsError) as error:
        raise InputError(f"{path} cannot be read as a CSV file: {str(error).splitlines()[0]}") from error
    if not {"agent", "seconds"} <= set(table.columns):
        raise InputError(
            f"{path} has the columns {', '.join(table.columns)[:80]}; a trace has the columns agent and seconds."
        )
    agents, seconds = table["agent"], table["seconds"]
    if not len(table) or not agents.dtype.is_integer() or agents.null_count() or agents.min() < 0:  # pyright: ignore[reportOptionalOperand, reportOperatorIssue]
        raise InputError(f"{path}: the column agent must be whole numbers from 0 on, at least one.")
    values = seconds.cast(pl.Float64, strict=False).fill_null(float("nan")).to_numpy()
    wrong = np.flatnonzero(~((values >= 0) & (values <= SECONDS.high)))
    if len(wrong):
        raise InputError(
            f"{path}, line {wrong[0] + 2}: seconds must be a number in {SECONDS}, but is "
            f"{brief(seconds[int(wrong[0])])}."
        )
    known, counts = np.unique(agents.to_numpy(), return_counts=True)
    holes = np.flatnonzero(known != np.arange(len(known)))
    if len(holes):
        raise InputError(
            f"the trace {path.name} has times of agent {known[-1]}, but none of agent {holes[0]}: give a line "
            "`agent,seconds` for at least one query of each agent from 0 on."
        )
    ordered = values[np.argsort(agents.to_numpy(), kind="stable")]
    return Trace(tuple(tuple(own.tolist()) for own in np.split(ordered, np.cumsum(counts)[:-1])), path.name)


COMPUTE: Registry[Any] = Registry(
    "compute time",
    "gossamer.compute_times",
    {"constant": constant, "log-normal": log_normal, "shifted-exponential": shifted_exponential, "trace": trace},
)
"""The kinds of compute times by their names in spec files."""
