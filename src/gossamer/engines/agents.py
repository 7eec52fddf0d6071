"""All agents of a simulated round, stacked: the `Agent` that a rule sees inside the compiled program."""

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from gossamer.attacks import SIGN, Attack
from gossamer.basics.keys import kept, of_array, of_query
from gossamer.clocks.operations import Average, Order, Query, Receive, Reduce, Send
from gossamer.compressors import identity
from gossamer.core import Over
from gossamer.engines.apart import Sum, each_round
from gossamer.networks import Network
from gossamer.oracles import Oracle, Site
from gossamer.problems import Problem

BLOCK = 100
"""Agents whose gradients are taken together; more at once fall out of the cache and cost more for each."""


class World(NamedTuple):
    """Where a rule runs. Its arrays are arguments of the compiled program, so one compilation serves many runs."""

    problem: Problem
    network: Network
    waves: Any = None
    """Where nobody waits: who wakes when, for each seed."""


@dataclass
class Cost:
    """What the agents paid, counted while a rule is traced."""

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
    """All of that, one after the other."""

    def sends(self, size: float) -> None:
        """A message of so many bytes, and the wait for those of the neighbours."""
        self.messages += 1
        self.order += (Send(size, self.messages), Receive(self.messages))

    def repeat(self, before: "Cost", times: int) -> None:
        """What was paid since `before`, so many times."""
        for name, value in vars(before).items():
            now = getattr(self, name)
            again = times * now[len(value) :] if isinstance(value, tuple) else times * (now - value)
            setattr(self, name, value + again)


class StackedAgents:
    """The agents in one round: arrays are ``[agents, d]``."""

    def __init__(
        self, world: World, oracle: Oracle, keys: Key[Array, " agents"], t: Array, memory: Any, cost: Cost | None = None
    ):
        self.world, self.oracle, self.keys, self.t = world, oracle, keys, t
        self.memory = memory
        self.cost = cost or Cost()
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
        calls, self._calls = self._calls, self._calls + 1

        def of_agent(agent: Array, key: Array, memory: Any, points: tuple[Array, ...]) -> Any:
            site = Site(self.world.problem, agent, of_query(key, calls), self.t)
            return oracle.query(site, memory, points)

        gradients, self.memory = self.each(self.world, of_agent, self.keys, self.memory, points)
        together = oracle.together(self.world.problem.agents)
        return _like(points, gradients if together is None else tuple(self._lied(together, g) for g in gradients))

    def gossip(self, *arrays: Array, over: Over = "W") -> Array:
        self.cost.sends(bytes_of(arrays))
        self.cost.gossiped += sum(a[0].size for a in arrays)
        matrices = ("R", "C") if over == "RC" else (over,) * len(arrays)
        mixed = tuple(self._mix(a, by) for a, by in zip(arrays, matrices, strict=True))
        return _like(arrays, mixed)

    def gossip_sum(self, *arrays: Array) -> Array:
        return self.gossip_robust(*arrays, by=Sum())

    def gossip_robust(self, *arrays: Array, by: Any) -> Array:
        self.cost.sends(bytes_of(arrays))
        self.cost.gossiped += sum(a[0].size for a in arrays)
        mixer = self.world.network.mixer
        return _like(arrays, tuple(each_round(mixer, self.t, partial(self._combine, by), a) for a in arrays))

    def gossip_compressed(self, *arrays: Array, by: Any) -> Any:
        bits = sum(by.bits(a[0].size, a.dtype.itemsize) for a in arrays)
        self.cost.sends(bits / 8)
        self.cost.bits += bits
        shrunk = tuple(self._shrink(by, a) for a in arrays)
        return _like(arrays, tuple((q, self._mix(q, "W")) for q in shrunk))

    def gossip_copies(self, copy: Array, apart: Array, a: Array, by: Any = None) -> Any:
        by = by or identity()
        bits = by.bits(a[0].size, a.dtype.itemsize)
        self.cost.sends(bits / 8)
        self.cost.bits += bits
        q = self._shrink(by, a)
        if self.world.network.attack is not None:  # lies are about messages
            return q, apart + q - self._mix(q, "W")
        return q, self._differences(copy + q)

    def _differences(self, a: Array) -> Array:
        """Return Σ_j w_ij (a_i − a_j), of differences to agent 0, so that rounding is in proportion to these."""
        first = self._here(jnp.arange(self.world.network.agents) == 0)
        away = a - self._sum(jnp.where(_column(first, a), a, 0))
        return away - self._multiply(away, "W")

    def _shrink(self, by: Any, a: Array) -> Array:
        number, self._shrunk = self._shrunk, self._shrunk + 1

        def of_agent(agent: Array, key: Array, a: Array) -> Array:
            return by.compress(of_array(key, number), a)

        return kept(self.t, lambda: self.each(self.world, of_agent, self.keys, a))

    def squared_norm(self, a: Array) -> Array:
        """The sum of squares over all honest agents and all that they hold."""
        problem = self.world.problem
        if problem.honest is not None:
            counts = self._here(jnp.zeros(problem.agents, bool).at[problem.honest].set(True))
            a = jnp.where(_column(counts, a), a, 0)
        # coordinate by coordinate first, which goes by vectors; the root is there because XLA makes one sum of two
        norms = jnp.sqrt((a**2).reshape(len(a), -1).sum(0))
        return self._sum(jnp.vdot(norms, norms)[None])

    def _mix(self, a: Array, over: Literal["W", "R", "C"]) -> Array:
        attack, sent = self.world.network.attack, self._sent(a)
        if attack is None:
            return self._multiply(a, over)
        return jnp.where(_column(self._attackers(attack), a), self._multiply(a, over), self._multiply(sent, over))

    def _combine(self, by: Any, mixer: Any, a: Array) -> Array:
        """What the aggregator makes of every agent's own row and of those that it hears."""
        sent, own_place, places, weights = self._heard(mixer, self._sent(a))

        def of_agent(agent: Array, own: Array, here: Array, places: Array, weights: Array) -> Array:
            others = jnp.where(places == here, 0, weights).astype(own.dtype)  # neither itself nor padding
            return by.combine(own, sent[places], others)

        return self.each(self.world, of_agent, a, own_place, places, weights)

    def _sent(self, a: Array) -> Array:
        """What others receive of an array: the array itself, but of attackers their lies."""
        attack = self.world.network.attack
        return a if attack is None else self._lied(attack, a)

    def _lied(self, attack: Attack, a: Array) -> Array:
        """The array with the attackers' lies in place of their rows."""
        attackers = _column(self._attackers(attack), a)
        match attack.kind:
            case "constant":
                lies = jnp.full_like(a, attack.scale)
            case "alie":
                honest = self.world.network.agents - len(attack.attackers)
                mean = self._sum(jnp.where(attackers, 0, a)) / honest
                spread = self._sum(jnp.where(attackers, 0, (a - mean) ** 2)) / (honest - 1)
                lies = jnp.broadcast_to(mean - attack.scale * jnp.sqrt(spread), a.shape)
            case _:
                lies = SIGN[attack.kind] * attack.scale * a
        return jnp.where(attackers, lies, a)

    def _attackers(self, attack: Attack) -> Array:
        """Who of the agents here attacks."""
        return self._here(np.isin(np.arange(self.world.network.agents), attack.attackers))

    def ones(self) -> Array:
        return jnp.ones((self.count(self.world), 1), self.world.problem.start.dtype)

    def place(self) -> Array:
        agents, dtype = self.world.problem.agents, self.world.problem.start.dtype
        return self.each(self.world, lambda agent: jax.nn.one_hot(agent, agents, dtype=dtype))

    def norm(self, a: Array) -> Array:
        return jnp.linalg.norm(a, axis=1, keepdims=True)

    def repeat(self, times: int, step: Callable[..., Any], *arrays: Array) -> Any:
        first, before = (self._calls, self._shrunk), replace(self.cost)
        arrays = _tuple(step(*arrays))  # apart, because the first query's key is that of the round
        self.cost.repeat(before, times)
        asked, shrunk, paid = self._calls - first[0], self._shrunk - first[1], replace(self.cost)

        def again(k: Any, carry: Any) -> Any:
            self.memory, arrays = carry
            self._calls, self._shrunk = first[0] + k * asked, first[1] + k * shrunk
            arrays = _tuple(step(*arrays))
            return self.memory, arrays

        if times > 1:
            self.memory, arrays = jax.lax.fori_loop(1, times, again, (self.memory, arrays))
            self.cost.repeat(paid, 0)
        self._calls, self._shrunk = first[0] + times * asked, first[1] + times * shrunk
        return arrays[0] if len(arrays) == 1 else arrays

    def mean(self, *arrays: Array) -> Array:
        self.cost.reductions += 1
        self.cost.reduced += sum(a[0].size for a in arrays)
        self.cost.order += (Reduce(bytes_of(arrays)),)
        return _like(arrays, tuple(jnp.broadcast_to(self._mean(self._sent(a)), a.shape) for a in arrays))

    def average(self, a: Array, warm: Any, over: Literal["W", "C"] = "W") -> Array:
        if warm == "mean":
            return self.mean(a)
        if warm == 0:
            return a
        self.cost.messages += warm
        self.cost.gossiped += warm * a[0].size
        self.cost.order += (Average(bytes_of((a,)), warm),)

        def mixed(t: Any, a: Array) -> Array:
            then = copy.copy(self)
            then.t = jnp.int32(t)
            return then._mix(a, over)

        return jax.lax.fori_loop(0, warm, mixed, a)

    # below: what differs where the agents are shared out over devices

    @classmethod
    def each(cls, world: World, function: Callable[..., Any], *stacked: Any) -> Any:
        """The function of an agent's number and its own slices, for all agents that are here."""
        return each(function, cls.count(world), *stacked)

    @classmethod
    def count(cls, world: World) -> int:
        """How many agents are here."""
        return world.problem.agents

    def _multiply(self, a: Array, over: Literal["W", "R", "C"]) -> Array:
        return self.world.network.mix(a, self.t, over)

    def _mean(self, a: Array) -> Array:
        return a.mean(0)

    def _sum(self, a: Array) -> Array:
        return a.sum(0)

    def _here(self, of_all: Any) -> Array:
        """What belongs to the agents that are here."""
        return jnp.asarray(of_all)

    def _heard(self, mixer: Any, a: Array) -> tuple[Array, Array, Array, Array]:
        """The rows that the agents here can see, where each finds its own, where its neighbours', and their weights."""
        return a, jnp.arange(len(a), dtype=jnp.int32), jnp.asarray(mixer.indices), jnp.asarray(mixer.weights)


def each(function: Callable[..., Any], agents: int, *stacked: Any) -> Any:
    """The function of an agent's number and its own slices, for all agents, in blocks.

    A block is cut out of the arrays where they lie, and its results are put where they belong: so no array is copied
    into blocks and back. All blocks are of one size, so the last begins where it is whole; what it has in common with
    the one before it, it makes again, and that is the same.
    """
    everything = (jnp.arange(agents, dtype=jnp.int32), *stacked)
    if agents <= BLOCK:
        return jax.vmap(function)(*everything)
    blocks = -(-agents // BLOCK)
    size = -(-agents // blocks)

    def of_block(first: Any) -> Any:
        return jax.vmap(function)(*jax.tree.map(lambda a: jax.lax.dynamic_slice_in_dim(a, first, size), everything))

    def put(k: Array, results: Any) -> Any:
        first = jnp.minimum(k * size, agents - size)
        placed = partial(jax.lax.dynamic_update_slice_in_dim, start_index=first, axis=0)
        return jax.tree.map(placed, results, of_block(first))

    empty = jax.tree.map(lambda a: jnp.zeros((agents, *a.shape[1:]), a.dtype), jax.eval_shape(of_block, 0))
    return jax.lax.fori_loop(0, blocks, put, empty)


def _tuple(made: Any) -> tuple[Array, ...]:
    return made if isinstance(made, tuple) else (made,)


def bytes_of(arrays: tuple[Array, ...]) -> float:
    """What one agent's rows of the arrays take."""
    return float(sum(a[0].size * a.dtype.itemsize for a in arrays))


def _column(of_agents: Array, a: Array) -> Array:
    """A number for each agent, shaped to go with its row."""
    return of_agents.reshape((-1,) + (1,) * (a.ndim - 1))


def _like(given: tuple[Array, ...], made: tuple[Any, ...]) -> Any:
    return made[0] if len(given) == 1 else made
