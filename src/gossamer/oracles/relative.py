"""Relative bias: an error in proportion to the gradient."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from gossamer.basics.arrays import LARGEST, numbers
from gossamer.basics.pytrees import pytree
from gossamer.core import InputError, Range
from gossamer.oracles.constants import ErrorBounds, root, square_error, times, total
from gossamer.oracles.oracle import Oracle, Site, Stage
from gossamer.problems import Problem


@pytree
@dataclass(frozen=True)
class RelativeBias(Stage):
    """The stage of `relative_bias`."""

    delta: Any
    inner: Oracle | None = None

    def init(self, site: Site) -> Any:
        signs = jax.random.rademacher(self.own_key(site), site.problem.start.shape, jnp.int32)
        return {"inner": self.source.init(site), "signs": signs.astype(jnp.int8)}

    def query(self, site: Site, state: Any, points: tuple[Array, ...]) -> tuple[tuple[Array, ...], Any]:
        gradients, inner = self.source.query(site, state["inner"], points)
        return tuple(g + self.delta * state["signs"] * g for g in gradients), state | {"inner": inner}

    def constants(self, problem: Problem) -> ErrorBounds:
        return stretch_bounds(self.source.constants(problem), float(self.delta), 1 + float(self.delta))


@pytree
@dataclass(frozen=True)
class GivenFactors(Stage):
    """The stage of `relative_bias(factors=…)`."""

    factors: Any
    inner: Oracle | None = None

    def check(self, problem: Problem) -> None:
        self.source.check(problem)
        wanted = (problem.agents, problem.dim)
        if self.factors.shape not in (wanted, wanted[:1]):
            raise InputError(
                f"relative_bias(factors=…) must have shape {wanted[:1]}, a number for each agent, or {wanted}, one for "
                f"each coordinate, but has shape {self.factors.shape}."
            )

    def query(self, site: Site, state: Any, points: tuple[Array, ...]) -> tuple[tuple[Array, ...], Any]:
        gradients, state = self.source.query(site, state, points)
        return tuple(g + self.factors[site.agent] * g for g in gradients), state

    def constants(self, problem: Problem) -> ErrorBounds:
        factors = np.asarray(self.factors)
        return stretch_bounds(self.source.constants(problem), np.abs(factors).max(), np.abs(1 + factors).max())


def relative_bias(delta: float | None = None, *, factors: Any = None) -> Stage:
    r"""An error in proportion to the gradient: relative bias.

    $$ \tilde g_i(x) = (I + \Delta_i)\, g_i(x), \qquad \Delta_i = \delta\, \mathrm{diag}(\pm 1) $$

    with signs drawn once for each agent, so that $\|\Delta_i g\| = \delta \|g\|$ exactly: $M_f = \delta^2$ and
    $\sigma_f^2 = 0$ on the full gradient. Or give the diagonals of the $\Delta_i$ as `factors`, one number or one row
    for each agent; $M_f$ is then their largest square. On mini-batches the error of the noise adds to the variance.
    What comes out is in general not the gradient of any loss, so there are no function values.
    """
    if (delta is None) == (factors is None):
        raise InputError(
            "relative_bias takes either delta, for signs that are drawn, or factors: give exactly one of them."
        )
    if factors is None:
        allowed = Range(0, LARGEST, False, False, "The theory covers delta up to 1/16.")
        return RelativeBias(np.asarray(allowed.check("relative_bias(delta=…)", delta)))
    return GivenFactors(numbers("relative_bias(factors=…)", factors))


def stretch_bounds(inner: ErrorBounds, error: float, stretch: float) -> ErrorBounds:
    """Return the bounds after Δ with ‖Δ‖ = error and ‖I + Δ‖ = stretch.

    The error becomes Δ∇f + (I + Δ)b, and the noise (I + Δ)n.
    """
    error, stretch = float(error), float(stretch)
    slope = total(error, times(stretch, root(inner.relative)))
    relative, absolute = square_error(slope, times(stretch, root(inner.absolute)))
    return ErrorBounds(relative, absolute, times(stretch**2, inner.variance), inner.note)
