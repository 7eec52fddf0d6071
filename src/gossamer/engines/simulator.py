"""The simulator: algorithms on a problem, a network and an oracle, compiled, on one machine."""

import dataclasses
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from gossamer.core import InputError, setting, tabulate
from gossamer.engines.agents import Cost
from gossamer.engines.block import Block
from gossamer.networks import Network
from gossamer.oracles import Oracle, completed, exact
from gossamer.problems import Empirical, Problem
from gossamer.progress import Report, reporting
from gossamer.provenance import machine, versions
from gossamer.results import Result, rows_frame


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
    in that round. Each algorithm is compiled once for all its seeds, which run together.

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
    for rule in rules:
        tabulate(rule, plan.steps)  # a schedule that leaves its range is refused before any run
    with reporting(progress) as report:
        results = [_run(rule, problem, network, oracle, plan, report) for rule in rules]
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


def _run(rule: Any, problem: Problem, network: Network, oracle: Oracle, plan: Plan, report: Report) -> Result:
    began, name = time.perf_counter(), rule.name
    block = Block([rule], problem, network, [oracle], seeds=plan.seeds, steps=plan.steps, dtype=plan.dtype)
    (start, each), biases = block.costs(), block.biases
    marks = [*range(0, plan.steps, plan.every), plan.steps]
    outcome = block.drive(marks, lambda done, loss: report(name, done, plan.steps, loss))
    frame = rows_frame(
        algorithm=name,
        setting=setting(rule),
        seeds=plan.seeds,
        rounds=outcome.rounds,
        metrics={metric: values[:, 0] for metric, values in outcome.metrics.items()},
        worst=block.worst[0],
        diverged=outcome.diverged[0],
        queries=(start.queries, each.queries),
        bytes_sent=(bytes_sent(start, network, plan.dtype), bytes_sent(each, network, plan.dtype)),
    )
    manifest = {
        "steps": plan.steps,
        "every": plan.every,
        "dtype": plan.dtype,
        "network": {"name": network.name, "agents": network.agents},
        "data": {"name": problem.data_name, "sha256": problem.data_sha256} if isinstance(problem, Empirical) else None,
        "versions": versions(),
        "machine": machine(),
        "seconds": {f"{name}({setting(rule)})": round(time.perf_counter() - began, 3)},
    }
    key = name, setting(rule)
    return Result(frame, {key: block.x[0]}, plan.seeds, None if biases is None else biases[0], manifest)


def bytes_sent(cost: Cost, network: Network, dtype: str) -> float:
    """Bytes that an agent sends, on average over agents; an all-reduce is counted as a ring's, 2(n − 1)/n vectors."""
    n = network.agents
    sent = cost.gossiped * float(np.mean(network.degrees)) + cost.reduced * 2 * (n - 1) / n
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
