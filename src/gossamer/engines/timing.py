"""The seconds of a synchronous run: the order of a rule's work and messages, traced, and what a clock makes of it."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import polars as pl
from jaxtyping import Array

from gossamer.clocks.clock import Clock
from gossamer.clocks.operations import Order, Orders, Query
from gossamer.clocks.recursion import seconds
from gossamer.core import Over, State, schedules
from gossamer.engines import program
from gossamer.engines.agents import Cost, StackedAgents, World
from gossamer.engines.costs import costs, traced_arguments, work_of
from gossamer.engines.waves import schedules as schedules_of
from gossamer.networks import Network
from gossamer.oracles import Oracle
from gossamer.problems import Problem
from gossamer.results.statistics import half_width


class PostingAgents(StackedAgents):
    """The agents of a rule that is traced `ahead`: a message may travel while they compute."""

    def post(self, *arrays: Array, over: Over = "W", late: tuple[int, ...] = ()) -> Callable[[], Any]:
        mixed = self.gossip(*arrays, over=over)
        *before, arrival = self.cost.order
        self.cost.order = tuple(before)

        def arrived() -> Any:
            self.cost.order += (arrival,)
            return mixed

        return arrived


def orders(rule: Any, problem: Problem, network: Network, oracle: Oracle, dtype: str) -> Orders:
    """What an agent does at the start and in each round, in order.

    By the rule's `ahead` where it has one, for then messages travel while gradients are computed; not where the network
    changes, or a hyper-parameter other than η: their rounds would be mixed up.
    """
    overlapping = hasattr(rule, "ahead") and not network.changes and not {*schedules(rule)} - {"eta"}
    if overlapping:
        counted = {"start": Cost(), "turn": Cost(), "each": Cost()}
        with jax.enable_x64(dtype == "float64"):
            given = traced_arguments(rule, problem, network, oracle, dtype)
            jax.eval_shape(partial(_traced, program.Form.of(rule), counted), *given)
    else:
        start, each = costs(rule, problem, network, oracle, dtype)  # which are known, most often
        counted = {"start": start, "turn": Cost(), "each": each}
    known = {name: _counted(cost.order, problem, oracle) for name, cost in counted.items()}
    return Orders(**known, lead=int(overlapping and hasattr(rule, "shift")))


def timed(
    frame: pl.DataFrame, clock: Clock, rule: Any, problem: Problem, network: Network, oracle: Oracle, dtype: str
) -> pl.DataFrame:
    """The rows of a rule's runs with their seconds: means over the clock's seeds, and their 95 % intervals."""
    if network.asynchronous:
        return _by_events(frame, rule, problem, network, oracle, dtype)
    marks = sorted(frame["round"].unique())
    found = seconds(orders(rule, problem, network, oracle, dtype), network, clock, marks)
    mean, half = found.mean(0), half_width(np.array(len(found)), found.std(0, ddof=int(len(found) > 1)))
    known = {"round": marks, "seconds": mean, "seconds_low": mean - half, "seconds_high": mean + half}
    return frame.join(pl.DataFrame(known, schema_overrides={"round": pl.Int64}), on="round", how="left")


def _by_events(
    frame: pl.DataFrame, rule: Any, problem: Problem, network: Network, oracle: Oracle, dtype: str
) -> pl.DataFrame:
    """The rows with the seconds of each run's own schedule, of which it has one: they have no interval."""
    work = work_of(rule, problem, network, oracle, dtype)
    seeds, last = frame["seed"].unique().to_list(), int(frame["round"].to_numpy().max())
    found = dict(zip(seeds, schedules_of(network, work, seeds, last), strict=True))
    ends = [found[seed].seconds(t, network.agents) for seed, t in frame.select("seed", "round").iter_rows()]
    unknown = [pl.lit(None, pl.Float64).alias(f"seconds_{end}") for end in ("low", "high")]
    return frame.with_columns(pl.Series("seconds", ends, pl.Float64), *unknown)


def _traced(
    form: program.Form,
    counted: dict[str, Cost],
    world: World,
    oracle: Oracle,
    hyper: dict[str, Any],
    keys: Array,
) -> State:
    """The state after a start and a round `ahead`, whose operations are noted while this is traced."""
    rule, memory = form.bind(hyper), program.memory_of(StackedAgents, world, oracle, keys)

    def agents(part: str, memory: Any) -> PostingAgents:
        return PostingAgents(world, oracle, keys[1], jnp.int32(0), memory, counted[part])

    first = agents("start", memory)
    state = rule.init(program.start_of(StackedAgents, world), first)
    if hasattr(rule, "shift"):
        state = rule.shift(state, agents("turn", first.memory))
    return rule.ahead(state, agents("each", first.memory))


def _counted(order: Order, problem: Problem, oracle: Oracle) -> Order:
    """The order with passes over all samples as so many queries."""
    return tuple(
        Query(operation.passes * oracle.passes(problem))
        if isinstance(operation, Query) and operation.passes
        else operation
        for operation in order
    )
