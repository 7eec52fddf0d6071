"""A clock: how long agents compute and messages travel, from which the seconds and the joules of a run follow."""

import abc
import hashlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, get_args

import numpy as np
import polars as pl
from jaxtyping import Float

from gossamer.clocks.links import SECONDS, Links, links_of, one_or_each
from gossamer.core import InputError, Range, Registry, brief, check_keys, nearest, whole
from gossamer.data.files import existing_file

Reduction = Literal["ring", "tree", "server"]
"""How an all-reduce is done."""

MOST_SEEDS = 1_000

BLOCK = 256
"""Queries that are drawn together, so that more rounds change no time that is drawn already."""

POSITIVE = Range(0, 1e9, low_open=True, advice="It is a number of seconds above 0.")
SPREAD = Range(0, 10, advice="It is the standard deviation of the logarithm; 0.5 is a spread of about one half.")
FACTOR = Range(0, 1e9, low_open=True, advice="Times as long as other agents take; 5 is five times slower.")
CHANCE = Range(0, 1, high_open=True, advice="It is the chance that an agent fails when it begins a piece of work.")

POWER = Range(0, 1e12, advice="It is a number of watts.")
PER_BYTE = Range(0, 1e9, advice="It is a number of joules for each byte that an agent sends.")

KEYS = {"watts": POWER, "joules_per_byte": PER_BYTE, "idle_watts": POWER}

OUTAGES, PARTNERS = 1, 2
"""Numbers in the seeds of generators, for draws other than times."""


# --- compute times ---


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


@dataclass(frozen=True)
class RandomTimes(Compute):
    """Independent random times."""

    name: str
    numbers: tuple[float, ...]
    """The numbers of their law, with all digits: with the name they tell one law from another."""
    draw: Callable[[np.random.Generator, tuple[int, int]], Float[np.ndarray, "queries agents"]] = field(repr=False)

    def times(self, seed: tuple[int, ...], first: int, count: int, agents: int) -> Float[np.ndarray, "queries agents"]:
        return draw_rows(self.draw, seed, first, count, agents)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Constant(Compute):
    """A constant time."""

    seconds: float
    random = False

    def times(self, seed: tuple[int, ...], first: int, count: int, agents: int) -> np.ndarray:
        return np.full((count, agents), self.seconds)

    def __str__(self) -> str:
        return f"{self.seconds:g} s"


def draw_rows(
    draw: Callable[[np.random.Generator, tuple[int, int]], np.ndarray],
    seed: tuple[int, ...],
    first: int,
    count: int,
    agents: int,
) -> Float[np.ndarray, "queries agents"]:
    """Draw the rows from `first` on, whatever else is asked for: each block of rows has a generator of its own."""
    # whole blocks are drawn and cut, so that the same numbers come however they are asked for
    blocks = range(first // BLOCK, (first + count - 1) // BLOCK + 1)
    drawn = [draw(np.random.default_rng([*seed, block]), (BLOCK, agents)) for block in blocks]
    begin = first - blocks[0] * BLOCK if count else 0
    return np.concatenate(drawn)[begin : begin + count] if drawn else np.zeros((0, agents))


uniform_numbers = partial(draw_rows, np.random.Generator.random)
"""Uniform numbers in [0, 1), drawn as times are."""


@dataclass(frozen=True)
class MeasuredTimes(Compute):
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
        begins = np.random.default_rng([*seed]).random(agents)  # or agents measured together would be slow together
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
    middle, spread = POSITIVE.check("log_normal(mean=…)", mean), SPREAD.check("log_normal(sigma=…)", sigma)

    def draw(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
        # E exp(σ Z) = exp(σ²/2), which is taken out, so that `mean` is the mean
        return middle * np.exp(spread * rng.standard_normal(shape) - spread**2 / 2)

    return RandomTimes(f"log-normal, mean {middle:g} s, sigma {spread:g}", (middle, spread), draw)


def shifted_exponential(least: float, mean: float) -> Compute:
    """Make times of a least and an exponential part, with this mean in all: the usual model of stragglers."""
    low, middle = (
        SECONDS.check(f"shifted_exponential({key}=…)", value) for key, value in {"least": least, "mean": mean}.items()
    )
    if low > middle:
        raise InputError(
            f"shifted_exponential(least={low:g}, mean={middle:g}): the mean must be at least the least time. Swap them?"
        )

    def draw(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
        return low + (middle - low) * rng.standard_exponential(shape)

    return RandomTimes(f"exponential from {low:g} s on, mean {middle:g} s", (low, middle), draw)


def trace(file: str | os.PathLike[str]) -> Compute:
    """Read measured times from a CSV file with the columns `agent` and `seconds`, a line for each query in order."""
    path = existing_file(file, "It is a CSV file with the columns agent, seconds.")
    try:
        table = pl.read_csv(path, infer_schema_length=None)  # a column's type follows from all its lines
        owners, given = table["agent"], table["seconds"]
    except (OSError, pl.exceptions.PolarsError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"{path} cannot be read as a CSV file with the columns agent, seconds: {reason}") from error
    if not len(owners) or not owners.dtype.is_integer() or owners.null_count() or owners.min() < 0:  # pyright: ignore
        raise InputError(f"{path}: the column agent must be whole numbers from 0 on, at least one.")
    seconds = given.cast(pl.Float64, strict=False).fill_null(float("nan")).to_numpy()
    for line in np.flatnonzero(~((seconds >= SECONDS.low) & (seconds <= SECONDS.high))):
        SECONDS.check(f"{path}, line {line + 2}: seconds", given[int(line)])
    agents = owners.to_numpy()
    known, counts = np.unique(agents, return_counts=True)
    # agents are numbered from 0 without a gap, or the trace is of other agents
    holes = np.flatnonzero(known != np.arange(len(known)))
    if len(holes):
        raise InputError(
            f"the trace {path.name} has times of agent {known[-1]}, but none of agent {holes[0]}: give a line "
            "`agent,seconds` for at least one query of each agent from 0 on."
        )
    ordered = seconds[np.argsort(agents, kind="stable")]
    return MeasuredTimes(tuple(tuple(own.tolist()) for own in np.split(ordered, np.cumsum(counts)[:-1])), path.name)


COMPUTE: Registry[Any] = Registry(
    "compute time",
    "gossamer.compute_times",
    {"constant": constant, "log-normal": log_normal, "shifted-exponential": shifted_exponential, "trace": trace},
)
"""The kinds of compute times by their names in spec files."""


# --- clocks ---


@dataclass(frozen=True, eq=False)
class Energy:
    r"""The power of agents and the price of bytes: each one number, or one for each agent.

    $$ E_i = P_i\, b_i + P^{\mathrm{idle}}_i (T - b_i) + \epsilon_i B_i $$

    with $b_i$ the seconds that agent i has computed for when the clock stands at $T$, and $B_i$ the bytes that it has
    sent. A byte is paid for once, by its sender: $\epsilon$ is the cost of sending and of receiving it.
    """

    watts: Float[np.ndarray, "*agents"]
    """While an agent computes."""
    joules_per_byte: Float[np.ndarray, "*agents"]
    idle_watts: Float[np.ndarray, "*agents"]
    """While an agent waits, sleeps or is away."""

    @staticmethod
    def of(given: Any) -> "Energy":
        """Return the energy of a table, in which what is not given is 0."""
        check_keys("clock: energy", given, KEYS)
        return Energy(**{key: one_or_each(f"clock: energy: {key}", given.get(key, 0.0), KEYS[key]) for key in KEYS})

    def check(self, agents: int) -> None:
        """Raise InputError if there is one number for each agent, but of other agents."""
        for key in KEYS:
            values = getattr(self, key)
            if values.ndim and len(values) != agents:
                raise InputError(
                    f"clock: energy: {key} has {len(values)} numbers, but there are {agents} agents: give one number, "
                    "or one for each."
                )

    def __str__(self) -> str:
        units = {"watts": "W computing", "idle_watts": "W idle", "joules_per_byte": "J a byte"}
        shown = {key: np.unique(getattr(self, key)) for key in units}
        texts = [
            " to ".join(f"{one:g}" for one in sorted({v[0], v[-1]})) + f" {units[key]}" for key, v in shown.items()
        ]
        return ", ".join(texts)


@dataclass(frozen=True)
class Outages:
    """Outages: the chance that an agent fails when it begins a piece of work, and for how many seconds."""

    chance: float
    seconds: float


@dataclass(frozen=True, eq=False)
class Clock:
    """Times of computing and of messages; `clock` makes and checks one."""

    links: Links
    compute: Compute
    slow: tuple[tuple[int, ...] | int, float]
    """The slow agents, or their number, and how many times as long they take."""
    reduce: Reduction
    server: int
    outages: Outages
    seeds: int
    seed: int
    energy: Energy | None = None

    @property
    def random(self) -> bool:
        """True if another seed gives other times."""
        return self.compute.random or self.outages.chance > 0

    def check(self, agents: int) -> None:
        """Raise InputError if the clock does not know all of so many agents."""
        self.links.check(agents)
        self.compute.check(agents)
        self.factors(agents)
        if self.energy is not None:
            self.energy.check(agents)
        whole("clock: server", self.server, least=0, most=agents - 1)

    def factors(self, agents: int) -> Float[np.ndarray, " agents"]:
        """Return how many times as long each agent takes."""
        which, factor = self.slow
        if isinstance(which, int):
            count = whole("clock: slow: agents", which, least=0, most=agents)
            # at equal distances, so that neighbours in a ring are seldom both slow
            which = tuple(k * agents // count for k in range(count))
        factors = np.ones(agents)
        factors[[whole("clock: slow: an agent", agent, least=0, most=agents - 1) for agent in which]] = factor
        return factors

    def times(self, seed: int, first: int, count: int, agents: int) -> Float[np.ndarray, "queries agents"]:
        """Return the seconds that the queries from `first` on take every agent, without outages."""
        times = self.compute.times((self.seed, seed), first, count, agents)
        if not (np.isfinite(times) & (times >= 0)).all():  # ours are; those of a plug-in may not be
            raise InputError(f"clock: {self.compute} gives seconds that are below 0 or no numbers: mend its times.")
        return times * self.factors(agents)

    def absences(self, seed: int, first: int, count: int, agents: int) -> Float[np.ndarray, "queries agents"]:
        """Return the seconds that every agent is away before each of these pieces of work."""
        if not self.outages.chance:
            return np.zeros((count, agents))
        fails = uniform_numbers((self.seed, seed, OUTAGES), first, count, agents) < self.outages.chance
        return np.where(fails, self.outages.seconds, 0.0)

    def __str__(self) -> str:
        which, factor = self.slow
        count = which if isinstance(which, int) else len(which)
        texts = [f"links: {self.links}", f"a query: {self.compute}", f"all-reduce: {self.reduce}"]
        texts += [f"{count} slow, {factor:g} times"] if count and factor != 1 else []
        if self.outages.chance:
            texts.append(f"away for {self.outages.seconds:g} s with chance {self.outages.chance:g} a piece of work")
        texts += [f"energy: {self.energy}"] if self.energy is not None else []
        return "; ".join(texts)

    @property
    def mark(self) -> str:
        """A digest of all that decides the times: part of the cache key of asynchronous runs."""
        digest = hashlib.sha256()
        for array in (self.links.latency, self.links.bandwidth, self.links.uplink):
            digest.update(f"{array.shape}".encode() + np.ascontiguousarray(array).tobytes())
        # not what changes no time: `seeds`, how often the seconds are drawn, the energy and the name of the links
        rest = self.links.groups, self.compute, self.slow, self.reduce, self.server, self.outages, self.seed
        digest.update(repr(rest).encode())
        return digest.hexdigest()


def clock(
    links: Any = "internet",
    *,
    compute: Any = 1e-3,
    slow: Mapping[str, Any] | None = None,
    reduce: Reduction = "ring",
    server: int = 0,
    outages: Mapping[str, Any] | None = None,
    seeds: int = 10,
    seed: int = 0,
    energy: Mapping[str, Any] | None = None,
) -> Clock:
    """Make a clock: how long agents compute and messages travel.

    Args:
        links: a preset's name ("datacenter", "campus", "internet", "continents"), or made by `gossamer.clocks`:
            ``uniform(latency, bandwidth, uplink)``, ``matrix`` or ``regions``.
        compute: seconds of one query: a number, or made by ``log_normal``, ``shifted_exponential`` or ``trace``.
        slow: ``{"agents": 5, "factor": 10.0}``: which agents (a list, or how many, at equal distances) take how many
            times as long.
        reduce: how an all-reduce is done: over a "ring", along a "tree", or by a parameter "server".
        server: the agent that is the server.
        outages: ``{"chance": 0.01, "seconds": 5.0}``: an agent that begins a piece of work fails with this
            chance, once, for so long.
        seeds: how many times random times are drawn, for the mean and its interval; those of the run are others.
        seed: another one draws other times.
        energy: ``{"watts": 8.0, "idle_watts": 2.0, "joules_per_byte": 1e-7}``: what an agent draws while it computes
            and while it does not, and what a byte that it sends costs; each one number, or one for each agent, and 0
            unless given. Then what is measured has a column of joules.
    """
    if not isinstance(reduce, str) or reduce not in get_args(Reduction):
        raise InputError(f"clock: reduce = {brief(reduce)} is not known; {nearest(reduce, get_args(Reduction))}")
    away = _read_table("outages", outages, chance=0.0, seconds=0.0)
    delayed = _read_table("slow", slow, agents=0, factor=1.0)
    which = delayed["agents"]
    if isinstance(which, (list, tuple, np.ndarray)):
        which = tuple(whole("clock: slow: an agent", agent, least=0) for agent in which)
    else:
        which = whole("clock: slow: agents", which, least=0, advice="Or give a list of them.")
    return Clock(
        links_of(links),
        compute if isinstance(compute, Compute) else constant(compute),
        (which, FACTOR.check("clock: slow: factor", delayed["factor"])),
        reduce,
        whole("clock: server", server, least=0),
        Outages(
            CHANCE.check("clock: outages: chance", away["chance"]),
            SECONDS.check("clock: outages: seconds", away["seconds"]),
        ),
        whole("clock: seeds", seeds, most=MOST_SEEDS),
        whole("clock: seed", seed, least=0),
        None if energy is None else Energy.of(energy),
    )


def clock_of(given: Any) -> Clock | None:
    """Return the clock that a user means: one, that of a preset's name, or none."""
    if given is None or isinstance(given, Clock):
        return given
    if isinstance(given, str):
        return clock(given)
    raise InputError(f"clock must be made by gossamer.clock(…), or a preset's name, but is {brief(given)}.")


def _read_table(where: str, given: Mapping[str, Any] | None, **usual: float) -> Mapping[str, Any]:
    """Return the table, or what is usual if none is given; a table has all keys."""
    if given is None:
        return usual
    check_keys(f"clock: {where}", given, usual, usual)
    return given
