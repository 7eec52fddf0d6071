r"""Mixers whose matrix depends on the round, $W^t$, or on the direction, $R$ and $C$.

A draw depends on the network's own seed and on the round alone, so that all gossip of a round, all runs of a block and
the host see the same matrix. Random bits have a fixed width: float64 changes no draw.
"""

import abc
import dataclasses
import functools
import math
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
from jaxtyping import Array, Bool, Float, Key, UInt

from gossamer.basics.keys import NETWORK, root
from gossamer.networks.mixing.mixer import Mixer, Over, mixer
from gossamer.networks.mixing.static import Dense, Explicit, Table


def round_key(seed: UInt[Array | np.ndarray, ""], t: Any) -> Key[Array, ""]:
    """The key of all that is drawn in round t."""
    return jax.random.fold_in(root(NETWORK, seed), t)


@mixer("row", "column")
@dataclasses.dataclass(frozen=True, eq=False)
class Directed(Mixer):
    """Two matrices on the same links: R with rows that sum to 1, and C with columns that do."""

    kind: ClassVar[str] = "directed"
    row: Mixer
    column: Mixer

    def mix(self, x: Float[Array, "agents ..."], t: Any = 0, over: Over = "R") -> Float[Array, "agents ..."]:
        return self.one(over).mix(x)

    def sparse(self, t: int = 0, over: Over = "R") -> sp.csr_array:
        return self.one(over).sparse()

    def one(self, over: Over) -> Mixer:
        """The matrix of this direction."""
        return self.column if over == "C" else self.row

    @property
    def doubly(self) -> bool:
        return False

    @functools.cached_property
    def balanced(self) -> bool:
        return False


@mixer("rounds")
@dataclasses.dataclass(frozen=True, eq=False)
class Cycle(Mixer):
    """One mixer after the other, and from the start again; each stays for `stride` rounds."""

    kind: ClassVar[str] = "cycle"
    changes: ClassVar[bool] = True
    rounds: tuple[Mixer, ...]
    stride: int = 1

    def mix(self, x: Float[Array, "agents ..."], t: Any = 0, over: Over = "W") -> Float[Array, "agents ..."]:
        return self._switch(t, [lambda t, x, one=one: one.mix(x, t, over) for one in self.rounds], x)

    def sparse(self, t: int = 0, over: Over = "W") -> sp.csr_array:
        return self.one(t).sparse(t, over)

    def awake(self, t: Any) -> Bool[Array, " agents"] | None:
        sleepy = [one.awake(0) for one in self.rounds]
        everyone = next((jnp.ones_like(awake) for awake in sleepy if awake is not None), None)
        if everyone is None:
            return None
        return self._switch(
            t, [lambda t, one=one: everyone if (awake := one.awake(t)) is None else awake for one in self.rounds]
        )

    def _switch(self, t: Any, branches: list[Any], *arguments: Array) -> Array:
        return jax.lax.switch((t // self.stride) % len(self.rounds), branches, t, *arguments)

    def slower(self, k: int) -> Mixer:
        return Cycle(tuple(one.slower(k) for one in self.rounds), self.stride * k)

    def one(self, t: int) -> Mixer:
        """The mixer of round t."""
        return self.rounds[t // self.stride % len(self.rounds)]

    def union(self) -> sp.csr_array | None:
        unions = [one.union() for one in self.rounds]
        found = [union for union in unions if union is not None]
        return functools.reduce(lambda a, b: sp.csr_array(a + b), found) if len(found) == len(unions) else None

    def sends(self, t: int) -> float:
        return self.one(t).sends(t)

    @property
    def doubly(self) -> bool:
        return all(one.doubly for one in self.rounds)

    @property
    def random(self) -> bool:
        return any(one.random for one in self.rounds)

    @property
    def period(self) -> int:
        return math.lcm(self.stride * len(self.rounds), *(one.period for one in self.rounds))

    @property
    def activity(self) -> float:
        return sum(one.activity for one in self.rounds) / len(self.rounds)

    @property
    def traffic(self) -> float:
        return sum(one.traffic for one in self.rounds) / len(self.rounds)

    @property
    def pace(self) -> float:
        return sum(one.pace for one in self.rounds) / len(self.rounds)

    @functools.cached_property
    def balanced(self) -> bool:
        return all(one.balanced for one in self.rounds)


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

    def mix(self, x: Float[Array, "agents ..."], t: Any = 0, over: Over = "W") -> Float[Array, "agents ..."]:
        return jax.lax.cond(self._on(t), lambda x: self.base.mix(x, t, over), lambda x: x, x)

    def sparse(self, t: int = 0, over: Over = "W") -> sp.csr_array:
        return self.base.sparse(t, over) if self._on(t) else sp.csr_array(sp.eye_array(self.agents, format="csr"))

    def slower(self, k: int) -> Mixer:
        return Every(self.agents, self.base.slower(k), self.rounds, self.stride * k)

    def _on(self, t: Any) -> Any:
        return (t // self.stride) % self.rounds == 0

    def awake(self, t: Any) -> Bool[Array, " agents"] | None:
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


class Drawn(Mixer):
    """A mixer whose rounds are drawn: `at` says how, inside the compiled program."""

    changes: ClassVar[bool] = True

    @abc.abstractmethod
    def at(self, t: Any, over: Over) -> Explicit:
        """The mixer of round t."""

    def mix(self, x: Float[Array, "agents ..."], t: Any = 0, over: Over = "W") -> Float[Array, "agents ..."]:
        return self.at(t, over).mix(x)

    def sparse(self, t: int = 0, over: Over = "W") -> sp.csr_array:
        with jax.enable_x64(True):
            # Copies, because JAX may remember a numpy constant as the float32 that it once made of it.
            drawn = _draw(jax.tree.map(np.array, self), np.int32(t), "W" if self.doubly else over)
        return jax.tree.map(np.asarray, drawn).sparse()

    @property
    def random(self) -> bool:
        return True

    def union(self) -> sp.csr_array | None:
        return None

    @functools.cached_property
    def balanced(self) -> bool:
        return True


@functools.partial(jax.jit, static_argnames="over")
def _draw(mixer: Drawn, t: Any, over: Over) -> Explicit:
    return mixer.at(t, over)


@mixer("seed")
@dataclasses.dataclass(frozen=True, eq=False)
class Matching(Drawn):
    """Pairs drawn uniformly at random, who average; where the number of agents is odd, one rests."""

    kind: ClassVar[str] = "matching"
    agents: int
    seed: UInt[np.ndarray, ""]

    def at(self, t: Any, over: Over) -> Table:
        everyone = jnp.arange(self.agents, dtype=jnp.int32)
        order = jax.random.permutation(round_key(self.seed, t), everyone)
        # Places 0–1, 2–3, … are pairs; a last place without a partner is its own.
        partner = everyone.at[order].set(order[jnp.minimum(everyone ^ 1, self.agents - 1)])
        return Table(jnp.stack([everyone, partner], axis=1), jnp.full((self.agents, 2), 0.5))

    def sends(self, t: int) -> float:
        return (self.agents - self.agents % 2) / self.agents


@mixer("probability", "seed")
@dataclasses.dataclass(frozen=True, eq=False)
class Redrawn(Drawn):
    """An Erdős–Rényi graph with Metropolis weights, drawn anew each round."""

    kind: ClassVar[str] = "redrawn"
    agents: int
    probability: Float[np.ndarray, ""]
    seed: UInt[np.ndarray, ""]

    def at(self, t: Any, over: Over) -> Dense:
        n = self.agents
        drawn = jax.random.uniform(round_key(self.seed, t), (n, n), jnp.float32)
        above = jnp.triu(drawn < jnp.asarray(self.probability).astype(jnp.float32), 1)
        linked = above | above.T
        degrees = linked.sum(axis=1)
        matrix = linked / (1.0 + jnp.maximum(degrees[:, None], degrees))
        return Dense(matrix + jnp.diag(1 - matrix.sum(axis=1)))

    def sends(self, t: int) -> float:
        return float(self.probability) * (self.agents - 1)
