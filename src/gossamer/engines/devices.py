"""Devices: which ones runs take, and how settings, seeds and agents lie on them.

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
from functools import cache, partial
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

STATES = P(SETTINGS, SEEDS, AGENTS)
"""The sharding of arrays [settings, seeds, agents, …]."""

EXCHANGE = 2e-4
"""Seconds that one exchange between devices takes, at least (measured: 0.1 to 0.3 ms among the devices of a CPU)."""

NUMBER = 1e-9
"""Seconds that one device takes to read one number of a sample."""

ROWS = ("inputs", "targets", "row_weights")
"""The fields of an empirical problem with one row for each sample."""

Split = Literal["runs", "agents"]
"""The parts that may be split over devices: whole runs, by seed and setting, or the agents of every run."""


@dataclasses.dataclass(frozen=True)
class Layout:
    """A mesh over the settings, the seeds and the agents of a block; no mesh is one device."""

    mesh: Mesh | None = None

    @staticmethod
    def over(settings: int = 1, seeds: int = 1, agents: int = 1) -> "Layout":
        """Return the layout over JAX's first devices, so many for each axis."""
        shape = settings, seeds, agents
        first = jax.devices()[: math.prod(shape)]
        return Layout(jax.make_mesh(shape, (SETTINGS, SEEDS, AGENTS), (AxisType.Auto,) * 3, devices=first))

    @property
    def shape(self) -> tuple[int, int, int]:
        """The numbers of devices over settings, seeds and agents."""
        return (1, 1, 1) if self.mesh is None else self.mesh.devices.shape  # pyright: ignore[reportReturnType]

    @property
    def agents(self) -> int:
        """The number of devices over which the agents of a run are split."""
        return self.shape[2]

    def put(self, tree: Any, specs: Any = EVERYWHERE) -> Any:
        """Place arrays that every process has on the devices, by one sharding or by a tree of them."""
        if self.mesh is None:
            return tree
        mesh, specs = self.mesh, jax.tree.map(lambda leaf: specs, tree) if isinstance(specs, P) else specs

        def place(leaf: Any, spec: P) -> Array:
            whole_array = np.asarray(leaf)
            sharding = NamedSharding(mesh, spec)
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
        return self.put(problem, _problem_shardings(problem)), self.put(network)

    def put_runs(self, run: Any) -> Any:
        """Place the state of runs, arrays [settings, seeds, …] of the host."""
        return self.put(run, jax.tree.map(_run_sharding, run))

    def put_keys(self, seeds: list[int], agents: int) -> Keys:
        """Return the keys of all agents and seeds, on their devices."""
        if self.mesh is None:
            return keys_of(seeds, agents)
        return _make_keys(NamedSharding(self.mesh, P(SEEDS, None, AGENTS)))(np.array(seeds, np.uint32), agents)

    def fetch(self, array: Any) -> np.ndarray:
        """Return an array of all devices and processes as NumPy's."""
        if self.mesh is None or array.is_fully_addressable or array.is_fully_replicated:
            return np.asarray(array)
        with jax.enable_x64(True):  # or float64 would arrive as float32
            return np.asarray(multihost_utils.process_allgather(array, tiled=True))

    def shard_runs(self, function: Callable[..., Any], in_specs: Any, out_specs: Any) -> Callable[..., Any]:
        """Return the function with each device on its share of settings and seeds."""
        if self.shape[:2] == (1, 1):
            return function
        return jax.shard_map(function, mesh=self.mesh, in_specs=in_specs, out_specs=out_specs, check_vma=False)

    def keep_runs(self, run: Any) -> Any:
        """Keep the state of runs with their agents, inside a compiled program."""
        if self.agents == 1:
            return run
        return jax.tree.map(lambda leaf: self._constrain(leaf, _run_sharding(leaf)), run)

    def gather(self, a: Array) -> Array:
        """Give every device the rows of all agents, inside a compiled program."""
        return a if self.agents == 1 else self._constrain(a, P())

    def scatter(self, a: Array) -> Array:
        """Leave every device the rows of its own agents, inside a compiled program."""
        return a if self.agents == 1 else self._constrain(a, P(AGENTS))

    def _constrain(self, a: Array, spec: P) -> Array:
        assert self.mesh is not None
        return jax.lax.with_sharding_constraint(a, NamedSharding(self.mesh, spec))

    def for_agents(self, problem: Problem, common: Any, function: Callable[..., Any], *stacked: Any) -> Any:
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

        in_specs = _problem_shardings(problem), EVERYWHERE, *(P(AGENTS) for _ in stacked)
        split = jax.shard_map(on_device, mesh=self.mesh, in_specs=in_specs, out_specs=P(AGENTS), check_vma=False)
        return split(problem, common, *stacked)


ONE_DEVICE = Layout()


def _problem_shardings(problem: Problem) -> Any:
    """Return how the arrays of a problem are split: samples by agents, where they are grouped so."""
    shardings = jax.tree.map(lambda leaf: EVERYWHERE, problem)
    if not isinstance(problem, SplitEmpirical):
        return shardings
    rows = {name: jax.tree.map(lambda leaf: P(AGENTS), getattr(problem, name)) for name in ROWS}
    return dataclasses.replace(shardings, **rows)


def _run_sharding(leaf: Any) -> P:
    return STATES if leaf.ndim > 2 else RUNS


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
    rows = {name: in_blocks(getattr(problem, name), order, devices) for name in ("inputs", "targets")}
    weights = np.where(real, np.asarray(problem.row_weights)[order], 0)
    fields = {field.name: getattr(problem, field.name) for field in dataclasses.fields(Empirical)}
    return SplitEmpirical(**fields | rows | {"offsets": starts.astype(np.int32), "row_weights": weights}, mesh=mesh)


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
                f"devices({count}) comes too late: JAX has started and shows {_count(shown)}. Call it first, before "
                f"anything is computed, or start Python with JAX_NUM_CPU_DEVICES={count} in the environment."
            ) from None


class Request(NamedTuple):
    """The devices that a user asks for."""

    devices: int | Literal["all"] | None = None
    split: Split | None = None


class Width(NamedTuple):
    """The size of a block on one device. It changes the last bits of a run, so it belongs to what determines one."""

    settings: int
    seeds: int

    def times(self, layout: Layout) -> "Width":
        """Return the size of a block on all devices of the layout."""
        return Width(self.settings * layout.shape[0], self.seeds * layout.shape[1])


NO_REQUEST = Request()
_request: ContextVar[Request] = ContextVar("request", default=NO_REQUEST)
_messages: ContextVar[frozenset[str]] = ContextVar("messages", default=frozenset())
"""Lines about devices that were shown already."""


@contextmanager
def use_devices(devices: Any = None, split: Any = None) -> Iterator[None]:
    """Split runs in this context over so many devices, or over "all"; None keeps what was asked for before."""
    request = _request.get()
    if devices is not None or split is not None:
        if split is not None and split not in get_args(Split):
            raise InputError(f'split must be "runs" or "agents", but is {brief(split)}.')
        if isinstance(devices, str) and devices != "all":
            raise InputError(f'devices must be a whole number or "all", but is {brief(devices)}.')
        if devices is None:
            raise InputError(
                f'split = "{split}" says how to share out over devices: give devices as well, such as "all".'
            )
        request = Request(devices if devices == "all" else whole("devices", devices), split)
    tokens = _request.set(request), _messages.set(frozenset())
    try:
        yield
    finally:
        _request.reset(tokens[0])
        _messages.reset(tokens[1])


def choose_layout(
    settings: int,
    seeds: int,
    width: Width,
    problem: Problem,
    network: Network,
    oracle: Oracle,
    say: Say = lambda text, *, aside=False: None,
) -> tuple[Layout, Width]:
    """Choose the fastest layout for so many runs on the devices that were asked for, and say which one it is.

    A block that holds all seeds is cut, so that every device has some; blocks of fewer seeds stay as they are, so that
    their bits do not depend on the devices.
    """
    request = _request.get()
    count, exact = _count_devices(request, network)
    if count == 1:
        return ONE_DEVICE, width
    ways: list[tuple[Layout, Width]] = []
    if request.split != "agents":
        ways += _split_runs(settings, seeds, width, count)
    if request.split != "runs":
        most = _divisors(problem.agents, count)[-1]
        if most > 1 and (most == count or not exact):
            ways.append((Layout.over(agents=most), width))
    if not ways and exact:
        raise InputError(_explain_unequal(request, count, problem.agents))
    if not exact and (request.split is None or not ways):
        ways.append((ONE_DEVICE, width))
    work = NUMBER * _numbers_read(problem, oracle)

    def estimate_seconds(way: tuple[Layout, Width]) -> float:
        layout, width = way
        all_devices = width.times(layout)
        passes = math.ceil(settings / all_devices.settings) * math.ceil(seeds / all_devices.seeds)
        one = width.settings * width.seeds * work
        return passes * (one if layout.agents == 1 else one / layout.agents + EXCHANGE)

    layout, width = min(ways, key=estimate_seconds)
    if layout.agents > 1:
        text = f"{problem.agents:,} agents over {layout.agents} devices, {problem.agents // layout.agents:,} each"
        if layout.agents < count:
            text += f" ({count} devices, but the agents must be shared equally)"
    elif layout.mesh is not None:
        share = f"{_count(width.seeds, 'seed')} of {_count(width.settings, 'setting')}"
        text = f"runs over {layout.mesh.size} devices, {share} on each"
    else:
        text = f"one device of {count}: a round is too short to be shared out"
    if text not in _messages.get():
        _messages.set(_messages.get() | {text})
        say(text)
    return layout, width


def check_devices(runs: int, problem: Problem, network: Network) -> None:
    """Raise InputError if the devices could share neither so many runs nor their agents."""
    request = _request.get()
    count, exact = _count_devices(request, network)
    equal = request.split != "runs" and problem.agents % count == 0
    if exact and not equal and (request.split == "agents" or runs == 1):
        raise InputError(_explain_unequal(request, count, problem.agents))


def _count_devices(request: Request, network: Network) -> tuple[int, bool]:
    """Return how many devices were asked for, 1 where nobody asked, and whether it must be exactly so many."""
    several = are_several()
    if request.devices is None and not several:
        return 1, False
    if network.asynchronous:
        raise InputError(f"{network.name} runs on one device: leave devices out, or use it without asynchronous.")
    seen, given = jax.device_count(), request.devices or "all"
    count = seen if given == "all" else given
    if count > seen:
        raise InputError(
            f"devices = {count}, but JAX sees {_count(seen)}. On a CPU call gossamer.devices({count}) before "
            f"anything is computed, or give --devices {count} on the command line; or take at most {seen}."
        )
    if several and count != seen:
        raise InputError(f"devices = {count}, but the processes have {seen} together: all of them are taken.")
    return count, given != "all" or several


def _split_runs(settings: int, seeds: int, width: Width, count: int) -> list[tuple[Layout, Width]]:
    """Return the layout that splits settings over some devices and seeds over the others, if there is more than one."""
    blocks = math.ceil(settings / width.settings)
    over_settings = max(k for k in range(1, count + 1) if count % k == 0 and k <= blocks)
    over_seeds = count // over_settings
    each = width.seeds if width.seeds < seeds else math.ceil(seeds / over_seeds)
    busy = min(over_seeds, math.ceil(seeds / each))
    if over_settings * busy == 1:
        return []
    over_seeds = over_seeds if are_several() else busy  # no process may be left out
    return [(Layout.over(over_settings, over_seeds), Width(width.settings, each))]


def _divisors(agents: int, most: int) -> list[int]:
    """Return the numbers of devices that can share the agents equally."""
    return [count for count in range(1, min(agents, most) + 1) if agents % count == 0]


def _explain_unequal(request: Request, count: int, agents: int) -> str:
    if request.split == "runs":
        return f"there is one block of one seed, which {count} devices cannot share: take more seeds, or share agents."
    fit = ", ".join(map(str, _divisors(agents, agents)))
    return f"{agents} agents cannot be shared equally by {count} devices: take one of {fit}."


def _numbers_read(problem: Problem, oracle: Any) -> float:
    """Return how many numbers the agents of one run read in a round."""
    if not isinstance(problem, Empirical):
        return float(problem.agents * problem.dim**2)
    while hasattr(oracle, "inner"):
        oracle = oracle.inner
    rows = getattr(oracle, "batch", None) or problem.longest
    return float(problem.agents * rows * problem.dim)


def _count(count: int, what: str = "device") -> str:
    return f"{count} {what}" + "s" * (count != 1)
