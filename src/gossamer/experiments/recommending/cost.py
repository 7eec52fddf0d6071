"""What a search will do and how long it will take, said before it starts."""

import time

from gossamer.algorithms import ALGORITHMS
from gossamer.basics.text import counted
from gossamer.experiments.recommending.judging import LOOKS
from gossamer.experiments.recommending.question import Question
from gossamer.experiments.recommending.searching import SHARES, Running, Task, going_on, total_rounds, workers
from gossamer.experiments.recommending.ways import Choices, forms
from gossamer.results.store import NullStore

TRIAL = (10, 100)
"""Rounds of the two runs by which the search's own time is estimated: the first also compiles."""


def statement(question: Question, choices: Choices, running: Running, tasks: list[Task]) -> str:
    """What is sought and by what it is judged, the stages, and their cost."""
    kept = min(going_on(0, question), len(tasks))
    more = _further(choices, kept)
    closer, final = (min(going_on(number, question), more) for number in (1, 2))
    later = more * SHARES[1] + closer * SHARES[2] + final * SHARES[3]
    mean = total_rounds(tasks) / len(tasks) / SHARES[0]
    rounds = question.settings * (total_rounds(tasks) + mean * later) + mean * final * question.seeds
    heaviest = sorted((task.work for task in tasks), reverse=True)[:kept]
    work = sum(task.work for task in tasks) + sum(heaviest) / kept / SHARES[0] * (later + final)
    first, second, third, whole = (f"{value * question.amount:,.4g} {question.paid}" for value in SHARES)
    graphs, parts = counted(len(choices.graphs), "graph"), tasks[0].way.parts
    return (
        f"sought: {question.sought}, {parts.network.agents} agents; clock: {parts.clock}\n"
        f"a difference matters from {question.threshold}; that is set before, and intervals are 95 %\n"
        f"search: {counted(len(tasks), 'method')} in {first}, with {question.settings} settings each; the best {kept} "
        f"in about {counted(more, 'form')} on {graphs} in {second}; the best {closer} in {third}, and {final} of "
        f"these in {whole}, and on {question.seeds} to {question.seeds << LOOKS - 1} other seeds\n"
        f"cost: about {rounds:,.0f} rounds, " + _estimate(running, tasks, work, len(tasks) + more + final)
    )


def _estimate(running: Running, tasks: list[Task], work: float, programs: int) -> str:
    """How long so many queries of blocks will take, from a trial of the method with the most of them; not where some
    are kept from before."""
    store = running.store
    if store.keeps and any(store.folder.glob("*.cell")):
        return "less what was finished here before"
    tried = max(tasks, key=lambda task: task.work)
    compiling, speed = _trial(running.question, tried)
    took = (programs * compiling + work / max(1.0, tried.costs.queries) / speed) / workers()
    kept = "the same command goes on" if store.keeps else "nothing is kept"
    return (
        f"{took / 60:.1f} minutes on {counted(workers(), 'core')} if the methods that compute most go on, and longer "
        f"where more seeds are needed to decide (a trial of {tried.way.form} took {compiling:.1f} s to compile one "
        f"program of {programs}, and then ran {speed * running.question.settings:,.0f} rounds a second); Ctrl-C stops, "
        f"and {kept}"
    )


def _trial(question: Question, task: Task) -> tuple[float, float]:
    """Seconds to compile a block, and its rounds a second, of a way."""
    quiet = Running(question, NullStore(), lambda *_: None)
    took = []
    for rounds in TRIAL:
        began = time.monotonic()
        quiet.runs(task._replace(rounds=rounds), [0], quiet.width, "trial")
        took.append(time.monotonic() - began)
    return max(took[0] - took[1], 0.0), TRIAL[1] / took[1]


def _further(choices: Choices, kept: int) -> int:
    """About how many ways so many methods have, in the mean of all."""
    several = [
        len(list(forms(name))) * len(choices.graphs) * (1 + hasattr(ALGORITHMS[name], "wake"))
        for name in choices.methods
    ]
    return round(kept * sum(several) / len(several))
