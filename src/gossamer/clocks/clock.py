"""A clock: how long agents compute and messages travel, from which the seconds of a run follow."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from jaxtyping import Float

from gossamer.clocks.compute import SECONDS, Compute, Drawn, constant
from gossamer.clocks.links import Links, links_of
from gossamer.core import InputError, Range, brief, nearest, whole

Reduction = Literal["ring", "tree", "server"]
"""How an all-reduce is done."""

MOST_SEEDS = 1_000

FACTOR = Range(0, 1e9, low_open=True, advice="Times as long as other agents take; 5 is five times slower.")
CHANCE = Range(0, 1, high_open=True, advice="It is the chance that an agent fails when it begins a piece of work.")

OUTAGES, PARTNERS = 1, 2
"""Numbers in the seeds of generators, for draws other than times."""


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

    @property
    def random(self) -> bool:
        """True if another seed gives other times."""
        return self.compute.random or self.outages.chance > 0

    def check(self, agents: int) -> None:
        """Raise InputError if the clock does not know all of so many agents."""
        self.links.check(agents)
        self.compute.check(agents)
        self.factors(agents)
        whole("clock: server", self.server, least=0, most=agents - 1)

    def factors(self, agents: int) -> Float[np.ndarray, " agents"]:
        """Return how many times as long each agent takes."""
        which, factor = self.slow
        if isinstance(which, int):  # at equal distances, from agent 0 on
            count = whole("clock: slow: agents", which, least=0, most=agents)
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
        fails = Uniform().times((self.seed, seed, OUTAGES), first, count, agents) < self.outages.chance
        return np.where(fails, self.outages.seconds, 0.0)

    def __str__(self) -> str:
        which, factor = self.slow
        count = which if isinstance(which, int) else len(which)
        texts = [f"links: {self.links}", f"a query: {self.compute}", f"all-reduce: {self.reduce}"]
        texts += [f"{count} slow, {factor:g} times"] if count and factor != 1 else []
        if self.outages.chance:
            texts.append(f"away for {self.outages.seconds:g} s with chance {self.outages.chance:g} a piece of work")
        return "; ".join(texts)

    @property
    def mark(self) -> str:
        """A digest of all that decides the times: part of the cache key of asynchronous runs."""
        digest = hashlib.sha256()
        for array in (self.links.latency, self.links.bandwidth, self.links.uplink):
            digest.update(f"{array.shape}".encode() + np.ascontiguousarray(array).tobytes())
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
) -> Clock:
    """Make a clock: how long agents compute and messages travel.

    Args:
        links: a preset's name ("datacenter", "campus", "internet", "continents"), or made by `gossamer.clocks`:
            ``uniform(latency, bandwidth, uplink)``, ``matrix``, ``from_file`` or ``regions``.
        compute: seconds of one query: a number, or made by ``log_normal``, ``shifted_exponential`` or ``trace``.
        slow: ``{"agents": 5, "factor": 10.0}``: which agents (a list, or how many, at equal distances) take how many
            times as long.
        reduce: how an all-reduce is done: over a "ring", along a "tree", or by a parameter "server".
        server: the agent that is the server.
        outages: ``{"chance": 0.01, "seconds": 5.0}``: an agent that begins a piece of work fails with this
            chance, once, for so long.
        seeds: how many times random times are drawn, for the mean and its interval; those of the run are others.
        seed: another one draws other times.
    """
    if not isinstance(reduce, str) or reduce not in get_args(Reduction):
        raise InputError(f"clock: reduce = {brief(reduce)} is not known; {nearest(reduce, get_args(Reduction))}")
    away = _read_table("outages", outages, {"chance": 0.0, "seconds": 0.0})
    return Clock(
        links_of(links),
        compute if isinstance(compute, Compute) else constant(compute),
        _read_slow(_read_table("slow", slow, {"agents": 0, "factor": 1.0})),
        reduce,
        whole("clock: server", server, least=0),
        Outages(
            CHANCE.check("clock: outages: chance", away["chance"]),
            SECONDS.check("clock: outages: seconds", away["seconds"]),
        ),
        whole("clock: seeds", seeds, most=MOST_SEEDS),
        whole("clock: seed", seed, least=0),
    )


def clock_of(given: Any) -> Clock | None:
    """Return the clock that a user means: one, that of a preset's name, or none."""
    if given is None or isinstance(given, Clock):
        return given
    if isinstance(given, str):
        return clock(given)
    raise InputError(f"clock must be made by gossamer.clock(…), or a preset's name, but is {brief(given)}.")


class Uniform(Drawn):
    """Uniform numbers in [0, 1), drawn as times are."""

    def draw(self, rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
        return rng.random(shape)


def _read_table(where: str, given: Mapping[str, Any] | None, known: dict[str, Any]) -> dict[str, Any]:
    """Return the table with defaults; raise InputError for keys that are unknown or missing."""
    if given is not None and not isinstance(given, Mapping):
        raise InputError(f"clock: {where} must be a table of {' and '.join(known)}, but is {brief(given)}.")
    for key in given or {}:
        if key not in known:
            raise InputError(f"clock: {where} has no {brief(key)}; {nearest(key, known)}")
    missing = [key for key in known if given is not None and key not in given]
    if missing:
        raise InputError(f"clock: {where} lacks {missing[0]}: it takes {' and '.join(known)}.")
    return known | dict(given or {})


def _read_slow(table: dict[str, Any]) -> tuple[tuple[int, ...] | int, float]:
    which, factor = table["agents"], FACTOR.check("clock: slow: factor", table["factor"])
    if isinstance(which, (list, tuple, np.ndarray)):
        return tuple(whole("clock: slow: an agent", agent, least=0) for agent in which), factor
    return whole("clock: slow: agents", which, least=0, advice="Or give a list of them."), factor
