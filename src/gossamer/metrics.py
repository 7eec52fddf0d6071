"""What is measured along a run: the metrics of `gossamer.results.result.METRICS`."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from gossamer.core import State
from gossamer.problems import Problem


def measure(
    problem: Problem, rule: Any, state: State, bias: Float[Array, "agents d"] | None
) -> dict[str, Float[Array, ""]]:
    """The metrics of one run at one round: those that the problem, the rule and the oracle's constant bias allow."""
    mean = state.x.mean(0)
    loss, gradient = problem.mean_loss(mean), problem.mean_gradient(mean)
    found = {"loss": loss, "grad_norm_sq": gradient @ gradient, "consensus": spread(state.x)}
    if bias is not None:
        found["stationarity"] = jnp.sum((gradient + bias.mean(0)) ** 2)
    if hasattr(rule, "tracker"):
        found["tracking"] = spread(rule.tracker(state))
    if problem.has_accuracy:
        found["accuracy"] = problem.test_accuracy(mean)  # pyright: ignore[reportAttributeAccessIssue]
    return found


def spread(a: Float[Array, "agents d"]) -> Float[Array, ""]:
    """The mean over agents of the squared distance to the agents' mean."""
    return ((a - a.mean(0)) ** 2).sum(1).mean()


def worst_loss(problem: Problem, x: Float[Array, "agents d"], block: int) -> Float[Array, ""]:
    """max_i F(x_i): the whole loss at the model of the agent that does worst."""
    return jnp.max(jax.lax.map(problem.mean_loss, x, batch_size=block))
