"""What runs will take: memory, from shapes before any array is made, and time, from the first seconds."""

import time
from math import prod
from typing import Any, NamedTuple

import jax
import numpy as np

from gossamer.basics.progress import Say
from gossamer.basics.sizes import free_memory, shown
from gossamer.core import InputError
from gossamer.engines.agents import BLOCK
from gossamer.engines.apart import told_apart
from gossamer.engines.costs import held
from gossamer.oracles import Oracle
from gossamer.problems import Empirical, Problem

ROW = 1_000
"""Bytes that one measured round of one run takes, from the program to the table of the result."""

COPIES = 3
"""Of the state of a block: the one that a call takes over and gives back, and what a round makes on its way, which is
0.6 to 3.5 times as much by the rule and the network, and with the end of the runs below never more than is counted."""

LONG = 3600.0
"""Seconds beyond which it is said how long runs will take."""

WORTH = 5.0
"""Seconds beyond which it is said to one who watches."""

ENOUGH = 1.0
"""Seconds that are timed before anything is said."""


class Need(NamedTuple):
    """What some bytes are for: the number that they grow with, as a user wrote it, and what to lower."""

    what: str
    bytes: float
    lower: str


class Size(NamedTuple):
    """How much there is to run: all settings and seeds, the rounds that are measured, and what runs together."""

    settings: int
    seeds: int
    steps: int
    marks: int
    together: int
    seeds_together: int


def refuse_too_large(rule: Any, problem: Problem, network: Any, oracle: Oracle, size: Size, dtype: str) -> float:
    """The bytes that the runs need, or an `InputError` that names the number that is too large."""
    needs = memory(rule, problem, network, oracle, size, dtype)
    total, free = sum(need.bytes for need in needs), free_memory()
    if total > free:
        most = max(needs, key=lambda need: need.bytes)
        raise InputError(
            f"{most.what} needs about {shown(most.bytes)} of memory, but this machine has {shown(free)} free: lower "
            f"{most.lower}."
        )
    return total


def memory(rule: Any, problem: Problem, network: Any, oracle: Oracle, size: Size, dtype: str) -> list[Need]:
    """What runs of this rule need, part by part."""
    item, runs, block = np.dtype(dtype).itemsize, size.settings * size.seeds, size.together * size.seeds_together
    state, memory = (block * _bytes(tree) for tree in held(rule, problem, network, oracle, dtype))
    network = told_apart(rule, network)
    width = {"together": size.together, "seeds": size.seeds_together}
    widest, count = _largest(width | {"the number of parameters": problem.dim, "agents": problem.agents})
    kept = (state + memory) / block + 2 * problem.agents * problem.dim * item
    several, number = _largest({"seeds": size.seeds, "settings": size.settings})
    return [
        Need(f"the state of a block ({widest} = {count:,})", COPIES * state, widest),
        Need(
            "what the oracle remembers of its queries",
            COPIES * memory,
            "the delay or the number of agents, or leave out saga",
        ),
        Need(f"the end of {runs:,} runs ({several} = {number:,})", runs * kept, several),
        Need(
            f"the table of {size.marks:,} measured rounds (steps = {size.steps:,}) of {runs:,} runs",
            ROW * size.marks * runs,
            several if number > size.marks else "steps, or measure less often with a larger every",
        ),
        Need("the data, in the precision of the run,", _bytes(problem, item), "the number of samples"),
        Need("the network", _bytes(network, item), "the number of links"),
        _samples(problem, oracle, width, item),
    ]


def _largest(counts: dict[str, int]) -> tuple[str, int]:
    return max(counts.items(), key=lambda item: item[1])


def _samples(problem: Problem, oracle: Oracle | None, width: dict[str, int], item: int) -> Need:
    """The samples of the queries that are answered together."""
    queries = float(min(problem.agents, BLOCK) * prod(width.values()))
    while hasattr(oracle, "inner"):
        oracle = oracle.inner  # pyright: ignore[reportAttributeAccessIssue, reportOptionalMemberAccess]
    if not isinstance(problem, Empirical):
        return Need("the queries", queries * problem.dim * item, "agents")
    batch = getattr(oracle, "batch", None)
    drawn = problem.longest if batch is None else batch
    widest, count = _largest({"the number of samples" if batch is None else "batch": drawn} | width)
    one = item * (1 + problem.numbers_a_sample)
    return Need(f"{widest} = {count:,}", queries * drawn * one, widest)


def _bytes(tree: Any, item: int | None = None) -> float:
    """The bytes of all leaves, of `item` bytes a number or of their own."""
    return float(sum(prod(np.shape(leaf)) * (item or leaf.dtype.itemsize) for leaf in jax.tree.leaves(tree)))


class Stopwatch:
    """Times the rounds of blocks and says once how long all will take and in how much memory: beyond an hour to
    everyone, beyond some seconds as an aside."""

    def __init__(self, rounds: float, needed: float, kept: bool, say: Say):
        """For so many rounds of blocks in all; `kept` is whether what was finished is kept when one stops it."""
        self._rounds, self._needed, self._kept, self._say = rounds, needed, kept, say
        self._at, self._done, self._told = 0, 0, False
        self._since: float | None = None

    def begin(self, t: int) -> None:
        """A block goes on from round t."""
        self._at = t

    def __call__(self, t: int) -> None:
        """The block has come to round t. The first call of all goes nowhere, because it compiles."""
        now = time.perf_counter()
        self._since = now if self._since is None else self._since
        self._done, self._at = self._done + t - self._at, t
        seconds = now - self._since
        if not self._told and self._done and seconds > ENOUGH:
            self._told = True
            self._tell(self._done / seconds)

    def _tell(self, speed: float) -> None:
        seconds = (self._rounds - self._done) / speed
        text = f"about {_long(seconds)} at {_short(speed)} rounds a second, and {shown(self._needed)} of memory"
        if seconds > LONG:
            after = "and the same command goes on from there" if self._kept else "but nothing is kept"
            self._say(f"{text}; Ctrl-C stops, {after}")
        elif seconds > WORTH:
            self._say(text, aside=True)


def _long(seconds: float) -> str:
    """A time as a reader would write it."""
    for unit, length, most in (("seconds", 1, 120), ("minutes", 60, 120), ("hours", 3600, 96)):
        if seconds < most * length:
            return f"{_short(seconds / length)} {unit}"
    return f"{_short(seconds / 86400)} days"


def _short(number: float) -> str:
    return f"{number:,.0f}" if number >= 10 else f"{number:.2g}"
