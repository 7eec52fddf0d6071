"""Networks as neighbour tables, one a round: the form in which an agent sees each neighbour's message by itself."""

import dataclasses
from typing import Any
from weakref import WeakKeyDictionary

import jax.numpy as jnp
from jaxtyping import Array

from gossamer.basics.pytrees import pytree
from gossamer.basics.sizes import refuse_beyond_memory
from gossamer.core import kinds_of_parts
from gossamer.networks import Network
from gossamer.networks.mixers import Neighbours
from gossamer.networks.sequences import Cycle, Every

ENTRY = 12
"""Bytes of one entry of a table: an index and a weight."""


_tabulated: WeakKeyDictionary[Network, Network] = WeakKeyDictionary()
"""Networks with their tables, which a run asks for several times."""


def with_tables(rule: Any, network: Network) -> Network:
    """Return the network with neighbour tables if the rule has an aggregator or sums along a tree; else as it is."""
    if not rule.tree and "aggregator" not in kinds_of_parts(type(rule)).values():
        return network
    if network in _tabulated:
        return _tabulated[network]
    largest = int(network.degrees.max()) + 1
    refuse_beyond_memory(
        f"a table of the neighbours of {network.agents:,} agents, of whom one has {largest - 1:,},",
        ENTRY * network.agents * largest,
        "use a network whose largest degree is smaller",
    )
    _tabulated[network] = dataclasses.replace(network, mixer=_tabulate(network.mixer))
    return _tabulated[network]


def _tabulate(mixer: Any) -> Any:
    match mixer:
        case Cycle(rounds, stride):
            return Cycle(tuple(_tabulate(each) for each in rounds), stride)
        case Every(agents, base, rounds, stride):
            return Every(agents, _tabulate(base), rounds, stride)
        case Neighbours():
            return mixer
        case _:
            return Neighbours.of(mixer.sparse())


@pytree
@dataclasses.dataclass(frozen=True)
class Sum:
    """The aggregator behind `Agent.gossip_sum`: the plain sum of the neighbours' messages."""

    def combine(self, own: Array, messages: Array, weights: Array) -> Array:
        return jnp.where((weights != 0)[:, None], messages, 0).sum(0)
