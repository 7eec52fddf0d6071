"""Asynchronous rounds in the compiled program: events that touch different agents run together, in one wave."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from gossamer.basics.keys import of_query, of_round
from gossamer.clocks.events import EventSchedule, Work, schedule
from gossamer.core import State
from gossamer.engines.agents import RoundCost, World, as_column, bytes_of, each
from gossamer.networks import Network
from gossamer.oracles import Oracle, Site

SHARE = 4
"""A wave holds the events of at most one agent in so many: more would stay empty where few events are independent."""


class Waves(NamedTuple):
    """The events of several seeds, wave by wave; an empty place of a wave names an agent beyond the last."""

    begins: Int[Array | np.ndarray, "seeds rounds"]
    """The first wave of each round, and one beyond the last, repeated up to a rounded length."""
    agents: Int[Array | np.ndarray, "seeds waves width"]
    partners: Int[Array | np.ndarray, "seeds waves width"]
    turns: Int[Array | np.ndarray, "seeds waves width"]

    @staticmethod
    def everyone(agents: int) -> "Waves":
        """Return one wave in which all agents wake at once and each meets the next: for tracing."""
        all_agents = jnp.arange(agents, dtype=jnp.int32)[None]
        return Waves(jnp.array([0, 1], jnp.int32), all_agents, (all_agents + 1) % agents, 0 * all_agents)


def make_schedules(network: Network, work: Work, seeds: Sequence[int], rounds: int) -> list[EventSchedule]:
    """Return the schedule of each seed: that of the clock's seed of the same number."""
    return [schedule(network, network.clock, work, seed, rounds) for seed in seeds]


def make_waves(schedules: Sequence[EventSchedule], agents: int, rounds: int) -> Waves:
    """Pack the schedules of several seeds into waves."""
    width = -(-agents // SHARE)  # rounded up
    packed = [_pack(one, agents, rounds, width) for one in schedules]
    longest = _round_up(max(len(waves) for _, waves in packed))
    padding = _round_up(rounds + 1) - (rounds + 1)
    begins = np.array([begins + begins[-1:] * padding for begins, _ in packed], np.int32)
    table = np.full((len(packed), longest, width), -1, np.int32)
    for seed, (_, waves) in enumerate(packed):
        for wave, events in enumerate(waves):
            table[seed, wave, : len(events)] = events
    empty = table < 0

    def column(name: str, blank: int) -> np.ndarray:
        values = np.stack([getattr(one, name)[table[seed]] for seed, one in enumerate(schedules)])
        return np.where(empty, blank, values).astype(np.int32)

    return Waves(begins, column("agents", agents), column("partners", agents), column("turns", 0))


def _pack(events: EventSchedule, agents: int, rounds: int, width: int) -> tuple[list[int], list[list[int]]]:
    """Return the first wave of each round, and the events of each wave.

    An event comes after all earlier ones that touch one of its two agents, and no wave belongs to two rounds.
    """
    begins, waves = [0], list[list[int]]()
    woken, partners = events.agents.tolist(), events.partners.tolist()
    for t in range(rounds):
        # no event of this round may stand in a wave of the round before
        last = [len(waves) - 1] * agents
        for event in range(t * agents, (t + 1) * agents):
            i, j = woken[event], partners[event]
            wave = max(last[i], last[j]) + 1
            while wave < len(waves) and len(waves[wave]) == width:
                wave += 1
            if wave == len(waves):
                waves.append([])
            waves[wave].append(event)
            last[i] = last[j] = wave
        begins.append(len(waves))
    return begins, waves


def _round_up(count: int) -> int:
    """Return at most an eighth more, so that schedules of about one length share a compiled program."""
    unit = 1 << max(0, count.bit_length() - 4)
    return -(-count // unit) * unit


class WakingAgents:
    """The agents that wake in one wave: arrays are ``[width, d]``."""

    def __init__(self, state: State, agents: Array, partners: Array, cost: RoundCost | None = None):
        self._state, self._alone, self._partners = state, agents == partners, partners
        self.left: dict[str, Array] = {}
        """The arrays that the partners hold afterwards, by name."""
        self.cost = cost or RoundCost()

    def meet(self, **arrays: Array) -> Any:
        self.cost.send(bytes_of(tuple(arrays.values())))
        means = []
        for name, mine in arrays.items():
            mean = (mine + self._state[name][self._partners]) / 2
            self.left[name] = jnp.where(as_column(self._alone, mine), mine, mean)
            means.append(self.left[name])
        return means[0] if len(means) == 1 else tuple(means)


Standing = tuple[State, Any, Any]
"""The state of all agents, the oracle's memory, and the points of the gradients that are being computed."""


def run_events(rule: Any, world: World, oracle: Oracle, keys: Array, seed: Any, t: Any, now: Standing) -> Standing:
    """Run the events of round t, as many as there are agents."""
    waves = jax.tree.map(lambda table: table[seed], world.waves)
    return jax.lax.fori_loop(
        waves.begins[t], waves.begins[t + 1], lambda k, now: run_wave(rule, world, oracle, keys, waves, k, now), now
    )


def run_wave(
    rule: Any,
    world: World,
    oracle: Oracle,
    keys: Array,
    waves: Waves,
    number: Any,
    now: Standing,
    cost: RoundCost | None = None,
) -> Standing:
    """Run one wave. An empty place names an agent beyond the last, and its writes are dropped."""
    state, memory, asked = now
    woken, met, turns = waves.agents[number], waves.partners[number], waves.turns[number]
    beyond = world.problem.agents
    own, partner = jnp.minimum(woken, beyond - 1), jnp.minimum(met, beyond - 1)  # reads must stay inside
    agents = WakingAgents(state, own, partner, cost)

    def gradient(_: Array, agent: Array, turn: Array, memory: Any, point: Array) -> Any:
        site = Site(world.problem, agent, of_query(of_round(keys[1][agent], turn + 1), 0), turn)
        gradients, memory = oracle.query(site, memory, (point,))
        return gradients[0], memory

    own_memory = jax.tree.map(lambda a: a[own], memory)
    # its key is that of the agent's own turn, so a sample does not depend on who else wakes
    g, own_memory = each(gradient, len(own), own, turns, own_memory, asked[own])
    after = rule.wake(State(**{name: a[own] for name, a in state.items()}), g, agents)
    left = jnp.where(met == woken, beyond, met)  # an agent that met nobody leaves nothing
    mixed = {name: _write(a, left, agents.left[name]) if name in agents.left else a for name, a in state.items()}
    written = State(**{name: _write(a, woken, after[name]) for name, a in mixed.items()})
    memory = jax.tree.map(lambda a, new: _write(a, woken, new), memory, own_memory)
    return written, memory, _write(asked, woken, after["x"])


def _write(a: Array, places: Any, rows: Array) -> Array:
    return a.at[places].set(rows, mode="drop")
