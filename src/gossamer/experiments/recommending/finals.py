"""The finalists: their best settings on other seeds, more of them until it is decided who is better."""

from typing import Any, NamedTuple

import numpy as np

from gossamer.core import setting
from gossamer.engines.runs import Row, Width
from gossamer.experiments.recommending.budgets import exact_costs
from gossamer.experiments.recommending.judging import LOOKS, Difference, Score, compared, score, together, unit
from gossamer.experiments.recommending.question import Question
from gossamer.experiments.recommending.searching import STAGES, Running, Task, Tried
from gossamer.results.statistics import interval


class Finalist(NamedTuple):
    """A way with its setting, and its runs by seed."""

    task: Task
    runs: dict[int, Row]
    scored: dict[int, Score]

    @property
    def scores(self) -> list[Score]:
        return [*self.scored.values()]

    @property
    def value(self) -> Score:
        return together(self.scores)


class Finals(NamedTuple):
    """The finalists, the best first, and how much worse than it each is."""

    ranked: list[Finalist]
    differences: list[Difference]


def finals(running: Running, tried: list[Tried]) -> Finals:
    """The best ways on seeds that the search has not seen; the first and those of which it is not decided how much
    worse they are on twice as many at each look, until all is."""
    count, first = running.question.seeds, 1_000 * running.question.seed
    tasks = [_whole(running, one, tuple(range(first, first + count))) for one in tried]
    entered = [Finalist(task, {}, {}) for task in tasks]
    found = Finals(entered, [])
    for look in range(LOOKS):
        _more(running, entered, list(range(first, first + (count << look))))
        found = _ranked(running.question, found.ranked)
        apart = zip(found.ranked, found.differences, strict=True)
        entered = [one for one, difference in apart if difference.verdict in ("first", "undecided")]
        if len(entered) == 1:
            break
    return found


def _whole(running: Running, tried: Tried, seeds: tuple[int, ...]) -> Task:
    """A way with its best setting and all rounds that its budget pays for, timed exactly."""
    question, (way, near, _, _) = running.question, tried.task
    chosen = tried.ranked[0][1]
    costs = exact_costs(way, way.rule(chosen), running.dtype, question.paid, question.amount, near, seeds)
    return Task(way, costs, [chosen], max(1, costs.within(question.paid, question.amount)))


def _more(running: Running, entered: list[Finalist], seeds: list[int]) -> None:
    """Add the runs of the seeds that are missing."""
    question = running.question
    missing = [[seed for seed in seeds if seed not in one.runs] for one in entered]

    def ran(number: int) -> Any:
        width = Width(1, question.seeds)
        return running.runs(entered[number].task, missing[number], width, STAGES[-1], dense=True)

    blocks = [len(some) // question.seeds for some in missing]
    rounds = sum(one.task.rounds * count for one, count in zip(entered, blocks, strict=True))
    longest = sorted(range(len(entered)), key=lambda number: -entered[number].task.work * blocks[number])
    for number, found in zip(longest, running.side_by_side(ran, longest, rounds), strict=True):
        one = entered[number]
        one.runs.update({seed: found[0, seed] for seed in missing[number]})
        one.scored.update({seed: score(one.runs[seed], question, one.task.costs) for seed in missing[number]})


def _ranked(question: Question, entered: list[Finalist]) -> Finals:
    """The first, of those with the most seeds, and the others by how much worse they are on the seeds of both."""
    most = max(len(one.scored) for one in entered)
    first = min((one for one in entered if len(one.scored) == most), key=lambda one: one.value)
    start = float(np.mean([run.metrics[question.criterion][0] for run in first.runs.values()]))
    length = unit(question, start, first.value.value)

    def apart(other: Finalist) -> Difference:
        ours = [first.scored[seed] for seed in other.scored]
        return compared(ours, other.scores, length, question.matters, len(entered))

    pairs = [(apart(other), other) for other in entered if other is not first]
    pairs.sort(key=lambda pair: (pair[0].mean, pair[1].value))
    pairs.insert(0, (Difference(0.0, 0.0, 0.0, "first"), first))
    return Finals([one for _, one in pairs], [difference for difference, _ in pairs])


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
