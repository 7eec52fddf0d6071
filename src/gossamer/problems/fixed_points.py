"""Fixed points under a constant bias: of trackers (∇F = −ē), and of D-PSGD, which depend on its step size."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gossamer.basics.arrays import numbers
from gossamer.basics.sizes import refuse_beyond_memory
from gossamer.core import InputError
from gossamer.problems.problem import Problem, call_method, cast, check_problem

FAR = 30.0
"""Iterates with a coordinate beyond this run away: no local minimum of the paper's problem is so far out."""

COLUMNS = 16
"""Columns of a Hessian that are computed together."""


def settling_point(problem: Problem, bias: Any = 0.0, *, start: Any = None) -> np.ndarray:
    r"""Return a point where $\nabla F(x) = -\bar e$: a local minimum of $F(x) + \bar e^\top x$ near `start`.

    If the bias pulls harder than F holds, there is no such point near, and InputError is raised: the iterates of every
    method would run away. With the paper's regulariser it happens where $|\bar e_k|$ exceeds
    $\frac{3\sqrt 3}{8}\alpha$ in a direction that the data do not see. The point is found by Newton's method: in one
    step where F is quadratic, else in a trust region, whose short steps do not leap over the rim of a minimum.
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

        def loss(x: np.ndarray) -> float:
            return float(call_method("mean_loss", held, jnp.asarray(x))) + float(e @ x)

        def slope(x: np.ndarray) -> np.ndarray:
            return np.asarray(call_method("mean_gradient", held, jnp.asarray(x))) + e

        def hessian(x: np.ndarray) -> np.ndarray:
            return np.asarray(_hessian(held, jnp.asarray(x)))

        def stop_far_away(intermediate_result: Any) -> None:  # SciPy goes by the name of the argument
            if np.abs(intermediate_result.x).max() > FAR:
                raise StopIteration

        bend, pull = hessian(first), slope(first)
        curvatures = np.linalg.eigvalsh(bend)
        if curvatures[0] > 1e-12 * curvatures[-1]:  # if F is quadratic one step is exact, however far the minimum is
            point = first - np.linalg.solve(bend, pull)
            if np.linalg.norm(slope(point)) <= 1e-10 * np.linalg.norm(pull):
                return point
        answer = minimize(
            loss,
            first,
            jac=slope,
            hess=hessian,
            method="trust-exact",
            callback=stop_far_away,
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


def dpsgd_fixed_point(problem: Problem, W: Any, eta: float, bias: Any = 0.0) -> np.ndarray:
    r"""Return the models, [agents, d], at which D-PSGD stays: $(I - W) X + \eta (\nabla f(X) + e) = 0$.

    `W` is the mixing matrix, dense or sparse, and `bias` holds a row $e_i$ for each agent, or one vector for all. Found
    by Newton's method from the point where a tracker would settle, with steps halved until the residual falls; the step
    size is led up to `eta` from a sixteenth of it, so that the point found is the one that a run from there follows.
    """
    check_problem(problem)
    n, d = problem.agents, problem.dim
    e = numbers("bias", bias)
    if e.shape not in ((), (d,), (n, d)):
        raise InputError(f"bias must have shape {(n, d)}, one row an agent, or {(d,)}, but has shape {e.shape}.")
    mixing = np.asarray(W.todense() if hasattr(W, "todense") else numbers("W", W), float)
    if mixing.shape != (n, n):
        raise InputError(f"W must have shape {(n, n)} for {n} agents, but has shape {mixing.shape}.")
    if not 0 < eta < np.inf:
        raise InputError(f"eta must be a number above 0, but is {eta}.")
    e = np.broadcast_to(e, (n, d))
    refuse_beyond_memory(f"Newton's method on {n * d:,} numbers", 4 * 8 * (n * d) ** 2, "use fewer agents or features")
    laplacian = np.kron(np.eye(n) - mixing, np.eye(d))
    X = np.repeat(settling_point(problem, e.mean(0))[None], n, axis=0)
    with jax.enable_x64(True):
        held = cast(problem, np.float64)

        def residual(X: np.ndarray, step: float) -> np.ndarray:
            return laplacian @ X.ravel() + step * (np.asarray(_gradients(held, jnp.asarray(X))) + e).ravel()

        left = residual(X, eta)
        # small steps stay near the settling point, and each point found begins the search for the next
        for step in eta * 2.0 ** np.arange(-4, 1):
            left = residual(X, step)
            for _ in range(50):
                if np.linalg.norm(left) <= 1e-13 * step * max(1.0, np.linalg.norm(e), np.linalg.norm(X)):
                    break
                jacobian = laplacian.copy()
                for agent, hessian in enumerate(np.asarray(_hessians(held, jnp.asarray(X)))):
                    block = slice(agent * d, (agent + 1) * d)
                    jacobian[block, block] += step * hessian
                move, size = np.linalg.solve(jacobian, left).reshape(n, d), 1.0
                while size > 1e-6 and np.linalg.norm(residual(X - size * move, step)) >= np.linalg.norm(left):
                    size /= 2
                if size <= 1e-6:  # the residual is down to rounding errors
                    break
                X = X - size * move
                left = residual(X, step)
    if np.linalg.norm(left) > 1e-8 * eta:
        raise InputError(
            f"D-PSGD has no fixed point near with eta = {eta:g}: ‖(I − W)X + η(∇f(X) + e)‖ is still "
            f"{np.linalg.norm(left):.3g}. Use a smaller step size."
        )
    return X


@jax.jit
def _gradients(problem: Problem, X: Any) -> Any:
    return jax.vmap(problem.local_gradient)(jnp.arange(problem.agents, dtype=jnp.int32), X)


@jax.jit
def _hessians(problem: Problem, X: Any) -> Any:
    def of_agent(given: Any) -> Any:
        agent, x = given
        return jax.jacfwd(lambda x: problem.local_gradient(agent, x))(x)

    return jax.lax.map(of_agent, (jnp.arange(problem.agents, dtype=jnp.int32), X))


@jax.jit
def _hessian(problem: Problem, x: Any) -> Any:
    def column(direction: Any) -> Any:
        return jax.jvp(problem.mean_gradient, (x,), (direction,))[1]

    # some columns at a time, so that intermediate arrays stay in the cache: on a9a a third of the time of all at once
    return jax.lax.map(column, jnp.eye(x.size, dtype=x.dtype), batch_size=COLUMNS)
