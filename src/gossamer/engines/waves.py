"""Schedules for the compiled program: events that touch different agents go in one wave."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from gossamer.clocks.schedule import Schedule, Work, schedule
from gossamer.networks import Network

SHARE = 4
"""A wave holds the events of one agent in so many, at most: more would stay empty where few are independent."""


class Waves(NamedTuple):
    """The events of several seeds; a place of a wave that is empty names an agent beyond the last."""

    begins: Int[Array | np.ndarray, "seeds rounds"]
    """The first wave of each round, and one beyond the last, repeated up to a round length."""
    agents: Int[Array | np.ndarray, "seeds waves width"]
    partners: Int[Array | np.ndarray, "seeds waves width"]
    turns: Int[Array | np.ndarray, "seeds waves width"]

    def of(self, seed: Any) -> "Waves":
        """Those of one seed."""
        return Waves(self.begins[seed], self.agents[seed], self.partners[seed], self.turns[seed])

    @staticmethod
    def everyone(agents: int) -> "Waves":
        """One wave in which all wake at once and each meets the next: for tracing."""
        all_of_them = jnp.arange(agents, dtype=jnp.int32)[None]
        return Waves(jnp.array([0, 1], jnp.int32), all_of_them, (all_of_them + 1) % agents, 0 * all_of_them)


def schedules(network: Network, work: Work, seeds: Sequence[int], rounds: int) -> list[Schedule]:
    """The schedule of each seed: that of the clock's own seed of this number."""
    return [schedule(network, network.clock, work, seed, rounds) for seed in seeds]


def packed(found: Sequence[Schedule], agents: int, rounds: int) -> Waves:
    """The schedules of several seeds as waves."""
    width = -(-agents // SHARE)
    parts = [_waves(one, agents, rounds, width) for one in found]
    longest = _rounded(max(len(places) for _, places in parts))
    ends = _rounded(rounds + 1) - (rounds + 1)
    begins = np.array([begins + begins[-1:] * ends for begins, _ in parts], np.int32)
    filled = np.full((len(parts), longest, width), -1, np.int32)
    for seed, (_, places) in enumerate(parts):
        for wave, events in enumerate(places):
            filled[seed, wave, : len(events)] = events
    empty = filled < 0

    def column(name: str, blank: int) -> np.ndarray:
        values = np.stack([getattr(one, name)[filled[seed]] for seed, one in enumerate(found)])
        return np.where(empty, blank, values).astype(np.int32)

    return Waves(begins, column("agents", agents), column("partners", agents), column("turns", 0))


def _waves(found: Schedule, agents: int, rounds: int, width: int) -> tuple[list[int], list[list[int]]]:
    """Where each round begins among the waves, and the events of each wave: every event comes after all those before
    it that touch one of its agents, and no wave belongs to two rounds."""
    begins, waves = [0], list[list[int]]()
    woken, met = found.agents.tolist(), found.partners.tolist()
    for t in range(rounds):
        base = len(waves)
        last = [base - 1] * agents
        for event in range(t * agents, (t + 1) * agents):
            i, j = woken[event], met[event]
            wave = max(last[i], last[j]) + 1
            while wave < len(waves) and len(waves[wave]) == width:
                wave += 1
            if wave == len(waves):
                waves.append([])
            waves[wave].append(event)
            last[i] = last[j] = wave
        begins.append(len(waves))
    return begins, waves


def _rounded(count: int) -> int:
    """A little more, so that schedules of about one length share a compiled program: an eighth at most."""
    unit = 1 << max(0, count.bit_length() - 4)
    return -(-count // unit) * unit
