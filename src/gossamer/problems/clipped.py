"""Sums of single samples' gradients, each cut to a largest norm."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from gossamer.problems.empirical import Empirical

NUMBERS = 2**14
"""How many numbers of single gradients an agent holds at once."""


def clipped_sum(
    problem: Empirical, agent: Array, chosen: Bool[Array, " longest"], x: Float[Array, " d"], most: Any
) -> Float[Array, " d"]:
    """The sum over the chosen of an agent's rows of their losses' gradients, each of norm at most this; no penalty.

    Single gradients are made for their norms alone. The sum is then one gradient of a weighted loss.
    """

    def norm(row: Array) -> Array:
        single = problem._batch(agent, row[None], x.dtype)
        return jnp.linalg.norm(jax.grad(problem._fit)(x, *single))

    together = max(1, NUMBERS // problem.dim)
    norms = jax.lax.map(norm, jnp.arange(problem.longest, dtype=jnp.int32), batch_size=together)
    weights = jnp.where(chosen, jnp.where(norms > most, most / norms, 1), 0)
    inputs, targets, _ = problem._own(agent, x.dtype)
    return jax.grad(problem._fit)(x, inputs, targets, weights)


def penalty_gradient(problem: Empirical, x: Float[Array, " d"]) -> Float[Array, " d"]:
    """The gradient of what is added to every agent's loss, and depends on no sample."""
    return jax.grad(problem._penalty)(x)
