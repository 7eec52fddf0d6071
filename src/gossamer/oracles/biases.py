"""Stages that make gradients wrong in simple ways: added, relative, clipped, stale, or by a function of your own."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from gossamer.basics.arrays import LARGEST, numbers
from gossamer.basics.keys import draw_once
from gossamer.basics.pytrees import pytree
from gossamer.core import InputError, Range, brief, check_function, flag, whole
from gossamer.oracles.constants import ErrorBounds, root, square_error, times, total
from gossamer.oracles.oracle import Oracle, Site, Stage
from gossamer.problems import Problem

POSITIVE = Range(0, float("inf"), True, True, "")


@pytree
@dataclass(frozen=True)
class AdditiveBias(Stage):
    """The stage of `additive_bias`. Its state is the error e_i, if that is drawn or given once."""

    mean: Any
    """A number, a vector for all agents, or a row for each of them."""
    std: Any
    redraw: bool = field(metadata={"static": True})
    inner: Oracle | None = None

    def check(self, problem: Problem) -> None:
        self.source.check(problem)
        n, d = problem.agents, problem.dim
        if self.mean.shape not in ((), (d,), (n, d)):
            raise InputError(
                f"the errors of additive_bias must be a number, a vector of {d}, the problem's dimension, or have "
                f"shape {(n, d)}, one row for each agent, but have shape {self.mean.shape}."
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
        means = np.atleast_2d(np.broadcast_to(self.mean, np.broadcast_shapes(self.mean.shape, (problem.dim,))))
        size = float(np.linalg.norm(means, axis=1).max())
        spread = problem.dim * std**2
        once = std > 0 and not self.redraw
        relative, absolute = inner.shift_bias(None if once else size)
        notes = []
        if once:
            grows = "is" if inner.unbiased else "grows with"
            size_sq = f"the mean of ‖e_i‖² is {size**2 + spread:.3g}"
            notes.append(f"σ_f² {grows} the largest ‖e_i‖², which depends on the draw; {size_sq}.")
        if relative and relative != inner.relative:
            why = "the added error may point the same way as theirs"
            notes.append(f"M_f is {relative:.3g}, above the {inner.relative:.3g} of the stages before: {why}.")
        variance = inner.variance if once else total(inner.variance, spread)
        return ErrorBounds(relative, absolute, variance, inner.add_notes(*notes))

    def _draw(self, site: Site) -> Float[Array, " d"]:
        # float32 whatever the run's dtype, so that a float64 run sees the same draws
        shape = site.problem.start.shape
        noise = draw_once(site.round, lambda: jax.random.normal(self.own_key(site), shape, jnp.float32))
        mean = self.mean[site.agent] if self.mean.ndim == 2 else self.mean
        return mean + self.std * noise.astype(site.problem.start.dtype)


def additive_bias(
    mean: Any = None, std: float | None = None, *, redraw: bool | None = None, vectors: Any = None
) -> AdditiveBias:
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
        errors = numbers("additive_bias(vectors=…)", vectors)
        if errors.ndim not in (1, 2):
            raise InputError(
                f"additive_bias(vectors=…) must be one row for each agent, or one vector for all, but has shape "
                f"{errors.shape}."
            )
        return AdditiveBias(errors, np.asarray(0.0), False)  # errors that are drawn once, without a spread
    errors = numbers("additive_bias(mean=…)", 0.0 if mean is None else mean)
    if errors.ndim > 1:
        raise InputError(f"additive_bias(mean=…) must be a number or one vector for all, but has shape {errors.shape}.")
    again = redraw is not None and flag("additive_bias(redraw=…)", redraw)
    spread = numbers("additive_bias(std=…)", 0.0 if std is None else std)
    if spread.ndim or spread < 0:
        raise InputError(f"additive_bias(std=…) must be a number of at least 0, but is {brief(std)}.")
    return AdditiveBias(errors, spread, again)


@pytree
@dataclass(frozen=True)
class RelativeBias(Stage):
    """The stage of `relative_bias`. Its state is the diagonal of Δ_i."""

    factors: Any
    """δ, or a number or row for each agent."""
    signs: bool = field(metadata={"static": True})
    """True if the factors get random signs."""
    inner: Oracle | None = None

    def check(self, problem: Problem) -> None:
        self.source.check(problem)
        wanted = (problem.agents, problem.dim)
        if not self.signs and self.factors.shape not in (wanted, wanted[:1]):
            raise InputError(
                f"relative_bias(factors=…) must have shape {wanted[:1]}, a number for each agent, or {wanted}, one for "
                f"each coordinate, but has shape {self.factors.shape}."
            )

    def init(self, site: Site) -> Any:
        if self.signs:
            own = self.factors * jax.random.rademacher(self.own_key(site), site.problem.start.shape, jnp.int32)
        else:
            own = self.factors[site.agent]
        return {"inner": self.source.init(site), "factors": own}

    def query(self, site: Site, state: Any, points: tuple[Array, ...]) -> tuple[tuple[Array, ...], Any]:
        gradients, inner = self.source.query(site, state["inner"], points)
        return tuple(g + state["factors"] * g for g in gradients), state | {"inner": inner}

    def constants(self, problem: Problem) -> ErrorBounds:
        factors = np.asarray(self.factors)
        return stretch_bounds(self.source.constants(problem), np.abs(factors).max(), np.abs(1 + factors).max())


def relative_bias(delta: float | None = None, *, factors: Any = None) -> RelativeBias:
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
        return RelativeBias(np.asarray(allowed.check("relative_bias(delta=…)", delta)), True)
    return RelativeBias(numbers("relative_bias(factors=…)", factors), False)


def stretch_bounds(inner: ErrorBounds, error: float, stretch: float) -> ErrorBounds:
    """Return the bounds after Δ with ‖Δ‖ = error and ‖I + Δ‖ = stretch.

    The error becomes Δ∇f + (I + Δ)b, and the noise (I + Δ)n.
    """
    error, stretch = float(error), float(stretch)
    slope = total(error, times(stretch, root(inner.relative)))
    relative, absolute = square_error(slope, times(stretch, root(inner.absolute)))
    return ErrorBounds(relative, absolute, times(stretch**2, inner.variance), inner.note)


@pytree
@dataclass(frozen=True)
class Clip(Stage):
    """The stage of `clip`."""

    threshold: Any
    inner: Oracle | None = None

    def change(self, site: Site, g: Array, x: Array) -> Array:
        norm = jnp.linalg.norm(g)
        return jnp.where(norm > self.threshold, g * (self.threshold / jnp.where(norm > 0, norm, 1)), g)

    def constants(self, problem: Problem) -> ErrorBounds:
        inner, most = self.source.constants(problem), float(self.threshold) ** 2
        # a projection onto a ball brings no two points further apart, and leaves no norm above the threshold
        variance = most if inner.variance is None else min(inner.variance, most)
        exact = inner.unbiased and inner.variance == 0
        note = "clip's M_f is ((1 − τ/G)₊)², below 1 only where ‖∇f_i‖ ≤ G: see relative_at(G)."
        return ErrorBounds(None, 0.0 if exact else None, variance, inner.add_notes(note))

    def relative_at(self, largest: float) -> float:
        """Return M_f of full gradients whose norm is at most `largest`."""
        largest = POSITIVE.check("relative_at(largest=…)", largest)
        return max(0.0, 1 - float(self.threshold) / largest) ** 2


def clip(threshold: float) -> Clip:
    r"""Gradients cut to a norm of at most `threshold`.

    $$ \tilde g_i(x) = \min\Big(1, \frac{\tau}{\|g_i(x)\|}\Big)\, g_i(x) $$

    The error is $(\|g\| - \tau)_+$, so that $M_f = ((1 - \tau/G)_+)^2$ where $\|\nabla f_i\| \le G$, which
    `relative_at(G)` gives. The variance is at most $\tau^2$, whatever the noise.
    """
    allowed = Range(0, LARGEST, True, False, "It is the largest norm of a gradient that passes unchanged.")
    return Clip(np.asarray(allowed.check("clip(threshold=…)", threshold)))


@pytree
@dataclass(frozen=True)
class Delay(Stage):
    """The stage of `delay`."""

    rounds: int = field(metadata={"static": True})
    inner: Oracle | None = None

    def init(self, site: Site) -> Any:
        start = site.problem.start
        points = jnp.zeros((self.rounds, *start.shape), start.dtype)
        return {"inner": self.source.init(site), "points": points, "asked": jnp.int32(0)}

    def query(self, site: Site, state: Any, points: tuple[Array, ...]) -> tuple[tuple[Array, ...], Any]:
        if len(points) != 1:
            raise InputError(
                f"delay({self.rounds}) keeps one point for each query, but this rule asks at {len(points)} points in "
                "one call. Use a rule that asks at one point, or leave out the delay."
            )
        if self.rounds == 0:
            gradients, inner = self.source.query(site, state["inner"], points)
            return gradients, state | {"inner": inner}
        # the first query fills the ring with its own point, as there is no older one
        ring = jnp.where(state["asked"] == 0, points[0], state["points"])
        place = state["asked"] % self.rounds
        gradients, inner = self.source.query(site, state["inner"], (ring[place],))
        return gradients, {"inner": inner, "points": ring.at[place].set(points[0]), "asked": state["asked"] + 1}

    def bias(self, site: Site, state: Any) -> Any:
        return None if self.rounds else self.source.bias(site, state["inner"])

    def constants(self, problem: Problem) -> ErrorBounds:
        inner = self.source.constants(problem)
        if self.rounds == 0:
            return inner
        relative, absolute = inner.shift_bias(None)
        note = (
            "delay's σ_f² is L²‖x − x'‖², with x' the point of that many queries ago: it has a bound along a path only."
        )
        return ErrorBounds(relative, absolute, inner.variance, inner.add_notes(note))


def delay(rounds: int) -> Delay:
    r"""The gradient at the point of `rounds` queries ago, on a fresh sample.

    $$ \tilde g_i(x^t) = g_i(x^{t - \tau}; \xi^t) $$

    In the first queries it is the gradient at the oldest point so far. The error is at most $L \|x^t - x^{t-\tau}\|$,
    which goes to zero where the iterates come to rest. Each agent keeps `rounds` points.
    """
    return Delay(whole("delay(rounds=…)", rounds, least=0))


@pytree
@dataclass(frozen=True)
class Custom(Stage):
    """The stage of `custom`."""

    function: Callable[[Array, Array, Site], Array] = field(metadata={"static": True})
    inner: Oracle | None = None

    def change(self, site: Site, g: Array, x: Array) -> Array:
        changed = self.function(g, x, site._replace(key=self.own_key(site)))
        if getattr(changed, "shape", None) != x.shape:
            raise InputError(
                f"the function of oracles.custom must return a gradient of shape {x.shape}, "
                f"but returned {getattr(changed, 'shape', type(changed).__name__)}."
            )
        return changed.astype(x.dtype)


def custom(function: Callable[[Array, Array, Site], Array]) -> Custom:
    """A stage of your own: ``function(gradient, x, site)`` returns what the agent takes for its gradient at ``x``.

    It sees one agent's vectors and is written in JAX. ``site.agent`` and ``site.round`` say who asks and when,
    ``site.key`` is for random draws: ``oracles.minibatch(64) | oracles.custom(lambda g, x, site: 0.9 * g)``.
    """
    check_function("oracles.custom(…)", function, "gradient, x, site")
    return Custom(function)
