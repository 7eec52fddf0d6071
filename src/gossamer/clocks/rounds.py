r"""The seconds of synchronous rounds, by a max-plus recursion over agents.

An agent's next operation begins when the one before it is done, and a `Receive` is done when the last message that it
waits for has arrived:

$$ r_i \leftarrow \max\Bigl( r_i,\ \max_{j \to i} (b_{ji} + d_{ji} + \ell_{ji}) \Bigr), \qquad
   b_{ji} = \max(s_j, f_{ji}), \quad f_{ji} \leftarrow b_{ji} + d_{ji} $$

with $s_j$ when agent j posted the message, $f$ when the link is free again, $d$ what the message takes on it and
$\ell$ its latency. All clock seeds go side by side, rounds one after the other in one compiled loop.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
from jaxtyping import Array, Float

from gossamer.basics.sizes import refuse_beyond_memory
from gossamer.clocks.clock import Clock
from gossamer.networks import Network

NUMBERS = 4_000_000
"""The most times that are drawn together."""

ROUNDS = 1_024
"""The most rounds of one call of the compiled loop."""

PAIR = 200.0
"""Bytes of memory that a link takes, temporaries included."""

Form = tuple[tuple[str, int], ...]
"""The kinds of an order's operations, and their slots."""


# --- operations of a rule ---


class Query(NamedTuple):
    """A number of queries, one after the other, as one piece of work."""

    number: float
    passes: int = 0
    """Passes over all samples of the agent, before it is known how many queries one is."""


class Send(NamedTuple):
    """A message to every neighbour. The `Receive` with the same slot waits for their messages."""

    bytes: float
    slot: int


class Receive(NamedTuple):
    """The wait for the messages that neighbours sent into this slot."""

    slot: int


class Reduce(NamedTuple):
    """An all-reduce of the given number of bytes."""

    bytes: float


class Average(NamedTuple):
    """Gossip before round 0: messages to every neighbour, each after the last was answered, over the links of rounds
    0, 1, …, `times` − 1."""

    bytes: float
    times: int


Operation = Query | Send | Receive | Reduce | Average

Order = tuple[Operation, ...]
"""Operations of one agent, one after the other."""


class RuleOperations(NamedTuple):
    """The operations of a rule from the start on."""

    start: Order
    """Operations before the model of round 0 is there."""
    turn: Order
    """Operations once after the start, before the first round."""
    each: Order
    """Operations of each round."""
    lead: int = 0
    """The number of rounds by which the model is ahead: for t > 0, that of round t is there after t − lead rounds."""
    central: bool = False
    """True if faults and deadlines of the network do not affect the rule."""


# --- rounds ---


class Wires(NamedTuple):
    """The links of all rounds, sorted by who receives."""

    source: Any
    target: Any
    """None on a complete graph whose links are all alike: then there is one link for each agent."""
    latency: Any
    bandwidth: Any
    uplink: Any
    """The uplink of the source."""
    sharing: Any
    """For each round of a period and each link: the number of messages that share its source's uplink; 0 if down."""


class Standing(NamedTuple):
    """The times that the agents and links of one clock seed have come to."""

    ready: Any
    """The time at which each agent can begin its next operation."""
    free: Any
    """The time at which each link is free."""


def seconds(
    operations: RuleOperations, network: Network, clock: Clock, marks: Sequence[int]
) -> Float[np.ndarray, "clock_seeds marks"]:
    """Return when all agents have the model of each of these rounds, for every seed of the clock."""
    return time_and_energy(operations, network, clock, marks)[0]


def time_and_energy(
    operations: RuleOperations, network: Network, clock: Clock, marks: Sequence[int]
) -> tuple[Float[np.ndarray, "clock_seeds marks"], Float[np.ndarray, "clock_seeds marks"]]:
    """Return the `seconds`, and the joules of computing and idling until then, in the mean over agents.

    Of a clock without energy the joules are 0. Those of messages are not among them.
    """
    last = max(marks)
    run = _Run(network, clock, list(range(clock.seeds if clock.random else 1)), operations.central)
    ends = [run.before(operations.start)]
    # a rule that runs ahead has its first turn before the first round
    if operations.lead and last:
        ends.append(run.before(operations.turn))
    queries = sum(isinstance(operation, Query) for operation in operations.each)
    most = NUMBERS // (max(1, queries) * len(run.seeds) * network.agents)
    # a power of two, so that few lengths are compiled
    rounds = min(ROUNDS, 1 << max(1, most).bit_length() - 1, 1 << max(1, last - len(ends)).bit_length())
    while len(ends) <= last:
        ends += list(run.rounds(operations.each, rounds))
    times, joules = np.stack([ends[t] for t in marks], axis=2)
    return times, joules + run.idle * times


class _Run:
    """The agents of all clock seeds, and the time that each has come to."""

    def __init__(self, network: Network, clock: Clock, seeds: list[int], central: bool):
        self.network, self.clock, self.seeds = network, clock, seeds
        self._queries = self._done = 0
        self._routes = Routes.of(clock, network.agents)
        rate = np.asarray(self._routes.out.rate)
        # a ring whose links are all as fast needs no steps
        even = clock.reduce == "ring" and (rate == rate[0]).all()
        self._reduction = "even-ring" if even else clock.reduce
        self._pairs = _pairs(network, clock)
        self._standing = Standing(np.zeros((len(seeds), network.agents)), np.zeros((len(seeds), len(self._pairs[0]))))
        watts, idle = (0.0, 0.0) if clock.energy is None else (clock.energy.watts, clock.energy.idle_watts)
        self.idle = float(np.mean(idle))
        """The watts of an agent that idles, in the mean over agents."""
        self._closes = None if central else network.mixer.closes
        self._sleeps = not central and network.activity < 1 and self._closes is None
        self._more = np.broadcast_to(np.subtract(watts, idle), network.agents)
        self._spent = np.zeros(len(seeds))

    def before(self, order: Order) -> Float[np.ndarray, "what=2 clock_seeds"]:
        """Return when all agents have done what comes before the first round, and the joules of it above idling."""
        for k, operation in enumerate(order):
            if isinstance(operation, Average):
                self._go(order[:k], 1)
                self._go((Send(operation.bytes, 0), Receive(0)), operation.times)
                return self.before(order[k + 1 :])
        return self._go(order, 1)[0]

    def rounds(self, order: Order, count: int) -> Float[np.ndarray, "rounds what=2 clock_seeds"]:
        """Return when all agents have done the order, for the first time, the second, …, and the joules of `before`."""
        ends = self._go(order, count) if self._closes is None else self._close(order, count, self._closes)
        self._done += count
        return ends

    def _go(self, order: Order, count: int) -> np.ndarray:
        worked, absent = self._times(order, count)
        if self._sleeps:  # who sleeps computes nothing
            awake = np.stack([np.asarray(self.network.awake(t)) for t in range(self._done, self._done + count)])
            worked, absent = (each * awake[:, None, None, :] for each in (worked, absent))
        joules = self._spend(worked.sum(1))
        return np.stack([self._ends(order, count, worked + absent), joules], axis=1)

    def _close(self, order: Order, count: int, closes: float) -> np.ndarray:
        """Do rounds that close after a time; an agent that is late computes until they do, unless it is away."""
        worked, absent = self._times(order, count)
        began = np.asarray(self._standing.ready)
        ends = began.max(1) + closes * np.arange(1, count + 1)[:, None]
        self._standing = self._standing._replace(ready=np.broadcast_to(ends[-1][:, None], began.shape))
        return np.stack([ends, self._spend(np.minimum(worked.sum(1), np.maximum(closes - absent.sum(1), 0.0)))], axis=1)

    def _spend(self, worked: Float[np.ndarray, "rounds clock_seeds agents"]) -> Float[np.ndarray, "rounds clock_seeds"]:
        """Return the joules of computing above idling until the end of each of the next rounds."""
        joules = self._spent + (worked @ self._more / self.network.agents).cumsum(0)
        self._spent = joules[-1]
        return joules

    def _ends(self, order: Order, count: int, times: np.ndarray) -> np.ndarray:
        if times.shape[1] == len(order):  # no agent waits for another
            ready = np.asarray(self._standing.ready) + times.sum(1).cumsum(0)
            self._standing = self._standing._replace(ready=ready[-1])
            return ready.max(2)
        with jax.enable_x64(True):  # a day of rounds in float32 would lose the milliseconds
            # sizes are arguments of the compiled loop, so that it serves others; kinds and slots are static
            numbers = np.array([0.0 if isinstance(one, Receive) else float(one[0]) for one in order])
            form = tuple((type(one).__name__, one.slot if isinstance(one, (Send, Receive)) else 0) for one in order)
            given = self._routes, self._wires(count), self._standing, times, numbers
            self._standing, ends = _rounds(form, self._reduction, *given)
            return np.asarray(ends)

    def _times(
        self, order: Order, rounds: int
    ) -> tuple[
        Float[np.ndarray, "rounds pieces clock_seeds agents"], Float[np.ndarray, "rounds pieces clock_seeds agents"]
    ]:
        """Return the seconds of the order's pieces of work in the next rounds, and of the outage before each."""
        queries = np.array([operation.number for operation in order if isinstance(operation, Query)])
        shape = rounds, len(queries), len(self.seeds), self.network.agents
        given = [(seed, self._queries, rounds * len(queries), self.network.agents) for seed in self.seeds]
        self._queries += rounds * len(queries)
        worked, absent = (
            np.stack([draw(*each) for each in given], axis=1).reshape(shape)
            for draw in (self.clock.times, self.clock.absences)
        )
        return queries[:, None, None] * worked, absent

    def _wires(self, count: int) -> Wires:
        """Return the links, and which of them are used in the next rounds."""
        n, links, network, (source, target) = self.network.agents, self.clock.links, self.network, self._pairs
        if target is None:
            latency, bandwidth = np.full(n, links.latency[0, 0]), np.full(n, links.bandwidth[0, 0])
            sharing = np.full((1, n), n - 1.0)
        else:
            latency, bandwidth = links.between(source, target, n)
            used = np.ones((1, len(source)))
            if network.changes:
                rounds = count if network.mixer.random else network.mixer.period
                over = "W" if network.stochastic == "doubly" else "C"
                matrices = (network.matrix(t, over) for t in range(self._done, self._done + rounds))
                used = np.stack([np.ravel(matrix[target, source] != 0) for matrix in matrices]).astype(float)
            sharing = used * np.stack([np.bincount(source, weights=row, minlength=n) for row in used])[:, source]
        return Wires(source, target, latency, bandwidth, links.uplinks(n)[source], sharing)


def _pairs(network: Network, clock: Clock) -> tuple[np.ndarray, np.ndarray | None]:
    """Return all sources and targets of messages, sorted by target; None for all, where all links are alike."""
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
    order = np.lexsort((source, target))  # as the segment maximum wants them
    return source[order], target[order]


@partial(jax.jit, static_argnums=(0, 1))
def _rounds(
    form: Form, reduction: str, routes: Any, wires: Wires, standing: Standing, times: Array, numbers: Array
) -> tuple[Standing, Array]:
    """Run the order once for each of the times."""

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
    """Run the order of one round for the agents of one clock seed."""
    ready, free = standing
    slots: dict[int, Array] = {}
    work = 0
    for (kind, slot), number in zip(form, numbers, strict=True):
        match kind:
            case "Query":
                ready, work = ready + times[work], work + 1
            case "Send":
                takes = jnp.maximum(number / wires.bandwidth, number * sharing / wires.uplink)
                sent = jnp.maximum(ready[wires.source], free) + takes
                up = sharing > 0  # a link that is down in this round keeps when it is free, and brings nothing
                free = jnp.where(up, sent, free)
                slots[slot] = _last(wires, jnp.where(up, sent + wires.latency, -jnp.inf), len(ready))
            case "Receive":
                ready = jnp.maximum(ready, slots.pop(slot))
            case _:
                ready = REDUCTIONS[reduction](routes, number, ready)
    return Standing(ready, free)


def _last(wires: Wires, arrivals: Array, agents: int) -> Array:
    """Return when the last message of each agent arrives."""
    if wires.target is None:  # from all others: the last of all, or the one before it where that is its own
        (last, before), (own, _) = jax.lax.top_k(arrivals, 2)
        return jnp.where(jnp.arange(agents) == own, before, last)
    return jax.ops.segment_max(arrivals, wires.target, agents, indices_are_sorted=True)


class Route(NamedTuple):
    """The links of a reduction: seconds of latency, and bytes a second."""

    latency: Any
    rate: Any


class Routes(NamedTuple):
    """The links of the clock's own kind of reduction."""

    out: Route
    back: Route
    """The same pairs the other way; unused by a ring."""
    line: Any
    """Bytes a second of the server's own line."""
    hub: Any
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
        return Routes(there, again, line, np.int64(clock.server))


def _route(clock: Clock, source: np.ndarray, target: np.ndarray, agents: int) -> Route:
    apart = source != target
    latency, bandwidth = np.zeros(agents), np.full(agents, np.inf)
    latency[apart], bandwidth[apart] = clock.links.between(source[apart], target[apart], agents)
    rate = np.minimum(bandwidth, clock.links.uplinks(agents)[source])
    return Route(latency, rate)


def ring(routes: Routes, size: Any, ready: Array) -> Array:
    """Reduce in 2(n − 1) steps, in each of which every agent sends an n-th part to the next and waits for one."""
    agents = len(ready)
    latency, takes = routes.out.latency, size / agents / routes.out.rate

    def step(_: Any, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        ready, free = carry
        sent = jnp.maximum(ready, free) + takes
        return jnp.maximum(ready, jnp.roll(sent + latency, 1)), sent

    return jax.lax.fori_loop(0, 2 * (agents - 1), step, (ready, ready))[0]


def even_ring(routes: Routes, size: Any, ready: Array) -> Array:
    r"""Reduce as `ring` does where every part takes as long on each link, $d$, without its steps.

    A part comes to agent i along a path of hops over latencies $\ell$ and of waits for a link, each of which takes $d$.
    So the last of its 2(n − 1) parts arrives at

    $$ \max\Bigl( r_i,\ 2(n - 1)\, d
       + \max_{1 \le h \le 2(n - 1)} \bigl( r_{i-h} + \ell_{i-h} + \dots + \ell_{i-1} \bigr) \Bigr) $$

    the maximum over a window that slides along the unrolled ring: the larger of the maximum from its begin to an index
    that lies in all windows, and of the maximum from there to its end.
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
    """Reduce along a binomial tree: sums go up to agent 0, a level at a time, and the mean comes down."""
    agents = len(ready)
    # on each level every second agent that is left sends to the one before it
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
    """Reduce by a server: all send to it, one message after the other; then it sends to all, over its uplink.

    A message arrives as fast as its sender and the server's line allow. The line takes one message at a time.
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
"""All-reduces by name."""
