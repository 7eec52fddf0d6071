"""What a rule pays, and whether it keeps the contract: both from tracing one start and one round, without a run."""

from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from gossamer.clocks.operations import Send
from gossamer.clocks.schedule import Work
from gossamer.core import InputError, State, parts, ranges
from gossamer.engines import program
from gossamer.engines.agents import Cost, StackedAgents, World
from gossamer.engines.apart import told_apart
from gossamer.engines.blame import blamed
from gossamer.engines.waking import wave
from gossamer.engines.waves import Waves
from gossamer.networks import Network
from gossamer.oracles import Oracle
from gossamer.problems import Problem

CONTRACT = (
    "A rule returns a State from init(self, x, agent) and from step(self, s, agent): plain arithmetic on arrays, all "
    "of which keep their names, shapes and dtypes."
)


def costs(rule: Any, problem: Problem, network: Network, oracle: Oracle, dtype: str) -> tuple[Cost, Cost]:
    """What one agent pays at the start, and in every round. A rule that breaks the contract is refused."""
    start, each_round, *_ = _trace(rule, problem, network, oracle, dtype)
    return start, each_round


def held(rule: Any, problem: Problem, network: Network, oracle: Oracle, dtype: str) -> tuple[State, Any]:
    """The shapes of what one run holds between two rounds: the rule's state, and what the oracle remembers, with the
    models at which gradients were asked for where nobody waits."""
    traced = _trace(rule, problem, network, oracle, dtype)
    return traced.before, traced.memory


class _Traced(NamedTuple):
    """A start and a round: what they cost, and the shapes of what they leave."""

    start: Cost
    each_round: Cost
    before: State
    after: State
    memory: Any


def _trace(rule: Any, problem: Problem, network: Network, oracle: Oracle, dtype: str) -> _Traced:
    with jax.enable_x64(dtype == "float64"), blamed(f"the rule {rule.name}, or the oracle that it asks,", CONTRACT):
        shapes, structure = jax.tree.flatten(traced_arguments(rule, problem, network, oracle, dtype))
        traced = _counted(program.Form.of(rule), structure, tuple(shapes), dtype)
    _refuse_broken(rule, problem, traced.before, traced.after)
    return traced


def work_of(rule: Any, problem: Problem, network: Network, oracle: Oracle, dtype: str) -> Work:
    """What decides the schedule of an asynchronous run, besides its clock."""
    start, event = costs(rule, problem, network, oracle, dtype)
    size = sum(message.bytes for message in event.order if isinstance(message, Send))
    return Work(start.order, event.queries, size)


def traced_arguments(rule: Any, problem: Problem, network: Network, oracle: Oracle, dtype: str) -> tuple[Any, ...]:
    """The shapes of what a rule is traced with: the world, the oracle, the hyper-parameters and the keys."""
    number = jax.ShapeDtypeStruct((), np.dtype(dtype))
    hyper = dict.fromkeys(ranges(type(rule)), number) | shapes_of(parts(rule), dtype)
    world, asked = (shapes_of(tree, dtype) for tree in (World(problem, told_apart(rule, network)), oracle))
    return world, asked, hyper, key_shapes(2, problem.agents)


@lru_cache(maxsize=64)
def _counted(form: program.Form, structure: Any, shapes: tuple[Any, ...], dtype: str) -> _Traced:
    """It depends on shapes alone, and is asked for several times in a run."""
    start, each_round = Cost(), Cost()
    traced = partial(_traced, form, start, each_round)
    return _Traced(start, each_round, *jax.eval_shape(traced, *jax.tree.unflatten(structure, shapes)))


def paid(rule: Any, problem: Problem, network: Network, oracle: Oracle, dtype: str) -> dict[str, tuple[float, float]]:
    """What an agent pays at the start and in every round: queries, bytes sent and messages that it waits for.

    All are means over agents and, where the network changes, over rounds: what is sent compressed counts as its bits,
    a round without gossip as nothing, and an agent that sleeps pays nothing. A gradient over all samples counts as so
    many queries as they make mini-batches. Where nobody waits, a round is as many events as agents, and both
    who meet send. An all-reduce is counted as a ring's: 2(n − 1)/n vectors in 2(n − 1)
    messages. Of a private oracle, also the most gradients that an agent lets out.
    """
    n, size = network.agents, np.dtype(dtype).itemsize
    start, each_round = costs(rule, problem, network, oracle, dtype)
    awake = 1.0 if rule.needs == "nothing" else network.activity

    def asked(cost: Cost) -> float:
        return cost.queries + (cost.passes * oracle.passes(problem) if cost.passes else 0.0)

    def sent(cost: Cost) -> float:
        if network.asynchronous and cost is each_round:
            return 2.0 * sum(message.bytes for message in cost.order if isinstance(message, Send))
        gossiped = size * cost.gossiped + cost.bits / 8
        return gossiped * network.traffic + size * cost.reduced * 2 * (n - 1) / n

    def waits(cost: Cost) -> float:
        if network.asynchronous and cost is each_round:
            return 2.0 * cost.messages
        return cost.messages * network.pace * network.activity + cost.reductions * 2 * (n - 1)

    counted = {
        "queries": (asked(start), asked(each_round) * awake),
        "bytes_sent": (sent(start), sent(each_round)),
        "messages": (waits(start), waits(each_round)),
    }
    if oracle.privacy is not None:  # a bound, and no mean: an agent may be awake in every round
        counted["releases"] = (float(start.queries), float(each_round.queries))
    return counted


def shapes_of(tree: Any, dtype: str) -> Any:
    """The shapes of what a program is handed, with floating point in this precision."""

    def leaf(a: Any) -> jax.ShapeDtypeStruct:
        own = np.asarray(a).dtype if not hasattr(a, "dtype") else a.dtype
        kept = np.dtype(dtype) if jnp.issubdtype(own, jnp.floating) else jax.dtypes.canonicalize_dtype(own)
        return jax.ShapeDtypeStruct(np.shape(a), kept)

    return jax.tree.map(leaf, tree)


def key_shapes(*shape: int) -> jax.ShapeDtypeStruct:
    """The shape of an array of keys."""
    key = jax.eval_shape(lambda: jax.random.key(0, impl="threefry2x32"))
    return jax.ShapeDtypeStruct(shape, key.dtype)


def _traced(
    form: program.Form,
    start: Cost,
    each_round: Cost,
    world: World,
    oracle: Oracle,
    hyper: dict[str, Any],
    keys: Array,
) -> tuple[State, State, Any]:
    """The states before and after a round, and the oracle's memory; what they cost is counted on the way."""
    memory = program.memory_of(StackedAgents, world, oracle, keys)
    first = StackedAgents(world, oracle, keys[1], jnp.int32(0), memory, start)
    rule = form.bind(hyper)
    before = rule.init(program.start_of(StackedAgents, world), first)
    if world.network.asynchronous:
        waves = Waves.everyone(world.problem.agents)
        each_round.queries = oracle.asks(world.problem.dim)
        state, *others = wave(rule, world, oracle, keys, waves, 0, (before, first.memory, before["x"]), each_round)
        return before, state, others
    agents = StackedAgents(world, oracle, keys[1], jnp.int32(0), first.memory, each_round)
    return before, rule.step(before, agents), agents.memory


def _refuse_broken(rule: Any, problem: Problem, before: Any, after: Any) -> None:
    """Refuse a rule whose state is none, lacks the model, or is not the same after a round."""
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
