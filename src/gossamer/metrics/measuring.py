"""How metrics are measured inside the compiled program: one snapshot of a run for all of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from gossamer.core import InputError, State
from gossamer.metrics.table import OURS, Metric
from gossamer.problems import Problem

WANTED = "a metric takes a Snapshot and returns one number, written in JAX, or None where it does not apply"


@dataclass(frozen=True)
class Snapshot:
    """A run at a measured round: all that a metric sees."""

    x: Float[Array, "agents d"]
    """The agents' models."""
    mean: Float[Array, " d"]
    """Their mean x̄."""
    state: State
    """All arrays of the rule, such as ``state.v``, each with the agents first."""
    rule: Any
    """The rule, with the hyper-parameters of the round before."""
    problem: Problem
    bias: Float[Array, "agents d"] | None
    """The constant bias of every agent, where the oracle has one."""
    loss: Float[Array, ""]
    """F(x̄)."""
    gradient: Float[Array, " d"]
    """∇F(x̄)."""

    @staticmethod
    def of(problem: Problem, rule: Any, state: State, bias: Array | None) -> "Snapshot":
        # loss and gradient are made here, once for all metrics; the compiler leaves out what none of them uses
        mean = state.x.mean(0)
        loss, gradient = problem.mean_loss_and_gradient(mean)
        return Snapshot(state.x, mean, state, rule, problem, bias, loss, gradient)


def measure(
    metrics: Sequence[Metric], problem: Problem, rule: Any, state: State, bias: Array | None
) -> dict[str, Float[Array, ""]]:
    """The metrics of one run at one round: those that the problem, the rule and the oracle's constant bias allow."""
    snapshot = Snapshot.of(problem, rule, state, bias)
    values = {metric.name: _value(metric, snapshot) for metric in metrics}
    return {name: value for name, value in values.items() if value is not None}


def worst_loss(problem: Problem, x: Float[Array, "agents d"], block: int) -> Float[Array, ""]:
    """max_i F(x_i): the whole loss at the model of the agent that does worst."""
    return jnp.max(jax.lax.map(problem.mean_loss, x, batch_size=block))


def _value(metric: Metric, snapshot: Snapshot) -> Array | None:
    assert metric.measure is not None
    if metric.name in OURS:
        return metric.measure(snapshot)
    try:
        value = metric.measure(snapshot)
    except Exception as error:
        first = (str(error).splitlines() or [""])[0][:200]
        raise InputError(f"the metric {metric.name!r} failed ({type(error).__name__}: {first}): {WANTED}.") from error
    if value is None:
        return None
    try:
        number = jnp.asarray(value)
    except (TypeError, ValueError):
        raise InputError(f"the metric {metric.name!r} returned a {type(value).__name__}, but {WANTED}.") from None
    real = any(jnp.issubdtype(number.dtype, kind) for kind in (jnp.floating, jnp.integer, jnp.bool_))
    if number.shape != () or not real:
        raise InputError(f"the metric {metric.name!r} returned {number.dtype} of shape {number.shape}, but {WANTED}.")
    return number.astype(snapshot.x.dtype)
