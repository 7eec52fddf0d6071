"""Which devices runs take: what a user asks for, what JAX has, and which way of sharing out is the fastest."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Literal, NamedTuple, get_args

import jax
import numpy as np
from jax.sharding import Mesh

from gossamer.basics.progress import Say
from gossamer.core import InputError, brief, whole
from gossamer.engines.devices import exchange
from gossamer.engines.devices.layouts import ALONE, SEEDS, SETTINGS, Alone, SharedOut, SharedRuns
from gossamer.engines.devices.processes import together
from gossamer.networks import Network
from gossamer.oracles import Oracle
from gossamer.problems import Empirical, Problem

Split = Literal["runs", "agents"]
"""What is shared out: whole runs, by seed and setting, or the agents of every run."""

EXCHANGE = 2e-4
"""Seconds that one exchange between devices takes, at least (measured: 0.1 to 0.3 ms among the devices of a CPU)."""

NUMBER = 1e-9
"""Seconds that one device takes for a number of the samples that it reads."""


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
                f"devices({count}) comes too late: JAX has started and shows {_several(shown)}. Call it first, before "
                f"anything is computed, or start Python with JAX_NUM_CPU_DEVICES={count} in the environment."
            ) from None


class Wish(NamedTuple):
    """What a user asks for."""

    devices: int | Literal["all"] | None = None
    split: Split | None = None


class Sharing(NamedTuple):
    """How runs are shared out."""

    layout: Alone
    settings: int
    seeds: int
    """How many settings and seeds a device has at a time."""

    @property
    def together(self) -> tuple[int, int]:
        """How many settings and seeds all devices have at a time."""
        return self.settings * self.layout.shares[0], self.seeds * self.layout.shares[1]


NOTHING = Wish()

_wish: ContextVar[Wish] = ContextVar("wish", default=NOTHING)
_said: ContextVar[frozenset[str]] = ContextVar("said", default=frozenset())


@contextmanager
def using(devices: Any = None, split: Any = None) -> Iterator[None]:
    """Runs in here are shared out over so many devices, or over all of them; None leaves what was asked for before."""
    wish = _wish.get() if devices is None and split is None else _checked(devices, split)
    tokens = _wish.set(wish), _said.set(frozenset())
    try:
        yield
    finally:
        _wish.reset(tokens[0])
        _said.reset(tokens[1])


def _checked(devices: Any, split: Any) -> Wish:
    if split is not None and split not in get_args(Split):
        raise InputError(f'split must be "runs" or "agents", but is {brief(split)}.')
    if isinstance(devices, str) and devices != "all":
        raise InputError(f'devices must be a whole number or "all", but is {brief(devices)}.')
    if devices is None:
        raise InputError(f'split = "{split}" says how to share out over devices: give devices as well, such as "all".')
    return Wish(devices if devices == "all" else whole("devices", devices), split)


def shared_out(
    settings: int,
    seeds: int,
    width: tuple[int, int],
    problem: Problem,
    network: Network,
    oracle: Oracle,
    say: Say = lambda text, *, aside=False: None,
) -> Sharing:
    """How so many runs, in blocks of this width, are shared out over the devices that were asked for.

    A block that holds all seeds is cut, so that every device has some; blocks of fewer seeds stay as they are, so that
    their bits do not depend on the devices. The fastest way is taken, and said.
    """
    wish, several = _wish.get(), together()
    alone = Sharing(ALONE, *width)
    count, exact = _asked(wish, several, network)
    if count == 1:
        return alone
    by_runs = None if wish.split == "agents" else _by_runs(settings, seeds, width, count, several)
    by_agents = None if wish.split == "runs" else _by_agents(problem.agents, width, count, exact)
    ways = [way for way in (by_runs, by_agents) if way is not None]
    if not ways and exact:
        raise InputError(_refusal(wish, count, problem.agents))
    if not exact and (wish.split is None or not ways):
        ways.append(alone)
    work = NUMBER * _numbers(problem, oracle)
    chosen = min(ways, key=lambda way: _seconds(way, settings, seeds, work))
    _tell(chosen, problem, network, count, say)
    return chosen


def refuse_unequal(runs: int, problem: Problem, network: Network) -> None:
    """Refuse devices that could not share so many runs, nor their agents, before any work."""
    wish, several = _wish.get(), together()
    count, exact = _asked(wish, several, network)
    equal = wish.split != "runs" and problem.agents % count == 0
    if exact and not equal and (wish.split == "agents" or runs == 1):
        raise InputError(_refusal(wish, count, problem.agents))


def _asked(wish: Wish, several: bool, network: Network) -> tuple[int, bool]:
    """How many devices were asked for, and whether exactly so many; 1 where nobody asked."""
    if wish.devices is None and not several:
        return 1, False
    if network.asynchronous:
        raise InputError(f"{network.name} runs on one device: leave devices out, or use it without asynchronous.")
    seen, given = jax.device_count(), wish.devices or "all"
    count = seen if given == "all" else given
    if count > seen:
        raise InputError(
            f"devices = {count}, but JAX sees {_several(seen)}. On a CPU call gossamer.devices({count}) before "
            f"anything is computed, or give --devices {count} on the command line; or take at most {seen}."
        )
    if several and count != seen:
        raise InputError(f"devices = {count}, but the processes have {seen} together: all of them are taken.")
    return count, given != "all" or several


def _by_runs(settings: int, seeds: int, width: tuple[int, int], count: int, several: bool) -> Sharing | None:
    """Settings over some devices, and seeds over so many more; none is left out where there are processes."""
    blocks = math.ceil(settings / width[0])
    over_settings = max(k for k in range(1, count + 1) if count % k == 0 and k <= blocks)
    over_seeds = count // over_settings
    each = width[1] if width[1] < seeds else math.ceil(seeds / over_seeds)
    busy = min(over_seeds, math.ceil(seeds / each))
    if over_settings * busy == 1:
        return None
    over_seeds = over_seeds if several else busy
    mesh = Mesh(_first(over_settings * over_seeds).reshape(over_settings, over_seeds), (SETTINGS, SEEDS))
    return Sharing(SharedRuns(mesh), width[0], each)


def _by_agents(agents: int, width: tuple[int, int], count: int, exact: bool) -> Sharing | None:
    """Equally many agents on each device."""
    most = _fitting(agents, count)[-1]
    if most == 1 or (exact and most != count):
        return None
    return Sharing(SharedOut(Mesh(_first(most), (exchange.AXIS,))), *width)


def _fitting(agents: int, most: int) -> list[int]:
    """The numbers of devices that can share the agents equally."""
    return [count for count in range(1, min(agents, most) + 1) if agents % count == 0]


def _refusal(wish: Wish, count: int, agents: int) -> str:
    """Why so many devices cannot be taken."""
    if wish.split == "runs":
        return f"there is one block of one seed, which {count} devices cannot share: take more seeds, or share agents."
    fit = ", ".join(map(str, _fitting(agents, agents)))
    return f"{agents} agents cannot be shared equally by {count} devices: take one of {fit}."


def _seconds(way: Sharing, settings: int, seeds: int, work: float) -> float:
    """What one round of all runs takes: as many programs after one another as no device can run beside others."""
    passes = math.ceil(settings / way.together[0]) * math.ceil(seeds / way.together[1])
    one = way.settings * way.seeds * work
    over = way.layout.agents_over
    return passes * (one if over == 1 else one / over + EXCHANGE)


def _numbers(problem: Problem, oracle: Any) -> float:
    """Numbers that the agents of one run read in a round."""
    while hasattr(oracle, "inner"):
        oracle = oracle.inner
    if not isinstance(problem, Empirical):
        return float(problem.agents * problem.dim**2)
    rows = getattr(oracle, "batch", None) or problem.longest
    return float(problem.agents * rows * problem.dim)


def _first(count: int) -> np.ndarray:
    return np.array(jax.devices()[:count])


def _tell(chosen: Sharing, problem: Problem, network: Network, count: int, say: Say) -> None:
    """Say once how runs are shared out."""
    layout, agents = chosen.layout, problem.agents
    if isinstance(layout, SharedOut):
        own = agents // layout.agents_over
        gathers = any(exchange.exchanges(exchange.shared(network.mixer, agents, layout.agents_over)))
        rows = "all rows" if gathers else "only the rows that others need"
        text = f"{agents:,} agents over {layout.agents_over} devices, {own:,} each, which exchange {rows}"
        if layout.agents_over < count:
            text += f" ({count} devices, but the agents must be shared equally)"
    elif isinstance(layout, SharedRuns):
        over = math.prod(layout.shares)
        width = f"{_several(chosen.seeds, 'seed')} of {_several(chosen.settings, 'setting')}"
        text = f"runs over {over} devices, {width} on each"
    else:
        text = f"one device of {count}: a round is too short to be shared out"
    if text not in _said.get():
        _said.set(_said.get() | {text})
        say(text)


def _several(count: int, what: str = "device") -> str:
    return f"{count} {what}" + "s" * (count != 1)
