"""Schedules of asynchronous runs: which agent wakes when, and which neighbour it meets, whatever the models are."""

import heapq
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from gossamer.clocks.clock import BLOCK, PARTNERS, Clock, uniform_numbers
from gossamer.clocks.rounds import Order, Query, RuleOperations, seconds
from gossamer.core import InputError
from gossamer.networks import Network


class EventSchedule(NamedTuple):
    """Events in the order of their ends; a round is as many of them as there are agents."""

    begin: float
    """The time at which all agents have done their start."""
    agents: Int[np.ndarray, " events"]
    """The agent that wakes."""
    partners: Int[np.ndarray, " events"]
    """The neighbour that it meets: itself where all are away."""
    turns: Int[np.ndarray, " events"]
    """The number of times that it woke before."""
    ends: Float[np.ndarray, " events"]
    """The time at which the two have met."""
    work: tuple[Float[np.ndarray, "pieces what=2"], ...]
    """By agent: when each of its pieces of work begins, and how long it takes."""

    def computed(self, times: Float[np.ndarray, " marks"]) -> Float[np.ndarray, "marks agents"]:
        """Return for how many seconds each agent has computed until each of these times."""
        computed = []
        for begins, lengths in (pieces.T for pieces in self.work):
            current = np.searchsorted(begins, times, side="right") - 1  # −1 before the first piece of work
            before = np.append(0.0, lengths.cumsum())[np.maximum(current, 0)]
            computed.append(before + np.where(current < 0, 0.0, np.minimum(times - begins[current], lengths[current])))
        return np.stack(computed, axis=1)

    def seconds(self, t: int, agents: int) -> float:
        """Return when the first t rounds are over."""
        return float(self.ends[t * agents - 1]) if t else self.begin


class Work(NamedTuple):
    """The work of a rule on an asynchronous network."""

    start: Order
    queries: float
    """Queries of one gradient."""
    bytes: float
    """Bytes that each of the two sends when they meet."""


@lru_cache(maxsize=64)
def schedule(network: Network, clock: Clock, work: Work, seed: int, rounds: int) -> EventSchedule:
    """Return the events of so many rounds. More rounds do not change the first ones."""
    return _Events(network, clock, work, seed).first(rounds * network.agents)


class _Events:
    """An event simulation: the agents, and a queue of when they wake."""

    def __init__(self, network: Network, clock: Clock, work: Work, seed: int):
        n = network.agents
        self.work, self.agents = work, n
        self.neighbours = [network.neighbors(agent).tolist() for agent in range(n)]
        self.travel = [_travel(clock, agent, self.neighbours[agent], work.bytes, n) for agent in range(n)]
        # each agent's draws are numbered by its own pieces of work, so that no other agent's speed changes them
        self.times = _stream(lambda first: clock.times(seed, first, BLOCK, n))
        self.absences = _stream(lambda first: clock.absences(seed, first, BLOCK, n))
        self.chances = _stream(lambda first: uniform_numbers((clock.seed, seed, PARTNERS), first, BLOCK, n))
        self.queries, self.turns = [0] * n, [0] * n
        self.busy, self.away = [0.0] * n, [0.0] * n
        self.pieces: list[list[tuple[float, float]]] = [[] for _ in range(n)]
        self.queue: list[tuple[float, int, int]] = []
        """When each agent wakes, how often it woke before, and its number. Of agents that wake at once, the one that
        woke least often comes first, so that none is left out where nothing takes any time."""
        self.begin = 0.0
        if clock.outages.chance and not clock.times(seed, 0, BLOCK, n).any(0).all():
            raise InputError(
                "clock: a query takes no time, so that an agent whose neighbours are all away would wake without end: "
                "give compute a time above 0, or take out the outages."
            )
        self._start(network, clock)

    def _start(self, network: Network, clock: Clock) -> None:
        """Run what comes before the first event; where agents exchange messages, all wait for the last one."""
        alone = all(isinstance(operation, Query) for operation in self.work.start)
        common = 0.0 if alone else float(seconds(RuleOperations(self.work.start, (), ()), network, clock, [0])[0, 0])
        ready = [common] * self.agents
        for operation in self.work.start:
            if isinstance(operation, Query):
                for agent in range(self.agents):
                    absent, took = self._query(agent, operation.number)
                    if alone:
                        self.pieces[agent].append((ready[agent] + absent, took))
                        ready[agent] += absent + took
                    else:  # the common start has the clock's first draws
                        took = operation.number * float(
                            clock.times(0, self.queries[agent] - 1, 1, self.agents)[0, agent]
                        )
                        self.pieces[agent].append((sum(length for _, length in self.pieces[agent]), took))
        self.begin = max(ready)
        for agent, at in enumerate(ready):
            self.ask(agent, at)

    def _query(self, agent: int, number: float) -> tuple[float, float]:
        """Return the seconds of an outage before the agent's next piece of work, and those of the work."""
        query = self.queries[agent]
        self.queries[agent] += 1
        return self.absences(query)[agent], number * self.times(query)[agent]

    def ask(self, agent: int, at: float) -> None:
        """Let the agent begin a gradient, and wake when it is done."""
        absent, took = self._query(agent, self.work.queries)
        self.away[agent] = at + absent if absent else 0.0
        self.pieces[agent].append((at + absent, took))
        heapq.heappush(self.queue, (at + (absent + took), self.turns[agent], agent))

    def first(self, count: int) -> EventSchedule:
        """Return the first events by their ends; those that end before an agent wakes again are known."""
        pending: list[tuple[float, int, int, int, int]] = []
        known: list[tuple[float, int, int, int, int]] = []
        made = 0
        while len(known) < count:
            at, _, agent = heapq.heappop(self.queue)
            # a meeting that begins later can end earlier, so that events are known only up to the next that wakes
            while pending and pending[0][0] <= at:
                known.append(heapq.heappop(pending))
            partner, end = self.meet(agent, at)
            heapq.heappush(pending, (end, made, agent, partner, self.turns[agent]))
            made, self.turns[agent] = made + 1, self.turns[agent] + 1
            self.ask(agent, end)
        ends, _, agents, partners, turns = zip(*known[:count], strict=True)
        integers = (np.array(column, np.int32) for column in (agents, partners, turns))
        work = tuple(map(np.array, self.pieces))
        return EventSchedule(self.begin, *integers, np.array(ends), work)  # pyright: ignore[reportCallIssue]

    def meet(self, agent: int, at: float) -> tuple[int, float]:
        """Return the partner, and when the two have met: an agent meets one at a time, in the order of requests."""
        near = self.neighbours[agent]
        there = [k for k, other in enumerate(near) if self.away[other] <= at]
        if not there:
            return agent, max(at, self.busy[agent])
        k = there[int(self.chances(self.turns[agent])[agent] * len(there))]
        partner = near[k]
        end = max(at, self.busy[agent], self.busy[partner]) + self.travel[agent][k]
        self.busy[agent] = self.busy[partner] = end
        return partner, end


def _travel(clock: Clock, agent: int, near: list[int], size: float, agents: int) -> list[float]:
    """Return the seconds of an exchange with each neighbour: a message there, and one back."""
    here, uplinks = [agent] * len(near), clock.links.uplinks(agents)
    seconds = np.zeros(len(near))
    for source, target in ((here, near), (near, here)):
        latency, bandwidth = clock.links.between(source, target, agents)
        seconds += latency + size / np.minimum(bandwidth, uplinks[source])
    return seconds.tolist()


def _stream(block: Callable[[int], np.ndarray]) -> Callable[[int], list[float]]:
    """Return a function of a row's number; blocks of rows are drawn when they are first asked for."""
    rows: dict[int, list[list[float]]] = {}

    def row(number: int) -> list[float]:
        place = number // BLOCK
        if place not in rows:
            rows[place] = block(place * BLOCK).tolist()
        return rows[place][number % BLOCK]

    return row
