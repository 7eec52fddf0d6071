"""Gradients clipped to a largest norm."""

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from gossamer.basics.arrays import LARGEST
from gossamer.basics.pytrees import pytree
from gossamer.core import Range
from gossamer.oracles.constants import ErrorBounds
from gossamer.oracles.oracle import Oracle, Site, Stage
from gossamer.problems import Problem

POSITIVE = Range(0, float("inf"), True, True, "")


@pytree
@dataclass(frozen=True)
class Clip(Stage):
    """The stage of `clip`."""

    threshold: Any
    inner: Oracle | None = None

    def query(self, site: Site, state: Any, points: tuple[Array, ...]) -> tuple[tuple[Array, ...], Any]:
        gradients, state = self.source.query(site, state, points)

        def cut(g: Array) -> Array:
            norm = jnp.linalg.norm(g)
            return jnp.where(norm > self.threshold, g * (self.threshold / jnp.where(norm > 0, norm, 1)), g)

        return tuple(cut(g) for g in gradients), state

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
