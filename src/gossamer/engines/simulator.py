"""The simulator: algorithms on a problem, a network and an oracle, compiled, on one machine."""

import dataclasses
import time
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gossamer.core import InputError, setting, tabulate
from gossamer.engines import program
from gossamer.engines.agents import World
from gossamer.metrics import METRICS
from gossamer.networks import Network
from gossamer.oracles import Oracle, completed, exact
from gossamer.problems import Empirical, Problem
from gossamer.problems.problem import cast
from gossamer.progress import Report, reporting
from gossamer.provenance import machine, versions
from gossamer.results import Result, rows_frame

LEGS = 32
"""Stops in one call of the compiled program; a call that needs fewer repeats its last."""

PATIENCE = 0.25
"""Seconds that one call should take: how often progress shows, and how long Ctrl-C may wait."""


def simulate(
    algorithms: Any,
    problem: Problem,
    network: Network,
    oracle: Oracle | None = None,
    *,
    steps: int,
    every: int | None = None,
    seeds: int | Sequence[int] = 1,
    start: Any = None,
    dtype: str = "float32",
    progress: bool | Report = True,
) -> Result:
    """Run algorithms side by side and measure them.

    All see the same samples: what an agent draws depends only on the seed, the round, the agent and how often it asked
    in that round. Each algorithm is
    compiled once for all its seeds, which run together.

    Args:
        algorithms: a rule, or several.
        problem: what is minimised.
        network: who talks to whom.
        oracle: where gradients come from; the exact ones if it is not given.
        steps: rounds.
        every: measure every so many rounds, and at the start and the end; only there if it is not given.
        seeds: how many (0, 1, …), or a list of them.
        start: the common start, if not the problem's own.
        dtype: "float32" or "float64".
        progress: whether to show a bar on a terminal once a run takes longer than two seconds, or a function that is
            called instead.
    """
    rules = list(algorithms) if isinstance(algorithms, (list, tuple)) else [algorithms]
    oracle = completed(oracle or exact())
    check(rules, problem, network, oracle)
    plan = planned(steps, every, seeds, dtype)
    problem = dataclasses.replace(problem, start=_point(start, problem))  # pyright: ignore[reportArgumentType]
    tables = [tabulate(rule, plan.steps) for rule in rules]
    with jax.enable_x64(dtype == "float64"), reporting(progress) as report:
        world = World(*(cast(part, dtype) for part in (problem, network, oracle)))
        x = jnp.broadcast_to(world.problem.start, (problem.agents, problem.dim))
        results = [_run(rule, [table], world, x, plan, report) for rule, table in zip(rules, tables, strict=True)]
    return Result.joined(results)


@dataclasses.dataclass(frozen=True)
class Plan:
    """How long a run is and what is kept of it."""

    steps: int
    every: int
    seeds: list[int]
    dtype: str


def planned(steps: Any, every: Any, seeds: Any, dtype: Any) -> Plan:
    """The plan of a run, or what is wrong with it."""
    steps, every = _count("steps", steps), _count("every", steps if every is None else every)
    if dtype not in ("float32", "float64"):
        raise InputError(f'dtype must be "float32" or "float64", but is {dtype!r}.')
    return Plan(steps, every, _seeds(seeds), dtype)


def check(rules: list[Any], problem: Problem, network: Network, oracle: Oracle) -> None:
    """Refuse what cannot run together, before any work."""
    if not rules:
        raise InputError("there is no algorithm to run: give at least one, such as BiasedDMT(eta=0.1, lam=0.05).")
    for rule in rules:
        if isinstance(rule, type) or not all(hasattr(rule, part) for part in ("init", "step", "name", "needs")):
            raise InputError(f"{rule!r} is not an algorithm: make one as BiasedDMT(eta=0.1, lam=0.05), or by @rule.")
    for wanted, part, given in ((Problem, "problem", problem), (Network, "network", network)):
        if not isinstance(given, wanted):
            raise InputError(f"the {part} must be made by gossamer.{part}s, but is {given!r}.")
    if problem.agents != network.agents:
        raise InputError(
            f"the problem has {problem.agents} agents, but the network {network.name} has {network.agents}: "
            f"make both of one size."
        )
    labels = [(rule.name, setting(rule)) for rule in rules]
    for label in labels:
        if labels.count(label) > 1:
            raise InputError(f"{label[0]} with {label[1]} is given {labels.count(label)} times; once is enough.")
    oracle.check(problem)


def _run(rule: Any, tables: list[Any], world: World, x: Any, plan: Plan, report: Report) -> Result:
    began = time.perf_counter()
    kind, keys, hyper = type(rule), program.keys_of(plan.seeds), program.stacked(tables, plan.dtype)
    start, each = program.costs(kind, world, hyper, keys, x)
    run = program.begin(kind, world, hyper, keys, x)
    bias = program.biases(world, jax.tree.map(lambda a: a[0], run.memory), keys)

    rounds, measured = [], []
    for t, stops, wanted in _legs(plan):
        padding = LEGS - len(stops)
        run, rows = program.advance(
            kind,
            world,
            hyper,
            keys,
            run,
            jnp.int32(t),
            jnp.asarray(stops + stops[-1:] * padding, jnp.int32),
            jnp.asarray(wanted + [False] * padding),
        )
        kept = [leg for leg, want in enumerate(wanted) if want]
        rows = {name: np.asarray(values)[kept] for name, values in rows.items()}
        rounds += [stops[leg] for leg in kept]
        measured.append(rows)
        latest = measured[-1]["loss"] if kept else None
        report(rule.name, stops[-1], plan.steps, None if latest is None else float(np.mean(latest[-1])))
        if bool((np.asarray(run.diverged) >= 0).all()):
            break
    metrics = {name: np.concatenate([rows[name] for rows in measured]) for name in METRICS if name in measured[0]}
    iterates = np.asarray(run.state.x)[0]
    frame = rows_frame(
        algorithm=rule.name,
        setting=setting(rule),
        seeds=plan.seeds,
        rounds=rounds,
        metrics={name: values[:, 0] for name, values in metrics.items()},
        worst=np.asarray(program.worst(world, run.state.x))[0],
        diverged=np.asarray(run.diverged)[0],
        queries=(start.queries, each.queries),
        bytes_sent=(_bytes(start, world, plan.dtype), _bytes(each, world, plan.dtype)),
    )
    report(rule.name, plan.steps, plan.steps, None)
    manifest = {
        "steps": plan.steps,
        "every": plan.every,
        "dtype": plan.dtype,
        "network": {"name": world.network.name, "agents": world.network.agents},
        "data": {"name": world.problem.data_name, "sha256": world.problem.data_sha256}
        if isinstance(world.problem, Empirical)
        else None,
        "versions": versions(),
        "machine": machine(),
        "seconds": {f"{rule.name}({setting(rule)})": round(time.perf_counter() - began, 3)},
    }
    label = rule.name, setting(rule)
    return Result(frame, {label: iterates}, plan.seeds, None if bias is None else np.asarray(bias), manifest)


def _legs(plan: Plan) -> Iterator[tuple[int, list[int], list[bool]]]:
    """Calls of the program as (round now, stops, which of them to measure), each of about `PATIENCE` seconds."""
    marks = [*range(plan.every, plan.steps, plan.every), plan.steps]
    yield 0, [0], [True]
    t, reach, done = 0, 8, 0
    while t < plan.steps:
        called = time.perf_counter()
        ahead = [mark for mark in marks[done : done + LEGS] if mark <= t + reach]
        stops = ahead or [t + reach]
        yield t, stops, [bool(ahead)] * len(stops)
        seconds = time.perf_counter() - called
        reach = max(1, min(8 * reach, int((stops[-1] - t) * PATIENCE / max(seconds, 1e-9))))
        t, done = stops[-1], done + len(ahead)


def _bytes(cost: Any, world: World, dtype: str) -> float:
    """Bytes that an agent sends, on average over agents; an all-reduce is counted as a ring's, 2(n − 1)/n vectors."""
    agents = world.network.agents
    sent = cost.gossiped * float(np.mean(world.network.degrees)) + cost.reduced * 2 * (agents - 1) / agents
    return sent * np.dtype(dtype).itemsize


def _count(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
        raise InputError(f"{name} must be a whole number of at least 1, but is {value!r}.")
    return int(value)


def _seeds(seeds: Any) -> list[int]:
    given = list(range(_count("seeds", seeds))) if isinstance(seeds, (int, np.integer)) else list(seeds)
    for seed in given:
        if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or not 0 <= seed < 2**31:
            raise InputError(f"a seed must be a whole number from 0 to 2³¹ − 1, but one is {seed!r}.")
    if not given or len(set(given)) < len(given):
        raise InputError(f"seeds must be at least one, all different, but are {given}.")
    return [int(seed) for seed in given]


def _point(start: Any, problem: Problem) -> np.ndarray:
    x = np.asarray(problem.start if start is None else start, np.float64)
    if x.shape != (problem.dim,) or not np.isfinite(x).all():
        raise InputError(f"start must be {problem.dim} finite numbers, one common point, but has shape {x.shape}.")
    return x
