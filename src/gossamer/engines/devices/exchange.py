"""Gossip between devices that hold several agents each: which rows they send one another, and the products after that.

Device p holds the agents p·m … (p + 1)·m − 1. Before a product, rows are exchanged: only those that another device has
a link to, or, where that would be most of them, all. Everything here runs inside `jax.shard_map` over the axis `AXIS`.
"""

import dataclasses
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Bool, Float, Int

from gossamer.basics.pytrees import pytree
from gossamer.networks.drawn import Drawn
from gossamer.networks.faults import Faults
from gossamer.networks.mixers import (
    Cycle,
    Directed,
    Every,
    Explicit,
    Full,
    Hubs,
    MatrixName,
    Mean,
    Neighbours,
    Shifts,
)
from gossamer.networks.spectrum import size

AXIS = "agents"
"""The axis of the mesh over which the agents are shared out."""

MOST = 0.5
"""The share of the other devices' rows beyond which all of them are gathered, in one exchange in place of several."""

SMALL = 1 << 20
"""The most numbers of which a mean is taken after all rows are gathered, so that it has the bits of one device."""

STATIC = {"static": True}


@pytree
@dataclasses.dataclass(frozen=True, eq=False)
class Exchange:
    """The rows that a device holds once the others have sent theirs: its own first, or all in order."""

    sends: tuple[Int[Any, "devices rows"], ...]
    """For each step, the rows that every device sends that many devices on; short lists repeat a row."""
    steps: tuple[int, ...] = dataclasses.field(metadata=STATIC)
    devices: int = dataclasses.field(metadata=STATIC)
    gathers: bool = dataclasses.field(metadata=STATIC)
    """Whether all rows are gathered."""

    def __call__(self, x: Float[Array, "own ..."]) -> Float[Array, "held ..."]:
        if self.gathers:
            return jax.lax.all_gather(x, AXIS, tiled=True)
        held = [x]
        for step, rows in zip(self.steps, self.sends, strict=True):
            onwards = [(device, (device + step) % self.devices) for device in range(self.devices)]
            held.append(jax.lax.ppermute(x[rows[0]], AXIS, onwards))
        return jnp.concatenate(held)

    @staticmethod
    def everything(agents: int, devices: int) -> tuple["Exchange", Int[np.ndarray, "devices agents"]]:
        """All rows go everywhere."""
        return Exchange((), (), devices, True), np.tile(np.arange(agents, dtype=np.int32), (devices, 1))

    @staticmethod
    def along(links: sp.csr_array, devices: int) -> tuple["Exchange", Int[np.ndarray, "devices agents"]]:
        """Rows go where these links need them; and the place at which every device then holds each agent's row."""
        agents = size(links)
        own = agents // devices
        entries = sp.coo_array(links)
        needed = np.unique((entries.row // own).astype(np.int64) * agents + entries.col)
        receiver, sender = needed // agents, needed % agents // own
        place = np.zeros((devices, agents), np.int32)
        for device in range(devices):
            place[device, device * own : (device + 1) * own] = np.arange(own)
        steps, sends, held = [], [], own
        for step in range(1, devices):
            wanted = [needed[(receiver == (q + step) % devices) & (sender == q)] % agents for q in range(devices)]
            longest = max(map(len, wanted))
            if not longest:
                continue
            for q, rows in enumerate(wanted):
                place[(q + step) % devices, rows] = held + np.arange(len(rows))
            steps.append(step)
            padded = [np.pad(rows - q * own, (0, longest - len(rows))) for q, rows in enumerate(wanted)]
            sends.append(np.stack(padded).astype(np.int32))
            held += longest
        if held - own > MOST * (agents - own):
            return Exchange.everything(agents, devices)
        return Exchange(tuple(sends), tuple(steps), devices, False), place


class Shared:
    """A mixer of the rows of one device. It stands where a `Mixer` stood, in a cycle or under local steps too."""

    def awake(self, t: Any) -> Bool[Array, " own"] | None:
        """Who of this device's agents is awake."""
        return None

    def specs(self) -> Any:
        """How its leaves lie on the devices."""
        return jax.tree.map(lambda leaf: P(AXIS), self)


@pytree
@dataclasses.dataclass(frozen=True, eq=False)
class SharedTable(Shared):
    """`Neighbours` that never change: every device has its rows of the table, which name places after the exchange."""

    exchange: Exchange
    indices: Int[Any, "agents width"]
    weights: Float[Any, "agents width"]

    @staticmethod
    def of(table: Neighbours, devices: int) -> "SharedTable":
        indices = np.asarray(table.indices)
        agents = len(indices)
        exchange, place = Exchange.along(table.sparse(), devices)
        device = np.arange(agents)[:, None] // (agents // devices)
        return SharedTable(exchange, place[device, indices], table.weights)

    def mix(self, x: Array, t: Any = 0, over: MatrixName = "W") -> Array:
        return _table(self.indices, self.weights, self.exchange(x), x)


@pytree
@dataclasses.dataclass(frozen=True, eq=False)
class SharedFull(Shared):
    """A dense matrix: every device has its rows, and gathers all of x."""

    matrix: Float[Any, "agents agents"]

    def mix(self, x: Array, t: Any = 0, over: MatrixName = "W") -> Array:
        return _product(self.matrix, jax.lax.all_gather(x, AXIS, tiled=True))


@pytree
@dataclasses.dataclass(frozen=True, eq=False)
class SharedMean(Shared):
    """All agents average at once."""

    def mix(self, x: Array, t: Any = 0, over: MatrixName = "W") -> Array:
        return jnp.broadcast_to(mean(x), x.shape)


@pytree
@dataclasses.dataclass(frozen=True, eq=False)
class SharedRounds(Shared):
    """A mixer whose round is made anew, or that has hubs: every device makes all of it, and takes its own rows."""

    base: Any
    exchange: Exchange
    place: Int[Any, "devices agents"]

    def specs(self) -> Any:
        return dataclasses.replace(super().specs(), base=jax.tree.map(lambda leaf: P(), self.base))

    def awake(self, t: Any) -> Bool[Array, " own"] | None:
        awake = self.base.awake(t)
        return None if awake is None else self._own(awake)

    def mix(self, x: Array, t: Any = 0, over: MatrixName = "W") -> Array:
        held = self.exchange(x)
        weights: Explicit = self.base.at(t, over) if isinstance(self.base, Drawn) else self.base
        match weights:
            case Neighbours(indices, numbers):
                return self._rows(indices, numbers, held, x)
            case Full(matrix):
                return _product(self._own(jnp.asarray(matrix)), held)
            case Hubs(table, hubs, rows):
                here = jnp.asarray(hubs) - jax.lax.axis_index(AXIS) * len(x)
                nobody = jnp.where((here >= 0) & (here < len(x)), here, len(x))
                sparse = self._rows(table.indices, table.weights, held, x)
                return sparse.at[nobody].set(_product(rows, held), mode="drop")

    def _rows(self, indices: Any, weights: Any, held: Array, x: Array) -> Array:
        return _table(self.place[0][self._own(jnp.asarray(indices))], self._own(jnp.asarray(weights)), held, x)

    def _own(self, rows: Array) -> Array:
        count = len(rows) // self.exchange.devices
        return jax.lax.dynamic_slice_in_dim(rows, jax.lax.axis_index(AXIS) * count, count)


def mean(x: Float[Array, "own ..."]) -> Float[Array, "..."]:
    """The mean over the agents of all devices."""
    agents = len(x) * jax.lax.axis_size(AXIS)
    if agents * x[0].size <= SMALL:
        return jax.lax.all_gather(x, AXIS, tiled=True).mean(0)
    return jax.lax.psum(x.sum(0), AXIS) / agents


def shared(mixer: Any, agents: int, devices: int) -> Any:
    """The mixer of a network whose agents are shared out over so many devices."""
    match mixer:
        case Cycle(rounds, stride):
            return Cycle(tuple(shared(each, agents, devices) for each in rounds), stride)
        case Every(_, base, rounds, stride):
            return Every(agents, shared(base, agents, devices), rounds, stride)
        case Directed(row, column):
            return Directed(shared(row, agents, devices), shared(column, agents, devices))
        case Mean():
            return SharedMean()
        case Full(matrix):
            return SharedFull(matrix)
        case Shifts():
            return SharedTable.of(Neighbours.of(mixer.sparse()), devices)
        case Neighbours():
            return SharedTable.of(mixer, devices)
    sparse = isinstance(mixer, Faults) and all(isinstance(part, Neighbours) for part in _parts(mixer.base))
    links = mixer.union() if sparse else None
    exchange, place = Exchange.everything(agents, devices) if links is None else Exchange.along(links, devices)
    return SharedRounds(mixer, exchange, place)


def exchanges(mixer: Any) -> Iterator[bool]:
    """For each mixer of a shared network, whether it gathers all rows."""
    for node in jax.tree.leaves(mixer, is_leaf=lambda node: isinstance(node, Shared)):
        match node:
            case SharedTable() | SharedRounds():
                yield node.exchange.gathers
            case Shared():
                yield True


def specs_of(network: Any) -> Any:
    """How the leaves of a shared network lie on the devices."""
    return jax.tree.map(lambda node: node.specs(), network, is_leaf=lambda node: isinstance(node, Shared))


def _parts(base: Any) -> list[Any]:
    return [base.row, base.column] if isinstance(base, Directed) else [base]


def _table(indices: Any, weights: Any, held: Array, x: Array) -> Array:
    """Σ_k weights[i, k] · held[indices[i, k]], in the order of one device."""
    column, width = (-1,) + (1,) * (x.ndim - 1), indices.shape[1]

    def add(k: Any, y: Array) -> Array:
        return y + weights[:, k].astype(x.dtype).reshape(column) * held[indices[:, k]]

    return jax.lax.fori_loop(0, width, add, jnp.zeros_like(x), unroll=width <= 32)


def _product(matrix: Any, x: Array) -> Array:
    return jnp.tensordot(jnp.asarray(matrix).astype(x.dtype), x, axes=1, precision="highest")
