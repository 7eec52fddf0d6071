"""An answer to "what should I run?": which method, graph, compressor, local steps and numbers, in a budget."""

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from gossamer.basics.progress import Report, reporting, saying
from gossamer.core import InputError
from gossamer.experiments.directory import claim, refuse_foreign
from gossamer.experiments.recommending.budgets import MOST, Costs, costs_of
from gossamer.experiments.recommending.cost import statement
from gossamer.experiments.recommending.designs import first_design, next_design
from gossamer.experiments.recommending.finals import Finals, curve_of, finals, row_of
from gossamer.experiments.recommending.question import Question, asked
from gossamer.experiments.recommending.searching import (
    SHARES,
    STAGES,
    Running,
    Task,
    Tried,
    going_on,
    ratio_of,
    rounds_of,
)
from gossamer.experiments.recommending.ways import Choices, Way
from gossamer.experiments.recommending.winner import winner_of
from gossamer.results.recommendation import Recommendation, title
from gossamer.results.store import NullStore, Store
from gossamer.specs.spec import Spec

STEPS = (1e-3, 3.0)
"""The ends of the step sizes that are tried first, times 1/L."""


def recommend(
    spec: Any,
    *,
    seconds: float | None = None,
    bytes: float | None = None,
    target: float | None = None,
    clock: str | None = None,
    criterion: str = "loss",
    matters: float | None = None,
    degree: int = 4,
    methods: Sequence[str] | None = None,
    graphs: Sequence[str] | None = None,
    keep: int = 6,
    settings: int = 12,
    seeds: int = 5,
    seed: int = 0,
    out: str | Path | None = None,
    progress: bool | Report = True,
    say: Callable[[str], None] | None = None,
) -> Recommendation:
    """Which method, graph, compressor, number of local steps and hyper-parameters do best on a problem in a budget.

    Args:
        spec: the experiment: the path of a TOML file, a dictionary of the same keys, or a `Spec`. Its problem and
            oracle are what is asked about, its network is the first graph, and a `[tuning]` gives the first range of
            step sizes. Its algorithms have no say.
        seconds: the budget, by the clock.
        bytes: the budget in bytes that an agent sends, in place of seconds.
        target: the value of the criterion to reach with the least; the budget is then the most that may be paid, or,
            if there is none, the spec's rounds.
        clock: a preset's name for the links; the spec's own clock if it is not given, or "internet".
        criterion: "loss" or "grad_norm_sq".
        matters: the share from which on a difference matters: of the way from the loss at the start to the best, of
            the best ‖∇F‖², or of what the best pays until the target. 0.01, 0.1 and 0.05 unless given.
        degree: to how many others an agent may send in a round.
        methods: the names of the methods to try; all that suit if it is not given.
        graphs: the names of the networks to try; the spec's own and some of bounded degree if it is not given.
        keep: how many go on from each stage of the search to the next.
        settings: how many settings of each way a stage tries.
        seeds: the seeds of the finalists, at first; they are doubled twice at most where nothing is decided.
        seed: another one draws other samples, for the search and for the finalists.
        out: a directory to save the answer in; what was finished there before is not computed again.
        progress: as in `simulate`.
        say: called with the search's cost before it starts, and with what every stage found.
    """
    given = spec if isinstance(spec, Spec) else Spec.of(dict(spec)) if isinstance(spec, Mapping) else Spec.read(spec)
    limits = {"seconds": seconds, "bytes": bytes, "target": target, "clock": clock}
    tries = {"degree": degree, "methods": methods, "graphs": graphs, "keep": keep, "settings": settings}
    question = asked(given, **limits, **tries, criterion=criterion, matters=matters, seeds=seeds, seed=seed)
    store: Store = NullStore()
    if out is not None:
        refuse_foreign(question.spec, Path(out))
        store = Store(Path(out) / "cells")
    with reporting(progress) as report:
        said = say or (lambda text: saying(report, "recommend")(text, aside=True))
        search = _Search(question, store, report, said)
        tasks = search.first()
        if out is not None:  # all that can be refused has been
            claim(question.spec, Path(out))
        found = search.answer(tasks)
    if out is not None:
        found.save(Path(out))
    return found


class _Search:
    """One search, from all ways to the answer."""

    def __init__(self, question: Question, store: Store, report: Report, say: Callable[[str], None]):
        self.question, self.say = question, say
        self.running = Running(question, store, report)
        self.choices = Choices.of(question)
        self.dropped: list[dict[str, str]] = []
        self.points: list[dict[str, Any]] = []
        self._began = time.monotonic()

    def first(self) -> list[Task]:
        """What the first stage tries; a budget or a problem that leaves nothing to try is refused."""
        ways = self.choices.first()
        if not ways:
            reasons = "; ".join(f"{name}: {why}" for name, why in self.choices.left_out.items())
            raise InputError(f"no method suits this problem and these graphs. {reasons}")
        self.ends = self.question.etas or _ends(ways[0])
        tasks = self._affordable(ways)
        self._refuse_if_none(tasks)
        self.running.fits(max(tasks, key=lambda task: task.rounds))
        return tasks

    def answer(self, tasks: list[Task]) -> Recommendation:
        self.say(statement(self.question, self.choices, self.running, tasks))
        kept = self._stage(0, tasks)
        kept = self._stage(1, self._forms(kept))
        for number in (2, 3):
            kept = self._stage(number, [self._again(one, SHARES[number]) for one in kept])
        return self._recommendation(finals(self.running, kept))

    def _affordable(self, ways: list[Way], designs: dict[str, list[Any]] | None = None) -> list[Task]:
        """The ways of which the budget pays for a round, with their settings for the stage."""
        stage = 0 if designs is None else 1

        def task(way: Way) -> Task:
            candidate = way.candidate
            first = first_design(candidate, self.ends, self.question.settings)
            costs = costs_of(way, way.rule(first[0]), self.running.dtype)
            self._refuse_endless(way, costs)
            design = first if designs is None else designs[way.algorithm["name"]]
            return Task(way, costs, design, rounds_of(costs, self.question, SHARES[stage]))

        return self.running.side_by_side(task, ways, 1)

    def _refuse_endless(self, way: Way, costs: Costs) -> None:
        """Refuse a budget that is never used up, as where a clock has no times."""
        paid, amount = self.question.paid, self.question.amount
        if costs.within(paid, amount) >= MOST:
            price = costs.at(paid, 1) - costs.at(paid, 0)
            raise InputError(
                f"{paid} = {amount:g} pay for {MOST:,} rounds of {way.name} and more, at {price:.3g} each: give less, "
                f"or {'a clock with times' if paid == 'seconds' else 'a network over which agents send'}."
            )

    def _refuse_if_none(self, tasks: list[Task]) -> None:
        """Take out the ways that the budget pays no round of; refuse a budget that pays for none at all."""
        question = self.question
        least = min(tasks, key=lambda task: task.costs.at(question.paid, 1))
        price = least.costs.at(question.paid, 1)
        for task in [task for task in tasks if task.rounds < 1]:
            self._unaffordable(task)
            tasks.remove(task)
        if not tasks:
            faster = ", or a clock with faster links or queries" if question.paid == "seconds" else ""
            raise InputError(
                f"{question.paid} = {question.amount:g} is too small for one round of any method: the cheapest, "
                f"{least.way.name}, takes {price:.3g} {question.paid}. Give at least {_ceiling(price)}{faster}."
            )

    def _unaffordable(self, task: Task) -> None:
        price = task.costs.at(self.question.paid, 1)
        why = f"one round takes {price:.3g} {self.question.paid}, and the budget is {self.question.amount:g}"
        self.dropped.append({"what": task.way.name, "stage": "before", "why": why})

    def _stage(self, number: int, tasks: list[Task]) -> list[Tried]:
        """Run a stage, and say who goes on: those, the best first."""
        tried = self.running.stage(number, tasks)
        going = len(tried[: going_on(number, self.question)])
        if tried[0].best.failed == 2:
            low, high = self.ends
            raise InputError(
                f"every setting of every method diverged, with step sizes from {low:.3g} to {high:.3g}: give a lower "
                "range in the spec, as [tuning] eta = [lowest, highest]."
            )
        for one in tried:
            rounds, costs = one.task.rounds, one.task.costs
            if one.best.failed == 0 and self.question.target is None:
                paid = {"seconds": costs.at("seconds", rounds), "bytes": costs.at("bytes", rounds)}
                self.points.append({"what": one.task.way.name, "value": one.best.value, **paid})
        for one in tried[going:]:
            self._drop(one, number, tried[going - 1])
        names = "; ".join(one.task.way.name for one in tried[:going])
        self.say(f"{STAGES[number]}: {len(tried)} tried, {going} go on: {names}")
        return tried[:going]

    def _drop(self, one: Tried, number: int, last: Tried) -> None:
        """Note why a way does not go on."""
        paid, amount = self.question.paid, SHARES[number] * self.question.amount
        if one.best.failed == 2:
            why = f"all {len(one.ranked)} settings diverged"
        elif one.best.failed > last.best.failed:
            why = f"it did not reach the target in {amount:,.4g} {paid}"
        else:
            what = self.question.criterion if one.best.failed or self.question.target is None else paid
            why = f"{what} {one.best.value:.6g} in {amount:,.4g} {paid}; the last that went on: {last.best.value:.6g}"
        self.dropped.append({"what": one.task.way.name, "stage": STAGES[number], "why": why})

    def _forms(self, kept: list[Tried]) -> list[Task]:
        """All forms of the methods that went on, on all graphs, with settings around the best."""
        designs = {one.task.way.algorithm["name"]: self._design(one) for one in kept}
        ways = [way for one in kept for way in self.choices.further(one.task.way)]
        tasks = self._affordable(ways, designs)
        for task in tasks:
            if task.rounds < 1:
                self._unaffordable(task)
        return [task for task in tasks if task.rounds >= 1]

    def _again(self, one: Tried, share: float) -> Task:
        rounds = rounds_of(one.task.costs, self.question, share)
        return Task(one.task.way, one.task.costs, self._design(one), rounds)

    def _design(self, one: Tried) -> list[Any]:
        sound = [values for found, values in one.ranked if found.failed < 2] or [one.ranked[0][1]]
        ratio = ratio_of(self.ends, self.question.settings)
        return next_design(one.task.way.candidate, sound, ratio, self.question.settings)

    def _recommendation(self, found: Finals) -> Recommendation:
        question, first = self.question, found.ranked[0]
        rows = [row_of(one, apart) for one, apart in zip(found.ranked, found.differences, strict=True)]
        before = [{"what": what, "stage": "before", "why": why} for what, why in self.choices.left_out.items()]
        return Recommendation(
            sought=question.sought,
            threshold=question.threshold,
            criterion=question.criterion,
            currency=question.currency if question.target is not None else None,
            clock=str(first.task.way.parts.clock),
            ranking=rows,
            eliminated=before + self.dropped,
            curves={title(row): curve_of(one, question.criterion) for one, row in zip(found.ranked, rows, strict=True)},
            points=self.points,
            winner=winner_of(question, first.task, len(first.scored), rows[0]),
            took=round(time.monotonic() - self._began, 1),
        )


def _ends(way: Way) -> tuple[float, float]:
    """The step sizes that are tried first where the spec names none."""
    smoothness = way.parts.problem.smoothness
    scale = 1.0 if not smoothness else 1 / smoothness
    return STEPS[0] * scale, STEPS[1] * scale


def _ceiling(price: float) -> str:
    """A number with three digits that is not below the price."""
    shown = float(f"{price:.3g}")
    return f"{shown if shown >= price else shown * 1.01:.4g}"
