"""What models that are linear in their inputs share."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from gossamer.problems.empirical import Empirical


def flat(x: Array) -> Array:
    """The parameters of a model that is one vector."""
    return x


def bounded_penalty(x: Array) -> Array:
    r"""$\sum_k x_k^2 / (1 + x_k^2)$: nonconvex, bounded, with second derivatives in $[-\tfrac12, 2]$."""
    return jnp.sum(x**2 / (1 + x**2))


def curvatures(problem: Empirical) -> Float[np.ndarray, " agents"]:
    r"""$\lambda_{\max}(A_i^\top A_i) / m_i$, where $A_i$ are the inputs that agent $i$ holds."""

    def largest(agent: int) -> float:
        rows = problem.own_inputs(agent).astype(np.float64)
        gram = rows.T @ rows if rows.shape[0] > rows.shape[1] else rows @ rows.T
        return float(np.linalg.eigvalsh(gram)[-1]) / len(rows)

    return np.array([largest(agent) for agent in range(problem.agents)])
