r"""The energy of a run: watts while agents compute and while they wait, and joules for what they send.

$$ E_i = P_i\, b_i + P^{\mathrm{idle}}_i (T - b_i) + \epsilon_i B_i $$

with $b_i$ the seconds that agent i has computed for when the clock stands at $T$, and $B_i$ the bytes that it has sent.
A byte is paid for once, by its sender: $\epsilon$ is the cost of sending and of receiving it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from gossamer.clocks.links import one_or_each
from gossamer.core import InputError, Range, brief, nearest

POWER = Range(0, 1e12, advice="It is a number of watts.")
PER_BYTE = Range(0, 1e9, advice="It is a number of joules for each byte that an agent sends.")

KEYS = {"watts": POWER, "joules_per_byte": PER_BYTE, "idle_watts": POWER}


@dataclass(frozen=True, eq=False)
class Energy:
    """The power of agents and the price of bytes: each one number, or one for each agent."""

    watts: Float[np.ndarray, "*agents"]
    """While an agent computes."""
    joules_per_byte: Float[np.ndarray, "*agents"]
    idle_watts: Float[np.ndarray, "*agents"]
    """While an agent waits, sleeps or is away."""

    @staticmethod
    def of(given: Any) -> "Energy":
        """Return the energy of a table, in which what is not given is 0."""
        if not isinstance(given, Mapping) or not given:
            raise InputError(
                f"clock: energy must be a table of {', '.join(KEYS)}, or some of them, but is {brief(given)}."
            )
        for key in given:
            if key not in KEYS:
                raise InputError(f"clock: energy has no {brief(key)}; {nearest(key, KEYS)}")
        return Energy(**{key: one_or_each(f"clock: energy: {key}", given.get(key, 0.0), KEYS[key]) for key in KEYS})

    def check(self, agents: int) -> None:
        """Raise InputError if there is one number for each agent, but of other agents."""
        for key in KEYS:
            values = getattr(self, key)
            if values.ndim and len(values) != agents:
                raise InputError(
                    f"clock: energy: {key} has {len(values)} numbers, but there are {agents} agents: give one number, "
                    "or one for each."
                )

    def __str__(self) -> str:
        units = {"watts": "W computing", "idle_watts": "W idle", "joules_per_byte": "J a byte"}
        shown = {key: np.unique(getattr(self, key)) for key in units}
        texts = [
            " to ".join(f"{one:g}" for one in sorted({v[0], v[-1]})) + f" {units[key]}" for key, v in shown.items()
        ]
        return ", ".join(texts)
