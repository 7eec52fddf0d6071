"""All-reduces: when each agent has the mean, from when each one came with its part."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from gossamer.clocks.clock import Clock


class Route(NamedTuple):
    """Links that a reduction takes: seconds of latency, and bytes a second."""

    latency: Array
    rate: Array


class Routes(NamedTuple):
    """The links of the clock's own kind of reduction."""

    out: Route
    back: Route
    """The same pairs the other way; of a ring, nothing."""
    line: Array
    """Bytes a second of the server's own line."""
    hub: Array
    """The number of the server."""

    @staticmethod
    def of(clock: Clock, agents: int) -> "Routes":
        everyone = np.arange(agents)
        match clock.reduce:
            case "ring":
                ends = everyone, (everyone + 1) % agents
            case "tree":
                ends = everyone, everyone & (everyone - 1)  # without its lowest bit: where it sends its sum
            case _:
                ends = everyone, np.full(agents, clock.server)
        there, again = _route(clock, ends[0], ends[1], agents), _route(clock, ends[1], ends[0], agents)
        line = clock.links.uplinks(agents)[clock.server]
        return Routes(there, again, jnp.asarray(line), jnp.asarray(clock.server))


def _route(clock: Clock, source: np.ndarray, target: np.ndarray, agents: int) -> Route:
    apart = source != target
    latency, bandwidth = np.zeros(agents), np.full(agents, np.inf)
    latency[apart], bandwidth[apart] = clock.links.between(source[apart], target[apart], agents)
    rate = np.minimum(bandwidth, clock.links.uplinks(agents)[source])
    return Route(jnp.asarray(latency), jnp.asarray(rate))


def ring(routes: Routes, size: Any, ready: Array) -> Array:
    """2(n − 1) steps, in each of which every agent sends an n-th part to the next one and waits for one."""
    agents = len(ready)
    latency, takes = routes.out.latency, size / agents / routes.out.rate

    def step(_: Any, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        ready, free = carry
        sent = jnp.maximum(ready, free) + takes
        return jnp.maximum(ready, jnp.roll(sent + latency, 1)), sent

    return jax.lax.fori_loop(0, 2 * (agents - 1), step, (ready, ready))[0]


def even_ring(routes: Routes, size: Any, ready: Array) -> Array:
    r"""`ring` where every part takes as long on each link, $d$: the same without its steps.

    What agent i waits for comes along a path of hops over latencies $\ell$ and of waits for a line, each of which takes
    $d$ as well: so the last of its 2(n − 1) parts arrives at

    $$ \max\Bigl( r_i,\ 2(n - 1)\, d
       + \max_{1 \le h \le 2(n - 1)} \bigl( r_{i-h} + \ell_{i-h} + \dots + \ell_{i-1} \bigr) \Bigr) $$

    a largest value in a window that slides along the ring, unrolled: the larger of the largest from its begin up to a
    place that lies in all windows, and of that from there to its end.
    """
    agents = len(ready)
    if agents == 1:
        return ready
    before = jnp.concatenate([jnp.zeros(1), jnp.cumsum(jnp.tile(routes.out.latency, 3))])
    begun = jnp.tile(ready, 3) - before[:-1]
    middle = agents + 1
    since = jax.lax.cummax(begun[: middle + 1], reverse=True)
    until = jax.lax.cummax(begun[middle:])
    last = 2 * agents - 1 + jnp.arange(agents)
    longest = jnp.maximum(since[last - (2 * agents - 3)], until[last - middle])
    arrival = longest + before[last + 1] + 2 * (agents - 1) * (size / agents / routes.out.rate[0])
    return jnp.maximum(ready, arrival)


def tree(routes: Routes, size: Any, ready: Array) -> Array:
    """Sums go up a binomial tree to agent 0, a level at a time, and the mean comes down it."""
    agents = len(ready)
    levels = [2**k for k in range((agents - 1).bit_length())]
    pairs = [(np.arange(gap, agents, 2 * gap), np.arange(0, agents - gap, 2 * gap)) for gap in levels]
    for children, parents in pairs:
        arrival = ready[children] + size / routes.out.rate[children] + routes.out.latency[children]
        ready = ready.at[parents].max(arrival)
    free = ready
    for children, parents in reversed(pairs):
        sent = jnp.maximum(ready, free)[parents] + size / routes.back.rate[children]
        free = free.at[parents].set(sent)
        ready = ready.at[children].set(sent + routes.back.latency[children])
    return ready


def server(routes: Routes, size: Any, ready: Array) -> Array:
    """All agents send to one, whose line takes one message after the other; then it sends to all, over its uplink.

    A message arrives as fast as its sender and the server's line allow. The line takes the next one when it has the
    message before it.
    """
    others, hub = len(ready) - 1, routes.hub
    away = jnp.arange(len(ready)) != hub
    takes = size / jnp.minimum(routes.out.rate, routes.line)
    arrival = jnp.where(away, ready + takes + routes.out.latency, -jnp.inf)
    queue = jnp.arange(others, -1, -1) * size / routes.line  # the server's own part comes first, and is there already
    done = jnp.maximum((jnp.sort(arrival) + queue).max(), ready[hub])
    takes = jnp.maximum(size / routes.back.rate, others * size / routes.line)
    return jnp.where(away, done + takes + routes.back.latency, done)


REDUCTIONS: dict[str, Callable[[Any, Any, Array], Array]] = {
    "ring": ring,
    "even-ring": even_ring,
    "tree": tree,
    "server": server,
}
"""The ways of an all-reduce by name."""


def kind_of(clock: Clock, routes: Routes) -> str:
    """The way of a clock's all-reduce: a ring whose links are all as fast needs no steps."""
    rate = np.asarray(routes.out.rate)
    return "even-ring" if clock.reduce == "ring" and (rate == rate[0]).all() else clock.reduce
