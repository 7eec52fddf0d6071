"""Measuring inside the compiled program: one snapshot of a run for all metrics."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from gossamer.core import InputError, State
from gossamer.metrics.table import OURS, Label, Metric, labels
from gossamer.problems import Empirical, Problem

MOST_WORK = 50_000_000_000
"""The most multiplications (models times rows times d) that max_i F(x_i) may take: some seconds on one core. With the
models of all agents on the rows of all agents it grows as n², and takes an hour at 100,000 agents."""

SMALLEST_PRODUCT = 300
"""The multiplications that the product of one agent's own small matrix takes the time of: 50 ns in three dimensions.
Without it, 100,000 quadratics in three dimensions took five minutes at the end of a run."""

LEAST_MODELS = 8
"""The least number of models that are looked at, however large the data are."""

TOGETHER = 4_000_000
"""Predictions, models times rows, that are made together for it: many at once are no faster, and take their memory."""

WANTED = "a metric takes a Snapshot and returns one number, written in JAX, or None where it does not apply"


@dataclass(frozen=True)
class Snapshot:
    """A run at a measured round: all that a metric sees. Where agents attack, it is of the honest ones alone."""

    x: Float[Array, "agents d"]
    """The agents' models."""
    mean: Float[Array, " d"]
    """Their mean x̄."""
    state: State
    """All arrays of the rule, such as ``state.v``, each with the agents first; at the end of a run only ``state.x``."""
    rule: Any
    """The rule, with the hyper-parameters of the round before; None at the end of a run."""
    problem: Problem
    bias: Float[Array, "agents d"] | None
    """The constant bias of every agent, where the oracle has one."""

    @staticmethod
    def of(problem: Problem, rule: Any, state: State, bias: Array | None) -> "Snapshot":
        state, bias = honest_of(problem, state), None if bias is None else honest_of(problem, bias)
        return Snapshot(state.x, state.x.mean(0), state, rule, problem, bias)

    @property
    def loss(self) -> Float[Array, ""]:
        """F(x̄)."""
        return self._loss_and_gradient[0]

    @property
    def gradient(self) -> Float[Array, " d"]:
        """∇F(x̄)."""
        return self._loss_and_gradient[1]

    @cached_property
    def _loss_and_gradient(self) -> tuple[Float[Array, ""], Float[Array, " d"]]:
        # computed once for all metrics, and not at all where none of them asks
        return self.problem.mean_loss_and_gradient(self.mean)

    @property
    def worst_loss(self) -> Float[Array, ""]:
        """max_i F(x_i): as dear as a hundred rounds, so for metrics of the end."""
        return worst_loss(self.problem, self.x)


def measure(
    metrics: Sequence[Metric], problem: Problem, rule: Any, state: State, bias: Array | None
) -> dict[str, Float[Array, ""]]:
    """Return the metrics of one run at one round: those that apply to the problem, the rule and the oracle."""
    snapshot = Snapshot.of(problem, rule, state, bias)
    values: dict[str, Array] = {}
    for metric in metrics:
        if metric.name in OURS:  # an error here is ours, and keeps its traceback
            if (value := metric.measure(snapshot)) is not None:
                values[metric.name] = value
            continue
        try:
            value = metric.measure(snapshot)
        except Exception as error:
            first = (str(error).splitlines() or [""])[0][:200]
            said = f"{type(error).__name__}: {first}"
            raise InputError(f"the metric {metric.name!r} failed ({said}): {WANTED}.") from error
        if value is None:
            continue
        try:
            number = jnp.asarray(value)
        except (TypeError, ValueError, OverflowError):
            returned = type(value).__name__
            raise InputError(f"the metric {metric.name!r} returned a {returned}, but {WANTED}.") from None
        real = any(jnp.issubdtype(number.dtype, kind) for kind in (jnp.floating, jnp.integer, jnp.bool_))
        if number.shape != () or not real:
            returned = f"{number.dtype} of shape {number.shape}"
            raise InputError(f"the metric {metric.name!r} returned {returned}, but {WANTED}.")
        values[metric.name] = number.astype(snapshot.x.dtype)  # counts and truth values are numbers of the table, too
    return values


def honest_of(problem: Problem, of_agents: Any) -> Any:
    """Return the rows of the honest agents, of arrays that have the agents first."""
    honest = problem.honest
    return of_agents if honest is None else jax.tree.map(lambda a: a[honest], of_agents)


def count_candidates(problem: Problem) -> int:
    """Return the number of models at which max_i F(x_i) evaluates F: all, unless that is beyond `MOST_WORK`."""
    work = _rows(problem) * problem.dim
    if not isinstance(problem, Empirical):
        work = max(work, problem.agents * SMALLEST_PRODUCT)
    return min(measured_agents(problem), max(LEAST_MODELS, MOST_WORK // work))


def _rows(problem: Problem) -> int:
    """Return the number of rows that F is a mean over."""
    return problem.row_weights.shape[0] if isinstance(problem, Empirical) else problem.agents * problem.dim


def measured_agents(problem: Problem) -> int:
    """Return the number of agents whose models are measured."""
    return problem.agents if problem.honest is None else problem.honest.shape[0]


def worst_loss(problem: Problem, x: Float[Array, "agents d"], block: int = 100) -> Float[Array, ""]:
    """Return max_i F(x_i), the whole loss at the model of the honest agent that does worst, `block` models at a time.

    Where that is beyond `MOST_WORK`, return the largest among some candidates, those whose models are furthest from the
    mean. That is never above max_i F(x_i), and equal to it if the worst of all agents is among them.
    """
    models = count_candidates(problem)
    if models < len(x):
        # one model that is not finite spoils the mean: it must be among those that are chosen
        distances = jnp.nan_to_num(((x - x.mean(0)) ** 2).sum(1), nan=0.0, posinf=jnp.inf)
        x = x[jax.lax.top_k(jnp.where(jnp.isfinite(x).all(1), distances, jnp.inf), models)[1]]
    together = max(1, min(block, TOGETHER // _rows(problem)))
    return jnp.max(jax.lax.map(problem.mean_loss, x, batch_size=together))


def labels_of(problem: Problem) -> dict[str, Label]:
    """Return the labels of all metrics, as they are measured on this problem."""
    known, models = labels(), count_candidates(problem)
    agents = measured_agents(problem)
    if models == agents:
        return known
    some = f"the {models:,} of {agents:,} agents furthest from the mean"
    worst = replace(
        known["worst_loss"],
        about=f"max F(x_i) over {some}, at the end of a run: at most the loss of the worst of all agents",
        text=f"loss of the worst agent, among {some}",
        latex=None,
    )
    return known | {"worst_loss": worst}
