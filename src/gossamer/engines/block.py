"""A block: runs of one rule, [settings, seeds], that advance together in one compiled program."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from gossamer.core import parts, ranges, schedules, tabulate
from gossamer.engines import program
from gossamer.engines.apart import told_apart
from gossamer.engines.costs import work_of
from gossamer.engines.devices.layouts import ALONE, Alone
from gossamer.engines.devices.processes import agreed
from gossamer.engines.honesty import among_honest
from gossamer.engines.waves import packed
from gossamer.engines.waves import schedules as schedules_of
from gossamer.metrics import Target, measured
from gossamer.networks import Network
from gossamer.oracles import Oracle
from gossamer.problems import Problem
from gossamer.problems.problem import cast

LEGS = 32
"""Stops in one call of the compiled program; a call that needs fewer repeats its last."""

WINDOW = 5_000
"""Rounds that one call goes at most: those for which it is handed the values of schedules."""

PATIENCE = 0.25
"""Seconds that one call should take: how often progress shows, and how long Ctrl-C may wait."""


@dataclass(frozen=True)
class Outcome:
    """What a block gives: metrics at the measured rounds, and where the runs stand."""

    rounds: list[int]
    metrics: dict[str, Float[np.ndarray, "rounds settings seeds"]]
    diverged: Int[np.ndarray, "settings seeds"]
    """The round in which a run diverged, or −1."""
    reached: Int[np.ndarray, "settings seeds"]
    """The round at which a run came to its targets, or −1."""
    stopped: int
    """The round at which `watch` stopped all runs, or −1."""


Watch = Callable[[int, dict[str, Float[np.ndarray, "settings seeds"]]], bool]
"""Is told the metrics of every measured round, not a number where a run has ended before, and may stop all runs."""


class Block:
    """Runs of one rule under several settings (its hyper-parameters and the oracle's numbers) and seeds.

    All settings see the same samples. What a run does depends on how many settings and seeds there are, in the last
    bits, but not on which ones.
    """

    def __init__(
        self,
        rules: Sequence[Any],
        problem: Problem,
        network: Network,
        oracles: Sequence[Oracle],
        *,
        seeds: Sequence[int],
        steps: int,
        dtype: str,
        until: Sequence[Target] = (),
        metrics: Sequence[str] | None = None,
        layout: Alone = ALONE,
    ):
        self.metrics, self.layout, self._all = measured(metrics), layout, metrics is None
        self.form, self.dtype, self.steps, self.seeds = program.Form.of(rules[0]), dtype, steps, list(seeds)
        self._rules = list(rules)
        problem = among_honest(problem, network, oracles[0])  # who attacks is static, and so the same in all
        self._scheduled = sorted({key for rule in rules for key in schedules(rule)})
        with self.precision():
            self.world = layout.world(problem, told_apart(rules[0], replace(network, clock=None)), dtype)
            if network.asynchronous:
                work = work_of(rules[0], problem, network, oracles[0], dtype)
                waves = packed(schedules_of(network, work, self.seeds, steps), problem.agents, steps)
                self.world = self.world._replace(waves=jax.tree.map(jnp.asarray, waves))
            self.oracles = layout.over_settings(_stacked([cast(oracle, dtype) for oracle in oracles]))
            constant = [name for name in ranges(self.form.kind) if name not in self._scheduled]
            numbers = {name: jnp.asarray([getattr(rule, name) for rule in rules], dtype) for name in constant}
            stacked = _stacked([cast(parts(rule), dtype) for rule in rules])
            order = jnp.arange(len(rules), dtype=jnp.int32)
            numbers, stacked, order = layout.over_settings((numbers, stacked, order))
            self._hyper = program.BlockHyper(numbers, *self._window(0), stacked, order)
            self.keys = layout.keys(self.seeds, problem.agents)
            values = {target.metric: jnp.asarray(_within(target, dtype)) for target in until}
            self._targets = layout.everywhere(values)
        self._run: program.RunState | None = None

    def hyper(self, t: int, last: int | None = None) -> program.BlockHyper:
        """The hyper-parameters for a call from round t to `last`, and the round before."""
        if not self._scheduled:
            return self._hyper
        first, last = max(t - 1, 0), t + 1 if last is None else last
        if last - t > WINDOW:
            raise ValueError(f"a call may go {WINDOW} rounds at most, but is to go {last - t}")
        if not int(self._hyper.first) <= first <= last <= int(self._hyper.first) + WINDOW + 1:
            with self.precision():
                tables, begins = self._window(first)
                self._hyper = self._hyper._replace(tables=tables, first=begins)
        return self._hyper

    def _window(self, first: int) -> tuple[dict[str, Any], Any]:
        """Schedules in a window of rounds that is always of one length, and where it begins; beyond the last round, its
        value stays."""
        rounds = [min(t, self.steps - 1) for t in range(first, first + WINDOW + 1)]
        tables = {
            name: jnp.asarray(np.array([list(tabulate(rule, name, rounds)) for rule in self._rules]), self.dtype)
            for name in self._scheduled
        }
        return self.layout.over_settings(tables), self.layout.everywhere(jnp.int32(first))

    def precision(self) -> Any:
        """The context in which the program runs."""
        return jax.enable_x64(self.dtype == "float64")

    @property
    def run(self) -> program.RunState:
        """Where the runs stand; before anything else, at the start."""
        if self._run is not None:
            return self._run
        with self.precision():
            self._run = started = self._aiming(self.layout.begin(*self._start()))
        return started

    def _aiming(self, run: program.RunState) -> program.RunState:
        """The runs at their start; where there are targets, with a place for when they come to them."""
        return run._replace(reached=jnp.full_like(run.diverged, -1)) if self._targets else run

    def _start(self) -> tuple[Any, ...]:
        return self.form, self.world, self.oracles, self.hyper(0), self.keys

    @property
    def x(self) -> Float[np.ndarray, "settings seeds agents d"]:
        """The models."""
        return self.layout.host(self.run.state.x)

    @property
    def biases(self) -> Float[np.ndarray, "settings seeds agents d"] | None:
        """The constant bias of every agent, where the oracle has one."""
        with self.precision():
            order = self._hyper.order
            biases = self.layout.biases(self.world.problem, self.oracles, order, self.keys, self.run.memory)
        return None if biases is None else self.layout.host(biases)

    @property
    def worst(self) -> Float[np.ndarray, "settings seeds"] | None:
        """max_i F(x_i), which costs as much as a hundred rounds; None where only some metrics are measured."""
        if not self._all:
            return None
        with self.precision():
            return self.layout.host(self.layout.worst(self.world.problem, self.run.state.x))

    def advance(self, t: int, stops: list[int], wanted: list[bool]) -> dict[str, np.ndarray]:
        """Go on from round t to each of the stops; the metrics of those that are wanted, [stops, settings, seeds]."""
        padding = LEGS - len(stops)
        with self.precision():
            ends = jnp.asarray(stops + stops[-1:] * padding, jnp.int32)
            legs = jnp.int32(t), ends, jnp.asarray(wanted + [False] * padding)
            self._run, rows = self.layout.advance(
                self.form,
                self.metrics,
                self.world,
                self.oracles,
                self.hyper(t, stops[-1]),
                self.keys,
                self.run,
                *self.layout.everywhere(legs),
                self._targets,
            )
            kept = [leg for leg, want in enumerate(wanted) if want]
            return {name: self.layout.host(values)[kept] for name, values in rows.items()}

    def leaves(self) -> list[np.ndarray]:
        """Where the runs stand, as arrays that start with [settings, seeds]: what `resume` takes."""
        return [self.layout.host(leaf) for leaf in jax.tree.leaves(self.run)]

    def resume(self, states: list[list[Sequence[np.ndarray]]]) -> None:
        """Put the runs where `leaves` left them: for each setting and seed, its part of every leaf."""
        with self.precision():
            tree = jax.tree.structure(jax.eval_shape(self._aiming, self.layout.begun(*self._start())))
            stacked = [np.array([[run[k] for run in runs] for runs in states]) for k in range(tree.num_leaves)]
            self._run = self.layout.runs(jax.tree.unflatten(tree, stacked))

    def drive(
        self,
        marks: list[int],
        report: Callable[[int, float | None], None],
        first: int = 0,
        last: int | None = None,
        watch: Watch | None = None,
    ) -> Outcome:
        """From round `first` to `last`, measuring at the marks, in calls short enough to interrupt.

        `report` is called with the round and, where it was measured, the mean loss of the runs that have not diverged.
        It ends early if all runs have ended, or `watch` says so.
        """
        rounds, measured, stopped = [], [], -1
        for t, stops, wanted in calls(marks, first, marks[-1] if last is None else last, LEGS if watch is None else 1):
            measured.append(self.advance(t, stops, wanted))
            rounds += [stop for stop, want in zip(stops, wanted, strict=True) if want]
            loss, sound = measured[-1]["loss"], self._diverged < 0
            report(stops[-1], float(loss[-1][sound].mean()) if len(loss) and sound.any() else None)
            if watch is not None and wanted[-1]:
                going = sound & ((self._reached < 0) | (self._reached == stops[-1]))
                now = {name: np.where(going, values[-1], np.nan) for name, values in measured[-1].items()}
                stopped = stops[-1] if watch(stops[-1], now) else -1
            if stopped >= 0 or not (sound & (self._reached < 0)).any():
                break
        metrics = {name: np.concatenate([rows[name] for rows in measured]) for name in measured[0]}
        return Outcome(rounds, metrics, self._diverged, self._reached, stopped)

    @property
    def _diverged(self) -> Int[np.ndarray, "settings seeds"]:
        return self.layout.host(self.run.diverged)

    @property
    def _reached(self) -> Int[np.ndarray, "settings seeds"]:
        reached = self.run.reached
        return np.full_like(self._diverged, -1) if reached is None else self.layout.host(reached)


def _within(target: Target, dtype: str) -> np.ndarray:
    """The target in the precision of the run: the nearest number that is as good, so that both compare alike."""
    with np.errstate(over="ignore"):
        near = np.asarray(target.value, dtype)
    worse = float(near) < target.value if target.better == "higher" else float(near) > target.value
    return np.nextafter(near, np.asarray(np.inf if target.better == "higher" else -np.inf, dtype)) if worse else near


def _stacked(trees: list[Any]) -> Any:
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)


def calls(marks: list[int], first: int, last: int, legs: int = LEGS) -> Iterator[tuple[int, list[int], list[bool]]]:
    """Calls of the program as (round now, stops, which of them to measure), each of about `PATIENCE` seconds."""
    done = sum(mark <= first for mark in marks)
    yield first, [first], [first in marks]  # compiles, so that its time is not taken for the time of rounds
    t, reach = first, min(8, WINDOW)
    while t < last:
        called = time.perf_counter()
        ahead = [mark for mark in marks[done : done + legs] if mark <= t + reach]
        stops = ahead or [min(t + reach, last)]
        yield t, stops, [bool(ahead)] * len(stops)
        seconds = time.perf_counter() - called
        reach = agreed(max(1, min(8 * reach, WINDOW, int((stops[-1] - t) * PATIENCE / max(seconds, 1e-9)))))
        t, done = stops[-1], done + len(ahead)
