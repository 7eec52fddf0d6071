"""Gossip in a compiled program: the product of a network's matrix of round t with the rows of all agents.

An aggregator sees each neighbour's message by itself: for it, networks become neighbour tables, one a round.
"""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any
from weakref import WeakKeyDictionary

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from gossamer.basics.pytrees import pytree, register_pending
from gossamer.basics.sizes import refuse_beyond_memory
from gossamer.core import kinds_of_parts
from gossamer.networks import Network
from gossamer.networks.drawn import Drawn
from gossamer.networks.mixers import Directed, Full, Hubs, MatrixName, Mean, Neighbours, Shifts
from gossamer.networks.sequences import Cycle

UNROLL = 32
"""The most columns of a table that is unrolled, which fuses into one pass; a wider one is a loop and compiles fast."""

ENTRY = 12
"""Bytes of one entry of a table: an index and a weight."""


_tabulated: WeakKeyDictionary[Network, Network] = WeakKeyDictionary()
"""Networks with their tables, which a run asks for several times."""

register_pending()  # networks, compressors and aggregators may have been imported before JAX


def mix(network: Network, x: Array, t: Any = 0, over: MatrixName = "W") -> Float[Array, "agents ..."]:
    """Return the product with W, R or C of round t, over the first axis of `x` and in its dtype.

    If W is doubly stochastic, R = C = W.
    """
    network.check_over(over)
    return multiply(network.mixer, jnp.asarray(x), jnp.asarray(t, jnp.int32), over)


def multiply(mixer: Any, x: Array, t: Any, over: MatrixName) -> Array:
    """Return the product of a mixer's matrix of round t with x, in the dtype of x."""
    match mixer:
        case Shifts(offsets=offsets):
            weights = jnp.asarray(mixer.weights).astype(x.dtype)
            mixed = jnp.zeros_like(x)
            for weight, offset in zip(weights, offsets, strict=True):
                mixed = mixed + weight * _translate(x, mixer.shape, offset)
            return mixed
        case Mean():
            return jnp.broadcast_to(x.mean(axis=0, keepdims=True), x.shape)
        case Neighbours():
            return _gather(mixer, x)
        case Full(matrix):
            return _product(matrix, x)
        case Hubs(table, hubs, rows):
            return _gather(table, x).at[jnp.asarray(hubs)].set(_product(rows, x))
        case Directed():
            return multiply(mixer.part(over), x, t, over)
        case Drawn():
            return multiply(mixer.at(t, over, jnp), x, t, over)
        case _:
            return each_turn(mixer, t, lambda turn, x: multiply(turn, x, t, over), x)


def each_turn(mixer: Any, t: Any, apply: Callable[[Any, Array], Array], x: Array) -> Array:
    """Apply a function of a mixer and of x to the mixer whose turn round t is; in a round without gossip return x."""
    match mixer:
        case Cycle(rounds=rounds):
            branches = [lambda x, turn=turn: each_turn(turn, t, apply, x) for turn in rounds]
            local = [lambda x: x] if len(rounds) < mixer.turns else []
            # a place beyond the last branch takes the last branch
            return jax.lax.switch(mixer.place(t), branches + local, x)
        case _:
            return apply(mixer, x)


def awake_mask(network: Network, t: Any) -> Bool[Array, " agents"] | None:
    """Return a mask of the agents that are awake in round t; None if no agent ever sleeps."""
    return _mask(network.mixer, t, network.agents) if network.mixer.sleeps else None


def _mask(mixer: Any, t: Any, agents: int) -> Array:
    match mixer:
        case Cycle(rounds=rounds):  # who sleeps does not step either, with or without gossip
            branches = [lambda t, each=each: _mask(each, t, agents) for each in rounds]
            return jax.lax.switch(mixer.place(t), branches, t)
        case _:
            mask = mixer.awake(t, jnp)
            return jnp.ones(agents, bool) if mask is None else mask


def _translate(x: Array, shape: tuple[int, ...], offset: tuple[int, ...]) -> Array:
    # One axis at a time, so that a hypercube of many agents never becomes an array of many dimensions.
    for axis, step in enumerate(offset):
        if step:
            block = (math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :]))
            x = jnp.roll(x.reshape(block + x.shape[1:]), step, axis=1).reshape(x.shape)
    return x


def _gather(table: Neighbours, x: Array) -> Array:
    indices, weights = jnp.asarray(table.indices), jnp.asarray(table.weights)

    def add(k: int, y: Array) -> Array:
        column = weights[:, k].astype(x.dtype).reshape((-1,) + (1,) * (x.ndim - 1))
        return y + column * x[indices[:, k]]

    width = indices.shape[1]
    if width <= UNROLL:
        return functools.reduce(lambda y, k: add(k, y), range(width), jnp.zeros_like(x))
    return jax.lax.fori_loop(0, width, add, jnp.zeros_like(x))


def _product(matrix: Any, x: Array) -> Array:
    # Accelerators multiply in less than float32 unless told; that would break the mean.
    return jnp.tensordot(jnp.asarray(matrix).astype(x.dtype), x, axes=1, precision="highest")


# --- neighbour tables ---


def with_tables(rule: Any, network: Network) -> Network:
    """Return the network with neighbour tables if the rule has an aggregator or sums along a tree; else as it is."""
    if not rule.tree and "aggregator" not in kinds_of_parts(type(rule)).values():
        return network
    if network in _tabulated:
        return _tabulated[network]
    # every row of a table is as wide as the longest
    largest = int(network.degrees.max()) + 1
    refuse_beyond_memory(
        f"a table of the neighbours of {network.agents:,} agents, of whom one has {largest - 1:,},",
        ENTRY * network.agents * largest,
        "use a network whose largest degree is smaller",
    )
    _tabulated[network] = replace(network, mixer=_tabulate(network.mixer))
    return _tabulated[network]


def _tabulate(mixer: Any) -> Any:
    match mixer:
        case Cycle(rounds=rounds):
            return replace(mixer, rounds=tuple(_tabulate(each) for each in rounds))
        case Neighbours():
            return mixer
        case _:
            return Neighbours.of(mixer.sparse())


@pytree
@dataclass(frozen=True)
class Sum:
    """The aggregator behind `Agent.gossip_sum`: the plain sum of the neighbours' messages."""

    def combine(self, own: Array, messages: Array, weights: Array) -> Array:
        return jnp.where((weights != 0)[:, None], messages, 0).sum(0)
