r"""Mixers that follow a timetable: one matrix after the other, or gossip only now and then."""

import dataclasses
import functools
import math
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from jaxtyping import Bool, Float

from gossamer.basics.lazy_jax import Array, is_array, jax, jnp
from gossamer.networks.mixing.mixer import MatrixName, Mixer, mixer


@mixer("rounds")
@dataclasses.dataclass(frozen=True, eq=False)
class Cycle(Mixer):
    """One mixer after the other, and from the start again; each stays for `stride` rounds."""

    kind: ClassVar[str] = "cycle"
    changes: ClassVar[bool] = True
    rounds: tuple[Mixer, ...]
    stride: int = 1

    def mix(self, x: Float[Array, "agents ..."], t: Any = 0, over: MatrixName = "W") -> Float[Array, "agents ..."]:
        return self._switch(t, [lambda t, x, mixer=mixer: mixer.mix(x, t, over) for mixer in self.rounds], x)

    def sparse(self, t: int = 0, over: MatrixName = "W") -> sp.csr_array:
        return self.turn(t).sparse(t, over)

    def awake(self, t: Any) -> Bool[Array | np.ndarray, " agents"] | None:
        sleepers = [mixer.awake(0) for mixer in self.rounds]
        asked = next((awake for awake in sleepers if awake is not None), None)
        if asked is None:
            return None
        if not is_array(t) and not is_array(asked):  # on the host
            return np.ones_like(asked) if (awake := self.turn(t).awake(t)) is None else awake
        everyone = jnp.ones_like(asked)

        def awake_with(mixer: Mixer) -> Any:
            return lambda t: everyone if (awake := mixer.awake(t)) is None else awake

        return self._switch(t, [awake_with(mixer) for mixer in self.rounds])

    def _switch(self, t: Any, branches: list[Any], *arguments: Array) -> Array:
        return jax.lax.switch((t // self.stride) % len(self.rounds), branches, t, *arguments)

    def slower(self, k: int) -> Mixer:
        return Cycle(tuple(mixer.slower(k) for mixer in self.rounds), self.stride * k)

    def turn(self, t: int) -> Mixer:
        """The mixer of round t."""
        return self.rounds[t // self.stride % len(self.rounds)]

    def union(self) -> sp.csr_array | None:
        unions = [mixer.union() for mixer in self.rounds]
        known = [union for union in unions if union is not None]
        return functools.reduce(lambda a, b: sp.csr_array(a + b), known) if len(known) == len(unions) else None

    def sends(self, t: int) -> float:
        return self.turn(t).sends(t)

    @property
    def doubly(self) -> bool:
        return all(mixer.doubly for mixer in self.rounds)

    @property
    def random(self) -> bool:
        return any(mixer.random for mixer in self.rounds)

    @property
    def period(self) -> int:
        return math.lcm(self.stride * len(self.rounds), *(mixer.period for mixer in self.rounds))

    @property
    def activity(self) -> float:
        return sum(mixer.activity for mixer in self.rounds) / len(self.rounds)

    @property
    def traffic(self) -> float:
        return sum(mixer.traffic for mixer in self.rounds) / len(self.rounds)

    @property
    def pace(self) -> float:
        return sum(mixer.pace for mixer in self.rounds) / len(self.rounds)

    @functools.cached_property
    def balanced(self) -> bool:
        return all(mixer.balanced for mixer in self.rounds)


@mixer("base")
@dataclasses.dataclass(frozen=True, eq=False)
class Every(Mixer):
    r"""Local steps: $W^t = I$ unless `rounds` divides $t$, or the number of strides before $t$."""

    kind: ClassVar[str] = "every"
    changes: ClassVar[bool] = True
    agents: int
    base: Mixer
    rounds: int
    stride: int = 1

    def mix(self, x: Float[Array, "agents ..."], t: Any = 0, over: MatrixName = "W") -> Float[Array, "agents ..."]:
        return jax.lax.cond(self._on(t), lambda x: self.base.mix(x, t, over), lambda x: x, x)

    def sparse(self, t: int = 0, over: MatrixName = "W") -> sp.csr_array:
        return self.base.sparse(t, over) if self._on(t) else sp.csr_array(sp.eye_array(self.agents, format="csr"))

    def slower(self, k: int) -> Mixer:
        return Every(self.agents, self.base.slower(k), self.rounds, self.stride * k)

    def _on(self, t: Any) -> Any:
        return (t // self.stride) % self.rounds == 0

    def awake(self, t: Any) -> Bool[Array | np.ndarray, " agents"] | None:
        return self.base.awake(t)

    def union(self) -> sp.csr_array | None:
        return self.base.union()

    def sends(self, t: int) -> float:
        return self.base.sends(t) if self._on(t) else 0.0

    @property
    def doubly(self) -> bool:
        return self.base.doubly

    @property
    def random(self) -> bool:
        return self.base.random

    @property
    def period(self) -> int:
        return math.lcm(self.stride * self.rounds, self.base.period)

    @property
    def activity(self) -> float:
        return self.base.activity

    @property
    def traffic(self) -> float:
        return self.base.traffic / self.rounds

    @property
    def pace(self) -> float:
        return self.base.pace / self.rounds

    @functools.cached_property
    def balanced(self) -> bool:
        return self.base.balanced
