"""Networks in the form in which an agent can tell its neighbours' messages apart: a table of neighbours a round."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from gossamer.basics.sizes import refuse_beyond_memory
from gossamer.core import kinds_of_parts
from gossamer.networks import Network
from gossamer.networks.mixers import Cycle, Every, Neighbours

ENTRY = 12
"""Bytes of one entry of a table: a place and a weight."""


def told_apart(rule: Any, network: Network) -> Network:
    """The network with tables of neighbours, if the rule has an aggregator or sums along a tree; else as it is."""
    if not rule.tree and "aggregator" not in kinds_of_parts(type(rule)).values():
        return network
    largest = int(network.degrees.max()) + 1
    refuse_beyond_memory(
        f"a table of the neighbours of {network.agents:,} agents, of whom one has {largest - 1:,},",
        ENTRY * network.agents * largest,
        "use a network whose largest degree is smaller",
    )
    return dataclasses.replace(network, mixer=_tables(network.mixer))


def _tables(mixer: Any) -> Any:
    match mixer:
        case Cycle(rounds, stride):
            return Cycle(tuple(_tables(each) for each in rounds), stride)
        case Every(agents, base, rounds, stride):
            return Every(agents, _tables(base), rounds, stride)
        case Neighbours():
            return mixer
        case _:
            return Neighbours.of(mixer.sparse())


class Sum:
    """What `Agent.gossip_sum` makes of the neighbours' messages, as an aggregator."""

    def combine(self, own: Array, messages: Array, weights: Array) -> Array:
        return jnp.where((weights != 0)[:, None], messages, 0).sum(0)


def each_round(mixer: Any, t: Any, combine: Callable[[Any, Array], Array], a: Array) -> Array:
    """The function of the table of round t and of all rows; the rows as they are where nobody gossips."""
    match mixer:
        case Cycle(rounds, stride):
            turns = [lambda a, each=each: each_round(each, t, combine, a) for each in rounds]
            return jax.lax.switch((t // stride) % len(rounds), turns, a)
        case Every(_, base, rounds, stride):
            gossips = (t // stride) % rounds == 0
            return jax.lax.cond(gossips, lambda a: each_round(base, t, combine, a), lambda a: a, a)
        case _:
            return combine(mixer, a)
