"""Errors that are added to a gradient: the paper's absolute bias."""

from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from gossamer.basics.arrays import numbers
from gossamer.basics.keys import draw_once
from gossamer.basics.pytrees import pytree
from gossamer.core import InputError, brief, flag
from gossamer.oracles.constants import ErrorBounds, total
from gossamer.oracles.oracle import Oracle, Site, Stage
from gossamer.problems import Problem


@pytree
@dataclass(frozen=True)
class AdditiveBias(Stage):
    """The stage of `additive_bias`."""

    mean: Any
    std: Any
    redraw: bool = field(metadata={"static": True})
    inner: Oracle | None = None

    def check(self, problem: Problem) -> None:
        self.source.check(problem)
        if self.mean.shape not in ((), (problem.dim,)):
            raise InputError(
                f"additive_bias(mean=…) must be a number or a vector of {problem.dim}, the problem's dimension, "
                f"but has shape {self.mean.shape}."
            )

    def init(self, site: Site) -> Any:
        return {"inner": self.source.init(site), "e": () if self.redraw else self._draw(site)}

    def query(self, site: Site, state: Any, points: tuple[Array, ...]) -> tuple[tuple[Array, ...], Any]:
        gradients, inner = self.source.query(site, state["inner"], points)
        e = self._draw(site) if self.redraw else state["e"]
        return tuple(g + e for g in gradients), state | {"inner": inner}

    def value(self, site: Site, state: Any, points: tuple[Array, ...]) -> tuple[Array, ...]:
        # g + e is the gradient of f + e·x.
        e = self._draw(site) if self.redraw else state["e"]
        return tuple(f + e @ x for f, x in zip(self.source.value(site, state["inner"], points), points, strict=True))

    def bias(self, site: Site, state: Any) -> Float[Array, " d"] | None:
        added = jnp.broadcast_to(self.mean, site.problem.start.shape) if self.redraw else state["e"]
        under = self.source.bias(site, state["inner"])
        return None if under is None else under + added

    def constants(self, problem: Problem) -> ErrorBounds:
        inner, std = self.source.constants(problem), float(self.std)
        size = float(np.linalg.norm(np.broadcast_to(self.mean, (problem.dim,))))
        spread = problem.dim * std**2
        if self.redraw or std == 0:
            return ErrorBounds(*inner.shift_bias(size), total(inner.variance, spread), inner.note)
        note = f"σ_f² is the largest ‖e_i‖², which depends on the draw; the mean of ‖e_i‖² is {size**2 + spread:.3g}."
        return ErrorBounds(*inner.shift_bias(None), inner.variance, inner.add_notes(note))

    def _draw(self, site: Site) -> Float[Array, " d"]:
        # float32 whatever the run's dtype, so that a float64 run sees the same draws
        shape = site.problem.start.shape
        noise = draw_once(site.round, lambda: jax.random.normal(self.own_key(site), shape, jnp.float32))
        return self.mean + self.std * noise.astype(site.problem.start.dtype)


@pytree
@dataclass(frozen=True)
class GivenBias(Stage):
    """The stage of `additive_bias(vectors=…)`."""

    vectors: Float[Any, "..."]
    """[agents, d], or [d] for all of them; `check` compares."""
    inner: Oracle | None = None

    def check(self, problem: Problem) -> None:
        self.source.check(problem)
        wanted = (problem.agents, problem.dim)
        if self.vectors.shape not in (wanted, wanted[1:]):
            raise InputError(
                f"additive_bias(vectors=…) must have shape {wanted}, one row for each agent, or {wanted[1:]}, one "
                f"vector for all, but has shape {self.vectors.shape}."
            )

    def query(self, site: Site, state: Any, points: tuple[Array, ...]) -> tuple[tuple[Array, ...], Any]:
        gradients, state = self.source.query(site, state, points)
        return tuple(g + self._vector(site) for g in gradients), state

    def value(self, site: Site, state: Any, points: tuple[Array, ...]) -> tuple[Array, ...]:
        losses = self.source.value(site, state, points)
        return tuple(f + self._vector(site) @ x for f, x in zip(losses, points, strict=True))

    def bias(self, site: Site, state: Any) -> Float[Array, " d"] | None:
        under = self.source.bias(site, state)
        return None if under is None else under + self._vector(site)

    def constants(self, problem: Problem) -> ErrorBounds:
        inner, size = self.source.constants(problem), float(np.linalg.norm(self.vectors, axis=-1).max())
        return ErrorBounds(*inner.shift_bias(size), inner.variance, inner.note)

    def _vector(self, site: Site) -> Float[Array | np.ndarray, " d"]:
        return self.vectors if self.vectors.ndim == 1 else self.vectors[site.agent]


def additive_bias(
    mean: Any = None, std: float | None = None, *, redraw: bool | None = None, vectors: Any = None
) -> Stage:
    r"""An error added to every gradient: absolute bias.

    $$ \tilde g_i(x) = g_i(x) + e_i $$

    The errors are drawn, $e_i \sim \mathcal N(\mu, \sigma_e^2 I)$, with `mean` $\mu$ (a vector, or one number for all
    coordinates) and `std` $\sigma_e$. The paper leaves open when they are drawn. With ``redraw=False``, the default, it
    is once for each agent before the run, so that each has a bias of its own and $\sigma_f^2 = \max_i \|e_i\|^2$. With
    ``redraw=True`` it is at every query, so that the bias is $\mu$ and the rest is noise. Or give the errors themselves
    as `vectors`: one row for each agent, or one vector for all.
    """
    if vectors is not None:
        if mean is not None or std is not None or redraw is not None:
            raise InputError("additive_bias takes either vectors, or mean, std and redraw, but not both.")
        return GivenBias(numbers("additive_bias(vectors=…)", vectors))
    again = redraw is not None and flag("additive_bias(redraw=…)", redraw)
    spread = numbers("additive_bias(std=…)", 0.0 if std is None else std)
    if spread.ndim or spread < 0:
        raise InputError(f"additive_bias(std=…) must be a number of at least 0, but is {brief(std)}.")
    return AdditiveBias(numbers("additive_bias(mean=…)", 0.0 if mean is None else mean), spread, again)
