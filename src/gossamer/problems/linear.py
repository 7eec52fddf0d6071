"""What models that are linear in their inputs share."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from gossamer.basics.sizes import refuse_beyond_memory
from gossamer.data import Dataset
from gossamer.problems.empirical import Empirical

SMALL_GRAM = 500
"""The largest matrix of products of sparse rows, or columns, that is made dense."""


def flat(x: Array) -> Array:
    """The parameters of a model that is one vector."""
    return x


def bounded_penalty(x: Array) -> Array:
    r"""$\sum_k x_k^2 / (1 + x_k^2)$: nonconvex, bounded, with second derivatives in $[-\tfrac12, 2]$."""
    return jnp.sum(x**2 / (1 + x**2))


def origin(dataset: Dataset, columns: int = 1) -> Float[np.ndarray, " d"]:
    """The start of a model with the given number of columns of parameters: zero."""
    count = dataset.dim * columns
    what = f"a model of {dataset.dim:,} features" + (f" and {columns:,} classes" if columns > 1 else "")
    refuse_beyond_memory(what, 3 * 8 * count, "use fewer")
    return np.zeros(count)


def curvatures(problem: Empirical) -> Float[np.ndarray, " agents"]:
    r"""$\lambda_{\max}(A_i^\top A_i) / m_i$, where $A_i$ are the inputs that agent $i$ holds."""

    def largest(agent: int) -> float:
        rows = problem.sparse_inputs(agent).astype(np.float64)
        return _largest_eigenvalue(rows) / rows.shape[0]

    return np.array([largest(agent) for agent in range(problem.agents)])


def _largest_eigenvalue(rows: Any) -> float:
    """Of rowsᵀ rows, whose other eigenvalues are those of rows rowsᵀ: the smaller of the two, or, of large sparse ones,
    neither, but products with both."""
    if isinstance(rows, np.ndarray) or min(rows.shape) <= SMALL_GRAM:
        gram = rows.T @ rows if rows.shape[0] > rows.shape[1] else rows @ rows.T
        return float(np.linalg.eigvalsh(gram if isinstance(gram, np.ndarray) else gram.toarray())[-1])
    from scipy.sparse import linalg  # slow to import, so only when needed

    svds: Any = linalg.svds
    start = np.random.default_rng(0).random(min(rows.shape))  # positive, as the first vector of positive features is
    return float(svds(rows, k=1, tol=1e-9, v0=start, return_singular_vectors=False)[0]) ** 2
