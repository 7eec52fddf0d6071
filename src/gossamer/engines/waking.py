"""A wave of an asynchronous run: agents that wake at once, none of which meets another's partner."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from gossamer.basics.keys import of_query, of_round
from gossamer.core import State
from gossamer.engines.agents import Cost, World, bytes_of, each
from gossamer.engines.waves import Waves
from gossamer.oracles import Oracle, Site


class WakingAgents:
    """The agents that wake in one wave: arrays are ``[width, d]``."""

    def __init__(self, state: State, agents: Array, partners: Array, cost: Cost | None = None):
        self._state, self._alone, self._partners = state, agents == partners, partners
        self.left: dict[str, Array] = {}
        """What the partners hold afterwards, by name."""
        self.cost = cost or Cost()

    def meet(self, **arrays: Array) -> Any:
        self.cost.sends(bytes_of(tuple(arrays.values())))
        means = {name: self._mean(name, mine) for name, mine in arrays.items()}
        self.left |= means
        found = tuple(means.values())
        return found[0] if len(found) == 1 else found

    def _mean(self, name: str, mine: Array) -> Array:
        mean = (mine + self._state[name][self._partners]) / 2
        return jnp.where(self._alone.reshape((-1,) + (1,) * (mine.ndim - 1)), mine, mean)


Held = tuple[State, Any, Any]
"""The state of all agents, the oracle's memory, and the points that gradients were asked for at."""


def events(rule: Any, world: World, oracle: Oracle, keys: Array, seed: Any, t: Any, held: Held) -> Held:
    """What is held after the events of round t, of which there are as many as agents."""
    waves = world.waves.of(seed)
    return jax.lax.fori_loop(
        waves.begins[t], waves.begins[t + 1], lambda k, held: wave(rule, world, oracle, keys, waves, k, held), held
    )


def wave(
    rule: Any,
    world: World,
    oracle: Oracle,
    keys: Array,
    waves: Waves,
    number: Any,
    held: Held,
    cost: Cost | None = None,
) -> Held:
    """What is held after a wave.

    Places that are empty name an agent beyond the last: what they would write is dropped.
    """
    state, memory, asked = held
    woken, met, turns = waves.agents[number], waves.partners[number], waves.turns[number]
    beyond = world.problem.agents
    own, partner = jnp.minimum(woken, beyond - 1), jnp.minimum(met, beyond - 1)
    agents = WakingAgents(state, own, partner, cost)

    def gradient(_: Array, agent: Array, turn: Array, memory: Any, point: Array) -> Any:
        site = Site(world.problem, agent, of_query(of_round(keys[1][agent], turn + 1), 0), turn)
        gradients, memory = oracle.query(site, memory, (point,))
        return gradients[0], memory

    remembered = jax.tree.map(lambda a: a[own], memory)
    g, remembered = each(gradient, len(own), own, turns, remembered, asked[own])
    after = rule.wake(State(**{name: a[own] for name, a in state.items()}), g, agents)
    left = jnp.where(met == woken, beyond, met)
    mixed = {name: _put(a, left, agents.left[name]) if name in agents.left else a for name, a in state.items()}
    made = State(**{name: _put(a, woken, after[name]) for name, a in mixed.items()})
    memory = jax.tree.map(lambda a, new: _put(a, woken, new), memory, remembered)
    return made, memory, _put(asked, woken, after["x"])


def _put(a: Array, places: Any, rows: Array) -> Array:
    return a.at[places].set(rows, mode="drop")
