"""The compiled program of the simulator: many settings and seeds of one rule, advanced together.

A setting is the rule's hyper-parameters and the oracle's numbers. Settings are mapped outside, seeds inside, and only
the seeds have keys: all settings of a block see the same samples, and a mini-batch is gathered once for all of them.
The same programs run on one device and on many: `layout` says how their arrays are split.
"""

from collections.abc import Iterable
from functools import cache, partial
from operator import attrgetter
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Bool, Float, Int, Key

from gossamer.basics.keys import Keys, of_round, of_start
from gossamer.core import InputError, State, bind, counts
from gossamer.engines.agents import StackedAgents, World, as_column, each_agent
from gossamer.engines.asynchronous import run_events
from gossamer.engines.devices import ONE_DEVICE, RUNS, SEEDS, SETTINGS, DeviceLayout
from gossamer.engines.mixing import awake_mask
from gossamer.metrics import OURS, Metric
from gossamer.metrics.measuring import honest_of, measure
from gossamer.oracles import Oracle, Site
from gossamer.problems import Problem

BOUND = 1e16
"""A run has diverged when the mean of ‖x_i‖² is above this many times 1 + ‖x⁰‖², or is not finite. Each round checks
x; a measured round checks the other arrays of the state and the metrics as well."""

SERIAL = {"xla_disable_hlo_passes": "cpu-parallel-task-assigner,dot-library-rewriter"}
"""Compiler options for kernels that take microseconds: XLA would split them over all cores, and give sums and products
to a library that does, which costs more than it gains."""

QUICK = {"xla_cpu_use_fusion_emitters": False, "xla_cpu_parallel_codegen_split_count": 1}
"""Compiler options for programs that run for a short time each, as in a search: XLA takes its older emitters, where it
still has them, one piece a program, and less effort. With all of them (jaxlib 0.10) a search of a9a on a ring of 20
compiles in about half the time; its rounds take as long."""


def known_options(options: dict[str, Any]) -> dict[str, Any]:
    """Return the compiler options that this jaxlib has. Each is tried on an empty program, which starts JAX."""
    return {name: value for name, value in options.items() if _is_known(name, value)}


@cache
def _is_known(name: str, value: Any) -> bool:
    try:
        jax.jit(lambda: (), compiler_options={name: value}).lower().compile()
    except jax.errors.JaxRuntimeError as error:
        if "No such compile option" not in str(error):
            raise
        return False
    return True


def _unflatten_state(names: tuple[str, ...], arrays: Iterable[Any]) -> State:
    state = object.__new__(State)  # a trace rebuilds hundreds of states: this is half as many calls as State(…)
    object.__setattr__(state, "_names", names)
    object.__setattr__(state, "_arrays", tuple(arrays))
    return state


# here and not in `core`, which imports no JAX
jax.tree_util.register_pytree_node(State, attrgetter("_arrays", "_names"), _unflatten_state)


class RunState(NamedTuple):
    """A run between two rounds; in the program, with leading axes [settings, seeds]."""

    state: State
    memory: Any
    """The oracle's state, of every agent."""
    diverged: Int[Array, ""]
    """The round in which the run diverged, or −1."""
    reached: Int[Array, ""] | None = None
    """The measured round at which the run met its targets and stopped, or −1; None where there are no targets."""
    asked: Array | None = None
    """In an asynchronous run, the model at which each agent's next gradient is computed."""


class SettingAt(NamedTuple):
    """The numbers of a setting in one round. Those of all settings have a leading axis."""

    hyper: dict[str, Any]
    oracle: Oracle
    number: Int[Array, ""]
    """The index of the setting: where a setting has no other numbers, its shape says how many settings there are."""


class BlockSettings(NamedTuple):
    """The settings of a block. Which hyper-parameters have schedules is static; the number of rounds is not."""

    oracles: Oracle
    numbers: dict[str, Float[Array, " settings"]]
    """The hyper-parameters that are constant."""
    tables: dict[str, Float[Array, "settings window"]]
    """The hyper-parameters with a schedule, in the rounds from `first` on."""
    first: Int[Array, ""]
    parts: dict[str, Any]
    """The rule's compressors and aggregators: their leaves have a leading axis of settings."""
    order: Int[Array, " settings"]
    """The settings, counted from 0."""

    def at(self, t: Any) -> SettingAt:
        """Return all settings in round t."""
        tables = {name: table[:, t - self.first] for name, table in self.tables.items()}
        return SettingAt(self.numbers | tables | self.parts, self.oracles, self.order)


class RuleForm(NamedTuple):
    """The static part of a rule: its class, and its whole numbers."""

    kind: Any
    counts: tuple[tuple[str, int], ...] = ()

    @staticmethod
    def of(rule: Any) -> "RuleForm":
        """Return the form of a rule."""
        return RuleForm(type(rule), tuple(counts(rule).items()))

    def bind(self, hyper: dict[str, Any]) -> Any:
        """Return the rule with these values, unchecked."""
        return bind(self.kind, hyper | dict(self.counts))


BY_SETTING: Any = P(SETTINGS)
BLOCK_SHARDINGS = BlockSettings(BY_SETTING, BY_SETTING, BY_SETTING, P(), BY_SETTING, BY_SETTING)  # pyright: ignore[reportArgumentType]


def _begin(
    form: RuleForm, structure: Any, leaves: list[Array], keys: Keys, *, layout: DeviceLayout = ONE_DEVICE
) -> RunState:
    """Return all runs of the block before round 0."""
    world, settings = jax.tree.unflatten(structure, leaves)

    def all_runs(world: World, settings: BlockSettings, keys: Keys) -> RunState:
        def single_run(setting: SettingAt, key: Array) -> RunState:
            memory = begin_memory(world, setting.oracle, key, layout)
            agents = StackedAgents(world, setting.oracle, round_keys(key, 0), jnp.int32(0), memory, layout=layout)
            state = form.bind(setting.hyper).init(start_of(world, key[0]), agents)
            return RunState(state, agents.memory, jnp.int32(-1), asked=state.x if world.network.asynchronous else None)

        return layout.constrain(_map_runs(single_run, settings.at(0), keys))

    return layout.shard_runs(all_runs, (P(), BLOCK_SHARDINGS, P(SEEDS)), RUNS)(world, settings, keys)


def _advance(
    form: RuleForm,
    metrics: tuple[Metric, ...],
    structure: Any,
    leaves: list[Array],
    keys: Keys,
    run: RunState,
    t: Int[Array, ""],
    stops: Int[Array, " legs"],
    wanted: Bool[Array, " legs"],
    targets: dict[str, Float[Array, ""]],
    *,
    layout: DeviceLayout = ONE_DEVICE,
) -> tuple[RunState, dict[str, Float[Array, "legs settings seeds"]]]:
    """Advance from round t to each of the stops, and measure at those that are wanted (elsewhere the row is zero).

    With targets, a run that meets all of them where it is measured stays as it is from there on. The arrays of `run`
    are donated to the result, so that there is one state at a time: they cannot be used again.
    """
    world, settings = jax.tree.unflatten(structure, leaves)

    def all_runs(
        world: World,
        settings: BlockSettings,
        keys: Keys,
        run: RunState,
        t: Array,
        stops: Array,
        wanted: Array,
        targets: dict[str, Array],
    ) -> tuple[RunState, dict[str, Array]]:
        def measure_runs(t: Array, run: RunState) -> tuple[dict[str, Array], Array]:
            def single_run(setting: SettingAt, key: Array, run: RunState) -> tuple[dict[str, Array], Array]:
                bias = _bias(world.problem, setting.oracle, key, run.memory, layout)
                values = measure(metrics, world.problem, form.bind(setting.hyper), run.state, bias)
                # a user's metric may be infinite in a run that has not diverged
                deciding = {name: value for name, value in values.items() if name in OURS}
                arrays = jax.tree.leaves((deciding, honest_of(world.problem, run.state)))
                return values, jnp.stack([jnp.isfinite(array).all() for array in arrays]).all()

            # a tracker is measured with the numbers of the round that led here
            return _map_runs(single_run, settings.at(jnp.maximum(t - 1, 0)), keys, run)

        measure_runs = jax.jit(measure_runs, inline=True)  # so that `eval_shape` and `cond` trace it once
        blank = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), jax.eval_shape(measure_runs, t, run))

        run_rounds = partial(_rounds, layout, form, world, settings, keys)

        def leg(carry: tuple[Array, RunState], to: tuple[Array, Array]) -> Any:
            (t, run), (stop, wanted) = carry, to
            # a call that needs fewer stops repeats its last, where nothing is to be done
            run = jax.lax.cond(stop > t, run_rounds, lambda run, t, stop: run, run, t, stop)
            values, finite = jax.lax.cond(wanted, measure_runs, lambda *_: blank, stop, run)
            lost = wanted & ~finite & (run.diverged < 0)
            run = run._replace(diverged=jnp.where(lost, stop, run.diverged))
            if run.reached is not None:
                going_on = wanted & (run.diverged < 0) & (run.reached < 0)
                there = going_on & _meets_targets(form, metrics, targets, values)
                run = run._replace(reached=jnp.where(there, stop, run.reached))
            return (stop, run), values

        (_, run), measured = jax.lax.scan(leg, (t, run), (stops, wanted))
        return layout.constrain(run), measured

    split = (P(), BLOCK_SHARDINGS, P(SEEDS), RUNS, P(), P(), P(), P())
    legs = layout.shard_runs(all_runs, split, (RUNS, P(None, SETTINGS, SEEDS)))
    return legs(world, settings, keys, run, t, stops, wanted, targets)


_begin_static, _advance_static = ("form", "structure", "layout"), ("form", "metrics", "structure", "layout")
begin = jax.jit(_begin, static_argnames=_begin_static)
advance = jax.jit(_advance, static_argnames=_advance_static, donate_argnames="run", compiler_options=SERIAL)


@cache
def quick_programs() -> tuple[Any, Any]:
    """Return `begin` and `advance` compiled in less time, with the compiler options that this jaxlib has."""
    options = known_options(QUICK)
    return (
        jax.jit(
            _begin, static_argnames=_begin_static, compiler_options=options | {"xla_backend_optimization_level": 0}
        ),
        jax.jit(
            _advance,
            static_argnames=_advance_static,
            donate_argnames="run",
            compiler_options=SERIAL | options | {"xla_backend_optimization_level": 1},
        ),
    )


def _meets_targets(
    form: RuleForm, metrics: tuple[Metric, ...], targets: dict[str, Array], values: dict[str, Array]
) -> Bool[Array, "settings seeds"]:
    """Return True for each run whose metrics are all at their targets, or better."""
    labels, reached = {metric.name: metric.label for metric in metrics}, []
    for name, target in targets.items():
        if name not in values:
            raise InputError(
                f"until names {name}, which is not measured in this run of {form.kind.name}: {labels[name].about}."
            )
        good = values[name] >= target if labels[name].better == "higher" else values[name] <= target
        reached.append(good & jnp.isfinite(values[name]))
    return jnp.stack(reached).all(0)


def _rounds(
    layout: DeviceLayout,
    form: RuleForm,
    world: World,
    settings: BlockSettings,
    keys: Keys,
    run: RunState,
    t: Int[Array, ""],
    stop: Int[Array, ""],
) -> RunState:
    """Advance all runs from round t to `stop`."""
    bound = BOUND * (1 + jnp.sum(world.problem.start**2))

    def one_round(seed: Array, key: Array, t: Array, run: RunState) -> RunState:
        def single_run(setting: SettingAt, run: RunState) -> RunState:
            agents = StackedAgents(world, setting.oracle, round_keys(key, t + 1), t, run.memory, layout=layout)
            rule = form.bind(setting.hyper)
            before = run.state, run.memory, run.asked
            if world.waves is None:
                state = rule.step(run.state, agents)
                after = state, agents.memory, run.asked
                awake = None if form.kind.needs == "nothing" else awake_mask(world.network, t)
                if awake is not None:

                    def update(new: Array, old: Array) -> Array:  # an agent that sleeps keeps its state
                        return jnp.where(as_column(awake, new), new, old)

                    after = *jax.tree.map(update, after[:2], before[:2]), run.asked
            else:
                after = run_events(rule, world, setting.oracle, key, seed, t, before)
            if run.reached is not None:  # a run that met its targets keeps its state
                reached = run.reached
                after = jax.tree.map(lambda new, old: jnp.where(reached >= 0, old, new), after, before)
            state, memory, asked = after
            size = agents.squared_norm(state.x)
            sane = (size <= bound * world.problem.agents) & jnp.isfinite(size)  # the bound itself may overflow
            diverged = jnp.where((run.diverged < 0) & ~sane, t + 1, run.diverged)
            return run._replace(state=state, memory=memory, asked=asked, diverged=diverged)

        return jax.vmap(single_run)(settings.at(t), run)

    def one_seed(seed: Array, key: Array, run: RunState) -> RunState:
        return jax.lax.fori_loop(t, stop, partial(one_round, seed, key), run)

    if jax.default_backend() != "cpu":
        return jax.vmap(one_seed, (0, 0, 1), 1)(jnp.arange(keys.shape[0]), keys, run)

    # on a CPU seeds run one after the other, so that the data of one stay in the cache (10 seeds of a9a on a ring of 20
    # take 0.55 of the time that they take side by side), and its bits do not depend on the others
    def next_seed(seed: Array, run: RunState) -> RunState:
        own = jax.tree.map(lambda a: jax.lax.dynamic_index_in_dim(a, seed, 1, keepdims=False), run)
        write = partial(jax.lax.dynamic_update_index_in_dim, index=seed, axis=1)
        return jax.tree.map(write, run, one_seed(seed, keys[seed], own))

    return jax.lax.fori_loop(0, keys.shape[0], next_seed, run)


@partial(jax.jit, static_argnames=("structure", "metrics", "layout"))
def finish(
    structure: Any,
    leaves: list[Array],
    keys: Keys,
    run: RunState,
    *,
    metrics: tuple[Metric, ...] = (),
    layout: DeviceLayout = ONE_DEVICE,
) -> tuple[dict[str, Float[Array, "settings seeds"]], Float[Array, "settings seeds agents d"] | None]:
    """Return the metrics of the end of every run, and the constant bias of every agent, where the oracle has one.

    The metrics are measured one run after the other, because such metrics may take much memory. Their snapshot has the
    models alone.
    """
    world, settings = jax.tree.unflatten(structure, leaves)

    def all_runs(world: World, settings: BlockSettings, keys: Keys, run: RunState) -> tuple[Any, Any]:
        def single_run(setting: SettingAt, key: Array, memory: Any) -> Any:
            return _bias(world.problem, setting.oracle, key, memory, layout)

        bias = _map_runs(single_run, settings.at(settings.first), keys, run.memory)
        if not metrics:
            return {}, bias
        x = run.state.x
        flat = x.reshape(-1, *x.shape[2:])
        ends = jax.lax.map(lambda x: measure(metrics, world.problem, None, State(x=x), None), flat)
        return {name: values.reshape(x.shape[:2]) for name, values in ends.items()}, bias

    return layout.shard_runs(all_runs, (P(), BLOCK_SHARDINGS, P(SEEDS), RUNS), RUNS)(world, settings, keys, run)


def _bias(
    problem: Problem, oracle: Oracle, keys: Array, memory: Any, layout: DeviceLayout
) -> Float[Array, "agents d"] | None:
    def of_agent(problem: Problem, oracle: Oracle, agent: Array, key: Array, memory: Any) -> Any:
        return oracle.bias(Site(problem, agent, key, jnp.int32(0)), memory)

    return each_agent(layout, problem, oracle, of_agent, keys[0], memory)


def begin_memory(world: World, oracle: Oracle, keys: Array, layout: DeviceLayout = ONE_DEVICE) -> Any:
    """Return the oracle's memory of every agent before the first query."""
    first = jnp.int32(0)

    def of_agent(problem: Problem, oracle: Oracle, agent: Array, key: Array) -> Any:
        return oracle.init(Site(problem, agent, key, first))

    return each_agent(layout, world.problem, oracle, of_agent, keys[0])


def round_keys(keys: Array, number: Any) -> Key[Array, " agents"]:
    """Return the key of every agent in a round of one seed: number 0 is the start, t + 1 is round t."""
    return jax.vmap(of_round, in_axes=(0, None))(keys[1], number)


def start_of(world: World, keys: Array | None = None) -> Float[Array, "agents d"]:
    """Return the start of every agent: the common one, or apart from it, by the key of what each agent draws once."""
    start = jnp.broadcast_to(world.problem.start, (world.problem.agents, world.problem.dim))
    if world.apart is None or keys is None:
        return start

    def draw(key: Array) -> Array:
        return jax.random.uniform(of_start(key), world.problem.start.shape, jnp.float32)

    low, high = world.apart
    return start + low + (high - low) * jax.vmap(draw)(keys).astype(start.dtype)


def _map_runs(single_run: Any, settings: SettingAt, keys: Array, *run: Any) -> Any:
    over_seeds = jax.vmap(single_run, in_axes=(None, 0) + (0,) * len(run))
    return jax.vmap(over_seeds, in_axes=(0, None) + (0,) * len(run))(settings, keys, *run)
