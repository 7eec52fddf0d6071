r"""The seconds of synchronous rounds, by a max-plus recursion over agents.

An agent's next operation begins when the one before it is done, and a `Receive` is done when the last message that it
waits for has arrived:

$$ r_i \leftarrow \max\Bigl( r_i,\ \max_{j \to i} (b_{ji} + d_{ji} + \ell_{ji}) \Bigr), \qquad
   b_{ji} = \max(s_j, f_{ji}), \quad f_{ji} \leftarrow b_{ji} + d_{ji} $$

with $s_j$ when agent j posted the message, $f$ when the link is free again, $d$ what the message takes on it and
$\ell$ its latency. All clock seeds go side by side, rounds one after the other in one compiled loop.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
from jaxtyping import Array, Float

from gossamer.basics.sizes import refuse_beyond_memory
from gossamer.clocks.clock import Clock
from gossamer.clocks.operations import Average, Operation, Order, Orders, Receive, Send, pieces
from gossamer.clocks.reductions import REDUCTIONS, Routes, kind_of
from gossamer.networks import Network

NUMBERS = 4_000_000
"""Times that are drawn together, at most."""

ROUNDS = 1_024
"""Rounds of one call of the compiled loop, at most."""

WIDTH = 8
"""A table of incoming links may be at most this many times as large as the list of links."""

PAIR = 200.0
"""Bytes that a link takes, with what is made of it on the way."""

Form = tuple[tuple[str, int], ...]
"""The kinds of an order's operations, and their slots."""


class Wires(NamedTuple):
    """The links of all rounds, sorted by who receives."""

    source: Array
    target: Array | None
    """None where everyone sends to all others, and all links are alike: then there is one for each agent."""
    latency: Array
    bandwidth: Array
    uplink: Array
    """That of the source."""
    incoming: Array | None
    """For each agent, the places of its incoming links, filled up with one beyond the last; None where it is large."""
    sharing: Array
    """For each round of a period and each link: how many messages share the uplink of its source; 0 if it is down."""


class Standing(NamedTuple):
    """Where the agents of one clock seed stand."""

    ready: Array
    free: Array
    """When each link is free."""


def seconds(
    orders: Orders, network: Network, clock: Clock, marks: Sequence[int]
) -> Float[np.ndarray, "clock_seeds marks"]:
    """When all agents have the model of each of these rounds, for every seed of the clock."""
    ends, last = dict[int, np.ndarray](), max(marks)
    for t, at in _ends(orders, network, clock, last):
        ends[t] = at
    return np.stack([ends[t] for t in marks], axis=1)


def _ends(orders: Orders, network: Network, clock: Clock, last: int) -> Iterator[tuple[int, np.ndarray]]:
    """The rounds from 0 to `last`, and when each is done."""
    run = _Run(network, clock, list(range(clock.seeds if clock.random else 1)))
    yield 0, run.before(orders.start)
    done = 0
    if orders.lead and last:
        done = 1
        yield 1, run.before(orders.turn)
    most = NUMBERS // (max(1, pieces(orders.each)) * len(run.seeds) * network.agents)
    rounds = min(ROUNDS, 1 << max(1, most).bit_length() - 1, 1 << max(1, last - done - 1).bit_length())
    while done < last:
        for end in run.rounds(orders.each, rounds)[: last - done]:
            done += 1
            yield done, end


class _Run:
    """The agents of all clock seeds, and how far they have come."""

    def __init__(self, network: Network, clock: Clock, seeds: list[int]):
        self.network, self.clock, self.seeds = network, clock, seeds
        self._queries = self._done = 0
        with jax.enable_x64(True):
            self._routes = Routes.of(clock, network.agents)
            self._reduction = kind_of(clock, self._routes)
            self._pairs = _pairs(network, clock)
            blank = jnp.zeros((len(seeds), network.agents)), jnp.zeros((len(seeds), len(self._pairs[0])))
            self._standing = Standing(*blank)

    def before(self, order: Order) -> Float[np.ndarray, " clock_seeds"]:
        """When all agents have done what comes before the first round."""
        for k, operation in enumerate(order):
            if isinstance(operation, Average):
                self._go(order[:k], 1)
                self._go((Send(operation.bytes, 0), Receive(0)), operation.times)
                return self.before(order[k + 1 :])
        return self._go(order, 1)[0]

    def rounds(self, order: Order, count: int) -> Float[np.ndarray, "rounds clock_seeds"]:
        """When all agents have done the order, for the first time, the second, …"""
        ends = self._go(order, count)
        self._done += count
        return ends

    def _go(self, order: Order, count: int) -> np.ndarray:
        n, work = self.network.agents, pieces(order)
        drawn = np.stack([self._times(seed, count * work) for seed in self.seeds], axis=1)
        self._queries += count * work
        times = drawn.reshape(count, work, len(self.seeds), n)
        if self.network.activity < 1:
            awake = [np.asarray(self.network.awake(t)) for t in range(self._done, self._done + count)]
            times = times * np.stack(awake)[:, None, None, :]
        if work == len(order):  # nobody waits for anybody
            worked = np.einsum("p,rpsn->rsn", [_number(operation) for operation in order], times).cumsum(0)
            ready = np.asarray(self._standing.ready) + worked
            self._standing = self._standing._replace(ready=ready[-1])
            return ready.max(2)
        with jax.enable_x64(True):
            numbers = jnp.asarray([_number(operation) for operation in order])
            form = tuple(_formed(operation) for operation in order)
            given = self._routes, self._wires(count), self._standing, jnp.asarray(times), numbers
            self._standing, ends = _rounds(form, self._reduction, *given)
            return np.asarray(ends)

    def _times(self, seed: int, count: int) -> np.ndarray:
        given = seed, self._queries, count, self.network.agents
        return self.clock.times(*given) + self.clock.absences(*given)

    def _wires(self, count: int) -> Wires:
        """The links, and which of them are used in the next rounds."""
        n, network, (source, target) = self.network.agents, self.network, self._pairs
        uplink = self.clock.links.uplinks(n)[source]
        if target is None:
            single = np.broadcast_to(self.clock.links.latency[0], n), np.broadcast_to(self.clock.links.bandwidth[0], n)
            arrays = (np.asarray(a) for a in (source, *single, uplink, np.full((1, n), n - 1.0)))
            first, latency, bandwidth, uplink, sharing = (jnp.asarray(a) for a in arrays)
            return Wires(first, None, latency, bandwidth, uplink, None, sharing)
        latency, bandwidth = self.clock.links.between(source, target, n)
        used = np.ones((1, len(source)))
        if network.changes:
            random = network.mixer.random
            span = range(self._done, self._done + (count if random else network.mixer.period))
            used = np.stack([_used(network, t, source, target) for t in span])
        counts = np.stack([np.bincount(source, weights=row, minlength=n) for row in used])
        arrays = source, target, latency, bandwidth, uplink
        source, target, latency, bandwidth, uplink = (jnp.asarray(a) for a in arrays)
        sharing = jnp.asarray(used * counts[:, self._pairs[0]])
        return Wires(source, target, latency, bandwidth, uplink, _incoming(self._pairs[1], n), sharing)


def _number(operation: Operation) -> float:
    """What an operation has of numbers: they are arguments of the compiled loop, so that it serves other sizes."""
    return 0.0 if isinstance(operation, Receive) else float(operation[0])


def _formed(operation: Operation) -> tuple[str, int]:
    """What is static of an operation: its kind, and its slot."""
    return type(operation).__name__, operation.slot if isinstance(operation, (Send, Receive)) else 0


def _pairs(network: Network, clock: Clock) -> tuple[np.ndarray, np.ndarray | None]:
    """Who sends to whom in one round or another, sorted by who receives; None for all, where all links are alike."""
    n = network.agents
    union = network.mixer.union()
    if union is None and clock.links.uniform and not network.changes and n > 1:
        return np.arange(n), None
    if union is None:
        way_out = "take links that are all alike, as clocks.uniform or the preset internet, or a sparser graph"
        refuse_beyond_memory(f"a clock with a link between each two of {n:,} agents", PAIR * n**2, way_out)
        everyone = np.arange(n)
        target, source = (a.ravel() for a in np.meshgrid(everyone, everyone, indexing="ij"))
    else:
        entries = sp.coo_array(sp.csr_array(union))
        target, source = entries.row, entries.col
    apart = source != target
    source, target = source[apart], target[apart]
    order = np.lexsort((source, target))
    return source[order], target[order]


def _used(network: Network, t: int, source: np.ndarray, target: np.ndarray) -> np.ndarray:
    """1 for the links that are used in a round, and 0 for the others."""
    over = "W" if network.stochastic == "doubly" else "C"
    matrix = sp.csr_array(network.matrix(t, over))
    return np.asarray(matrix[target, source] != 0).ravel().astype(float)


def _incoming(target: Any, agents: int) -> Array | None:
    counts = np.bincount(target, minlength=agents)
    if not len(target) or counts.max() * agents > WIDTH * len(target):
        return None
    table = np.full((agents, counts.max()), len(target), np.int32)
    place = np.arange(len(target)) - np.concatenate([[0], np.cumsum(counts)[:-1]])[target]
    table[target, place] = np.arange(len(target))
    return jnp.asarray(table)


@partial(jax.jit, static_argnums=(0, 1))
def _rounds(
    form: Form, reduction: str, routes: Any, wires: Wires, standing: Standing, times: Array, numbers: Array
) -> tuple[Standing, Array]:
    """The order, once for each of the times."""

    def one_round(standing: Standing, given: tuple[Array, Array]) -> tuple[Standing, Array]:
        turn, times = given
        sharing = wires.sharing[turn % len(wires.sharing)]
        single = partial(_round, form, reduction, routes, wires, sharing, numbers)
        standing = jax.vmap(single, in_axes=(0, 1))(standing, times)
        return standing, standing.ready.max(1)

    return jax.lax.scan(one_round, standing, (jnp.arange(len(times)), times))


def _round(
    form: Form,
    reduction: str,
    routes: Any,
    wires: Wires,
    sharing: Array,
    numbers: Array,
    standing: Standing,
    times: Array,
) -> Standing:
    """The order of one round for the agents of one clock seed."""
    ready, free = standing
    slots: dict[int, Array] = {}
    work = 0
    for (kind, slot), number in zip(form, numbers, strict=True):
        match kind:
            case "Query":
                ready, work = ready + number * times[work], work + 1
            case "Send":
                takes = jnp.maximum(number / wires.bandwidth, number * sharing / wires.uplink)
                sent = jnp.maximum(ready[wires.source], free) + takes
                up = sharing > 0
                free = jnp.where(up, sent, free)
                slots[slot] = _last(wires, jnp.where(up, sent + wires.latency, -jnp.inf), len(ready))
            case "Receive":
                ready = jnp.maximum(ready, slots.pop(slot))
            case _:
                ready = REDUCTIONS[reduction](routes, number, ready)
    return Standing(ready, free)


def _last(wires: Wires, arrivals: Array, agents: int) -> Array:
    """When the last message of each agent arrives."""
    if wires.target is None:  # from all others: the last of all, or the last but one where that is one's own
        (last, before), (own, _) = jax.lax.top_k(arrivals, 2)
        return jnp.where(jnp.arange(agents) == own, before, last)
    if wires.incoming is None:
        return jax.ops.segment_max(arrivals, wires.target, agents, indices_are_sorted=True)
    return jnp.append(arrivals, -jnp.inf)[wires.incoming].max(1)
