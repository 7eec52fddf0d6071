"""Where a constant bias lets a method settle: the points with ∇F = −ē."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gossamer.basics.arrays import numbers
from gossamer.basics.sizes import refuse_beyond_memory
from gossamer.core import InputError
from gossamer.problems.problem import Problem, cast, check_problem

FAR = 30.0
"""A coordinate beyond this means that the iterates run away: no local minimum of the paper's problem is so far out."""

COLUMNS = 16
"""Columns of a Hessian that are made together."""


def settling_point(problem: Problem, bias: Any = 0.0, *, start: Any = None) -> np.ndarray:
    r"""A point where $\nabla F(x) = -\bar e$: a local minimum of $F(x) + \bar e^\top x$ near `start`.

    If the bias pulls harder than F holds, there is none near, and that is an error: the iterates of every method would
    run away. With the paper's regulariser it happens where $|\bar e_k|$ exceeds $\frac{3\sqrt 3}{8}\alpha$ in a
    direction that the data do not see. Found by Newton's method: in one step where F is quadratic, else in a trust
    region, whose short steps do not leap over the rim of a minimum.
    """
    from scipy.optimize import minimize  # half a second to import, so only when needed

    check_problem(problem)
    e, first = numbers("bias", bias), numbers("start", problem.start if start is None else start)
    for name, given, shapes in (("bias", e, ((), (problem.dim,))), ("start", first, ((problem.dim,),))):
        if given.shape not in shapes:
            raise InputError(f"{name} must have shape ({problem.dim},), but has shape {given.shape}.")
    e = np.broadcast_to(e, (problem.dim,))
    size = 4 * 8 * problem.dim**2  # the Hessian, its factors and copies
    refuse_beyond_memory(f"Newton's method on {problem.dim:,} parameters", size, "use fewer features")
    with jax.enable_x64(True):
        held = cast(problem, np.float64)
        direct = _one_step(held, first, e)
        if direct is not None:
            return direct
        answer = minimize(
            lambda x: float(_loss(held, jnp.asarray(x))) + float(e @ x),
            first,
            jac=lambda x: _slope(held, x, e),
            hess=lambda x: np.asarray(_hessian(held, jnp.asarray(x))),
            method="trust-exact",
            callback=_stop_far_away,
            options={"initial_trust_radius": 0.5, "max_trust_radius": 1.0, "gtol": 1e-8, "maxiter": 200},
        )
    left = float(np.linalg.norm(answer.jac))
    if np.abs(answer.x).max() > FAR or left > 1e-6:
        worst = int(np.abs(answer.x).argmax())
        raise InputError(
            f"no point has ∇F = −ē for this bias (‖ē‖ = {np.linalg.norm(e):.3g}): coordinate {worst}, where ē is "
            f"{e[worst]:.3g}, went to {answer.x[worst]:.3g} and ‖∇F + ē‖ is still {left:.3g}. Use a smaller bias, or a "
            "larger alpha."
        )
    return answer.x


def _one_step(problem: Problem, start: np.ndarray, e: np.ndarray) -> np.ndarray | None:
    """Where Newton's method arrives in one step if F is quadratic, however far away that is; else None."""
    hessian, slope = np.asarray(_hessian(problem, jnp.asarray(start))), _slope(problem, start, e)
    curvatures = np.linalg.eigvalsh(hessian)
    if curvatures[0] <= 1e-12 * curvatures[-1]:
        return None
    point = start - np.linalg.solve(hessian, slope)
    left = np.linalg.norm(_slope(problem, point, e))
    return point if left <= 1e-10 * np.linalg.norm(slope) else None


def _slope(problem: Problem, x: np.ndarray, e: np.ndarray) -> np.ndarray:
    return np.asarray(_gradient(problem, jnp.asarray(x))) + e


def _stop_far_away(intermediate_result: Any) -> None:
    if np.abs(intermediate_result.x).max() > FAR:
        raise StopIteration


@jax.jit
def _loss(problem: Problem, x: Any) -> Any:
    return problem.mean_loss(x)


@jax.jit
def _gradient(problem: Problem, x: Any) -> Any:
    return problem.mean_gradient(x)


@jax.jit
def _hessian(problem: Problem, x: Any) -> Any:
    def column(direction: Any) -> Any:
        return jax.jvp(problem.mean_gradient, (x,), (direction,))[1]

    # some at a time, so that what is made of all rows stays in the cache: on a9a a third of the time of all at once
    return jax.lax.map(column, jnp.eye(x.size, dtype=x.dtype), batch_size=COLUMNS)
