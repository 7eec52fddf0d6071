"""A block: runs of one rule, [settings, seeds], that advance together in one compiled program."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec as P
from jaxtyping import Float, Int

from gossamer.basics.tabulate import tabulate
from gossamer.core import InputError, parts, ranges, schedules
from gossamer.engines import program
from gossamer.engines.agents import World
from gossamer.engines.asynchronous import make_schedules, make_waves
from gossamer.engines.costs import work_of
from gossamer.engines.devices import ONE_DEVICE, SETTINGS, DeviceLayout, run_shardings
from gossamer.engines.mixing import with_tables
from gossamer.engines.processes import broadcast_number
from gossamer.metrics import Target, select_metrics
from gossamer.networks import Network
from gossamer.oracles import Oracle
from gossamer.problems import Problem
from gossamer.problems.problem import cast

LEGS = 32
"""Stops in one call of the compiled program; a call that needs fewer repeats its last."""

WINDOW = 5_000
"""Rounds of one call at most: the call is given the values of schedules for so many."""

PATIENCE = 0.25
"""Seconds that one call should take: the time between two reports, and the longest that Ctrl-C waits."""


@dataclass(frozen=True)
class Outcome:
    """The result of driving a block: metrics at the measured rounds, and why runs ended."""

    rounds: list[int]
    metrics: dict[str, Float[np.ndarray, "rounds settings seeds"]]
    diverged: Int[np.ndarray, "settings seeds"]
    """The round in which a run diverged, or −1."""
    reached: Int[np.ndarray, "settings seeds"]
    """The round at which a run came to its targets, or −1."""
    stopped: int
    """The round at which `watch` stopped all runs, or −1."""


Watch = Callable[[int, dict[str, Float[np.ndarray, "settings seeds"]]], bool]
"""A function of a measured round and its metrics, NaN where a run has ended; True stops all runs."""


def honest_problem(problem: Problem, network: Network, oracle: Oracle) -> Problem:
    """Return the problem with F as the mean over the honest agents, where some attack, by messages or by gradients."""
    attackers = oracle.attackers(problem.agents) | {*(network.attack.attackers if network.attack else ())}
    if not attackers:
        return problem
    honest = [agent for agent in range(problem.agents) if agent not in attackers]
    if not honest:
        raise InputError("the attackers by messages and those by gradients are all agents: leave some of them honest.")
    return problem.among(np.array(honest))


class Block:
    """Runs of one rule under several settings (its hyper-parameters and the oracle's numbers) and seeds.

    All settings see the same samples. The shape of the block changes the last bits of a run; its other members do not.
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
        layout: DeviceLayout = ONE_DEVICE,
        quick: bool = False,
        apart: tuple[float, float] | None = None,
    ):
        """`quick` compiles with less effort, where that is possible; it changes the last bits of a run."""
        self.metrics, self.layout = select_metrics(metrics), layout
        self.end_metrics = select_metrics(end=True) if metrics is None else ()
        self.quick = quick and layout.mesh is None and jax.default_backend() == "cpu"
        self._programs = program.quick_programs() if self.quick else (program.begin, program.advance)
        self.form, self.dtype, self.steps = program.RuleForm.of(rules[0]), dtype, steps
        self._rules, seeds = list(rules), list(seeds)
        problem = honest_problem(problem, network, oracles[0])  # who attacks is static, and so the same in all
        self._scheduled = sorted({key for rule in rules for key in schedules(rule)})
        with self.precision():
            rounds = network if network.clock is None else replace(network, clock=None)
            self.world = World(*layout.put_world(problem, with_tables(rules[0], rounds), dtype))
            if network.asynchronous:
                work = work_of(rules[0], problem, network, oracles[0], dtype)
                waves = make_waves(make_schedules(network, work, seeds, steps), problem.agents, steps)
                self.world = self.world._replace(waves=jax.tree.map(jnp.asarray, waves))
            if apart is not None:
                self.world = self.world._replace(apart=layout.put(np.array(apart, dtype)))
            constant = [name for name in ranges(self.form.kind) if name not in self._scheduled]
            numbers = {name: np.array([getattr(rule, name) for rule in rules]) for name in constant}
            stacked = (_stack(list(oracles)), numbers, _stack([parts(rule) for rule in rules]))
            order = np.arange(len(rules), dtype=np.int32)
            oracle, numbers, made_of, order = layout.put(cast((*stacked, order), dtype), P(SETTINGS))
            self._hold(program.BlockSettings(oracle, numbers, *self._window(0), made_of, order))
            self.keys = layout.put_keys(seeds, problem.agents)
            with np.errstate(over="ignore"):  # a target beyond float32 becomes infinite
                self._targets = layout.put({target.metric: np.asarray(target.value, dtype) for target in until})
        self._run: program.RunState | None = None

    def _hold(self, settings: program.BlockSettings) -> None:
        """Keep these settings, and flat what every call is given: JAX would flatten problems in Python each time."""
        leaves, structure = jax.tree.flatten((self.world, settings))
        self._settings, self._inputs = settings, (structure, leaves)

    def inputs(self, t: int = 0, last: int | None = None) -> tuple[Any, list[jax.Array]]:
        """Return the world and the settings for a call from round t to `last`: their structure, and their leaves."""
        self.settings(t, last)
        return self._inputs

    def settings(self, t: int, last: int | None = None) -> program.BlockSettings:
        """Return the settings for a call from round t to `last`, and for the round before."""
        if not self._scheduled:
            return self._settings
        first, last = max(t - 1, 0), t + 1 if last is None else last
        if last - t > WINDOW:
            raise ValueError(f"a call may go {WINDOW} rounds at most, but is to go {last - t}")
        if not int(self._settings.first) <= first <= last <= int(self._settings.first) + WINDOW + 1:
            with self.precision():
                tables, begins = self._window(first)
                self._hold(self._settings._replace(tables=tables, first=begins))
        return self._settings

    def _window(self, first: int) -> tuple[dict[str, Any], Any]:
        """Return the values of schedules in a window of fixed length, and its first round.

        Beyond the last round of the run its value is repeated.
        """
        rounds = [min(t, self.steps - 1) for t in range(first, first + WINDOW + 1)] if self._scheduled else []
        tables = {
            name: np.array([list(tabulate(rule, name, rounds)) for rule in self._rules]) for name in self._scheduled
        }
        return self.layout.put(cast(tables, self.dtype), P(SETTINGS)), self.layout.put(np.int32(first))

    def precision(self) -> Any:
        """Return the context in which the program runs."""
        return jax.enable_x64(self.dtype == "float64")

    @property
    def run(self) -> program.RunState:
        """The state of the runs, which begin when it is first asked for."""
        if self._run is None:
            with self.precision():
                self._run = self._begin(self._programs[0])
        return self._run

    def _begin(self, begin: Callable[..., program.RunState]) -> program.RunState:
        run = begin(self.form, *self.inputs(), self.keys, layout=self.layout)
        return run._replace(reached=jnp.full_like(run.diverged, -1)) if self._targets else run

    @property
    def x(self) -> Float[np.ndarray, "settings seeds agents d"]:
        """The models."""
        return self.layout.fetch(self.run.state.x)

    def finish(
        self,
    ) -> tuple[dict[str, Float[np.ndarray, "settings seeds"]], Float[np.ndarray, "settings seeds agents d"] | None]:
        """Return the metrics of the end, and the constant bias of every agent, where the oracle has one.

        The former may cost as much as a hundred rounds; there are none where only some metrics are measured.
        """
        run = self.run
        with self.precision():  # with the settings of whichever window of rounds they stand in
            found = program.finish(*self._inputs, self.keys, run, metrics=self.end_metrics, layout=self.layout)
        return self.layout.fetch(found)

    def advance(self, t: int, stops: list[int], wanted: list[bool]) -> dict[str, np.ndarray]:
        """Advance from round t to each of the stops; return the metrics of those wanted, [stops, settings, seeds]."""
        # a fixed number of legs, so that one compiled program serves every call
        padding = LEGS - len(stops)
        inputs, run = self.inputs(t, stops[-1]), self.run
        with self.precision():
            # NumPy's arrays throughout: a small array of JAX's would be a compiled program of its own
            ends = np.array(stops + stops[-1:] * padding, np.int32)
            legs = self.layout.put((np.int32(t), ends, np.array(wanted + [False] * padding)))
            given = self.form, self.metrics, *inputs, self.keys, run, *legs, self._targets
            self._run, rows = self._programs[1](*given, layout=self.layout)
        legs_wanted = [leg for leg, want in enumerate(wanted) if want]
        return {name: values[legs_wanted] for name, values in self.layout.fetch(rows).items()}

    def leaves(self) -> list[np.ndarray]:
        """Return the state of the runs as arrays [settings, seeds, …], which `resume` takes."""
        return self.layout.fetch(jax.tree.leaves(self.run))

    def resume(self, states: list[list[Sequence[np.ndarray]]]) -> None:
        """Set the state of the runs: for each setting and seed, its part of every array of `leaves`."""
        with self.precision():
            # a program with compiler options cannot be traced inside another, so the plain one gives the structure
            tree = jax.tree.structure(jax.eval_shape(lambda: self._begin(program.begin)))
            stacked = [np.array([[run[k] for run in runs] for runs in states]) for k in range(tree.num_leaves)]
            run = jax.tree.unflatten(tree, map(jnp.asarray, stacked))
            self._run = self.layout.put(run, run_shardings(run))

    def drive(
        self,
        marks: list[int],
        report: Callable[[int, float | None], None],
        first: int = 0,
        last: int | None = None,
        watch: Watch | None = None,
    ) -> Outcome:
        """Advance from round `first` to `last`, measuring at the marks, in calls short enough to interrupt.

        `report` is called with the round and, where it was measured, the mean loss of the runs that have not diverged.
        It ends early if all runs have ended, or `watch` says so.
        """
        rounds, measured, stopped = [], [], -1
        diverged = reached = np.empty(0)
        for t, stops, wanted in calls(marks, first, marks[-1] if last is None else last, LEGS if watch is None else 1):
            measured.append(self.advance(t, stops, wanted))
            rounds += [stop for stop, want in zip(stops, wanted, strict=True) if want]
            diverged, reached = self.layout.fetch((self.run.diverged, self.run.reached))
            reached = np.full_like(diverged, -1) if reached is None else reached  # without targets
            loss, sound = measured[-1]["loss"], diverged < 0
            report(stops[-1], float(loss[-1][sound].mean()) if len(loss) and sound.any() else None)
            if watch is not None and wanted[-1]:
                going = sound & ((reached < 0) | (reached == stops[-1]))
                now = {name: np.where(going, values[-1], np.nan) for name, values in measured[-1].items()}
                stopped = stops[-1] if watch(stops[-1], now) else -1
            if stopped >= 0 or not (sound & (reached < 0)).any():
                break
        metrics = {name: np.concatenate([rows[name] for rows in measured]) for name in measured[0]}
        return Outcome(rounds, metrics, diverged, reached, stopped)


def _stack(trees: list[Any]) -> Any:
    return jax.tree.map(lambda *leaves: np.stack(leaves), *trees)


def calls(marks: list[int], first: int, last: int, legs: int = LEGS) -> Iterator[tuple[int, list[int], list[bool]]]:
    """Yield calls of the program as (round now, stops, which of them to measure), each of about `PATIENCE` seconds."""
    done = sum(mark <= first for mark in marks)
    yield first, [first], [first in marks]  # compiles, so that its time is not taken for the time of rounds
    t, reach = first, min(8, WINDOW)
    while t < last:
        called = time.perf_counter()
        ahead = [mark for mark in marks[done : done + legs] if mark <= t + reach]
        stops = ahead or [min(t + reach, last)]
        yield t, stops, [bool(ahead)] * len(stops)
        seconds = time.perf_counter() - called
        # all processes must make the same calls, so the first one's clock decides
        reach = broadcast_number(max(1, min(8 * reach, WINDOW, int((stops[-1] - t) * PATIENCE / max(seconds, 1e-9)))))
        t, done = stops[-1], done + len(ahead)
