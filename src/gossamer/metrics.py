"""What is measured along a run."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from gossamer.core import State
from gossamer.problems import Problem

METRICS = {
    "loss": "F(x̄), the loss of the agents' mean",
    "grad_norm_sq": "‖∇F(x̄)‖²",
    "consensus": "mean over agents of ‖x_i − x̄‖²",
    "tracking": "mean over agents of ‖v_i − v̄‖², for rules with a tracker v",
    "accuracy": "share of the test set that x̄ predicts right",
}
"""The metric columns of a result, and what each is."""


def measure(problem: Problem, rule: Any, state: State) -> dict[str, Float[Array, ""]]:
    """The metrics of one run at one round: those that the problem and the rule have."""
    mean = state.x.mean(0)
    loss, gradient = problem.mean_loss(mean), problem.mean_gradient(mean)
    found = {"loss": loss, "grad_norm_sq": gradient @ gradient, "consensus": spread(state.x)}
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
