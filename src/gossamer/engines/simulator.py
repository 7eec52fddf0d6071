"""The simulator: algorithms on a problem, a network and an oracle, compiled, on one machine."""

import dataclasses
import time
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from gossamer.arrays import numbers
from gossamer.core import InputError, brief, parts, setting, tabulate, whole
from gossamer.engines.agents import Cost
from gossamer.engines.block import Block
from gossamer.engines.rows import Plan, Row, Setting, Width, compute
from gossamer.engines.suiting import suits
from gossamer.networks import Network
from gossamer.oracles import Oracle, completed
from gossamer.problems import Empirical, Problem
from gossamer.progress import Report, reporting
from gossamer.provenance import machine, versions
from gossamer.results import Result, runs_frame
from gossamer.store import Nowhere

MOST_SEEDS = 1_000_000
"""The most seeds that a number of them can ask for: those from there on are for tuning."""


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
    oracle = completed(oracle)
    check(rules, problem, network, oracle)
    plan, seeds = planned(steps, every, seeds, dtype)
    problem = dataclasses.replace(problem, start=_point(start, problem))  # pyright: ignore[reportArgumentType]
    for rule in rules:
        tabulate(rule, plan.steps)  # a schedule that leaves its range is refused before any run
    with reporting(progress) as report:
        results = [_run(rule, problem, network, oracle, seeds, plan, report) for rule in rules]
    return Result.joined(results)


def planned(steps: Any, every: Any, seeds: Any, dtype: Any) -> tuple[Plan, list[int]]:
    """The plan of a run and its seeds, or what is wrong with them."""
    steps, every = whole("steps", steps), whole("every", steps if every is None else every)
    if not isinstance(dtype, str) or dtype not in ("float32", "float64"):
        raise InputError(f'dtype must be "float32" or "float64", but is {brief(dtype)}.')
    return Plan(steps, every, dtype), _seeds(seeds)


def check(rules: list[Any], problem: Problem, network: Network, oracle: Oracle, tuned: int = 0) -> None:
    """Refuse what cannot run together, before any work; `tuned` more rules are still to be chosen."""
    if not rules and not tuned:
        raise InputError("there is no algorithm to run: give at least one, such as BiasedDMT(eta=0.1, lam=0.05).")
    for rule in rules:
        if isinstance(rule, type) or not all(hasattr(rule, part) for part in ("init", "step", "name", "needs")):
            raise InputError(
                f"{brief(rule)} is not an algorithm: make one as BiasedDMT(eta=0.1, lam=0.05), or by @rule."
            )
    for wanted, part, given in ((Problem, "problem", problem), (Network, "network", network)):
        if not isinstance(given, wanted):
            raise InputError(f"the {part} must be made by gossamer.{part}s, but is {brief(given)}.")
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


def _run(
    rule: Any, problem: Problem, network: Network, oracle: Oracle, seeds: list[int], plan: Plan, report: Report
) -> Result:
    began = time.perf_counter()
    runs = compute(
        [Setting(rule, oracle, {})],
        problem,
        network,
        seeds,
        plan,
        width=Width(1, len(seeds)),
        store=Nowhere(),
        report=lambda done, loss: report(rule.name, done, plan.steps, loss),
    )
    found = {seed: run for (_, seed), run in runs.items()}
    return result_of(rule, found, problem, network, oracle, plan, time.perf_counter() - began)


def result_of(
    rule: Any, runs: dict[int, Row], problem: Problem, network: Network, oracle: Oracle, plan: Plan, seconds: float
) -> Result:
    """The result of one algorithm from its runs by seed."""
    key = rule.name, setting(rule)
    frame = runs_frame(*key, runs, paid(rule, problem, network, oracle, plan.dtype))
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
    states = {key: np.stack([run.x for run in runs.values()])}
    return Result(frame, states, list(runs), np.stack(biases) if biases else None, manifest)


def paid(rule: Any, problem: Problem, network: Network, oracle: Oracle, dtype: str) -> dict[str, tuple[float, float]]:
    """What an agent pays at the start and in every round: queries, bytes sent and messages that it waits for.

    All are means over agents and, where the network changes, over rounds: what is sent compressed counts as its bits,
    a round without gossip as nothing, and an agent that sleeps pays nothing. An all-reduce is counted as a ring's:
    2(n − 1)/n vectors in 2(n − 1) messages.
    """
    n, size = network.agents, np.dtype(dtype).itemsize
    costs = Block([rule], problem, network, [oracle], seeds=[0], steps=1, dtype=dtype).costs()
    awake = (1.0, 1.0 if rule.needs == "nothing" else network.activity)

    def sent(cost: Cost) -> float:
        gossiped = size * cost.gossiped + cost.bits / 8
        return gossiped * network.traffic + size * cost.reduced * 2 * (n - 1) / n

    def waits(cost: Cost) -> float:
        return cost.messages * network.pace * network.activity + cost.reductions * 2 * (n - 1)

    return {
        "queries": (costs[0].queries * awake[0], costs[1].queries * awake[1]),
        "bytes_sent": (sent(costs[0]), sent(costs[1])),
        "messages": (waits(costs[0]), waits(costs[1])),
    }


def _seeds(seeds: Any) -> list[int]:
    if not isinstance(seeds, Iterable) or isinstance(seeds, (str, bytes)) or getattr(seeds, "ndim", 1) != 1:
        return list(range(whole("seeds", seeds, most=MOST_SEEDS, advice="Or give a list of them.")))
    given = [whole("a seed", seed, least=0) for seed in seeds]
    if not given or len(set(given)) < len(given):
        raise InputError(f"seeds must be at least one, all different, but are {brief(given)}.")
    return given


def _point(start: Any, problem: Problem) -> np.ndarray:
    x = numbers("start", problem.start if start is None else start)
    if x.shape != (problem.dim,):
        raise InputError(f"start must be {problem.dim} finite numbers, one common point, but has shape {x.shape}.")
    return x
