"""The simulator: algorithms on a problem, a network and an oracle, compiled, on one machine."""

import dataclasses
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from gossamer import networks
from gossamer.algorithms import ALGORITHMS
from gossamer.basics.arrays import numbers
from gossamer.basics.progress import Report, reporting, saying
from gossamer.basics.pytrees import refuse_mistakable
from gossamer.basics.tabulate import check_schedules
from gossamer.clocks.clock import Clock, clock_of
from gossamer.core import (
    InputError,
    brief,
    call_own,
    check_function,
    flag,
    is_rule,
    parts,
    setting,
    whole,
)
from gossamer.core.rules import LONG_RUN, of_drift
from gossamer.engines.block import Watch, honest_problem
from gossamer.engines.costs import add_seconds, count_costs
from gossamer.engines.devices import Width, use_devices
from gossamer.engines.processes import is_first
from gossamer.engines.runs import Row, RunPlan, Setting, compute, fits
from gossamer.metrics import targets
from gossamer.metrics.measuring import labels_of
from gossamer.networks import Network
from gossamer.networks.compatibility import suits
from gossamer.networks.graphs import arrange
from gossamer.oracles import Oracle, completed
from gossamer.problems import Empirical, Problem
from gossamer.results.exports import keeping_log
from gossamer.results.provenance import machine, versions
from gossamer.results.result import Result, runs_frame
from gossamer.results.store import NullStore

Callback = Callable[[int, dict[str, np.ndarray]], bool | None]
"""A user's function of a measured round and its metrics by name, each an array [seeds]."""

MARKS = 100
"""About how often a run is measured, unless `every` says otherwise."""

MOST_SEEDS = 1_000_000
"""The largest number of seeds that can be asked for: seeds from there on are for tuning."""

MOST_TOGETHER = 100_000
"""The most seeds of one compiled block."""


def simulate(
    algorithms: Any,
    problem: Problem,
    network: Any,
    oracle: Oracle | None = None,
    *,
    steps: int,
    every: int | Sequence[int] | None = None,
    seeds: int | Sequence[int] = 1,
    start: Any = None,
    apart: tuple[float, float] | None = None,
    dtype: str = "float32",
    until: Mapping[str, float] | None = None,
    callback: Callback | None = None,
    clock: Any = None,
    devices: int | Literal["all"] | None = None,
    split: Literal["runs", "agents"] | None = None,
    log: Any = None,
    progress: bool | Report = True,
) -> Result:
    """Run algorithms side by side and measure them.

    All algorithms see the same samples: the draw of an agent depends only on the seed, the round, the agent and how
    often it asked in that round. Each algorithm is compiled once for all its seeds, which run together.

    Args:
        algorithms: a rule, or several.
        problem: what is minimised.
        network: who talks to whom: a `Network`, a name such as "ring", a networkx graph, a matrix or a file.
        oracle: where gradients come from; the exact ones if it is not given.
        steps: rounds.
        every: measure every so many rounds, and at the start and the end; about 100 times if it is not given. Or a pair
            (first, last): every `first` rounds at the start, then at a distance of an eighth of the rounds done, up to
            every `last`, and at 90, 92.5, 95, 97.5 and 100 % of the steps.
        seeds: how many (0, 1, …), or a list of them.
        start: the common start, if not the problem's own.
        apart: a pair (low, high), by which agents start apart: to each coordinate of each agent's start a number is
            added that is drawn uniformly between these two, anew for each seed and alike for all algorithms.
        dtype: "float32" or "float64".
        until: ends a run at the first measured round at which all these metrics are at their value or better, such as
            ``{"loss": 0.4}``; its last row has the status "reached".
        callback: called at every measured round of each algorithm with the round and the metrics by name, an array of
            one value for each seed (not a number where the seed has ended before). If it returns True the algorithm
            stops there, with the status "stopped".
        clock: how long agents compute and messages travel, made by `gossamer.clock`, or a preset's name, such as
            "internet": then what is measured has a column of seconds.
        devices: over how many devices to share out, or "all" that JAX has and that make it faster; one if it is not
            given. On a CPU call `gossamer.devices` first.
        split: what is shared out: "runs", that is seeds, or the "agents" of every run; what is estimated to be faster
            if it is not given.
        log: gets the rows of the result's `frame` as each algorithm ends: a text such as "runs/log.csv",
            "runs/log.jsonl", "tensorboard:FOLDER", "mlflow:URI", "wandb:PROJECT" or "trackio:PROJECT", or a function of
            a row, see `gossamer.logs`. `Result.log` writes them later.
        progress: whether to show a bar on a terminal once a run takes longer than two seconds, and to say on stderr
            when all will take more than an hour; or a function that is called instead.

    What would not fit into memory is refused before it starts, with the number that is too large.
    """
    rules = list(algorithms) if isinstance(algorithms, (list, tuple)) else [algorithms]
    oracle, network = completed(oracle), network_for(problem, network)
    check(rules, problem, network, oracle)
    plan, seeds = plan_run(steps, every, seeds, dtype, until, apart)
    watch = None if callback is None else _watch(callback, seeds)
    if len(seeds) > MOST_TOGETHER:
        raise InputError(f"{len(seeds):,} seeds in one block are too many: take at most {MOST_TOGETHER:,}.")
    clock, network = apply_clock(clock, network)
    x = numbers("start", problem.start if start is None else start)
    if x.shape != (problem.dim,):
        raise InputError(f"start must be {problem.dim} finite numbers, one common point, but has shape {x.shape}.")
    problem = dataclasses.replace(problem, start=x)  # pyright: ignore[reportArgumentType]
    # all seeds in one block, as their number does not change in a run
    width = Width(1, len(seeds))
    for rule in rules:  # all of them, before the first one runs
        fits([Setting(rule, oracle)], problem, network, seeds, plan, width)
    check_schedules(rules, plan.steps)
    warn_of_drift([(rule, plan) for rule in rules])
    results = []
    with keeping_log(log if is_first() else None) as note, use_devices(devices, split), reporting(progress) as report:
        for rule in rules:
            began = time.perf_counter()
            runs = compute(
                [Setting(rule, oracle)],
                problem,
                network,
                seeds,
                plan,
                width=width,
                store=NullStore(),
                report=lambda done, loss, rule=rule: report(rule.name, done, plan.steps, loss),
                say=saying(report, rule.name),
                watch=watch,
                forecast=False,
            )
            by_seed, took = {seed: run for (_, seed), run in runs.items()}, time.perf_counter() - began
            results.append(result_of(rule, by_seed, problem, network, oracle, plan, took, clock=clock))
            note(results[-1])
    return Result.join(results)


def warn_of_drift(runs: Sequence[tuple[Any, RunPlan]]) -> None:
    """Warn once if rules that add up rounding run for long in float32."""
    long = {rule.name: plan.steps for rule, plan in runs if rule.drifts and plan.dtype == "float32"}
    names = sorted(name for name, steps in long.items() if steps >= LONG_RUN)
    if names:
        warnings.warn(of_drift(", ".join(names), max(long.values()), 'dtype = "float64"'), stacklevel=3)


def network_for(problem: Problem, network: Any) -> Network:
    """Return the network that a user means, for the agents of the problem and in their order."""
    if not isinstance(problem, Problem):
        raise InputError(f"the problem must be made by gossamer.problems, but is {brief(problem)}.")
    if isinstance(network, Network):  # how many agents it has is checked with the rules
        return arrange(network, problem.agent_names)
    return networks.of(network, problem.agents, names=problem.agent_names)


def apply_clock(given: Any, network: Network) -> tuple[Clock | None, Network]:
    """Return the clock that a user means, and the network, with the clock in it if it is asynchronous."""
    clock = clock_of(given)
    if clock is not None:
        clock.check(network.agents)
    if not network.asynchronous:
        return clock, network
    if clock is None:
        raise InputError(
            f'{network.name} needs a clock, which says who wakes when: give one, such as clock = "internet", or a '
            "section [clock] in a spec."
        )
    return clock, dataclasses.replace(network, clock=clock)


def plan_run(
    steps: Any, every: Any, seeds: Any, dtype: Any, until: Any = None, apart: Any = None
) -> tuple[RunPlan, list[int]]:
    """Return the plan of a run and its seeds; raise InputError if one of them is wrong."""
    steps = whole("steps", steps)
    if not isinstance(every, (list, tuple)):
        every = whole("every", -(-steps // MARKS) if every is None else every)
    elif len(every) != 2:
        raise InputError(f"every must be a whole number or a pair [first, last] of them, but is {brief(every)}.")
    else:
        every = tuple(
            whole(f"the {which} of every = [first, last]", given)
            for which, given in zip(("first", "last"), every, strict=True)
        )
        if every[0] > every[1]:
            raise InputError(f"every = [first, last] must have first ≤ last, but is {[*every]}: swap them.")
    if not isinstance(dtype, str) or dtype not in ("float32", "float64"):
        raise InputError(f'dtype must be "float32" or "float64", but is {brief(dtype)}.')
    if not isinstance(seeds, Iterable) or isinstance(seeds, (str, bytes)) or getattr(seeds, "ndim", 1) != 1:
        # a number, or what `whole` refuses
        chosen = list(range(whole("seeds", seeds, most=MOST_SEEDS, advice="Or give a list of them.")))
    else:
        chosen = [whole("a seed", seed, least=0) for seed in seeds]
        if not chosen or len(set(chosen)) < len(chosen):
            raise InputError(f"seeds must be at least one, all different, but are {brief(chosen)}.")
    if apart is not None:
        ends = numbers("apart", apart)
        if ends.shape != (2,) or not ends[0] < ends[1]:
            raise InputError(f"apart must be a pair (low, high) of numbers with low < high, but is {brief(apart)}.")
        apart = (float(ends[0]), float(ends[1]))
    return RunPlan(steps, every, dtype, until=targets(until), apart=apart), chosen


def check(rules: list[Any], problem: Problem, network: Network, oracle: Oracle, tuned: int = 0) -> None:
    """Raise InputError if the parts cannot run together; `tuned` more rules are still to be chosen."""
    if not rules and not tuned:
        raise InputError("there is no algorithm to run: give at least one, such as BiasedDMT(eta=0.1, lam=0.05).")
    for rule in rules:
        if not is_rule(type(rule)):
            raise InputError(
                f"{brief(rule)} is not an algorithm: make one as BiasedDMT(eta=0.1, lam=0.05), or by @rule."
            )
        if ALGORITHMS.get(rule.name, type(rule)) is not type(rule):
            raise InputError(
                f"{type(rule).__name__} is called {rule.name!r}, which is another algorithm: give it a name of its own."
            )
    if network.asynchronous and oracle.privacy is not None:
        raise InputError(
            f"{network.name}: how many noisy gradients an agent lets out depends on its speed there, and is not "
            "counted. Use a private oracle on a network with rounds."
        )
    if network.asynchronous and oracle.together(problem.agents) is not None:
        raise InputError(
            f"{network.name}: ALIE is made of all agents' gradients of a round, and there are none there. Use another "
            "attack, or a network with rounds."
        )
    refuse_mistakable(problem, network, oracle, [parts(rule) for rule in rules])
    if problem.agents != network.agents:
        raise InputError(
            f"the problem has {problem.agents} agents, but the network {network.name} has {network.agents}: "
            f"make both of one size."
        )
    labels = [(rule.name, setting(rule)) for rule in rules]
    for label in labels:
        if labels.count(label) > 1:
            raise InputError(f"{label[0]} with {label[1]} is given {labels.count(label)} times; once is enough.")
    for rule in rules:
        suits(rule, network)
        for part in parts(rule).values():
            part.check(problem.dim)
    oracle.check(problem)
    honest_problem(problem, network, oracle)


def _watch(callback: Any, seeds: list[int]) -> Watch:
    """Wrap the user's callback, which gets one value for each seed in the order of its list; a block sorts them."""
    check_function("callback", callback, "t, metrics")
    places = np.argsort(np.argsort(seeds))

    def watch(t: int, rows: dict[str, np.ndarray]) -> bool:
        values = {name: row[0][places] for name, row in rows.items()}
        answer = call_own(f"callback, in round {t},", callback, t, values)
        return answer is not None and flag("what callback returns", answer)

    return watch


def result_of(
    rule: Any,
    runs: dict[int, Row],
    problem: Problem,
    network: Network,
    oracle: Oracle,
    plan: RunPlan,
    seconds: float,
    title: str | None = None,
    replicates: dict[int, int] | None = None,
    clock: Clock | None = None,
) -> Result:
    """Return the result of one algorithm from its runs by seed.

    `title` replaces the setting where seeds have settings of their own. `replicates` maps seeds to the replicate that
    they belong to; if it is not given, each seed is a replicate.
    """
    key = rule.name, title or setting(rule)
    replicates = replicates or {seed: seed for seed in runs}
    known = labels_of(honest_problem(problem, network, oracle))
    frame = runs_frame(*key, runs, replicates, count_costs(rule, problem, network, oracle, plan.dtype), known)
    if clock is not None:
        frame = add_seconds(frame, clock, rule, problem, network, oracle, plan.dtype)
    biases = [run.bias for run in runs.values() if run.bias is not None]
    manifest = {
        "steps": plan.steps,
        "every": plan.every,
        "dtype": plan.dtype,
        "network": {"name": network.name, "agents": network.agents},
        "data": {"name": problem.data_name, "sha256": problem.data_sha256} if isinstance(problem, Empirical) else None,
        "versions": versions(),
        "machine": machine(),
        "seconds": {f"{key[0]}({key[1]})": round(seconds, 3)},
    }
    if clock is not None:
        manifest["clock"] = str(clock)
    if plan.apart:
        manifest["apart"] = list(plan.apart)
    if plan.until:
        manifest["until"] = {target.metric: target.value for target in plan.until}
    if oracle.privacy is not None:
        manifest["privacy"] = oracle.privacy._asdict()

    def stack(arrays: list[np.ndarray]) -> np.ndarray:
        return np.stack(arrays) if len(arrays) > 1 else arrays[0][None]  # a single one may be large: no copy

    states = {key: stack([run.x for run in runs.values()])}
    return Result(frame, states, list(runs), stack(biases) if biases else None, manifest, metrics=known)
