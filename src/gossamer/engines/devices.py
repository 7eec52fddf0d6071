"""Devices: which ones runs take, and how settings, seeds and agents are split over them.

A layout is a mesh with three axes. The first two split the settings and the seeds of a block: a device runs the whole
program on its share, and no device waits for another. The third splits the agents of every run: gradients are computed
where the samples of an agent lie, and JAX partitions everything else, gossip included. One device is the layout without
a mesh.
"""

import dataclasses
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, cached_property, partial
from typing import Any, Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from jaxtyping import Array

from gossamer.basics.keys import Keys, keys_of
from gossamer.basics.progress import Say
from gossamer.basics.pytrees import pytree
from gossamer.basics.text import plural
from gossamer.core import InputError, brief, whole
from gossamer.engines.processes import are_several
from gossamer.networks import Network
from gossamer.oracles import Oracle
from gossamer.problems import Empirical, Problem
from gossamer.problems.inputs import in_blocks
from gossamer.problems.problem import cast

SETTINGS, SEEDS, AGENTS = "settings", "seeds", "agents"
"""The axes of the mesh."""

EVERYWHERE = P()
"""The sharding of arrays that every device has."""

RUNS = P(SETTINGS, SEEDS)
"""The sharding of arrays [settings, seeds]."""

EXCHANGE = 2e-4
"""Seconds that one exchange between devices takes, at least (measured: 0.1 to 0.3 ms among the devices of a CPU)."""

NUMBER = 1e-9
"""Seconds that one device takes to read one number of a sample."""

ROWS = ("inputs", "targets", "row_weights")
"""The fields of an empirical problem with one row for each sample."""

Split = Literal["runs", "agents"]
"""The parts that may be split over devices: whole runs, by seed and setting, or the agents of every run."""


@dataclasses.dataclass(frozen=True)
class DeviceLayout:
    """The numbers of devices over the settings, the seeds and the agents of a block. It is static in a program."""

    settings: int = 1
    seeds: int = 1
    agents: int = 1

    @cached_property
    def mesh(self) -> Mesh | None:
        """The mesh over JAX's first devices; None for one device."""
        shape = self.settings, self.seeds, self.agents
        count = math.prod(shape)
        if count == 1:
            return None
        return jax.make_mesh(shape, (SETTINGS, SEEDS, AGENTS), (AxisType.Auto,) * 3, devices=jax.devices()[:count])

    def put(self, tree: Any, specs: Any = EVERYWHERE) -> Any:
        """Place arrays that every process has on the devices, by one sharding or by a tree of them."""
        if self.mesh is None:
            return tree
        mesh, specs = self.mesh, jax.tree.map(lambda leaf: specs, tree) if isinstance(specs, P) else specs

        def place(leaf: Any, spec: P) -> Array:
            whole_array = np.asarray(leaf)
            sharding = NamedSharding(mesh, spec)
            # unlike `device_put`, this compares nothing between processes
            return jax.make_array_from_callback(whole_array.shape, sharding, lambda index: whole_array[index])

        return jax.tree.map(place, tree, specs)

    def put_world(self, problem: Problem, network: Network, dtype: str) -> tuple[Problem, Network]:
        """Place the problem and the network in this precision; samples lie with their agents."""
        if self.agents > 1 and isinstance(problem, Empirical):
            assert self.mesh is not None
            problem = _group_samples(problem, self.mesh)
        problem, network = cast(problem, dtype), cast(network, dtype)
        if self.mesh is None:
            return problem, network
        return self.put(problem, problem_shardings(problem)), self.put(network)

    def put_keys(self, seeds: list[int], agents: int) -> Keys:
        """Return the keys of all agents and seeds, on their devices."""
        if self.mesh is None:
            return keys_of(seeds, agents)
        return _make_keys(NamedSharding(self.mesh, P(SEEDS, None, AGENTS)))(np.array(seeds, np.uint32), agents)

    def fetch(self, tree: Any) -> Any:
        """Return arrays of all devices and processes as NumPy's."""

        def gather(array: Any) -> np.ndarray:
            if array.is_fully_addressable or array.is_fully_replicated:
                return np.asarray(array)
            with jax.enable_x64(True):  # or float64 would arrive as float32
                return np.asarray(multihost_utils.process_allgather(array, tiled=True))

        return jax.tree.map(np.asarray if self.mesh is None else gather, tree)

    def shard_runs(self, function: Callable[..., Any], in_specs: Any, out_specs: Any) -> Callable[..., Any]:
        """Return the function with each device on its share of settings and seeds."""
        if self.settings == self.seeds == 1:
            return function
        return jax.shard_map(function, mesh=self.mesh, in_specs=in_specs, out_specs=out_specs, check_vma=False)

    def constrain(self, tree: Any, spec: P | None = None) -> Any:
        """Keep arrays split by `spec`, or as the state of runs, inside a compiled program that splits agents."""
        if self.mesh is None or self.agents == 1:
            return tree
        specs = run_shardings(tree) if spec is None else jax.tree.map(lambda leaf: spec, tree)
        return jax.lax.with_sharding_constraint(tree, jax.tree.map(partial(NamedSharding, self.mesh), specs))

    def shard_agents(self, function: Callable[..., Any], problem: Problem, common: Any, *stacked: Any) -> Any:
        """Call `function(problem, common, first agent, agents, *rows)` on each device, with its own samples and rows.

        All arrays are arguments: JAX refuses arrays of all devices that a function on one device closes over.
        """
        if self.agents == 1:
            return function(problem, common, 0, problem.agents, *stacked)
        count = problem.agents // self.agents

        def on_device(problem: Problem, common: Any, *stacked: Any) -> Any:
            if isinstance(problem, SplitEmpirical):  # samples are counted from the first that lies here
                offsets = problem.offsets % problem.row_weights.shape[0]
                problem = dataclasses.replace(problem, offsets=offsets)
            return function(problem, common, jax.lax.axis_index(AGENTS) * count, count, *stacked)

        in_specs = problem_shardings(problem), P(), *(P(AGENTS) for _ in stacked)
        split = jax.shard_map(on_device, mesh=self.mesh, in_specs=in_specs, out_specs=P(AGENTS), check_vma=False)
        return split(problem, common, *stacked)


ONE_DEVICE = DeviceLayout()


def run_shardings(run: Any) -> Any:
    """Return the shardings of the state of runs: arrays [settings, seeds] or [settings, seeds, agents, …]."""
    return jax.tree.map(lambda leaf: P(SETTINGS, SEEDS, AGENTS) if leaf.ndim > 2 else RUNS, run)


def problem_shardings(problem: Problem) -> Any:
    """Return the shardings of a problem's arrays: samples by agents, where they are grouped so."""
    shardings = jax.tree.map(lambda leaf: P(), problem)
    if not isinstance(problem, SplitEmpirical):
        return shardings
    rows = {name: jax.tree.map(lambda leaf: P(AGENTS), getattr(problem, name)) for name in ROWS}
    return dataclasses.replace(shardings, **rows)


@cache
def _make_keys(sharding: NamedSharding) -> Any:
    return jax.jit(partial(keys_of, using=jnp), static_argnums=1, out_shardings=sharding)


@pytree
@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class SplitEmpirical(Empirical):
    """An empirical problem whose samples lie with their agents: F and ∇F are sums over the devices."""

    mesh: Mesh = dataclasses.field(metadata={"static": True}, kw_only=True)

    def _over_all(self, function: Callable[..., Any], x: Array) -> Any:
        def on_device(rows: dict[str, Any], x: Array) -> Any:
            part = super(SplitEmpirical, dataclasses.replace(self, **rows))._over_all(function, x)
            return jax.lax.psum(part, AGENTS)

        rows = {name: getattr(self, name) for name in ROWS}
        split = jax.shard_map(on_device, mesh=self.mesh, in_specs=(P(AGENTS), P()), out_specs=P(), check_vma=False)
        return split(rows, x)


def _group_samples(problem: Empirical, mesh: Mesh) -> SplitEmpirical:
    """Return the problem with its samples in equal blocks, one a device, padded with copies of weight zero."""
    devices, offsets, sizes = mesh.size, np.asarray(problem.offsets), np.asarray(problem.sizes)
    own = len(sizes) // devices
    # the samples of a device are those of its agents, which are adjacent
    counts = sizes.reshape(devices, own).sum(1)
    block = int(counts.max()) + problem.longest  # the slice of a device's last agent is as long as the longest
    order = np.concatenate(
        [np.resize(np.arange(first, first + count), block) for first, count in zip(offsets[::own], counts, strict=True)]
    )
    real = (np.arange(block) < counts[:, None]).ravel()
    starts = offsets - np.repeat(offsets[::own], own) + np.repeat(np.arange(devices) * block, own)
    rows = {name: in_blocks(getattr(problem, name), order, devices) for name in ("inputs", "targets")}
    weights = np.where(real, np.asarray(problem.row_weights)[order], 0)
    fields = {field.name: getattr(problem, field.name) for field in dataclasses.fields(Empirical)}
    fields |= rows | {"offsets": starts.astype(np.int32), "row_weights": weights}
    return SplitEmpirical(**fields, mesh=mesh)


def devices(count: int) -> None:
    """Show so many devices of the CPU to JAX: call it before anything is computed.

    JAX shows the CPU as one device unless it is told so before it starts. Take as many as there are cores; other
    kinds of devices are all seen without it.
    """
    count = whole("devices", count)
    try:
        jax.config.update("jax_num_cpu_devices", count)
    except RuntimeError:
        shown = jax.local_device_count()
        if shown != count or jax.default_backend() != "cpu":
            raise InputError(
                f"devices({count}) comes too late: JAX has started and shows {plural(shown, 'device')}. Call it first, "
                f"before anything is computed, or start Python with JAX_NUM_CPU_DEVICES={count} in the environment."
            ) from None


class Width(NamedTuple):
    """The size of a block on one device. It changes the last bits of a run, so it belongs to what determines one."""

    settings: int
    seeds: int

    def times(self, layout: DeviceLayout) -> "Width":
        """Return the size of a block on all devices of the layout."""
        return Width(self.settings * layout.settings, self.seeds * layout.seeds)


@dataclasses.dataclass(frozen=True)
class DeviceRequest:
    """The devices that a user asks for, and the lines about them that were shown already."""

    devices: int | Literal["all"] | None = None
    split: Split | None = None
    shown: set[str] = dataclasses.field(default_factory=set)


_request: ContextVar[DeviceRequest] = ContextVar("request", default=DeviceRequest())  # noqa: B039


@contextmanager
def use_devices(devices: Any = None, split: Any = None) -> Iterator[None]:
    """Split runs in this context over so many devices, or over "all"; None keeps what was asked for before."""
    if split is not None and split not in get_args(Split):
        raise InputError(f'split must be "runs" or "agents", but is {brief(split)}.')
    if devices is None and split is not None:
        raise InputError(f'split = "{split}" says how to share out over devices: give devices as well, such as "all".')
    if devices is None:
        devices, split = _request.get().devices, _request.get().split
    elif devices != "all":
        devices = whole("devices", devices, advice='Or give "all".')
    token = _request.set(DeviceRequest(devices, split))
    try:
        yield
    finally:
        _request.reset(token)


def choose_layout(
    settings: int,
    seeds: int,
    width: Width,
    problem: Problem,
    network: Network,
    oracle: Oracle,
    say: Say = lambda text, *, aside=False: None,
) -> tuple[DeviceLayout, Width]:
    """Choose the fastest layout for so many runs on the devices that were asked for, and say which one it is.

    A block that holds all seeds is cut, so that every device has some; blocks of fewer seeds stay as they are, so that
    their bits do not depend on the devices.
    """
    request = _request.get()
    count, exact = _count_devices(request, network)
    if count == 1:
        return ONE_DEVICE, width
    ways: list[tuple[DeviceLayout, Width]] = []
    if request.split != "agents":
        blocks = math.ceil(settings / width.settings)
        over_settings = max(k for k in range(1, count + 1) if count % k == 0 and k <= blocks)
        over_seeds = count // over_settings
        each = width.seeds if width.seeds < seeds else math.ceil(seeds / over_seeds)
        busy = min(over_seeds, math.ceil(seeds / each))
        if over_settings * busy > 1:
            over_seeds = over_seeds if are_several() else busy  # no process may be left out
            ways.append((DeviceLayout(over_settings, over_seeds), Width(width.settings, each)))
    if request.split != "runs":
        most = max(k for k in range(1, count + 1) if problem.agents % k == 0)
        if most > 1 and (most == count or not exact):
            ways.append((DeviceLayout(agents=most), width))
    if not ways and exact and request.split == "runs":
        raise InputError(
            f"there is one block of one seed, which {count} devices cannot share: take more seeds, or share agents."
        )
    if not ways and exact:
        fit = ", ".join(str(k) for k in range(1, problem.agents + 1) if problem.agents % k == 0)
        raise InputError(f"{problem.agents} agents cannot be shared equally by {count} devices: take one of {fit}.")
    if not exact and (request.split is None or not ways):
        ways.append((ONE_DEVICE, width))
    read = problem.agents * problem.dim * (samples_a_query(problem, oracle) or problem.dim)

    def estimate_seconds(way: tuple[DeviceLayout, Width]) -> float:
        layout, width = way
        all_devices = width.times(layout)
        passes = math.ceil(settings / all_devices.settings) * math.ceil(seeds / all_devices.seeds)
        one = width.settings * width.seeds * NUMBER * read
        return passes * (one if layout.agents == 1 else one / layout.agents + EXCHANGE)

    layout, width = min(ways, key=estimate_seconds)
    if layout.agents > 1:
        text = f"{problem.agents:,} agents over {layout.agents} devices, {problem.agents // layout.agents:,} each"
        if layout.agents < count:
            text += f" ({count} devices, but the agents must be shared equally)"
    elif layout.mesh is not None:
        share = f"{plural(width.seeds, 'seed')} of {plural(width.settings, 'setting')}"
        text = f"runs over {layout.mesh.size} devices, {share} on each"
    else:
        text = f"one device of {count}: a round is too short to be shared out"
    if text not in request.shown:
        request.shown.add(text)
        say(text)
    return layout, width


def _count_devices(request: DeviceRequest, network: Network) -> tuple[int, bool]:
    """Return how many devices were asked for, 1 where nobody asked, and True if it must be exactly so many."""
    several = are_several()
    if request.devices is None and not several:
        return 1, False
    if network.asynchronous:
        raise InputError(f"{network.name} runs on one device: leave devices out, or use it without asynchronous.")
    seen, given = jax.device_count(), request.devices or "all"
    count = seen if given == "all" else given
    if count > seen:
        raise InputError(
            f"devices = {count}, but JAX sees {plural(seen, 'device')}. On a CPU call gossamer.devices({count}) before "
            f"anything is computed, or give --devices {count} on the command line; or take at most {seen}."
        )
    if several and count != seen:
        raise InputError(f"devices = {count}, but the processes have {seen} together: all of them are taken.")
    return count, given != "all" or several


def samples_a_query(problem: Problem, oracle: Any) -> int | None:
    """Return the number of samples that one query reads; None of a problem without samples."""
    if not isinstance(problem, Empirical):
        return None
    while hasattr(oracle, "inner"):
        oracle = oracle.inner
    return getattr(oracle, "batch", None) or problem.longest
