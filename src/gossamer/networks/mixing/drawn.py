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
from jaxtyping import Float, UInt

from gossamer.basics.lazy_jax import Array
from gossamer.networks.mixing.mixer import MatrixName, Mixer, mixer
from gossamer.networks.mixing.sources import HOST, PROGRAM, Source
from gossamer.networks.mixing.static import Explicit, Full, Neighbours


class Drawn(Mixer):
    """A mixer whose rounds are drawn: `at` says how, inside a compiled program or on the host."""

    changes: ClassVar[bool] = True

    @abc.abstractmethod
    def at(self, t: Any, over: MatrixName, by: Source = PROGRAM) -> Explicit:
        """The mixer of round t, drawn by JAX or by NumPy."""

    def mix(self, x: Float[Array, "agents ..."], t: Any = 0, over: MatrixName = "W") -> Float[Array, "agents ..."]:
        return self.at(t, over).mix(x)

    def sparse(self, t: int = 0, over: MatrixName = "W") -> sp.csr_array:
        return self.at(t, "W" if self.doubly else over, HOST).sparse()

    @property
    def random(self) -> bool:
        return True

    def union(self) -> sp.csr_array | None:
        return None

    @functools.cached_property
    def balanced(self) -> bool:
        return True


@mixer("seed")
@dataclasses.dataclass(frozen=True, eq=False)
class Matching(Drawn):
    """Pairs drawn uniformly at random, who average; where the number of agents is odd, one rests."""

    kind: ClassVar[str] = "matching"
    agents: int
    seed: UInt[np.ndarray, ""]

    def at(self, t: Any, over: MatrixName, by: Source = PROGRAM) -> Neighbours:
        everyone = by.np.arange(self.agents, dtype=np.int32)
        order = by.permutation(by.key(self.seed, t), everyone)
        # Places 0–1, 2–3, … are pairs; a last place without a partner is its own.
        partner = by.put(everyone, order, order[by.np.minimum(everyone ^ 1, self.agents - 1)])
        return Neighbours(by.np.stack([everyone, partner], axis=1), by.np.full((self.agents, 2), 0.5))

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

    def at(self, t: Any, over: MatrixName, by: Source = PROGRAM) -> Full:
        n = self.agents
        drawn = by.uniform(by.key(self.seed, t), (n, n))
        above = by.np.triu(drawn < by.np.asarray(self.probability).astype(np.float32), 1)
        linked = above | above.T
        degrees = linked.sum(axis=1)
        matrix = linked / (1.0 + by.np.maximum(degrees[:, None], degrees))
        return Full(matrix + by.np.diag(1 - matrix.sum(axis=1)))

    def sends(self, t: int) -> float:
        return float(self.probability) * (self.agents - 1)
