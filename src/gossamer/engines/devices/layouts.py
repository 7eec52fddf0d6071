"""How a block lies on devices: on one; its settings and seeds shared out; or the agents of every run.

Each layout has the same programs, those of `program`. Where settings and seeds are shared out, a device runs the
whole program on its share, and none waits for another. Where agents are, the rounds run device by device with gossip
between them, and what is measured is computed from the arrays of all devices.
"""

from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from gossamer.basics.keys import Keys, keys_of
from gossamer.core import InputError
from gossamer.engines import program
from gossamer.engines.agents import StackedAgents, World
from gossamer.engines.devices import sharing
from gossamer.engines.devices.exchange import AXIS
from gossamer.networks import Network
from gossamer.problems import Problem
from gossamer.problems.problem import cast

SETTINGS, SEEDS = "settings", "seeds"
"""The axes of the mesh over which runs are shared out."""


class Alone:
    """All on one device."""

    shares: tuple[int, int] = (1, 1)
    """Over how many devices the settings and the seeds of a block are shared out."""
    agents_over: int = 1
    """Over how many devices the agents of a run are."""

    def world(self, problem: Problem, network: Network, dtype: str) -> World:
        """What the program runs on, in this precision."""
        return World(cast(problem, dtype), cast(network, dtype))

    def over_settings(self, tree: Any) -> Any:
        """Arrays whose first axis is that of the settings."""
        return tree

    def everywhere(self, tree: Any) -> Any:
        """Arrays that every device has."""
        return tree

    def keys(self, seeds: list[int], agents: int) -> Keys:
        """The keys of all agents of the seeds."""
        return keys_of(seeds, agents)

    def runs(self, run: program.RunState) -> program.RunState:
        """Runs that go on from arrays of the host."""
        return jax.tree.map(jnp.asarray, run)

    def host(self, array: Any) -> np.ndarray:
        """An array of all devices and processes, on this host."""
        return np.asarray(array)

    def begin(self, form: program.Form, *arrays: Any) -> program.RunState:
        return program.begin(form, *arrays)

    def begun(self, form: program.Form, *arrays: Any) -> program.RunState:
        """The shapes of what `begin` gives."""
        return jax.eval_shape(partial(self.begin, form), *arrays)

    def advance(self, form: program.Form, metrics: Any, *arrays: Any) -> Any:
        return program.advance(form, metrics, *arrays)

    def biases(self, *arrays: Any) -> Any:
        return program.biases(*arrays)

    def worst(self, *arrays: Any) -> Any:
        return program.worst(*arrays)


@dataclass(frozen=True)
class Spread(Alone):
    """What the layouts over several devices have in common."""

    mesh: Mesh

    def everywhere(self, tree: Any) -> Any:
        return self._put(tree, P())

    def host(self, array: Any) -> np.ndarray:
        if array.is_fully_addressable or array.is_fully_replicated:
            return np.asarray(array)
        with jax.enable_x64(True):  # or float64 would not arrive as it is
            return np.asarray(multihost_utils.process_allgather(array, tiled=True))

    def _put(self, tree: Any, specs: Any) -> Any:
        """The tree on the devices. `specs` says how, for every leaf or for all; every process has the whole."""
        specs = jax.tree.map(lambda leaf: specs, tree) if isinstance(specs, P) else specs

        def leaf(a: Any, spec: P) -> jax.Array:
            a = np.asarray(a, jax.dtypes.canonicalize_dtype(a.dtype))
            return jax.make_array_from_callback(a.shape, NamedSharding(self.mesh, spec), lambda index: a[index])

        return jax.tree.map(leaf, tree, specs)


@dataclass(frozen=True)
class SharedRuns(Spread):
    """The settings and the seeds of a block in equal shares; every device has all the data."""

    @property
    def shares(self) -> tuple[int, int]:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.mesh.shape[SETTINGS], self.mesh.shape[SEEDS]

    def world(self, problem: Problem, network: Network, dtype: str) -> World:
        return self.everywhere(World(_in(problem, dtype), _in(network, dtype)))

    def over_settings(self, tree: Any) -> Any:
        return self._put(tree, P(SETTINGS))

    def keys(self, seeds: list[int], agents: int) -> Keys:
        return _keys(NamedSharding(self.mesh, P(SEEDS)))(np.array(seeds, np.uint32), agents)

    def runs(self, run: program.RunState) -> program.RunState:
        return self._put(run, P(SETTINGS, SEEDS))

    def begin(self, form: program.Form, *arrays: Any) -> program.RunState:
        return _begun_in_shares(self.mesh, form, *arrays)

    def advance(self, form: program.Form, metrics: Any, *arrays: Any) -> Any:
        return _advanced_in_shares(self.mesh, form, metrics, *arrays)

    def biases(self, *arrays: Any) -> Any:
        return _biases_in_shares(self.mesh, *arrays)

    def worst(self, *arrays: Any) -> Any:
        return _worst_in_shares(self.mesh, *arrays)


RUN = 7
"""Where the runs stand among the arguments of the programs below: they are given up, as in `program.advance`."""

RUNS = P(SETTINGS, SEEDS)
BY_SETTINGS: Any = (P(SETTINGS), P(SETTINGS), P(), P(SETTINGS), P(SETTINGS))
HYPER = program.BlockHyper(*BY_SETTINGS)


def _in_shares(function: Any, mesh: Mesh, given: tuple[Any, ...], made: Any) -> Any:
    return jax.shard_map(function, mesh=mesh, in_specs=given, out_specs=made, check_vma=False)


@partial(jax.jit, static_argnums=(0, 1))
def _begun_in_shares(mesh: Mesh, form: program.Form, *arrays: Any) -> program.RunState:
    start = partial(program.starts, form, StackedAgents)
    return _in_shares(start, mesh, (P(), P(SETTINGS), HYPER, P(SEEDS)), RUNS)(*arrays)


@partial(jax.jit, static_argnums=(0, 1, 2), donate_argnums=RUN, compiler_options=program.SERIAL)
def _advanced_in_shares(mesh: Mesh, form: program.Form, metrics: Any, *arrays: Any) -> Any:
    advance = partial(program.legs, partial(program.rounds, form, StackedAgents), form, metrics)
    given = (P(), P(SETTINGS), HYPER, P(SEEDS), RUNS, P(), P(), P(), P())
    return _in_shares(advance, mesh, given, (RUNS, P(None, SETTINGS, SEEDS)))(*arrays)


@partial(jax.jit, static_argnums=0)
def _biases_in_shares(mesh: Mesh, *arrays: Any) -> Any:
    return _in_shares(program.biases, mesh, (P(), P(SETTINGS), P(SETTINGS), P(SEEDS), RUNS), RUNS)(*arrays)


@partial(jax.jit, static_argnums=0)
def _worst_in_shares(mesh: Mesh, *arrays: Any) -> Any:
    return _in_shares(program.worst, mesh, (P(), RUNS), RUNS)(*arrays)


@dataclass(frozen=True)
class SharedOut(Spread):
    """The agents of every run in equal shares, each with its own samples and its own part of the state."""

    @property
    def agents_over(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.mesh.size

    def world(self, problem: Problem, network: Network, dtype: str) -> World:
        world = sharing.shared_world(problem, network, self.mesh)
        return self._put(World(_in(world.problem, dtype), _in(world.network, dtype)), sharing.specs_of(world))

    def over_settings(self, tree: Any) -> Any:
        return self.everywhere(tree)

    def keys(self, seeds: list[int], agents: int) -> Keys:
        return _keys(NamedSharding(self.mesh, AGENTS))(np.array(seeds, np.uint32), agents)

    def runs(self, run: program.RunState) -> program.RunState:
        return self._put(run, _run_specs(run))

    def begin(self, form: program.Form, *arrays: Any) -> program.RunState:
        return _begun_by_agents(self.mesh, form, *arrays)

    def advance(self, form: program.Form, metrics: Any, *arrays: Any) -> Any:
        return _advanced_by_agents(self.mesh, form, metrics, *arrays)


AGENTS = P(None, None, AXIS)
"""Of arrays [settings, seeds, agents, …], and of keys."""

BY_AGENTS: Any = (AGENTS, AGENTS, P())
"""Of the state, the oracle's memory, and the round in which a run diverged."""


def _run_specs(run: program.RunState) -> program.RunState:
    ended: Any = P()
    state, memory = jax.tree.map(lambda leaf: AGENTS, (run.state, run.memory))
    return program.RunState(state, memory, ended, None if run.reached is None else ended)


@partial(jax.jit, static_argnums=(0, 1))
def _begun_by_agents(mesh: Mesh, form: program.Form, world: World, *arrays: Any) -> program.RunState:
    def start(world: World, *arrays: Any) -> program.RunState:
        run = program.starts(form, sharing.SharedAgents, sharing.local(world), *arrays)
        for name, array in run.state.items():
            if array.shape[2:3] != run.state.x.shape[2:3]:
                raise InputError(
                    f"{form.kind.name}: {name} of its State has no axis of agents, so that they cannot be shared out "
                    'over devices: let it start with one, or take split = "runs".'
                )
        return run

    made = program.RunState(*BY_AGENTS)
    given = (sharing.specs_of(world), P(), P(), AGENTS)
    return _in_shares(start, mesh, given, made)(world, *arrays)


@partial(jax.jit, static_argnums=(0, 1, 2), donate_argnums=RUN, compiler_options=program.SERIAL)
def _advanced_by_agents(mesh: Mesh, form: program.Form, metrics: Any, *arrays: Any) -> Any:
    def rounds(world: World, *arrays: Any) -> program.RunState:
        return program.rounds(form, sharing.SharedAgents, sharing.local(world), *arrays)

    def going(world: World, oracles: Any, hyper: Any, keys: Any, run: program.RunState, *span: Any) -> Any:
        specs = _run_specs(run)
        given = (sharing.specs_of(world), P(), P(), AGENTS, specs, P(), P())
        return _in_shares(rounds, mesh, given, specs)(world, oracles, hyper, keys, run, *span)

    return program.legs(going, form, metrics, *arrays)


def _in(tree: Any, dtype: str) -> Any:
    """The tree on the host, its floating leaves in this precision."""

    def leaf(a: Any) -> np.ndarray:
        a = np.asarray(a)
        return a.astype(dtype) if jnp.issubdtype(a.dtype, jnp.floating) else a

    return jax.tree.map(leaf, tree)


@cache
def _keys(where: NamedSharding) -> Any:
    return jax.jit(partial(keys_of, using=jnp), static_argnums=1, out_shardings=where)


ALONE = Alone()
