"""The agents of a run over several devices: what each device holds, and the `Agent` that a rule sees there."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P
from jaxtyping import Array

from gossamer.basics.pytrees import pytree
from gossamer.engines.agents import StackedAgents, World, each
from gossamer.engines.devices import exchange
from gossamer.engines.devices.exchange import AXIS
from gossamer.networks import Network
from gossamer.problems import Empirical, Problem
from gossamer.problems.inputs import in_blocks


class SharedAgents(StackedAgents):
    """The agents of one device, in one round: arrays are ``[own agents, d]``, numbers and keys are those of all."""

    @classmethod
    def each(cls, world: World, function: Callable[..., Any], *stacked: Any) -> Any:
        count = cls.count(world)
        first = jax.lax.axis_index(AXIS) * count
        return each(lambda here, *slices: function(first + here, *slices), count, *stacked)

    @classmethod
    def count(cls, world: World) -> int:
        return world.problem.agents // jax.lax.axis_size(AXIS)

    def _multiply(self, a: Array, over: Any) -> Array:
        return self.world.network.mixer.mix(a, self.t, over)

    def _mean(self, a: Array) -> Array:
        return exchange.mean(a)

    def _sum(self, a: Array) -> Array:
        return jax.lax.psum(a.sum(0), AXIS)

    def _here(self, of_all: Array) -> Array:
        own = self.count(self.world)
        return jax.lax.dynamic_slice_in_dim(jnp.asarray(of_all), jax.lax.axis_index(AXIS) * own, own)

    def _heard(self, mixer: Any, a: Array) -> tuple[Array, Array, Array, Array]:
        held, numbers = mixer.exchange(a), jnp.arange(len(a), dtype=jnp.int32)
        first = jax.lax.axis_index(AXIS) * len(a) if mixer.exchange.gathers else 0
        return held, numbers + first, mixer.indices, mixer.weights


@pytree
@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class SharedEmpirical(Empirical):
    """Samples that lie with their agents: F and its gradient are sums over the devices."""

    mesh: Mesh = dataclasses.field(metadata={"static": True}, kw_only=True)

    def _over_all(self, function: Callable[..., Any], x: Array) -> Any:
        def own(rows: dict[str, Any], x: Array) -> Any:
            here = dataclasses.replace(self, **rows)
            return jax.tree.map(
                lambda part: jax.lax.psum(part, AXIS), super(SharedEmpirical, here)._over_all(function, x)
            )

        rows = {name: getattr(self, name) for name in ROWS}
        summed = jax.shard_map(own, mesh=self.mesh, in_specs=(P(AXIS), P()), out_specs=P(), check_vma=False)
        return summed(rows, x)


def shared_world(problem: Problem, network: Network, mesh: Mesh) -> World:
    """The problem and the network, laid out for the devices of this mesh, on the host."""
    mixer = exchange.shared(network.mixer, network.agents, mesh.size)
    return World(_laid_out(problem, mesh), dataclasses.replace(network, mixer=mixer))


def specs_of(world: World) -> World:
    """How the leaves of a shared world lie on the devices: samples with their agents, other problems everywhere."""
    everywhere: Any = jax.tree.map(lambda leaf: P(), world.problem)
    if isinstance(world.problem, SharedEmpirical):
        rows = {name: jax.tree.map(lambda leaf: P(AXIS), getattr(world.problem, name)) for name in ROWS}
        everywhere = dataclasses.replace(everywhere, **rows)
    return World(everywhere, exchange.specs_of(world.network))


ROWS = ("inputs", "targets", "row_weights")
"""What of an empirical problem has one row for each sample."""


def local(world: World) -> World:
    """The world as one device sees it: samples are counted from the first that lies there."""
    if not isinstance(world.problem, SharedEmpirical):
        return world
    here = world.problem.row_weights.shape[0]
    return world._replace(problem=dataclasses.replace(world.problem, offsets=world.problem.offsets % here))


def _laid_out(problem: Problem, mesh: Mesh) -> Problem:
    """The samples in blocks of equally many rows, one for each device, filled up with copies that weigh nothing."""
    if not isinstance(problem, Empirical):
        return problem
    devices = mesh.size
    offsets, sizes = np.asarray(problem.offsets), np.asarray(problem.sizes)
    own = len(sizes) // devices
    counts = sizes.reshape(devices, own).sum(1)
    block = int(counts.max()) + problem.longest  # the slice of a device's last agent is as long as the longest
    order = np.concatenate(
        [np.resize(np.arange(first, first + count), block) for first, count in zip(offsets[::own], counts, strict=True)]
    )
    real = (np.arange(block) < counts[:, None]).ravel()
    starts = offsets - np.repeat(offsets[::own], own) + np.repeat(np.arange(devices) * block, own)
    rows = {name: in_blocks(getattr(problem, name), order, devices) for name in ROWS[:2]}
    weights = np.where(real, np.asarray(problem.row_weights)[order], 0)
    as_it_was = {field.name: getattr(problem, field.name) for field in dataclasses.fields(Empirical)}
    laid_out = {"offsets": starts.astype(np.int32), "row_weights": weights, **rows}
    return SharedEmpirical(**as_it_was | laid_out, mesh=mesh)
