"""The finalists: their best settings on other seeds, more of them until it is decided who is better."""

from typing import Any, NamedTuple

import numpy as np

from gossamer.core import setting
from gossamer.engines.runs import Row, Width
from gossamer.experiments.recommending.budgets import exact_costs
from gossamer.experiments.recommending.judging import LOOKS, Difference, Score, compared, score, together, unit
from gossamer.experiments.recommending.searching import FINALISTS, STAGES, Running, Task, Tried, total_rounds
from gossamer.results.statistics import interval


class Finalist(NamedTuple):
    """A way with its setting, and its runs by seed."""

    task: Task
    runs: dict[int, Row]
    scores: list[Score]

    @property
    def value(self) -> Score:
        return together(self.scores)


class Finals(NamedTuple):
    """The finalists, the best first, and how much worse than it each is."""

    ranked: list[Finalist]
    differences: list[Difference]
    seeds: list[int]


def finals(running: Running, tried: list[Tried]) -> Finals:
    """The best ways on seeds that the search has not seen, twice as many at each look, until all is decided."""
    count, first = running.question.seeds, 1_000 * running.question.seed
    tasks = [_whole(running, one, tuple(range(first, first + count))) for one in tried[:FINALISTS]]
    runs: list[dict[int, Row]] = [{} for _ in tasks]
    for look in range(LOOKS):
        seeds = list(range(first, first + (count << look)))
        _more(running, tasks, runs, seeds)
        found = _ranked(running, tasks, runs, seeds)
        if all(one.verdict != "undecided" for one in found.differences):
            break
    return found  # pyright: ignore[reportPossiblyUnboundVariable]


def _whole(running: Running, tried: Tried, seeds: tuple[int, ...]) -> Task:
    """A way with its best setting and all rounds that its budget pays for, timed exactly."""
    question, (way, near, _, _) = running.question, tried.task
    chosen = tried.ranked[0][1]
    costs = exact_costs(way, way.rule(chosen), running.dtype, question.paid, question.amount, near, seeds)
    return Task(way, costs, [chosen], max(1, costs.within(question.paid, question.amount)))


def _more(running: Running, tasks: list[Task], runs: list[dict[int, Row]], seeds: list[int]) -> None:
    """Add the runs of the seeds that are missing."""

    def ran(number: int) -> dict[int, Row]:
        missing = [seed for seed in seeds if seed not in runs[number]]
        width = Width(1, running.question.seeds)
        found = running.runs(tasks[number], missing, width, STAGES[-1], dense=True)
        return {seed: found[0, seed] for seed in missing}

    blocks = len([seed for seed in seeds if seed not in runs[0]]) // running.question.seeds
    rounds = total_rounds(tasks) * blocks
    for number, more in enumerate(running.side_by_side(ran, range(len(tasks)), rounds)):
        runs[number].update(more)


def _ranked(running: Running, tasks: list[Task], runs: list[dict[int, Row]], seeds: list[int]) -> Finals:
    question = running.question
    entered = [
        Finalist(task, own, [score(own[seed], question, task.costs) for seed in seeds])
        for task, own in zip(tasks, runs, strict=True)
    ]
    entered.sort(key=lambda one: one.value)
    first = entered[0]
    start = float(np.mean([run.metrics[question.criterion][0] for run in first.runs.values()]))
    length = unit(question, start, first.value.value)
    differences = [
        compared(first.scores, other.scores, length, question.matters, len(entered) - 1) for other in entered[1:]
    ]
    return Finals(entered, [Difference(0.0, 0.0, 0.0, "first"), *differences], seeds)


def row_of(finalist: Finalist, apart: Difference) -> dict[str, Any]:
    """A line of the ranking."""
    way, costs, (values,), rounds = finalist.task
    kept = np.array([one.value for one in finalist.scores if one.failed == finalist.value.failed])
    mean, half = interval(kept) if np.isfinite(kept).all() else (float("inf"), float("nan"))
    return {
        "method": way.form,
        "graph": way.graph,
        "setting": setting(way.rule(values)),
        "value": mean,
        "low": mean - half,
        "high": mean + half,
        "reached": sum(one.failed == 0 for one in finalist.scores),
        "seeds": len(finalist.scores),
        "rounds": rounds,
        "seconds": costs.at("seconds", rounds),
        "bytes": costs.at("bytes", rounds),
        "worse_by": apart.mean,
        "worse_low": apart.low,
        "worse_high": apart.high,
        "verdict": apart.verdict,
    }


def curve_of(finalist: Finalist, criterion: str) -> dict[str, list[float]]:
    """The criterion along the rounds that all seeds have, with its interval, and what was paid by then."""
    runs = list(finalist.runs.values())
    marks = min((run.rounds for run in runs), key=len)
    values = np.array([run.metrics[criterion][: len(marks)] for run in runs])
    bands = [interval(column) for column in values.T]
    costs = finalist.task.costs
    return {
        "rounds": marks.tolist(),
        "seconds": [costs.at("seconds", t) for t in marks.tolist()],
        "bytes": [costs.at("bytes", t) for t in marks.tolist()],
        "mean": [mean for mean, _ in bands],
        "low": [mean - half for mean, half in bands],
        "high": [mean + half for mean, half in bands],
    }
