r"""Mixers whose matrix $W^t$ is drawn anew each round.

A draw depends on the network's own seed and on the round alone, so that all gossip of a round, all runs of a block and
the host see the same matrix. Random bits have a fixed width: float64 changes no draw.
"""

import abc
import dataclasses
import functools
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Key, UInt

from gossamer.basics.lazy_jax import Array, jax, jnp
from gossamer.networks.mixing.mixer import MatrixName, Mixer, mixer
from gossamer.networks.mixing.static import Explicit, Full, Neighbours


def round_key(seed: UInt[Array | np.ndarray, ""], t: Any) -> Key[Array, ""]:
    """The key of all that is drawn in round t."""
    from gossamer.basics.keys import NETWORK, root  # JAX, which a network without draws does not need

    return jax.random.fold_in(root(NETWORK, seed), t)


class Drawn(Mixer):
    """A mixer whose rounds are drawn: `at` says how, inside the compiled program."""

    changes: ClassVar[bool] = True

    @abc.abstractmethod
    def at(self, t: Any, over: MatrixName) -> Explicit:
        """The mixer of round t."""

    def mix(self, x: Float[Array, "agents ..."], t: Any = 0, over: MatrixName = "W") -> Float[Array, "agents ..."]:
        return self.at(t, over).mix(x)

    def sparse(self, t: int = 0, over: MatrixName = "W") -> sp.csr_array:
        with jax.enable_x64(True):
            # Copies, because JAX may remember a numpy constant as the float32 that it once made of it.
            drawn = _draw()(jax.tree.map(np.array, self), np.int32(t), "W" if self.doubly else over)
        return jax.tree.map(np.asarray, drawn).sparse()

    @property
    def random(self) -> bool:
        return True

    def union(self) -> sp.csr_array | None:
        return None

    @functools.cached_property
    def balanced(self) -> bool:
        return True


@functools.cache
def _draw() -> Any:
    """What makes a round's mixer, compiled once for all mixers of a shape."""
    return jax.jit(lambda mixer, t, over: mixer.at(t, over), static_argnames="over")


@mixer("seed")
@dataclasses.dataclass(frozen=True, eq=False)
class Matching(Drawn):
    """Pairs drawn uniformly at random, who average; where the number of agents is odd, one rests."""

    kind: ClassVar[str] = "matching"
    agents: int
    seed: UInt[np.ndarray, ""]

    def at(self, t: Any, over: MatrixName) -> Neighbours:
        everyone = jnp.arange(self.agents, dtype=jnp.int32)
        order = jax.random.permutation(round_key(self.seed, t), everyone)
        # Places 0–1, 2–3, … are pairs; a last place without a partner is its own.
        partner = everyone.at[order].set(order[jnp.minimum(everyone ^ 1, self.agents - 1)])
        return Neighbours(jnp.stack([everyone, partner], axis=1), jnp.full((self.agents, 2), 0.5))

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

    def at(self, t: Any, over: MatrixName) -> Full:
        n = self.agents
        drawn = jax.random.uniform(round_key(self.seed, t), (n, n), jnp.float32)
        above = jnp.triu(drawn < jnp.asarray(self.probability).astype(jnp.float32), 1)
        linked = above | above.T
        degrees = linked.sum(axis=1)
        matrix = linked / (1.0 + jnp.maximum(degrees[:, None], degrees))
        return Full(matrix + jnp.diag(1 - matrix.sum(axis=1)))

    def sends(self, t: int) -> float:
        return float(self.probability) * (self.agents - 1)
