"""Relative bias: an error in proportion to the gradient."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from gossamer.core import Range
from gossamer.oracles.oracle import Oracle, Site, Stage
from gossamer.problems import Problem


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class RelativeBias(Stage):
    """Made by `relative_bias`."""

    delta: Any
    inner: Oracle | None = None

    def check(self, problem: Problem) -> None:
        self.source.check(problem)

    def init(self, site: Site) -> Any:
        signs = jax.random.rademacher(self.own_key(site), site.problem.start.shape, jnp.int32)
        return {"inner": self.source.init(site), "signs": signs.astype(jnp.int8)}

    def query(self, site: Site, state: Any, points: tuple[Array, ...]) -> tuple[tuple[Array, ...], Any]:
        gradients, inner = self.source.query(site, state["inner"], points)
        return tuple(g + self.delta * state["signs"] * g for g in gradients), state | {"inner": inner}

    def value(self, site: Site, state: Any, points: tuple[Array, ...]) -> tuple[Array, ...]:
        return self.source.value(site, state["inner"], points)

    def bias(self, site: Site, state: Any) -> None:
        return None


def relative_bias(delta: float) -> RelativeBias:
    r"""An error in proportion to the gradient: relative bias.

    $$ \tilde g_i(x) = (I + \Delta_i)\, g_i(x), \qquad \Delta_i = \delta\, \mathrm{diag}(\pm 1) $$

    with signs drawn once for each agent, so that $\|\Delta_i g\| = \delta \|g\|$ exactly: $M_f = \delta^2$ and
    $\sigma_f^2 = 0$ on the full gradient. On mini-batches the error of the noise adds to the variance. Function values
    are those of the oracle inside.
    """
    allowed = Range(0, float("inf"), False, True, "The theory covers delta up to 1/16.")
    return RelativeBias(np.asarray(allowed.check("relative_bias(delta=…)", delta)))
