"""The compiled program of the simulator: many settings and seeds of one rule, advanced together.

A setting is the rule's hyper-parameters and the oracle's numbers. Settings are mapped outside, seeds inside, and only
the seeds have keys: all settings of a block see the same samples, and a mini-batch is gathered once for all of them.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from gossamer.basics.keys import Keys, of_round
from gossamer.core import State, bind, counts
from gossamer.engines.agents import BLOCK, StackedAgents, World, each
from gossamer.engines.targets import at_targets, stayed
from gossamer.engines.waking import events
from gossamer.metrics import OURS, Metric
from gossamer.metrics.measuring import honest_of, measure, worst_loss
from gossamer.oracles import Oracle, Site
from gossamer.problems import Problem

BOUND = 1e16
"""A run has diverged when the mean of ‖x_i‖² is above this many times 1 + ‖x⁰‖², or is not finite. That is seen in the
round; that another array of its state or a metric is not finite, where it is measured."""

SERIAL = {"xla_disable_hlo_passes": "cpu-parallel-task-assigner,dot-library-rewriter"}
"""XLA would split the kernels of a round over all cores, and hand sums and products to a library that does. They take
microseconds, and handing them out costs more than it gains."""

jax.tree_util.register_pytree_with_keys(
    State,
    lambda s: ([(jax.tree_util.GetAttrKey(k), v) for k, v in s.items()], tuple(s)),
    lambda names, arrays: State(**dict(zip(names, arrays, strict=True))),
)


class RunState(NamedTuple):
    """One run between two rounds; in the program, with leading axes [settings, seeds]."""

    state: State
    memory: Any
    """The oracle's state, of every agent."""
    diverged: Int[Array, ""]
    """The round in which it diverged, or −1."""
    reached: Int[Array, ""] | None = None
    """The measured round at which it came to its targets and stopped, or −1; None where there are no targets."""
    asked: Array | None = None
    """Where nobody waits: the model at which each agent's next gradient was asked for."""


class ProgramSetting(NamedTuple):
    """What differs between the settings of a block; in the program, with a leading axis."""

    hyper: dict[str, Any]
    oracle: Oracle
    number: Int[Array, ""] | None = None
    """Which one it is: where it has no other numbers, this tells how many there are."""


class BlockHyper(NamedTuple):
    """The hyper-parameters of a block. Which of them have schedules belongs to the program; how many rounds there are
    does not."""

    numbers: dict[str, Float[Array, " settings"]]
    """Those that are the same in all rounds."""
    tables: dict[str, Float[Array, "settings window"]]
    """Those with a schedule, in the rounds from `first` on."""
    first: Int[Array, ""]
    parts: dict[str, Any]
    """What is not a number, a compressor: its leaves have a leading axis of settings."""
    order: Int[Array, " settings"]
    """The settings, counted from 0."""


class Form(NamedTuple):
    """What of a rule is static: its class, and its whole numbers."""

    kind: Any
    counts: tuple[tuple[str, int], ...] = ()

    @staticmethod
    def of(rule: Any) -> "Form":
        return Form(type(rule), tuple(counts(rule).items()))

    def bind(self, hyper: dict[str, Any]) -> Any:
        """The rule with these values, unchecked."""
        return bind(self.kind, hyper | dict(self.counts))


@partial(jax.jit, static_argnums=0)
def begin(form: Form, world: World, oracles: Oracle, hyper: BlockHyper, keys: Keys) -> RunState:
    """All runs of the block before round 0."""
    return starts(form, StackedAgents, world, oracles, hyper, keys)


def starts(
    form: Form, crowd: type[StackedAgents], world: World, oracles: Oracle, hyper: BlockHyper, keys: Keys
) -> RunState:
    """All runs before round 0, of the agents that are in `crowd`."""

    def single_run(setting: ProgramSetting, key: Array) -> RunState:
        memory = memory_of(crowd, world, setting.oracle, key)
        agents = crowd(world, setting.oracle, round_keys(key, 0), jnp.int32(0), memory)
        state = form.bind(setting.hyper).init(start_of(crowd, world), agents)
        return RunState(state, agents.memory, jnp.int32(-1), asked=state.x if world.network.asynchronous else None)

    return _mapped(single_run, ProgramSetting(hyper_at(hyper, 0), oracles, hyper.order), keys)


@jax.jit
def biases(
    problem: Problem, oracles: Oracle, order: Int[Array, " settings"], keys: Keys, memory: Any
) -> Float[Array, "settings seeds agents d"] | None:
    """The constant bias of every agent, where the oracle has one."""

    def single_run(setting: ProgramSetting, key: Array, memory: Any) -> Any:
        return _bias(problem, setting.oracle, key, memory)

    return _mapped(single_run, ProgramSetting({}, oracles, order), keys, memory)


@partial(jax.jit, static_argnums=(0, 1), donate_argnames="run", compiler_options=SERIAL)
def advance(
    form: Form,
    metrics: tuple[Metric, ...],
    world: World,
    oracles: Oracle,
    hyper: BlockHyper,
    keys: Keys,
    run: RunState,
    t: Int[Array, ""],
    stops: Int[Array, " legs"],
    wanted: Bool[Array, " legs"],
    targets: dict[str, Float[Array, ""]],
) -> tuple[RunState, dict[str, Float[Array, "legs settings seeds"]]]:
    """Go on from round t to each of the stops, and measure at those that are wanted (elsewhere the row is zero).

    With targets, a run that comes to all of them where it is measured stays as it is from there on. The arrays of `run`
    are given up to the result, so that there is one state at a time: what was given cannot be used again.
    """
    going = partial(rounds, form, StackedAgents)
    return legs(going, form, metrics, world, oracles, hyper, keys, run, t, stops, wanted, targets)


def rounds(
    form: Form,
    crowd: type[StackedAgents],
    world: World,
    oracles: Oracle,
    hyper: BlockHyper,
    keys: Keys,
    run: RunState,
    t: Int[Array, ""],
    stop: Int[Array, ""],
) -> RunState:
    """From round t to `stop`, by the agents that are in `crowd`."""
    bound = BOUND * (1 + jnp.sum(world.problem.start**2))

    def one_round(seed: Array, key: Array, t: Array, run: RunState) -> RunState:
        def single_run(setting: ProgramSetting, run: RunState) -> RunState:
            agents = crowd(world, setting.oracle, round_keys(key, t + 1), t, run.memory)
            rule = form.bind(setting.hyper)
            if world.waves is None:
                state = rule.step(run.state, agents)
                state, memory = _woken(form.kind, world, t, (run.state, run.memory), (state, agents.memory))
                after = state, memory, run.asked
            else:
                after = events(rule, world, setting.oracle, key, seed, t, (run.state, run.memory, run.asked))
            state, memory, asked = stayed(run.reached, (run.state, run.memory, run.asked), after)
            size = agents.squared_norm(state.x)
            sane = (size <= bound * world.problem.agents) & jnp.isfinite(size)  # the bound itself may overflow
            diverged = jnp.where((run.diverged < 0) & ~sane, t + 1, run.diverged)
            return run._replace(state=state, memory=memory, asked=asked, diverged=diverged)

        return jax.vmap(single_run)(ProgramSetting(hyper_at(hyper, t), oracles), run)

    def going(seed: Array, key: Array, run: RunState) -> RunState:
        return jax.lax.fori_loop(t, stop, partial(one_round, seed, key), run)

    return _in_turn(going, keys, run)


def legs(
    going: Callable[..., RunState],
    form: Form,
    metrics: tuple[Metric, ...],
    world: World,
    oracles: Oracle,
    hyper: BlockHyper,
    keys: Keys,
    run: RunState,
    t: Int[Array, ""],
    stops: Int[Array, " legs"],
    wanted: Bool[Array, " legs"],
    targets: dict[str, Float[Array, ""]],
) -> tuple[RunState, dict[str, Float[Array, "legs settings seeds"]]]:
    """`advance`, where `going` takes the runs from one round to another."""

    def rows(t: Array, run: RunState) -> tuple[dict[str, Array], Array]:
        def single_run(setting: ProgramSetting, key: Array, run: RunState) -> tuple[dict[str, Array], Array]:
            bias = _bias(world.problem, setting.oracle, key, run.memory)
            values = measure(metrics, world.problem, form.bind(setting.hyper), run.state, bias)
            deciding = {name: value for name, value in values.items() if name in OURS}
            held = jax.tree.leaves((deciding, honest_of(world.problem, run.state)))
            return values, jnp.stack([jnp.isfinite(leaf).all() for leaf in held]).all()

        return _mapped(single_run, ProgramSetting(hyper_at(hyper, jnp.maximum(t - 1, 0)), oracles), keys, run)

    rows = jax.jit(rows, inline=True)  # so that it is traced once
    blank = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), jax.eval_shape(rows, t, run))

    def leg(carry: tuple[Array, RunState], to: tuple[Array, Array]) -> Any:
        (t, run), (stop, wanted) = carry, to
        # a call that needs fewer stops repeats its last, where nothing is to be done
        run = jax.lax.cond(stop > t, going, _stay, world, oracles, hyper, keys, run, t, stop)
        values, finite = jax.lax.cond(wanted, rows, lambda *_: blank, stop, run)
        lost = wanted & ~finite & (run.diverged < 0)
        run = run._replace(diverged=jnp.where(lost, stop, run.diverged))
        if run.reached is not None:
            there = wanted & (run.diverged < 0) & (run.reached < 0) & at_targets(form.kind, metrics, targets, values)
            run = run._replace(reached=jnp.where(there, stop, run.reached))
        return (stop, run), values

    (_, run), measured = jax.lax.scan(leg, (t, run), (stops, wanted))
    return run, measured


@jax.jit
def worst(problem: Problem, x: Float[Array, "settings seeds agents d"]) -> Float[Array, "settings seeds"]:
    """max_i F(x_i) of every run."""
    flat = x.reshape(-1, *x.shape[2:])
    return jax.lax.map(lambda x: worst_loss(problem, x, BLOCK), flat).reshape(x.shape[:2])


def _bias(problem: Problem, oracle: Oracle, keys: Array, memory: Any) -> Float[Array, "agents d"] | None:
    def of_agent(agent: Array, key: Array, memory: Any) -> Any:
        return oracle.bias(Site(problem, agent, key, jnp.int32(0)), memory)

    return each(of_agent, problem.agents, keys[0], memory)


def memory_of(crowd: type[StackedAgents], world: World, oracle: Oracle, keys: Array) -> Any:
    """What the oracle remembers of every agent before the first query."""
    first = jnp.int32(0)
    return crowd.each(world, lambda agent, key: oracle.init(Site(world.problem, agent, key, first)), keys[0])


def round_keys(keys: Array, number: Any) -> Key[Array, " agents"]:
    """The key of every agent in a round of one seed: number 0 is the start, t + 1 is round t."""
    return jax.vmap(of_round, in_axes=(0, None))(keys[1], number)


def start_of(crowd: type[StackedAgents], world: World) -> Float[Array, "agents d"]:
    """The common start, for every agent."""
    return jnp.broadcast_to(world.problem.start, (crowd.count(world), world.problem.dim))


def hyper_at(hyper: BlockHyper, t: Any) -> dict[str, Any]:
    """The hyper-parameters of all settings in round t, by name, with a leading axis of settings."""
    return hyper.numbers | {name: table[:, t - hyper.first] for name, table in hyper.tables.items()} | hyper.parts


def _woken(kind: Any, world: World, t: Array, before: Any, after: Any) -> Any:
    """What every agent holds after a round: one that slept through it holds what it held before."""
    awake = None if kind.needs == "nothing" else world.network.awake(t)
    if awake is None:
        return after

    def kept(new: Array, old: Array) -> Array:
        return jnp.where(awake.reshape((-1,) + (1,) * (new.ndim - 1)), new, old)

    return jax.tree.map(kept, after, before)


def _stay(world: World, oracles: Oracle, hyper: BlockHyper, keys: Keys, run: RunState, *span: Any) -> RunState:
    return run


def _in_turn(going: Callable[[Array, Array, RunState], RunState], keys: Keys, run: RunState) -> RunState:
    """All seeds: on a CPU one after the other, so that what one works on stays in the cache (10 seeds of a9a on a ring
    of 20 take 0.55 of the time that they take side by side), and its bits do not depend on the others."""
    if jax.default_backend() != "cpu":
        return jax.vmap(going, (0, 0, 1), 1)(jnp.arange(keys.shape[0]), keys, run)

    def put(seed: Array, run: RunState) -> RunState:
        own = jax.tree.map(lambda a: jax.lax.dynamic_index_in_dim(a, seed, 1, keepdims=False), run)
        placed = partial(jax.lax.dynamic_update_index_in_dim, index=seed, axis=1)
        return jax.tree.map(placed, run, going(seed, keys[seed], own))

    return jax.lax.fori_loop(0, keys.shape[0], put, run)


def _mapped(single_run: Any, settings: ProgramSetting, keys: Array, *run: Any) -> Any:
    over_seeds = jax.vmap(single_run, in_axes=(None, 0) + (0,) * len(run))
    return jax.vmap(over_seeds, in_axes=(0, None) + (0,) * len(run))(settings, keys, *run)
