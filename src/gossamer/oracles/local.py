r"""Local training: the displacement of several optimizer steps on an agent's own loss, as a pseudo-gradient.

$$ y_0 = x, \qquad y_{h+1} = y_h - \eta_l\, d_h, \qquad
   \tilde g_i(x) = \frac{x - y_H}{H \eta_l} = \frac1H \sum_{h=0}^{H-1} d_h $$

For SGD $d_h = g_i(y_h; \xi_h)$. For Adam $d_h = \hat m_h / (\sqrt{\hat v_h} + 10^{-8})$ with both moments zero at
$y_0$, decays of 0.9 and 0.999, and the usual corrections.

Reference: S. Reddi et al., "Adaptive federated optimization", 2021, arXiv 2003.00295, which names pseudo-gradients.
"""

from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from gossamer.basics.arrays import LARGEST
from gossamer.basics.keys import of_step
from gossamer.basics.pytrees import pytree
from gossamer.core import InputError, Range, brief, nearest, whole
from gossamer.oracles.constants import ErrorBounds, root, square_error, times, total
from gossamer.oracles.oracle import Oracle, Site, Stage
from gossamer.problems import Problem

Optimizer = Literal["sgd", "adam"]

FIRST, SECOND, LEAST = 0.9, 0.999, 1e-8
"""Adam's decays of its two moments, and the number that it adds to the root of the second."""


@pytree
@dataclass(frozen=True)
class LocalTraining(Stage):
    """The stage of `local_training`."""

    eta: Any
    steps: int = field(metadata={"static": True})
    optimizer: Optimizer = field(metadata={"static": True})
    inner: Oracle | None = None

    def query(self, site: Site, state: Any, points: tuple[Array, ...]) -> tuple[tuple[Array, ...], Any]:
        direct = _adam if self.optimizer == "adam" else lambda g, moments, number: (g, moments)

        def step(carry: Any, now: tuple[Array, Array]) -> tuple[Any, None]:
            inner, moments, sums = carry
            number, key = now
            moved = tuple(x - self.eta * s for x, s in zip(points, sums, strict=True))
            gradients, inner = self.source.query(site._replace(key=key), inner, moved)
            directed = [direct(g, own, number + 1) for g, own in zip(gradients, moments, strict=True)]
            moments = tuple(own for _, own in directed)
            return (inner, moments, tuple(s + d for s, (d, _) in zip(sums, directed, strict=True))), None

        # the first step asks with the key of the query: its sample is the one that there would be without local steps
        own = self.own_key(site)
        others = jax.vmap(lambda number: of_step(own, number))(jnp.arange(1, self.steps))
        keys = jnp.concatenate([site.key[None], others])
        still = tuple(jnp.zeros_like(x) for x in points)
        begun = (state, tuple((zero, zero) for zero in still), still)
        (state, _, sums), _ = jax.lax.scan(step, begun, (jnp.arange(self.steps), keys))
        return tuple(s / self.steps for s in sums), state

    def constants(self, problem: Problem) -> ErrorBounds:
        inner = self.source.constants(problem)
        variance = 0.0 if inner.variance == 0 else None
        notes = [] if variance == 0 else ["How much noise is left after local training has no closed form: measure it."]
        if self.optimizer == "adam":
            notes.append(
                "Adam's directions have the size of its own choice, so its bias has no closed form: measure it."
            )
            return ErrorBounds(None, None, variance, inner.add_notes(*notes))
        if problem.smoothness is None:
            notes.append("local_training's M_f needs the smoothness of the losses, which is not known: measure it.")
            return ErrorBounds(None, None, variance, inner.add_notes(*notes))
        # With E‖g(y)‖ ≤ c‖∇f(y)‖ + e: E‖y_h − x‖ ≤ ((1 + ηcL)^h − 1)/(cL) · (c‖∇f(x)‖ + e), and cL times its mean over
        # h, which is drift · (c‖∇f(x)‖ + e), comes on top of the error of each query.
        slope = total(1.0, root(inner.relative))
        drift = None if slope is None else _drift(float(self.eta) * slope * problem.smoothness, self.steps)
        if slope is None or drift is None:
            return ErrorBounds(None, None, variance, inner.add_notes(*notes))
        level = total(root(inner.absolute), root(inner.variance))
        relative, absolute = square_error(slope - 1 + drift * slope, total(root(inner.absolute), times(drift, level)))
        return ErrorBounds(relative, absolute, variance, inner.add_notes(*notes))

    def asks(self, dim: int) -> int:
        return self.steps * self.source.asks(dim)


def local_training(steps: int, eta: float, optimizer: Optimizer = "sgd") -> LocalTraining:
    r"""Local steps as a biased oracle: where `steps` steps of SGD or Adam from x end, as a pseudo-gradient.

    $$ \tilde g_i(x) = \frac{x - y_H}{H \eta_l} $$

    with $H$ steps of size $\eta_l$ (`eta`) on the agent's own loss. Each step draws a sample of its own, and a query
    counts as $H$. One step of SGD is the gradient itself.

    Of SGD on $L$-smooth losses, with exact gradients, $M_f \le (((1 + \eta_l L)^H - 1) / (H \eta_l L) - 1)^2$. On
    quadratics $\tilde g_i(x) = P_i (x - b_i)$ with $P_i = (I - (I - \eta_l A_i)^H) / (H \eta_l)$, so that tracking
    methods settle at $(\sum_i P_i)^{-1} \sum_i P_i b_i$: agents that differ leave a floor, which drift correction
    removes. Adam starts anew at every query, and its quotient is the mean of its $H$ directions: each coordinate is
    of size about 1, whatever the size of the gradient.
    """
    if not isinstance(optimizer, str) or optimizer not in get_args(Optimizer):
        raise InputError(
            f"local_training(optimizer={brief(optimizer)}) is not known; {nearest(optimizer, get_args(Optimizer))}"
        )
    allowed = Range(0, LARGEST, True, False, "It is the step size of the local steps.")
    eta = allowed.check("local_training(eta=…)", eta)
    return LocalTraining(np.asarray(eta), whole("local_training(steps=…)", steps), optimizer)


def _adam(g: Array, moments: Any, number: Array) -> tuple[Array, Any]:
    """Return the direction of Adam's step with this number, from 1 on, and the next moments."""
    m, v = FIRST * moments[0] + (1 - FIRST) * g, SECOND * moments[1] + (1 - SECOND) * g**2
    count = number.astype(g.dtype)
    return m / (1 - FIRST**count) / (jnp.sqrt(v / (1 - SECOND**count)) + LEAST), (m, v)


def _drift(growth: float, steps: int) -> float | None:
    """Return the mean over h < H of (1 + growth)^h − 1; None if it overflows."""
    with np.errstate(over="ignore"):
        drift = float(np.expm1(steps * np.log1p(growth)) / (steps * growth) - 1)
    return drift if np.isfinite(drift**2) else None
