"""The search: stages of ways with equal budgets, each shorter than the next, and fewer ways in each."""

import math
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple, TypeVar

from gossamer.basics.progress import Report
from gossamer.engines.runs import Row, RunPlan, Setting, Width, compute, fits
from gossamer.experiments.recommending.budgets import Costs
from gossamer.experiments.recommending.judging import Score, score, together
from gossamer.experiments.recommending.question import CRITERIA, Question
from gossamer.experiments.recommending.ways import Way
from gossamer.results.store import Store
from gossamer.specs.candidates import Values
from gossamer.specs.sections import FIRST_SEED

SHARES = (1 / 9, 1 / 9, 1 / 3, 1.0)
"""The share of the budget that each stage of the search has."""

STAGES = ("methods", "forms and graphs", "a third of the budget", "whole budget", "finalists")

FINALISTS = 3
"""Ways that have the whole budget, at most."""

WORKERS = 4
"""Blocks that are computed side by side, at most; a block keeps one core busy."""


T = TypeVar("T")


class Task(NamedTuple):
    """A way, what its rounds cost, and the settings of it that are to be run for so many rounds."""

    way: Way
    costs: Costs
    settings: list[Values]
    rounds: int

    @property
    def work(self) -> float:
        """What takes the time of its computation: the queries of all rounds."""
        return self.rounds * max(1.0, self.costs.queries)


class Tried(NamedTuple):
    """A way and its settings, the best first."""

    task: Task
    ranked: list[tuple[Score, Values]]

    @property
    def best(self) -> Score:
        return self.ranked[0][0]


class Interrupted(Exception):
    """Another thread was interrupted, and this one ends too."""


class Running:
    """Runs blocks side by side, keeps what was computed, and tells how far it is."""

    def __init__(self, question: Question, store: Store, report: Report):
        self.question, self.store, self.report = question, store, report
        self.dtype = question.spec.run.dtype
        self._lock, self._done, self._total, self._stop = threading.Lock(), 0, 1, False

    def stage(self, number: int, tasks: Sequence[Task]) -> list[Tried]:
        """All tasks of a stage of the search, on one seed that all share; the best way first."""
        seed = FIRST_SEED + 1_000 * self.question.seed + number

        def tried(task: Task) -> Tried:
            runs = self.runs(task, [seed], self.width, STAGES[number])
            scores = [self.score(task, runs[k, seed]) for k in range(len(task.settings))]
            ranked = sorted(zip(scores, task.settings, strict=True), key=lambda pair: pair[0])
            return Tried(task, ranked)

        longest = sorted(tasks, key=lambda task: -task.work)  # it begins, so that no core waits for it at the end
        return sorted(self.side_by_side(tried, longest, total_rounds(tasks)), key=lambda one: one.best)

    def score(self, task: Task, *runs: Row) -> Score:
        return together([score(run, self.question, task.costs) for run in runs])

    def side_by_side(self, work: Callable[[Any], T], tasks: Sequence[Any], rounds: int) -> list[T]:
        """What `work` makes of each task, as many at a time as there are cores; they have so many rounds in all."""
        self._done, self._total = 0, max(1, rounds)
        pool = ThreadPoolExecutor(workers())
        try:
            return [future.result() for future in [pool.submit(work, task) for task in tasks]]
        except BaseException:
            self._stop = True  # the others end at their next report
            raise
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

    def runs(self, task: Task, seeds: list[int], width: Width, what: str, *, dense: bool = False) -> Any:
        """The runs of a task by setting and seed."""
        parts, before = task.way.parts, [0]

        def told(done: int, loss: float | None) -> None:
            if self._stop:
                raise Interrupted
            with self._lock:
                self._done += max(0, done - before[0])
                before[0] = done
                self.report(what, min(self._done, self._total), self._total, loss)

        return compute(
            self.settings(task),
            parts.problem,
            parts.network,
            seeds,
            self.plan(task.rounds, dense),
            width=width,
            store=self.store,
            report=told,
        )

    def settings(self, task: Task) -> list[Setting]:
        parts, rules = task.way.parts, [task.way.rule(values) for values in task.settings]
        return [Setting(rule, parts.oracle, partial(parts.key_of, rule)) for rule in rules]

    @property
    def width(self) -> Width:
        """The size of a block of the search: all settings of a way."""
        return Width(self.question.settings, 1)

    def plan(self, rounds: int, dense: bool = False) -> RunPlan:
        """Where a target is sought or a curve is drawn, many rounds are measured, and else the end. Only the programs
        of finalists are worth some care in compiling."""
        measured = dense or self.question.target is not None
        every = (max(1, rounds // 100), max(1, rounds // 20)) if measured else (rounds, rounds)
        return RunPlan(rounds, every, self.dtype, metrics=CRITERIA, quick=not dense)

    def fits(self, task: Task) -> None:
        """Refuse what would not fit into memory, before anything begins."""
        parts = task.way.parts
        fits(self.settings(task), parts.problem, parts.network, [0], self.plan(task.rounds), self.width)


def going_on(number: int, question: Question) -> int:
    """How many ways go on from a stage of the search, at most."""
    return question.keep if number < 2 else min(question.keep, FINALISTS)


def workers() -> int:
    return min(WORKERS, os.cpu_count() or 1)


def rounds_of(costs: Costs, question: Question, share: float) -> int:
    """The rounds that a share of the budget pays for: one at least, if the whole budget pays for one."""
    whole = costs.within(question.paid, question.amount)
    return min(whole, max(1, costs.within(question.paid, share * question.amount)))


def total_rounds(tasks: Sequence[Task]) -> int:
    return sum(task.rounds for task in tasks)


def ratio_of(ends: tuple[float, float], count: int) -> float:
    """How many times larger a step size of the first design is than the one before it."""
    return math.exp(math.log(ends[1] / ends[0]) / (count - 1))
