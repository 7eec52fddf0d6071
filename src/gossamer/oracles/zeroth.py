r"""Gradients from function values alone.

$$ \tilde g = \frac{f(x + hu) - f(x)}{h}\, u, \quad u \sim \mathcal N(0, I); \qquad
   \tilde g = d\, \frac{f(x + hu) - f(x)}{h}\, u, \quad \|u\| = 1; \qquad
   \tilde g_j = \frac{f(x + h e_j) - f(x)}{h} $$

Reference: Y. Nesterov and V. Spokoiny, "Random gradient-free minimization of convex functions", 2017.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from gossamer.basics.keys import draw_once
from gossamer.basics.pytrees import pytree
from gossamer.core import InputError, Range, brief, nearest, whole
from gossamer.oracles.constants import ErrorBounds
from gossamer.oracles.oracle import Oracle, Site, Stage
from gossamer.problems import Problem

Method = Literal["gaussian", "sphere", "coordinate"]

VALUES_TOGETHER = 16
"""Function values that are computed at once, so that memory does not grow with their number."""


@pytree
@dataclass(frozen=True)
class ZerothOrder(Stage):
    """The stage of `zeroth_order`."""

    radius: Any
    method: Method = field(metadata={"static": True})
    directions: int = field(metadata={"static": True})
    inner: Oracle | None = None

    def check(self, problem: Problem) -> None:
        self.source.check(problem)

        def value_at_start(source: Oracle, problem: Problem) -> Any:
            site = Site(problem, jnp.int32(0), jax.random.key(0, impl="threefry2x32"), jnp.int32(0))
            return source.value(site, source.init(site), (problem.start,))

        try:
            with jax.enable_x64(True):
                jax.eval_shape(value_at_start, self.source, problem)
        except (InputError, AttributeError, NotImplementedError) as error:
            raise InputError(
                f"zeroth_order asks for function values, but there are none: {error} Put it around a source that has "
                "them, such as oracles.exact() or oracles.minibatch(64), and other stages behind it."
            ) from error

    def query(self, site: Site, state: Any, points: tuple[Array, ...]) -> tuple[tuple[Array, ...], Any]:
        _, after = self.source.query(site, state, ())  # a query at no point only moves on to the next sample

        def loss(x: Array) -> Array:
            return self.source.value(site, state, (x,))[0]

        return tuple(self._gradient(loss, x, site) for x in points), after

    def asks(self, dim: int) -> int:
        return 1 + (dim if self.method == "coordinate" else self.directions)

    def constants(self, problem: Problem) -> ErrorBounds:
        inner, smoothness, d = self.source.constants(problem), problem.smoothness, problem.dim
        share = {"gaussian": math.sqrt(d), "sphere": d / (d + 1), "coordinate": math.sqrt(d) / 2}[self.method]
        size = None if smoothness is None else float(self.radius) * smoothness * share
        notes = [] if size is not None else ["The bias of zeroth order is in proportion to L, which is not known here."]
        if self.method == "coordinate":
            variance = 0.0 if inner.variance == 0 else None
            if variance is None:
                notes.append("The variance of differences of noisy losses has no closed form: measure it.")
        else:
            variance = None
            notes.append(
                f"Random directions add a variance of {direction_variance(self.method, d) / self.directions:.4g} ‖g‖², "
                "for g the gradient on the sample and a small radius: it has a bound only where gradients have one."
            )
        return ErrorBounds(*inner.shift_bias(size), variance, inner.add_notes(*notes))

    def _gradient(self, loss: Callable[[Array], Array], x: Array, site: Site) -> Array:
        if self.method == "coordinate":
            return forward_difference(loss, x, self.radius)
        # float32 whatever the run's dtype, so that a float64 run sees the same draws
        shape = (self.directions, *x.shape)
        drawn = draw_once(site.round, lambda: jax.random.normal(self.own_key(site), shape, jnp.float32)).astype(x.dtype)
        if self.method == "gaussian":
            return along(loss, x, drawn, self.radius)
        norms = jnp.linalg.norm(drawn, axis=1, keepdims=True)
        on_sphere = drawn / jnp.where(norms > 0, norms, 1)
        return x.shape[0] * along(loss, x, on_sphere, self.radius)


def direction_variance(method: Literal["gaussian", "sphere"], d: int) -> int:
    r"""Return the variance of one random direction on a loss that is linear with gradient g, over ‖g‖².

    $\mathbb E\|(g^\top u) u\|^2 = (d+2) \|g\|^2$ for $u \sim \mathcal N(0, I)$, and $\mathbb E\|d\, (g^\top u) u\|^2 =
    d^2\, \mathbb E(g^\top u)^2 = d\, \|g\|^2$ on the sphere; the square of the mean, $\|g\|^2$, comes off.
    """
    return d + 1 if method == "gaussian" else d - 1


def along(
    loss: Callable[[Array], Array], x: Float[Array, " d"], directions: Float[Array, "m d"], radius: Any
) -> Float[Array, " d"]:
    """Return the mean over directions u of (f(x + hu) − f(x))/h · u."""
    moved = jax.lax.map(lambda u: loss(x + radius * u), directions, batch_size=VALUES_TOGETHER)
    return (moved - loss(x)) / radius @ directions / directions.shape[0]


def forward_difference(loss: Callable[[Array], Array], x: Float[Array, " d"], radius: Any) -> Float[Array, " d"]:
    """Return (f(x + he_j) − f(x))/h for every coordinate j: d + 1 values."""
    moved = jax.lax.map(lambda j: loss(x.at[j].add(radius)), jnp.arange(x.shape[0]), batch_size=VALUES_TOGETHER)
    return (moved - loss(x)) / radius


def zeroth_order(method: Method = "gaussian", *, radius: float, directions: int = 1) -> ZerothOrder:
    r"""Gradients from differences of function values, all on one sample; no derivative is taken.

    With radius $h$, "gaussian" takes two values along a direction $u \sim \mathcal N(0, I)$, and "sphere" two along a
    direction of length 1; both average over `directions` of them. They estimate the gradient of a smoothed $f_i$, with
    $\sigma_f^2 \le h^2 L^2 d$ and $(hLd/(d+1))^2$ (zero on quadratics), at the price of a variance, which for one
    direction and a small radius is $(d+1)\|\nabla f_i\|^2$ and $(d-1)\|\nabla f_i\|^2$. "coordinate" takes d + 1
    values, with $\sigma_f^2 \le d L^2 h^2 / 4$ and no variance of its own. Run it in float64: in float32 the rounding
    error is about $10^{-7} |f| / h$.
    """
    if not isinstance(method, str) or method not in get_args(Method):
        raise InputError(f"zeroth_order(method={brief(method)}) is not known; {nearest(method, get_args(Method))}")
    allowed = Range(0, math.inf, True, True, "It is the distance between the two points whose values are compared.")
    h = np.asarray(allowed.check("zeroth_order(radius=…)", radius))
    directions = whole("zeroth_order(directions=…)", directions)
    if method == "coordinate" and directions != 1:
        raise InputError(
            f'zeroth_order("coordinate") asks along every coordinate, so directions={directions} would change nothing: '
            "leave it out."
        )
    return ZerothOrder(h, method, directions)
