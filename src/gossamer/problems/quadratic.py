"""Quadratics: problems with answers in closed form."""

import math
from dataclasses import dataclass, replace
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from gossamer.basics.arrays import numbers
from gossamer.basics.pytrees import pytree
from gossamer.basics.sizes import refuse_beyond_memory
from gossamer.core import InputError, Range, brief, whole
from gossamer.problems.problem import Problem


@pytree
@dataclass(frozen=True, eq=False, repr=False)
class Quadratic(Problem):
    r"""Quadratics $f_i(x) = \frac12 (x - b_i)^\top A_i (x - b_i)$, made by `quadratic`."""

    A: Float[Any, "agents d d"]
    b: Float[Any, "agents d"]
    start: Float[Any, " d"]
    honest: Int[Any, " honest"] | None = None

    def __repr__(self) -> str:
        return f"Quadratic({self.agents} agents, d = {self.dim})"

    @property
    def agents(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.b.shape[0]

    @property
    def dim(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.b.shape[1]

    def local_loss(self, agent: Array, x: Array) -> Array:
        return 0.5 * (x - self.b[agent]) @ self.local_gradient(agent, x)

    def local_gradient(self, agent: Array, x: Array) -> Array:
        return self.A[agent] @ (x - self.b[agent])

    def mean_loss(self, x: Array) -> Array:
        A, b = self._counted
        return 0.5 * jnp.einsum("nd,nde,ne->n", x - b, A, x - b).mean()

    def mean_gradient(self, x: Array) -> Array:
        A, b = self._counted
        return jnp.einsum("nde,ne->nd", A, x - b).mean(0)

    def among(self, honest: Int[np.ndarray, " honest"]) -> "Quadratic":
        return replace(self, honest=np.asarray(honest, np.int32))

    @property
    def _counted(self) -> tuple[Any, Any]:
        """Return the Hessians and centres of the agents of whom F is the mean."""
        return (self.A, self.b) if self.honest is None else (self.A[self.honest], self.b[self.honest])

    @property
    def local_smoothness(self) -> np.ndarray:
        return np.abs(np.linalg.eigvalsh(self.A)).max(1)

    def solution(self, bias: Any = 0.0) -> np.ndarray:
        r"""Return the point where $\nabla F = -\bar e$: $(\sum_i A_i)^{-1} \sum_i (A_i b_i - e_i)$.

        Without bias it is the minimiser. It is the fixed point of every tracking method whose agents' gradients carry
        the constant errors $e_i$ (`bias`, one row an agent or one vector for all).
        """
        e = numbers("bias", bias)
        if e.shape not in ((), (self.dim,), (self.agents, self.dim)):
            raise InputError(
                f"bias must have shape {(self.agents, self.dim)}, one row an agent, or {(self.dim,)}, one for all, but "
                f"has shape {e.shape}."
            )
        A, b = self._counted
        e = np.broadcast_to(e, self.b.shape)
        pull = np.einsum("nde,ne->nd", A, b) - (e if self.honest is None else e[self.honest])
        return np.linalg.solve(A.sum(0), pull.sum(0))


def quadratic(A: Any, b: Any, *, start: Any = None) -> Quadratic:
    r"""A quadratic for each agent, with answers in closed form.

    $$ f_i(x) = \frac12 (x - b_i)^\top A_i (x - b_i) $$

    ``A`` is [agents, d, d], [d, d] for a Hessian that all share, or [agents] for numbers times the identity; ``b`` is
    [agents, d]. The A_i are symmetric and their mean positive definite, so that F has one minimum. `start` is zero
    unless given.
    """
    A, b = numbers("A", A), numbers("b", b)
    if b.ndim != 2 or not b.size:
        raise InputError(f"b must be [agents, d], one row an agent, but has shape {b.shape}.")
    agents, dim = b.shape
    # the Hessians, their differences from the transposes and two copies
    what = f"a Hessian of {dim:,} × {dim:,} numbers for each of {agents:,} agents"
    refuse_beyond_memory(what, 4 * 8 * agents * dim**2, "use fewer agents or a smaller d")
    if A.shape == (agents,):
        A = A[:, None, None] * np.eye(dim)
    if A.shape == (dim, dim):
        A = np.repeat(A[None], agents, axis=0)
    if A.shape != (agents, dim, dim):
        raise InputError(
            f"A must be [agents, d, d] = {(agents, dim, dim)}, [d, d] or [agents] to go with b of shape {b.shape}, "
            f"but has shape {A.shape}."
        )
    skew = np.abs(A - A.transpose(0, 2, 1))
    if skew.max() > 1e-10 * max(1.0, np.abs(A).max()):
        agent, row, column = (int(i) for i in np.argwhere(skew == skew.max())[0])
        raise InputError(
            f"each A_i must be symmetric, but agent {agent}'s differs by {skew.max():.3g} between entries "
            f"({row}, {column}) and ({column}, {row}). Use (A + Aᵀ)/2, which is the same function."
        )
    # single A_i may be indefinite: only F needs a minimum
    least, most = np.linalg.eigvalsh(A.mean(0))[[0, -1]]
    if least <= dim * np.finfo(float).eps * most:
        raise InputError(
            f"the mean of the A_i must be positive definite, but its smallest eigenvalue is {least:.3g}: "
            "F would have no single minimum."
        )
    x = np.zeros(dim) if start is None else numbers("start", start)
    if x.shape != (dim,):
        raise InputError(f"start must have shape ({dim},), but has shape {x.shape}.")
    return Quadratic(A, b, x)


def random_quadratic(
    agents: int,
    dim: int = 10,
    *,
    mu: float = 0.5,
    smoothness: float = 1.0,
    curvatures: list[float] | None = None,
    heterogeneity: float = 1.0,
    distance: float = 1.0,
    seed: int = 0,
) -> Quadratic:
    r"""Quadratics drawn at random with given μ, L, ζ² and distance to the minimum.

    Each $A_i$ has `dim` eigenvalues from `mu` to `smoothness`, evenly spaced, along directions of its own; with
    `curvatures`, one number an agent, $A_i = c_i I$. The centres are drawn so that at the minimiser $x^\star$ the mean
    of $\|\nabla f_i\|^2$ is the `heterogeneity` ζ², exactly. All start at zero, at this `distance` from $x^\star$.
    """
    n, d = whole("agents", agents, least=2), whole("dim", dim)
    positive = Range(0, math.inf, True, True, "It is a curvature.")
    low, high = positive.check("mu", mu), positive.check("smoothness", smoothness)
    if low > high:
        raise InputError(f"mu must be at most smoothness, but {low:g} is more than {high:g}.")
    zeta_sq = Range(0, math.inf, False, True, "It is ζ², a mean of squares.").check("heterogeneity", heterogeneity)
    far = Range(0, math.inf, False, True, "It is a distance.").check("distance", distance)
    rng = np.random.default_rng(whole("seed", seed, least=0))
    refuse_beyond_memory(f"{n:,} Hessians of {d:,} × {d:,}", 4 * 8 * n * d**2, "use fewer agents or a smaller dim")
    if curvatures is None:
        bases = np.linalg.qr(rng.normal(size=(n, d, d)))[0]
        A = np.einsum("nde,e,nfe->ndf", bases, np.linspace(low, high, d), bases)
        A = (A + A.transpose(0, 2, 1)) / 2
    else:
        c = numbers("curvatures", curvatures)
        if c.shape != (n,) or not (c > 0).all():
            raise InputError(f"curvatures must be {n} positive numbers, one an agent, but are {brief(curvatures)}.")
        A = c[:, None, None] * np.eye(d)
    b, way = rng.normal(size=(n, d)), rng.normal(size=d)
    b -= np.linalg.solve(A.sum(0), np.einsum("nde,ne->d", A, b))  # the minimiser is at zero
    # ζ² at the minimiser, which grows with the square of the centres
    spread = (np.einsum("nde,ne->nd", A, b) ** 2).sum(1).mean()
    return quadratic(A, b * math.sqrt(zeta_sq / spread) + far * way / np.linalg.norm(way))
