"""All agents of a simulated round, stacked: the `Agent` that a rule sees inside the compiled program."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Float, Key

from gossamer.attacks import SIGN, Attack
from gossamer.basics.keys import draw_once, of_array, of_query
from gossamer.clocks.rounds import Average, Order, Query, Receive, Reduce, Send
from gossamer.compressors import identity
from gossamer.core import Over
from gossamer.engines.devices import AGENTS, ONE_DEVICE, DeviceLayout
from gossamer.engines.mixing import Sum, each_turn, mix
from gossamer.networks import Network
from gossamer.oracles import Oracle, Site
from gossamer.problems import Problem

BLOCK = 100
"""Agents whose gradients are computed together; more at once fall out of the cache and cost more for each."""


class World(NamedTuple):
    """A problem and a network. Their arrays are arguments of the compiled program, so that it serves many runs."""

    problem: Problem
    network: Network
    waves: Any = None
    """In an asynchronous run, the waves of each seed."""
    apart: Float[Array, "2"] | None = None
    """The lowest and the highest number that is added to a coordinate., if agents start apart."""


@dataclass
class RoundCost:
    """Counts of what the agents pay, taken while a rule is traced."""

    queries: int = 0
    """Gradients, or function values, that one agent asked for."""
    passes: int = 0
    """Gradients over all its samples that one agent asked for; `Oracle.passes` says how many queries one is."""
    messages: int = 0
    """Messages that one agent sent to each of its neighbours."""
    gossiped: int = 0
    """Numbers in those messages, to one neighbour."""
    bits: float = 0.0
    """Bits of what was sent compressed, to one neighbour."""
    reductions: int = 0
    """All-reduces."""
    reduced: int = 0
    """Numbers that one agent put into them."""
    order: Order = ()
    """The same operations, one after the other."""

    def send(self, size: float) -> None:
        """Count a message of so many bytes, and the wait for those of the neighbours."""
        self.messages += 1
        self.order += (Send(size, self.messages), Receive(self.messages))

    def repeat(self, before: "RoundCost", times: int) -> None:
        """Count what was paid since `before` so many times."""
        for name, value in vars(before).items():
            now = getattr(self, name)
            again = times * now[len(value) :] if isinstance(value, tuple) else times * (now - value)
            setattr(self, name, value + again)


class StackedAgents:
    """The agents in one round: arrays are ``[agents, d]``, on one device or on many."""

    def __init__(
        self,
        world: World,
        oracle: Oracle,
        keys: Key[Array, " agents"],
        t: Array,
        memory: Any,
        cost: RoundCost | None = None,
        layout: DeviceLayout = ONE_DEVICE,
    ):
        self.world, self.oracle, self.keys, self.t = world, oracle, keys, t
        self.memory, self.layout = memory, layout
        self.cost = cost or RoundCost()
        self._calls = self._shrunk = 0

    def gradient(self, *points: Array) -> Array:
        asked = len(points) * self.oracle.asks(self.world.problem.dim)
        self.cost.queries += asked
        self.cost.order += (Query(asked),)
        return self._ask(self.oracle, points)

    def full_gradient(self, *points: Array) -> Array:
        self.cost.passes += len(points)
        self.cost.order += (Query(0, passes=len(points)),)
        return self._ask(self.oracle.full(), points)

    def _ask(self, oracle: Oracle, points: tuple[Array, ...]) -> Array:
        calls, self._calls = self._calls, self._calls + 1  # each query of a round has a key of its own

        def of_agent(problem: Problem, common: Any, agent: Array, key: Array, memory: Any, points: Any) -> Any:
            oracle, t = common
            return oracle.query(Site(problem, agent, of_query(key, calls), t), memory, points)

        gradients, self.memory = self._each((oracle, self.t), of_agent, self.keys, self.memory, points)
        attack = oracle.together(self.world.problem.agents)
        return _unpack([self._lie(g, attack) for g in gradients])

    def gossip(self, *arrays: Array, over: Over = "W") -> Array:
        self._count_message(arrays)
        matrices = ("R", "C") if over == "RC" else (over,) * len(arrays)
        return _unpack([self._mix(a, by) for a, by in zip(arrays, matrices, strict=True)])

    def gossip_sum(self, *arrays: Array) -> Array:
        return self.gossip_robust(*arrays, by=Sum())

    def gossip_robust(self, *arrays: Array, by: Any) -> Array:
        self._count_message(arrays)
        mixer = self.world.network.mixer
        return _unpack([each_turn(mixer, self.t, partial(self._combine, by), a) for a in arrays])

    def gossip_compressed(self, *arrays: Array, by: Any) -> Any:
        self._count_message(arrays, by)
        shrunk = [self._shrink(by, a) for a in arrays]
        return _unpack([(q, self._mix(q, "W")) for q in shrunk])

    def gossip_copies(self, copy: Array, apart: Array, a: Array, by: Any = None) -> Any:
        by = by or identity()
        self._count_message((a,), by)
        q = self._shrink(by, a)
        if self.world.network.attack is not None:  # lies are about messages
            return q, apart + q - self._mix(q, "W")
        # of differences to agent 0, so that rounding is in proportion to these
        copies = copy + q
        first = jnp.arange(self.world.network.agents) == 0
        away = copies - jnp.where(as_column(first, copies), copies, 0).sum(0)
        return q, away - self._multiply(away, "W")

    def _count_message(self, arrays: tuple[Array, ...], by: Any = None) -> None:
        """Count one message with these arrays to every neighbour, compressed where `by` is given."""
        if by is None:
            self.cost.gossiped += sum([a[0].size for a in arrays])
            self.cost.send(bytes_of(arrays))
        else:
            bits = sum([by.bits(a[0].size, a.dtype.itemsize) for a in arrays])
            self.cost.bits += bits
            self.cost.send(bits / 8)

    def _shrink(self, by: Any, a: Array) -> Array:
        number, self._shrunk = self._shrunk, self._shrunk + 1

        def of_agent(problem: Problem, by: Any, agent: Array, key: Array, a: Array) -> Array:
            return by.compress(of_array(key, number), a)

        # a compressor draws: without `draw_once`, XLA would draw anew for every kernel that reads the result
        return draw_once(self.t, lambda: self._each(by, of_agent, self.keys, a))

    def squared_norm(self, a: Array) -> Array:
        """Return the sum of squares over all honest agents and all coordinates."""
        problem = self.world.problem
        if problem.honest is not None:
            counts = jnp.zeros(problem.agents, bool).at[problem.honest].set(True)
            a = jnp.where(as_column(counts, a), a, 0)
        # coordinate by coordinate first, which is vectorised; the root is there because XLA makes one sum of two
        norms = jnp.sqrt((a**2).reshape(len(a), -1).sum(0))
        return jnp.vdot(norms, norms)[None].sum(0)

    def _mix(self, a: Array, over: Literal["W", "R", "C"]) -> Array:
        attack = self.world.network.attack
        if attack is None:
            return self._multiply(a, over)
        sent = self._lie(a, attack)
        attackers = as_column(self._find_attackers(attack), a)  # an attacker does not believe the others' lies
        return jnp.where(attackers, self._multiply(a, over), self._multiply(sent, over))

    def _multiply(self, a: Array, over: Literal["W", "R", "C"]) -> Array:
        everyone = self.layout.constrain(a, P())  # a row may go to any agent, on any device
        return self.layout.constrain(mix(self.world.network, everyone, self.t, over), P(AGENTS))

    def _combine(self, by: Any, mixer: Any, a: Array) -> Array:
        """Apply the aggregator to every agent's own row and to those of its neighbours."""
        sent = self.layout.constrain(self._lie(a, self.world.network.attack), P())
        numbers = jnp.arange(len(a), dtype=jnp.int32)

        def of_agent(
            problem: Problem, common: Any, agent: Array, own: Array, number: Array, neighbours: Array, weights: Array
        ) -> Array:
            by, sent = common
            others = jnp.where(neighbours == number, 0, weights).astype(own.dtype)  # neither itself nor padding
            return by.combine(own, sent[neighbours], others)

        tables = jnp.asarray(mixer.indices), jnp.asarray(mixer.weights)
        return self._each((by, sent), of_agent, a, numbers, *tables)

    def _lie(self, a: Array, attack: Attack | None) -> Array:
        """Return the array with the attackers' lies in place of their rows."""
        if attack is None:
            return a
        attackers = as_column(self._find_attackers(attack), a)
        match attack.kind:
            case "constant":
                lies = jnp.full_like(a, attack.scale)
            case "alie":
                honest = self.world.network.agents - len(attack.attackers)
                mean = jnp.where(attackers, 0, a).sum(0) / honest
                spread = jnp.where(attackers, 0, (a - mean) ** 2).sum(0) / (honest - 1)
                lies = jnp.broadcast_to(mean - attack.scale * jnp.sqrt(spread), a.shape)
            case _:
                lies = SIGN[attack.kind] * attack.scale * a
        return jnp.where(attackers, lies, a)

    def _find_attackers(self, attack: Attack) -> Array:
        """Return True for each agent that attacks."""
        return jnp.asarray(np.isin(np.arange(self.world.network.agents), attack.attackers))

    def ones(self) -> Array:
        return jnp.ones((self.world.problem.agents, 1), self.world.problem.start.dtype)

    def place(self) -> Array:
        agents, dtype = self.world.problem.agents, self.world.problem.start.dtype
        return self._each((), lambda problem, common, agent: jax.nn.one_hot(agent, agents, dtype=dtype))

    def norm(self, a: Array) -> Array:
        return jnp.linalg.norm(a, axis=1, keepdims=True)

    def repeat(self, times: int, step: Callable[..., Any], *arrays: Array) -> Any:
        first, before = (self._calls, self._shrunk), replace(self.cost)
        arrays = _tuple(step(*arrays))  # apart, because the first query's key is that of the round
        self.cost.repeat(before, times)
        asked, shrunk, cost = self._calls - first[0], self._shrunk - first[1], replace(self.cost)

        def again(k: Any, carry: Any) -> Any:
            self.memory, arrays = carry
            self._calls, self._shrunk = first[0] + k * asked, first[1] + k * shrunk
            arrays = _tuple(step(*arrays))
            return self.memory, arrays

        if times > 1:
            self.memory, arrays = jax.lax.fori_loop(1, times, again, (self.memory, arrays))
            self.cost.repeat(cost, 0)  # tracing the loop's body counted it once more
        self._calls, self._shrunk = first[0] + times * asked, first[1] + times * shrunk
        return _unpack(arrays)

    def mean(self, *arrays: Array) -> Array:
        self.cost.reductions += 1
        self.cost.reduced += sum(a[0].size for a in arrays)
        self.cost.order += (Reduce(bytes_of(arrays)),)
        attack = self.world.network.attack
        return _unpack([jnp.broadcast_to(self._lie(a, attack).mean(0), a.shape) for a in arrays])

    def average(self, a: Array, warm: Any, over: Literal["W", "C"] = "W") -> Array:
        if warm == "mean":
            return self.mean(a)
        if warm == 0:
            return a
        self.cost.messages += warm
        self.cost.gossiped += warm * a[0].size
        self.cost.order += (Average(bytes_of((a,)), warm),)

        def mix_in_round(t: Any, a: Array) -> Array:
            then = copy.copy(self)  # a tracer of the loop must not stay in `self.t`
            then.t = jnp.int32(t)
            return then._mix(a, over)

        return jax.lax.fori_loop(0, warm, mix_in_round, a)

    def _each(self, common: Any, function: Callable[..., Any], *stacked: Any) -> Any:
        return each_agent(self.layout, self.world.problem, common, function, *stacked)


def each_agent(layout: DeviceLayout, problem: Problem, common: Any, function: Callable[..., Any], *stacked: Any) -> Any:
    """Call the function for every agent, with the problem, all that is common, its number and its own slices."""

    def on_device(problem: Problem, common: Any, first: Any, count: int, *stacked: Any) -> Any:
        def of_agent(agent: Array, *slices: Any) -> Any:
            number = agent if layout.agents == 1 else first + agent  # 0 + agent would be one more operation
            return function(problem, common, number, *slices)

        return each(of_agent, count, *stacked)

    return layout.shard_agents(on_device, problem, common, *stacked)


def each(function: Callable[..., Any], agents: int, *stacked: Any) -> Any:
    """Call the function of an agent's number and its own slices for all agents, in blocks.

    A block is cut out of the arrays, and its results are written in place, so that no array is copied into blocks and
    back. All blocks have one size, so the last one overlaps the one before it; the overlap is computed twice, with the
    same result.
    """
    everything = (jnp.arange(agents, dtype=jnp.int32), *stacked)
    if agents <= BLOCK:
        return jax.vmap(function)(*everything)
    blocks = -(-agents // BLOCK)  # rounded up, as is the size
    size = -(-agents // blocks)

    def of_block(first: Any) -> Any:
        return jax.vmap(function)(*jax.tree.map(lambda a: jax.lax.dynamic_slice_in_dim(a, first, size), everything))

    def put(k: Array, results: Any) -> Any:
        first = jnp.minimum(k * size, agents - size)  # the last block reaches back
        write = partial(jax.lax.dynamic_update_slice_in_dim, start_index=first, axis=0)
        return jax.tree.map(write, results, of_block(first))

    empty = jax.tree.map(lambda a: jnp.zeros((agents, *a.shape[1:]), a.dtype), jax.eval_shape(of_block, 0))
    return jax.lax.fori_loop(0, blocks, put, empty)


def bytes_of(arrays: tuple[Array, ...]) -> float:
    """Return the bytes of one agent's rows of the arrays."""
    return float(sum([a[0].size * a.dtype.itemsize for a in arrays]))


def as_column(of_agents: Any, a: Array) -> Any:
    """Reshape one number for each agent to broadcast along its row."""
    return of_agents.reshape((-1,) + (1,) * (a.ndim - 1))


def _unpack(arrays: Sequence[Any]) -> Any:
    """Return a single array as itself, several as a tuple: rules get as many as they gave."""
    return arrays[0] if len(arrays) == 1 else tuple(arrays)


def _tuple(arrays: Any) -> tuple[Array, ...]:
    return arrays if isinstance(arrays, tuple) else (arrays,)
