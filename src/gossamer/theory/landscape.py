r"""The landscape of a loss, from where the agents start: its smoothness, how the agents differ, how far down it goes.

Where the problem does not know its smoothness, it is estimated along the steps of gradient descent,

$$ L \approx \max_{k, i} \frac{\|\nabla f_i(x_{k+1}) - \nabla f_i(x_k)\|}{\|x_{k+1} - x_k\|} , $$

which is at most the true L and may be far below it elsewhere.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from gossamer.problems import Problem, Quadratic
from gossamer.problems.problem import cast

SURVEY_STEPS = 30
"""How many gradient steps a survey of a loss takes."""


class Landscape(NamedTuple):
    """The findings of a survey along a path of gradient descent."""

    smoothness: float
    """The largest quotient of differences: L is at least this."""
    heterogeneity: float
    """The largest ζ² on the path."""
    heterogeneity_at_start: float
    gradients_at_start: float
    """The mean over agents of ‖∇f_i(x⁰)‖²."""
    loss_at_start: float
    lowest: float
    """F at the lowest point that was found."""
    bottom: Float[np.ndarray, " d"]
    """The lowest point that was found."""
    is_minimum: bool
    """True if it is the minimum of F; if not, it is a local one and F* may lie below."""


def survey(problem: Problem, smoothness: float | None = None) -> Landscape:
    """Walk down from the problem's start: `SURVEY_STEPS` gradient steps of 1/L, then L-BFGS to a local minimum."""
    start = np.asarray(problem.start, np.float64)
    with jax.enable_x64(True):
        held = cast(problem, np.float64)
        first, rough = _gradients(held, start), smoothness or _first_guess(held, start)
        x, g, spread, steepest = start, first, [_spread(first)], 0.0
        for _ in range(SURVEY_STEPS):
            step = g.mean(0) / rough
            if not step.any():
                break
            near = _gradients(held, x - step)
            seen = float(np.linalg.norm(near - g, axis=1).max() / np.linalg.norm(step))
            steepest, rough = max(steepest, seen), rough if smoothness else max(rough, seen)
            x, g = x - step, near
            spread.append(_spread(g))
        bottom = _bottom(held, x)
        spread.append(_spread(_gradients(held, bottom)))
        losses = [float(_loss_and_slope(held, jnp.asarray(point))[0]) for point in (start, bottom)]
    return Landscape(
        steepest,
        max(spread),
        spread[0],
        float((first**2).sum(1).mean()),
        losses[0],
        losses[1],
        bottom,
        isinstance(problem, Quadratic),
    )


def _first_guess(problem: Problem, x: np.ndarray) -> float:
    """L at the start, from a difference too short to leave it."""
    g = _gradients(problem, x)
    step = 1e-4 * (1 + np.linalg.norm(x)) * g.mean(0) / max(float(np.linalg.norm(g.mean(0))), 1e-300)
    if not step.any():
        return 1.0
    return max(float(np.linalg.norm(_gradients(problem, x - step) - g, axis=1).max() / np.linalg.norm(step)), 1e-12)


def _bottom(problem: Problem, x: np.ndarray) -> np.ndarray:
    if isinstance(problem, Quadratic):
        return np.linalg.solve(
            np.asarray(problem.A).sum(0), np.einsum("nde,ne->d", np.asarray(problem.A), np.asarray(problem.b))
        )

    def both(point: np.ndarray) -> tuple[float, np.ndarray]:
        loss, slope = _loss_and_slope(problem, jnp.asarray(point))
        return float(loss), np.asarray(slope)

    from scipy.optimize import minimize  # half a second to import, so only when needed

    return minimize(both, x, jac=True, method="L-BFGS-B", options={"maxiter": 300, "maxcor": 20}).x


def _spread(g: Float[np.ndarray, "agents d"]) -> float:
    return float(((g - g.mean(0)) ** 2).sum(1).mean())


def _gradients(problem: Problem, x: np.ndarray) -> Float[np.ndarray, "agents d"]:
    return np.asarray(_all_gradients(problem, jnp.asarray(x)))


@jax.jit
def _all_gradients(problem: Problem, x: Array) -> Any:
    return jax.lax.map(lambda i: problem.local_gradient(i, x), jnp.arange(problem.agents), batch_size=100)


@jax.jit
def _loss_and_slope(problem: Problem, x: Array) -> tuple[Array, Array]:
    return problem.mean_loss(x), problem.mean_gradient(x)
