"""Averaging: a problem without losses, for gossip alone."""

from dataclasses import dataclass, replace
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from gossamer.basics.pytrees import pytree
from gossamer.basics.sizes import refuse_beyond_memory
from gossamer.core import whole
from gossamer.problems.problem import Problem


@pytree
@dataclass(frozen=True, eq=False)
class Averaging(Problem):
    """The problem of agents that have no losses, made by `averaging`."""

    start: Float[Any, " d"]
    count: Int[Any, " agents"]
    honest: Int[Any, " honest"] | None = None

    @property
    def agents(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return len(self.count)

    @property
    def dim(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return len(self.start)

    def local_loss(self, agent: Array, x: Array) -> Array:
        return 0 * x.sum()

    def local_gradient(self, agent: Array, x: Array) -> Array:
        return jnp.zeros_like(x)

    def mean_loss(self, x: Array) -> Array:
        return 0 * x.sum()

    def mean_gradient(self, x: Array) -> Array:
        return jnp.zeros_like(x)

    def among(self, honest: Int[np.ndarray, " honest"]) -> "Averaging":
        return replace(self, honest=np.asarray(honest, np.int32))

    @property
    def local_smoothness(self) -> np.ndarray:
        return np.zeros(self.agents)


def averaging(agents: int, dim: int = 100) -> Averaging:
    r"""Vectors of `dim` numbers that agents average, without losses.

    $f_i = 0$, so every rule is gossip alone: CHOCO-SGD is then CHOCO-gossip, whatever its step size. Agents have to
    start apart (`apart` in `[run]`). What counts is the disagreement, the column ``consensus``: the rules for doubly
    stochastic weights keep the mean, so it is the distance to the average of the starts.
    """
    n, d = whole("agents", agents), whole("dim", dim)
    refuse_beyond_memory(f"{n:,} vectors of {d:,} numbers", 8 * n * d, "use fewer agents or a smaller dim")
    return Averaging(np.zeros(d), np.arange(n, dtype=np.int32))
