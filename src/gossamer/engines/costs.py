"""Costs of a rule, from tracing one start and one round; its contract; and the seconds that a clock gives to them."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import polars as pl
from jaxtyping import Array, Float

from gossamer.clocks.clock import Clock, Energy
from gossamer.clocks.events import EventSchedule, Work
from gossamer.clocks.rounds import Query, RuleOperations, Send, time_and_energy
from gossamer.core import InputError, Over, State, parts, ranges, schedules
from gossamer.engines import program
from gossamer.engines.agents import RoundCost, StackedAgents, World
from gossamer.engines.asynchronous import Waves, make_schedules, run_wave
from gossamer.engines.blame import blame
from gossamer.engines.mixing import with_tables
from gossamer.metrics import AXES
from gossamer.networks import Network
from gossamer.networks.measures import DRAWN_ROUNDS
from gossamer.networks.weights import find_links
from gossamer.oracles import Oracle
from gossamer.problems import Problem
from gossamer.results.statistics import half_width

CONTRACT = (
    "A rule returns a State from init(self, x, agent) and from step(self, s, agent): plain arithmetic on arrays, all "
    "of which keep their names, shapes and dtypes."
)


class RuleTrace(NamedTuple):
    """The costs of a start and of a round, and the shapes of the arrays that they leave."""

    start: RoundCost
    each_round: RoundCost
    before: State
    """The rule's state after the start."""
    after: State
    """The rule's state after a round."""
    memory: Any
    """The oracle's memory; in an asynchronous run, also the models at which gradients are computed."""


def trace(rule: Any, problem: Problem, network: Network, oracle: Oracle, dtype: str) -> RuleTrace:
    """Trace a start and a round of the rule, once for all of its shapes. Raise InputError if it breaks the contract."""
    with jax.enable_x64(dtype == "float64"), blame(f"the rule {rule.name}, or the oracle that it asks,", CONTRACT):
        found = _trace_shapes(_describe(rule, problem, network, oracle, dtype))
    _check_contract(rule, problem, found.before, found.after)
    return found


class Shapes(NamedTuple):
    """The form of a rule, and the shapes that it is traced with: hashable, so that each is traced once."""

    form: program.RuleForm
    structure: Any
    """The structure of the world, the oracle, and the rule's compressors and aggregators."""
    leaves: tuple[jax.ShapeDtypeStruct, ...]
    number: jax.ShapeDtypeStruct
    """The shape of a hyper-parameter."""
    keys: jax.ShapeDtypeStruct


def _describe(rule: Any, problem: Problem, network: Network, oracle: Oracle, dtype: str) -> Shapes:
    """Return the shapes of a rule's trace, with floating point in this precision."""
    leaves, structure = jax.tree.flatten((World(problem, with_tables(rule, network)), oracle, parts(rule)))
    shapes = []
    for leaf in leaves:
        own = leaf.dtype if hasattr(leaf, "dtype") else np.asarray(leaf).dtype  # without a copy of an array on a device
        precise = np.dtype(dtype) if jnp.issubdtype(own, jnp.floating) else jax.dtypes.canonicalize_dtype(own)
        shapes.append(jax.ShapeDtypeStruct(np.shape(leaf), precise))
    number, keys = jax.ShapeDtypeStruct((), np.dtype(dtype)), key_shapes(2, problem.agents)
    return Shapes(program.RuleForm.of(rule), structure, tuple(shapes), number, keys)


def _eval_shape(shapes: Shapes, function: Callable[[Any, World, Oracle, Array], Any]) -> Any:
    """Trace a function of the rule, the world, the oracle and the keys."""

    def of_leaves(leaves: tuple[Array, ...], numbers: dict[str, Array], keys: Array) -> Any:
        world, oracle, own = jax.tree.unflatten(shapes.structure, leaves)
        return function(shapes.form.bind(numbers | own), world, oracle, keys)

    return jax.eval_shape(of_leaves, shapes.leaves, dict.fromkeys(ranges(shapes.form.kind), shapes.number), shapes.keys)


@lru_cache(maxsize=64)
def _trace_shapes(shapes: Shapes) -> RuleTrace:
    start, each_round = RoundCost(), RoundCost()

    def start_and_round(rule: Any, world: World, oracle: Oracle, keys: Array) -> tuple[State, State, Any]:
        memory = program.begin_memory(world, oracle, keys)
        first = StackedAgents(world, oracle, keys[1], jnp.int32(0), memory, start)
        before = rule.init(program.start_of(world), first)
        if world.network.asynchronous:
            waves = Waves.everyone(world.problem.agents)
            each_round.queries = oracle.asks(world.problem.dim)
            now = before, first.memory, before["x"]
            state, *others = run_wave(rule, world, oracle, keys, waves, 0, now, each_round)
            return before, state, others
        agents = StackedAgents(world, oracle, keys[1], jnp.int32(0), first.memory, each_round)
        return before, rule.step(before, agents), agents.memory

    return RuleTrace(start, each_round, *_eval_shape(shapes, start_and_round))


def _check_contract(rule: Any, problem: Problem, before: Any, after: Any) -> None:
    """Raise InputError if the rule's state is no State, lacks the model, or changes its shapes in a round."""
    for method, state in (("init", before), ("step", after)):
        if not isinstance(state, State):
            raise InputError(f"{rule.name}: {method} returns {type(state).__name__}, not a State. {CONTRACT}")
        if "x" not in state:
            raise InputError(f"{rule.name}: the State that {method} returns has no x, the model. {CONTRACT}")
    if set(before) != set(after):
        odd = ", ".join(sorted(set(before) ^ set(after)))
        raise InputError(f"{rule.name}: init and step return States that differ in {odd}. {CONTRACT}")
    if before["x"].shape != (problem.agents, problem.dim):
        raise InputError(
            f"{rule.name}: x has shape {before['x'].shape} after init, but models are "
            f"[{problem.agents}, {problem.dim}]. {CONTRACT}"
        )
    for name in before:
        was, now = before[name], after[name]
        if (was.shape, was.dtype) != (now.shape, now.dtype):
            raise InputError(
                f"{rule.name}: step turns {name} from {was.dtype}{list(was.shape)} into {now.dtype}{list(now.shape)}. "
                f"{CONTRACT}"
            )


def key_shapes(*shape: int) -> jax.ShapeDtypeStruct:
    """Return the shape of an array of keys."""
    key = jax.eval_shape(lambda: jax.random.key(0, impl="threefry2x32"))  # any kind of key: nothing is drawn
    return jax.ShapeDtypeStruct(shape, key.dtype)


def work_of(rule: Any, problem: Problem, network: Network, oracle: Oracle, dtype: str) -> Work:
    """Return what decides the schedule of an asynchronous run, besides its clock."""
    start, event, *_ = trace(rule, problem, network, oracle, dtype)
    return Work(start.order, event.queries, _message(event))


def _message(event: RoundCost) -> float:
    """Return the bytes that each of two agents sends when they meet."""
    return sum(message.bytes for message in event.order if isinstance(message, Send))


def _bytes(cost: RoundCost, dtype: str, agents: int) -> tuple[float, float]:
    """Return the bytes of gossip to one neighbour, and those that an agent sends in all-reduces."""
    size = np.dtype(dtype).itemsize
    return size * cost.gossiped + cost.bits / 8, size * cost.reduced * 2 * (agents - 1) / agents


def count_costs(
    rule: Any, problem: Problem, network: Network, oracle: Oracle, dtype: str
) -> dict[str, tuple[float, float]]:
    """Return what an agent pays at the start and in every round: queries, bytes sent and messages that it waits for.

    All are means over agents and, where the network changes, over rounds: a compressed message counts as its bits, a
    round without gossip as nothing, and an agent that sleeps pays nothing. A gradient over all samples counts as so
    many queries as they make mini-batches. In an asynchronous run a round is as many events as agents, and both agents
    that meet send. An all-reduce is counted as a ring's: 2(n − 1)/n vectors in 2(n − 1) messages. Of a private oracle,
    also the most gradients that an agent releases.
    """
    n = network.agents
    start, each_round, *_ = trace(rule, problem, network, oracle, dtype)
    # a centralised rule waits for everyone, so that nobody sleeps in it
    awake = 1.0 if rule.needs == "nothing" else network.activity

    def count_queries(cost: RoundCost) -> float:
        return cost.queries + (cost.passes * oracle.passes(problem) if cost.passes else 0.0)

    def count_bytes(cost: RoundCost) -> float:
        if network.asynchronous and cost is each_round:
            return 2.0 * _message(cost)
        gossiped, reduced = _bytes(cost, dtype, n)
        return gossiped * network.traffic + reduced

    def count_messages(cost: RoundCost) -> float:
        if network.asynchronous and cost is each_round:
            return 2.0 * cost.messages
        return cost.messages * network.pace * network.activity + cost.reductions * 2 * (n - 1)

    costs = {
        "queries": (count_queries(start), count_queries(each_round) * awake),
        "bytes_sent": (count_bytes(start), count_bytes(each_round)),
        "messages": (count_messages(start), count_messages(each_round)),
    }
    if oracle.privacy is not None:  # a bound, and no mean: an agent may be awake in every round
        costs["releases"] = (float(start.queries), float(each_round.queries))
    return costs


class PostingAgents(StackedAgents):
    """The agents of a rule that is traced by `ahead`: a message may travel while they compute."""

    def post(self, *arrays: Array, over: Over = "W", late: tuple[int, ...] = ()) -> Callable[[], Any]:
        mixed = self.gossip(*arrays, over=over)
        *before, arrival = self.cost.order  # a receive, which counts when the function below is called
        self.cost.order = tuple(before)

        def arrive() -> Any:
            self.cost.order += (arrival,)
            return mixed

        return arrive


def orders(rule: Any, problem: Problem, network: Network, oracle: Oracle, dtype: str) -> RuleOperations:
    """Return the operations of an agent at the start and in each round, in order.

    They are those of the rule's `ahead` where it has one, for then messages travel while gradients are computed; not
    where the network changes, or a hyper-parameter other than η: their rounds would be mixed up.
    """
    overlapping = hasattr(rule, "ahead") and not network.changes and not {*schedules(rule)} - {"eta"}
    if overlapping:
        counted = {"start": RoundCost(), "turn": RoundCost(), "each": RoundCost()}

        def run_ahead(bound: Any, world: World, oracle: Oracle, keys: Array) -> State:

            def agents(part: str, memory: Any) -> PostingAgents:
                return PostingAgents(world, oracle, keys[1], jnp.int32(0), memory, counted[part])

            first = agents("start", program.begin_memory(world, oracle, keys))
            state = bound.init(program.start_of(world), first)
            if hasattr(bound, "shift"):
                state = bound.shift(state, agents("turn", first.memory))
            return bound.ahead(state, agents("each", first.memory))

        with jax.enable_x64(dtype == "float64"):
            _eval_shape(_describe(rule, problem, network, oracle, dtype), run_ahead)
    else:
        start, each, *_ = trace(rule, problem, network, oracle, dtype)
        counted = {"start": start, "turn": RoundCost(), "each": each}

    def query(operation: Any) -> Any:
        """Return passes over all samples as so many queries."""
        passes = isinstance(operation, Query) and operation.passes
        return Query(passes * oracle.passes(problem)) if passes else operation

    known = {name: tuple(map(query, cost.order)) for name, cost in counted.items()}
    return RuleOperations(**known, lead=int(overlapping and hasattr(rule, "shift")), central=rule.needs == "nothing")


def _joules_sent(cost: RoundCost, energy: Energy, network: Network, dtype: str) -> float:
    """Return the joules of an agent's messages, in the mean over agents."""
    n = network.agents
    prices, sends = np.broadcast_to(energy.joules_per_byte, n), np.full(n, network.traffic)
    if energy.joules_per_byte.ndim and network.traffic:
        over = "W" if network.stochastic == "doubly" else "C"
        # agents send unequally often, which counts where their bytes cost unequally much
        rounds = DRAWN_ROUNDS if network.mixer.random else network.mixer.period
        senders = np.concatenate([find_links(network.matrix(t, over))[1] for t in range(rounds)])
        counts = np.bincount(senders, minlength=n)
        sends = counts * (n * network.traffic / counts.sum())  # of random rounds, an estimate with the right sum
    gossiped, reduced = _bytes(cost, dtype, n)
    return float(gossiped * (prices @ sends) / n + reduced * prices.mean())


def add_seconds(
    frame: pl.DataFrame, clock: Clock, rule: Any, problem: Problem, network: Network, oracle: Oracle, dtype: str
) -> pl.DataFrame:
    """Return the rows of a rule's runs with their seconds: means over the clock's seeds, and their 95 % intervals.

    With the clock's energy they have joules too, means over agents and over the clock's seeds. An asynchronous run has
    the seconds and joules of its own schedule, and no interval.
    """
    n, energy = network.agents, clock.energy
    if network.asynchronous:
        work = work_of(rule, problem, network, oracle, dtype)
        # an asynchronous run has one schedule a seed, that of the clock's seed of the same number
        seeds, last = frame["seed"].unique().to_list(), int(frame["round"].to_numpy().max())
        found = dict(zip(seeds, make_schedules(network, work, seeds, last), strict=True))
        ends = [found[seed].seconds(t, n) for seed, t in frame.select("seed", "round").iter_rows()]
        unknown = [pl.lit(None, pl.Float64).alias(f"seconds_{end}") for end in ("low", "high")]
        frame = frame.with_columns(pl.Series("seconds", ends, pl.Float64), *unknown)
        if energy is None:
            return frame
        start = _joules_sent(trace(rule, problem, network, oracle, dtype).start, energy, network, dtype)
        spent = {seed: start + _joules_of_events(events, energy, work, n) for seed, events in found.items()}
        joules = [spent[seed][t] for seed, t in frame.select("seed", "round").iter_rows()]
        return frame.with_columns(pl.Series("joules", joules, pl.Float64))
    marks = sorted(frame["round"].unique())
    found, joules = time_and_energy(orders(rule, problem, network, oracle, dtype), network, clock, marks)
    spread = found.std(0, ddof=int(len(found) > 1))  # one seed has no spread
    mean, half = found.mean(0), half_width(np.array(len(found)), spread)
    known = {"round": marks, "seconds": mean, "seconds_low": mean - half, "seconds_high": mean + half}
    if energy is not None:
        start, each, *_ = trace(rule, problem, network, oracle, dtype)
        sent = (_joules_sent(cost, energy, network, dtype) for cost in (start, each))
        known["joules"] = joules.mean(0) + next(sent) + next(sent) * np.array(marks)
    return frame.join(pl.DataFrame(known, schema_overrides={"round": pl.Int64}), on="round", how="left")


def cost_by_round(
    axis: str, rule: Any, problem: Problem, network: Network, oracle: Oracle, dtype: str, clock: Clock | None, last: int
) -> np.ndarray:
    """Return the queries, bytes, seconds or joules that a rule has paid after each of the rounds 0, …, last."""
    made_of = rule, problem, network, oracle, dtype
    rounds = np.arange(last + 1)
    if axis in ("seconds", "joules"):
        assert clock is not None
        return add_seconds(pl.DataFrame({"seed": 0 * rounds, "round": rounds}), clock, *made_of)[axis].to_numpy()
    start, each = count_costs(*made_of)[AXES[axis].name]
    return start + each * rounds


def _joules_of_events(events: EventSchedule, energy: Energy, work: Work, agents: int) -> Float[np.ndarray, " rounds"]:
    """Return the joules of an agent until the end of each round, in the mean over agents, but for those of the start's
    messages."""
    times = np.append(events.begin, events.ends[agents - 1 :: agents])
    computed = events.computed(times) @ np.broadcast_to(energy.watts - energy.idle_watts, agents) / agents
    prices = np.broadcast_to(energy.joules_per_byte, agents)
    sent = work.bytes * (prices[events.agents] + prices[events.partners]).reshape(-1, agents).mean(1)
    return computed + energy.idle_watts.mean() * times + np.append(0.0, sent.cumsum())
