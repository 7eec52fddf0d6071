"""Recommend what to run: method, graph, compressor, local steps and hyper-parameters, within a budget.

Every method is tuned on the given graph, in a ninth of the budget. The best go on with their other forms and on other
graphs, and the best of all with the whole budget. The finalists run on seeds that the search has not seen, until paired
intervals decide which differences matter. The *simplest* method is a finalist, whatever it did before: where nothing is
better by what matters, it is the answer. Methods are ordered by the number of their hyper-parameters and parts, then by
the vectors of their state, the bytes that an agent sends in a round, the gradients of a round, and their names.
"""

import json
import math
import os
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

import jax
import numpy as np
import tomlkit

from gossamer.algorithms import ALGORITHMS
from gossamer.basics.files import write
from gossamer.basics.progress import Report, reporting, saying
from gossamer.basics.table import Table
from gossamer.basics.text import format_between, format_number, format_value, json_ready, plural
from gossamer.clocks import clock_of
from gossamer.clocks.events import schedule
from gossamer.clocks.rounds import seconds as seconds_of_rounds
from gossamer.core import (
    InputError,
    Range,
    WarmStart,
    Whole,
    brief,
    hyperparameters,
    kinds_of_parts,
    nearest,
    setting,
    whole,
)
from gossamer.engines.costs import count_costs, orders, trace, work_of
from gossamer.engines.runs import Row, RunPlan, Width
from gossamer.experiments.directory import open_directory
from gossamer.experiments.samplers import next_settings
from gossamer.experiments.tuning import mean_at_end, run_settings
from gossamer.networks import NETWORKS
from gossamer.networks.registry import COMMON, READERS, of_table
from gossamer.results.statistics import arrival, decide, difference, interval
from gossamer.results.store import Store
from gossamer.results.verdicts import MATTERING, MATTERS, format_amount
from gossamer.specs.schema import FIRST_SEED, WIDEST, TuningSection, build_parts, validate
from gossamer.specs.setup import Candidate, Setup, Values
from gossamer.specs.spec import PART_REGISTRIES, Spec

STEPS = (1e-3, 3.0)
"""The ends of the step sizes that are tried first, times 1/L."""

STAGES = {"methods": 1 / 9, "forms and graphs": 1 / 9, "whole budget": 1.0}
"""The stages of the search, and the share of the budget that each has."""

FINALISTS = 3
"""Contenders that have the whole budget, at most, besides the simplest."""

AROUND = 10.0
"""The factor, up and down, by which step sizes are tried around the best one of the stage before."""

LOOKS = 3
"""The most comparisons of finalists, each with twice as many seeds; a difference may then stay undecided."""

ERROR = 0.05
"""The chance that some interval of a difference misses it, over all pairs of finalists and all looks."""

PROBE = 128
"""Rounds that are timed exactly in the search; later rounds take as long as the second half of these."""

MOST = 2**31 - 1
"""The most rounds that a budget may pay for."""

MOST_MARKS = 2000
"""The most measured rounds of a finalist that seeks a target."""

WORKERS = min(4, os.cpu_count() or 1)
"""Blocks that are computed in parallel; a block keeps one core busy."""

SAME = {"biased-dsgd": "d-psgd"}
"""Methods whose recursion is that of another."""

COMPRESSED: tuple[dict[str, Any], ...] = ({"kind": "top-k", "share": 0.1}, {"kind": "qsgd", "levels": 4})
"""The compressors of methods that have one; the first stage uses the first."""

LOCAL = (10, 3)
"""Numbers of local steps, or of other whole numbers of a method; the first stage uses the first."""

GRAPHS: tuple[dict[str, Any], ...] = (
    {"name": "ring"},
    {"name": "base-graph", "degree": 1},
    {"name": "u-equistatic", "degree": 4},
    {"name": "exponential"},
)
"""Graphs that are tried besides the spec's own, as far as their degree allows."""

CRITERIA = ("loss", "grad_norm_sq")

HEAD = ("method", "graph", "value", "worse by", "", "seconds", "MB sent", "rounds", "setting")
"""The columns of the ranking."""

AMOUNT = Range(0, 1e18, low_open=True, advice="It is what every method may pay.")
LEVEL = Range(-1e300, 1e300, advice="It is the value of the criterion that is to be reached.")

Currency = Literal["seconds", "bytes", "rounds"]
Verdict = Literal["first", "worse", "tie", "undecided", "diverged"]


@dataclass(frozen=True)
class Recommendation:
    """The outcome of `gossamer.recommend`. Printed it is text for a terminal."""

    sought: str
    threshold: str
    """The least difference that matters, which was set before the search."""
    matters: float
    """The same as a share."""
    criterion: str
    currency: str | None
    """The unit of a target's values; None where the criterion itself is judged."""
    clock: str
    ranking: list[dict[str, Any]]
    """The finalists, the best first: value with its 95 % interval, what was paid, and how much worse than the first."""
    eliminated: list[dict[str, str]]
    """The methods that did not come so far, the stage in which each was eliminated, and why."""
    curves: dict[str, dict[str, list[float]]]
    """The criterion of each finalist along what was paid."""
    within: tuple[int, int]
    """The methods within what matters of the best in the first stage, on its one seed, and all that were tried."""
    more: list[str]
    """The gain to expect of more seeds and of a larger budget."""
    winner: str
    """The spec of the answer, as TOML: the simplest of the first and those that tie with it."""
    took: float
    """Seconds of the search itself."""

    @property
    def ties(self) -> list[str]:
        """The first, and those that differ from it by nothing that matters."""
        return [title(row) for row in self.ranking if row["verdict"] in ("first", "tie")]

    @property
    def answer(self) -> dict[str, Any]:
        """The line of the method to run: of the first and those that tie with it, the simplest."""
        return next(row for row in self.ranking if row["answer"])

    @property
    def verdict(self) -> str:
        """The answer in a sentence or two."""
        first, names, answer = self.ranking[0], self.ties, self.answer
        name, numbers = title(answer), answer["setting"]
        near, of_all = self.within
        text = f"Run {name} with {numbers}."
        if self.currency is not None and first["reached"] < first["seeds"]:
            text = f"Nothing reached the target for good on all seeds. Nearest: {name} with {numbers}."
        elif answer["simplest"]:
            text = (
                f"Keep {name}, the simplest method, with {numbers}: nothing is better by what "
                f"matters. {near} of {of_all} methods were within that margin of the best in the first stage."
            )
        elif answer is not first:
            text = f"Run {name}, the simplest of those that tie, with {numbers}."
        if len(names) > 1:
            contiguous = names == [title(row) for row in self.ranking[: len(names)]]
            which = f"the first {len(names)}" if contiguous else ", ".join(names)
            text += f" No difference that matters between {which}."
        unsure = [title(row) for row in self.ranking if row["verdict"] == "undecided"]
        if unsure:
            text += f" Undecided after {first['seeds']} seeds: whether {' and '.join(unsure)} is worse by what matters."
        return text

    @property
    def pareto(self) -> list[str]:
        """The finalists on the front: at some point no other has a lower error for as few bytes and seconds."""
        axes = ("mean", "seconds", "bytes")
        points = {name: list(zip(*(curve[key] for key in axes), strict=True)) for name, curve in self.curves.items()}
        everyone = [(name, point) for name, several in points.items() for point in several]
        front = []
        for name, several in points.items():
            others = [point for other, point in everyone if other != name]
            for point in several[1:]:  # the start is common to all, and no merit
                if not any(all(a <= b for a, b in zip(one, point, strict=True)) and one != point for one in others):
                    front.append(name)
                    break
        return front

    def asdict(self) -> dict[str, Any]:
        """Return all fields, for a JSON file."""
        return asdict(self) | {"verdict": self.verdict, "ties": self.ties, "pareto": self.pareto}

    def plot(self) -> Any:
        """Draw the Pareto front: the criterion against seconds, and against bytes."""
        from gossamer.report.figures import draw_front

        return draw_front(self)

    def save(self, folder: Path) -> None:
        """Write recommendation.json, winner.toml, eliminated.txt and pareto.png into a directory."""
        from gossamer.report.figures import save

        folder.mkdir(parents=True, exist_ok=True)
        write(folder / "recommendation.json", json.dumps(json_ready(self.asdict()), indent=1).encode())
        write(folder / "winner.toml", self.winner.encode())
        dropped = [f"{row['what']} ({row['stage']}): {row['why']}\n" for row in self.eliminated]
        write(folder / "eliminated.txt", "".join(dropped).encode())
        save(self.plot(), folder / "pareto.png")

    def __str__(self) -> str:
        body = []
        for row in self.ranking:
            value = format_number(row["value"]) if row["between"] is None else format_between(*row["between"])
            half = row["high"] - row["value"]
            value += f" ± {format_number(half, digits=1)}" if math.isfinite(half) else ""
            is_apart = row["verdict"] != "first" and math.isfinite(row["worse_by"])
            apart = format_apart(row, self.matters) if is_apart else ""
            paid = format_number(row["seconds"]), format_number(row["bytes"] / 1e6, digits=3), f"{row['rounds']:,}"
            body.append([row["method"], row["graph"], value, apart, row["verdict"], *paid, row["setting"]])
        table = Table(HEAD, body).text(keys=2)
        counts = sorted({row["seeds"] for row in self.ranking})
        judged = self.criterion
        if self.currency is not None:
            judged = f"{self.currency} until the target, between the measured rounds before and after it"
        words = [
            f"Sought: {self.sought}. Clock: {self.clock}.",
            f"value: {judged}; the mean over {' or '.join(map(str, counts))} seeds with its 95 % interval.",
            f"worse by: the difference from the first on the same samples. Differences above {self.threshold} matter.",
            f"On the Pareto front of error, bytes and seconds: {', '.join(self.pareto)}.",
            f"Eliminated: {len(self.eliminated)}; eliminated.txt in the saved directory says when and why.",
        ]
        return "\n".join([self.verdict, *self.more, "", table, "", *words])

    def __repr__(self) -> str:
        return f"Recommendation({self.verdict})"


def title(row: dict[str, Any]) -> str:
    """Return the name of a line of the ranking."""
    return f"{row['method']} on {row['graph']}"


def format_apart(row: dict[str, Any], matters: float) -> str:
    """Return by what share a method is worse, with digits enough to leave the verdict as it is."""
    mean, low, high = (100 * row[key] for key in ("worse_by", "worse_low", "worse_high"))
    decided, digits = decide(low, high, 100 * matters), 2
    while digits < 17 and decide(float(f"{low:.{digits}g}"), float(f"{high:.{digits}g}"), 100 * matters) != decided:
        digits += 1
    mean, low, high = (format_number(share, digits=digits) for share in (mean, low, high))
    return f"{mean} % [{low}, {high}]"


def recommend(
    spec: Any,
    *,
    seconds: float | None = None,
    bytes: float | None = None,
    target: float | None = None,
    clock: str | None = None,
    criterion: str | None = None,
    matters: float | None = None,
    degree: int = 4,
    methods: Sequence[str] | None = None,
    graphs: Sequence[str] | None = None,
    keep: int = 6,
    settings: int = 8,
    seeds: int = 5,
    seed: int = 0,
    out: str | Path | None = None,
    progress: bool | Report = True,
    say: Callable[[str], None] | None = None,
) -> Recommendation:
    """Find the method, graph, compressor, number of local steps and hyper-parameters that do best in a budget.

    Args:
        spec: the experiment: the path of a TOML file, a dictionary of the same keys, or a `Spec`. Its problem and
            oracle are what is asked about, its network is the first graph, and a `[tuning]` gives the first range of
            step sizes and the criterion. Its algorithms have no say.
        seconds: the budget, by the clock.
        bytes: the budget in bytes that an agent sends, in place of seconds.
        target: the value of the criterion to reach with the least; the budget is then the most that may be paid, or,
            if there is none, the spec's rounds.
        clock: a preset's name for the links; the spec's own clock if it is not given, or "internet".
        criterion: "loss" or "grad_norm_sq"; that of the spec's `[tuning]` if it is not given, or "loss".
        matters: the share from which on a difference matters: of the way from the loss at the start to the best, of
            the best ‖∇F‖², or of what the best pays until the target. 0.01, 0.1 and 0.05 unless given.
        degree: to how many others an agent may send in a round.
        methods: the names of the methods to try; all that suit if it is not given.
        graphs: the names of the networks to try; the spec's own and some of bounded degree if it is not given.
        keep: how many go on from each stage of the search to the next.
        settings: how many settings of a contender a stage tries for each of its hyper-parameters.
        seeds: the seeds of the finalists, at first; they are doubled twice at most where nothing is decided.
        seed: another one draws other samples, for the search and for the finalists.
        out: a directory to save the answer in; what was finished there before is not computed again.
        progress: as in `simulate`.
        say: called with the search's cost before it starts, and with what every stage found.
    """
    given = spec if isinstance(spec, Spec) else Spec.of(dict(spec)) if isinstance(spec, Mapping) else Spec.read(spec)
    goal = Goal.of(given, seconds, bytes, target, criterion, matters)
    asked = add_clock(given, clock)
    tries = {"degree": degree, "methods": methods, "graphs": graphs, "keep": keep, "settings": settings}
    folder = None if out is None else Path(out)
    with open_directory(folder, asked) as store, reporting(progress) as report:
        say = say or (lambda text: saying(report, "recommend")(text, aside=True))
        ends = [] if given.tuning is None else given.tuning.eta
        found = Search(asked, goal, store, **tries, seeds=seeds, seed=seed, report=report, say=say, ends=ends).run()
        if folder is not None:
            found.save(folder)
    return found


@dataclass(frozen=True)
class Goal:
    """A budget, a criterion, and the difference that matters; see `recommend`."""

    paid: Currency
    """The unit of the budget."""
    amount: float
    """The budget; without one, the spec's rounds."""
    criterion: str
    target: float | None
    matters: float
    source: str = "as asked"
    """The reason for the criterion, in words."""

    @staticmethod
    def of(
        spec: Spec,
        seconds: Any = None,
        bytes: Any = None,
        target: Any = None,
        criterion: Any = None,
        matters: Any = None,
    ) -> "Goal":
        """Return the goal of what a user asks, or raise InputError."""
        if spec.variant:
            raise InputError(
                f"the spec has {len(spec.variant)} variants, and an answer is for one experiment: take out its "
                "[[variant]] sections, or write one of them into the other sections."
            )
        own, source = spec.tuning.criterion if spec.tuning else None, "as asked"
        if criterion is None:
            criterion = own if own in CRITERIA else "loss"
            source = f"the spec's [tuning] has {own}" if own else "unless --criterion says otherwise"
        if criterion not in CRITERIA:
            raise InputError(f"criterion = {brief(criterion)} is not known; {nearest(criterion, CRITERIA)}")
        if seconds is not None and bytes is not None:
            raise InputError("seconds and bytes are both given, but a budget is one of them: leave one out.")
        if seconds is None and bytes is None and target is None:
            raise InputError(
                "there is no budget: give seconds, as in --seconds 600, or bytes that an agent may send, or a target."
            )
        unit: Currency = "seconds" if seconds is not None else "bytes" if bytes is not None else "rounds"
        amount = AMOUNT.check(unit, {"seconds": seconds, "bytes": bytes, "rounds": spec.run.steps}[unit])
        level = None if target is None else LEVEL.check("target", target)
        kind = "cost" if level is not None else "share" if criterion == "loss" else "ratio"
        share = MATTERING.check("matters", MATTERS[kind] if matters is None else matters)
        return Goal(unit, amount, criterion, level, share, source)

    @property
    def currency(self) -> Currency:
        """The unit of the costs until a target is reached."""
        return "seconds" if self.paid == "rounds" else self.paid

    @property
    def sought(self) -> str:
        """The aim, in words."""
        limit = format_amount(self.paid, self.amount)
        if self.target is None:
            return f"the lowest {self.criterion} in {limit}"
        return (
            f"the fewest {self.currency} until {self.criterion} stays at {self.target:g} or below, in {limit} at most"
        )

    @property
    def threshold(self) -> str:
        """The difference that matters, in words."""
        best = "the way from the loss at the start to the best" if self.criterion == "loss" else "the best"
        return f"{100 * self.matters:g} % of {best if self.target is None else f'the {self.currency} of the best'}"

    def score(self, run: Row, costs: "Costs") -> "Score":
        """Return the criterion at the end of a run, or what was paid until it stayed at the target."""
        values = run.metrics[self.criterion]
        if run.diverged >= 0 or not np.isfinite(values[-1]):
            return Score(2, math.inf)
        if self.target is None:
            return Score(0, mean_at_end(run, self.criterion))
        paid = np.array([costs.at(self.currency, t) for t in run.rounds.tolist()])
        found = arrival(paid, values, self.target)
        if found is None:
            return Score(1, mean_at_end(run, self.criterion))
        return Score(0, found.estimate, (found.before, found.after))

    def length(self, start: float, best: float) -> float:
        """Return what differences are shares of: of losses the way from the start, and of all else the best value."""
        return abs(start - best) if self.target is None and self.criterion == "loss" else abs(best)


def add_clock(spec: Spec, clock: Any = None) -> Spec:
    """Return the spec without tuning and with a clock: its own, with the links of the named preset."""
    own = {} if spec.clock is None else spec.clock.model_dump(exclude_unset=True)
    if clock is not None:
        if not isinstance(clock, str):
            raise InputError(f"clock must be a preset's name, such as internet, but is {brief(clock)}.")
        clock_of(clock)  # an unknown name is refused with all names
        own |= {"links": clock}
    given = spec.model_dump(exclude_unset=True, exclude={"tuning"})
    return validate(Spec, given | {"clock": {"links": "internet"} | own})


class Costs(NamedTuple):
    """The costs of the rounds of a contender."""

    ends: np.ndarray
    """The end of each of the first rounds, from round 0 on, in seconds by the clock; the mean over its seeds."""
    sent: tuple[float, float]
    """Bytes that an agent sends at the start, and in each round."""
    queries: float = 1.0
    """Gradients that an agent asks for in each round."""

    def at(self, currency: Currency, rounds: int) -> float:
        """Return the cost of so many rounds."""
        if currency == "rounds":
            return rounds
        if currency == "bytes":
            return self.sent[0] + rounds * self.sent[1]
        last = len(self.ends) - 1
        half = last // 2  # later rounds take as long as those of the second half, which no start slows down
        pace = (self.ends[-1] - self.ends[half]) / (last - half)
        return float(self.ends[min(rounds, last)] + max(0, rounds - last) * pace)

    def within(self, currency: Currency, amount: float) -> int:
        """Return how many whole rounds a budget pays for, `MOST` at most; −1 if it does not even pay for the start."""
        # costs grow with the rounds, so that bisection finds the last one that is paid
        return bisect_right(range(MOST + 1), amount, key=lambda rounds: self.at(currency, rounds)) - 1


class Score(NamedTuple):
    """The score of a run: the less the better. A run that reached its target goes before all that did not."""

    failed: int
    """0, or 1 where a target was not reached, or 2 where a run diverged."""
    value: float
    between: tuple[float, float] | None = None
    """The costs of the marks before and after a target; `value` lies on a straight line between them."""


def mean_score(scores: Sequence[Score]) -> Score:
    """Return the mean score of several seeds if all are of one kind; else that of the worst kind."""
    worst = max(score.failed for score in scores)
    kept = [score for score in scores if score.failed == worst]
    marks = np.mean([score.between for score in kept if score.between] or [[math.nan] * 2], axis=0)
    between = None if math.isnan(marks[0]) else (float(marks[0]), float(marks[1]))
    return Score(worst, float(np.mean([score.value for score in kept])), between)


class Difference(NamedTuple):
    """The difference from the first as a share, its interval, and the verdict."""

    mean: float
    low: float
    high: float
    verdict: Verdict
    resolution: float = 0.0
    """The part of the half-width that no seed makes less: the distance between the marks around a target."""


def compare(
    first: Sequence[Score], other: Sequence[Score], length: float, matters: float, finalists: int
) -> Difference:
    """Compare another contender with the first on the same seeds; differences are shares of `length`.

    The other is worse if the whole interval lies above what matters, and a tie if all of it lies within; else the
    difference is undecided. The first was chosen on these seeds, too, so that it may be any of the finalists: the level
    is such that the intervals of all pairs of them, at every look, hold together with 95 %.
    """
    # a run that diverged, or never arrived, has no number to subtract
    if any(score.failed != one.failed for score, one in zip(other, first, strict=True)):
        lost = any(score.failed == 2 for score in other)
        return Difference(math.inf, math.nan, math.nan, "diverged" if lost else "worse")
    values = [np.array([score.value for score in scores]) for scores in (first, other)]
    level = 1 - ERROR / (LOOKS * math.comb(max(2, finalists), 2))
    marks = [mean_score(scores).between or (0.0, 0.0) for scores in (first, other)]
    numbers = *difference(*values, paired=True, level=level), max(after - before for before, after in marks)
    mean, half, step = (one / length if length else math.copysign(math.inf, one) if one else 0.0 for one in numbers)
    low, high = mean - half - step, mean + half + step
    verdict = decide(low, high, matters)
    return Difference(mean, low, high, "worse" if verdict == "ahead" else verdict, step)


def time_rounds(setup: Setup, rounds: int = PROBE, seeds: tuple[int, ...] = (0,)) -> Costs:
    """Return the costs of the setup's rule, timed exactly for so many rounds.

    An asynchronous run has the schedules of the seeds.
    """
    rule, network = setup.candidates[0].whole, setup.network
    made_of = rule, setup.problem, network, setup.oracle, setup.plan.dtype
    pays = count_costs(*made_of)
    assert setup.clock is not None
    if network.asynchronous:
        work, agents = work_of(*made_of), network.agents
        several = [schedule(network, setup.clock, work, seed, rounds) for seed in seeds]
        # a round of an asynchronous run is as many events as there are agents
        ends = np.mean([np.append(each.begin, each.ends[agents - 1 :: agents]) for each in several], axis=0)
    else:
        ends = seconds_of_rounds(orders(*made_of), network, setup.clock, range(rounds + 1)).mean(0)
    return Costs(ends, pays["bytes_sent"], pays["queries"][1])


@dataclass(eq=False)
class Contender:
    """A method in one form on one graph, with its costs, its settings of the stage, and how well they did."""

    algorithm: dict[str, Any]
    """The table of a spec, with parts and whole numbers; the other numbers are open."""
    network: dict[str, Any]
    candidate: Candidate
    setup: Setup
    costs: Costs
    eta: list[float] = field(default_factory=list)
    """The lowest and the highest step size of the stage, to begin with."""
    settings: list[Values] = field(default_factory=list)
    """The settings of the stage; after it, the best first."""
    rounds: int = 0
    scores: list[Score] = field(default_factory=list)
    """The scores of the settings."""
    start: float = math.nan
    """The criterion at the start of the stage's runs."""
    runs: dict[int, Row] = field(default_factory=dict)
    """The runs of a finalist by seed."""
    by_seed: dict[int, Score] = field(default_factory=dict)
    """The scores of a finalist by seed."""

    @staticmethod
    def of(spec: Spec, algorithm: dict[str, Any], network: dict[str, Any]) -> "Contender":
        """Build a contender, or raise InputError if the method does not suit the problem or the graph."""
        options = build_parts(f"{algorithm['name']}:", algorithm, PART_REGISTRIES)
        candidate = Candidate(ALGORITHMS[options.pop("name")], options)
        if not candidate.step:
            raise InputError(f"{candidate.name} has no step size to tune")
        example = algorithm | {key: allowed.example for key, allowed in candidate.open.items()}
        setup = spec.model_copy(update={"algorithm": [example], "network": network}).parts()
        return Contender(algorithm, network, candidate, setup, time_rounds(setup))

    @property
    def form(self) -> str:
        """The method and its parts, in words."""
        words = [part["kind"] for part in self.algorithm.values() if isinstance(part, dict)]
        words += [f"{key}={value}" for key, value in self.algorithm.items() if isinstance(value, int)]
        return " ".join([self.algorithm["name"], *words])

    @property
    def graph(self) -> str:
        return describe_network(self.network)

    @property
    def name(self) -> str:
        return f"{self.form} on {self.graph}"

    @property
    def simplicity(self) -> tuple[float, ...]:
        """The numbers by which methods are ordered: the smaller, the simpler."""
        setup, kind = self.setup, self.candidate.kind
        state = trace(setup.candidates[0].whole, setup.problem, setup.network, setup.oracle, setup.plan.dtype).before
        # how a tracker starts is no number to choose
        numbers = [key for key, allowed in hyperparameters(kind).items() if not isinstance(allowed, WarmStart)]
        count = len(numbers) + len(kinds_of_parts(kind))
        asynchronous = bool(self.network.get("asynchronous"))
        return count, len(jax.tree.leaves(state)), asynchronous, self.costs.sent[1], self.costs.queries

    @property
    def work(self) -> float:
        """The queries of all rounds, to which the time of the computation is about proportional."""
        return self.rounds * max(1.0, self.costs.queries)

    @property
    def value(self) -> Score:
        """The score of a finalist over its seeds."""
        return mean_score([*self.by_seed.values()])

    def section(self, settings: int) -> TuningSection:
        """Return the tuning of a stage, with so many settings for each hyper-parameter."""
        return TuningSection(eta=self.eta, budget=settings * len(self.candidate.open))

    def become_finalist(self, goal: Goal, seeds: tuple[int, ...]) -> None:
        """Keep the best setting, with all rounds that the budget pays for, timed exactly."""
        self.settings = self.settings[:1]
        # two rounds and 2 % more, since the probe only estimates the pace of later rounds
        probed = self.costs.within(goal.paid, goal.amount)
        self.costs = time_rounds(self.setup, max(PROBE, math.ceil(1.02 * probed) + 2), seeds)
        self.rounds = max(1, self.costs.within(goal.paid, goal.amount))

    def row(self, apart: Difference) -> dict[str, Any]:
        """Return the line of a finalist in the ranking."""
        scores, whole_value = [*self.by_seed.values()], self.value
        kept = np.array([one.value for one in scores if one.failed == whole_value.failed])
        mean, half = interval(kept) if np.isfinite(kept).all() else (float("inf"), float("nan"))
        return {
            "method": self.form,
            "graph": self.graph,
            "setting": setting(self.candidate.rule(self.settings[0])),
            "value": mean,
            "low": mean - half,
            "high": mean + half,
            "between": whole_value.between,
            "reached": sum(one.failed == 0 for one in scores),
            "seeds": len(scores),
            "rounds": self.rounds,
            "seconds": self.costs.at("seconds", self.rounds),
            "bytes": self.costs.at("bytes", self.rounds),
            "worse_by": apart.mean,
            "worse_low": apart.low,
            "worse_high": apart.high,
            "verdict": apart.verdict,
        }

    def curve(self, criterion: str) -> dict[str, list[float]]:
        """Return the criterion along the rounds that all seeds have, with its interval, and what was paid by then."""
        runs = list(self.runs.values())
        marks = min((run.rounds for run in runs), key=len).tolist()
        bands = [interval(column) for column in np.array([run.metrics[criterion][: len(marks)] for run in runs]).T]
        paid = {currency: [self.costs.at(currency, t) for t in marks] for currency in ("rounds", "seconds", "bytes")}
        ends = {"low": [mean - half for mean, half in bands], "high": [mean + half for mean, half in bands]}
        return paid | {"mean": [mean for mean, _ in bands]} | ends


def describe_network(table: Mapping[str, Any]) -> str:
    """Return a network of a spec in words; a file by its stem, and a table by its key."""
    words = []
    for key, value in table.items():
        if key in ("name", "asynchronous"):
            continue
        if key == "file":
            words.append(Path(value).stem)
        elif isinstance(value, list) and all(isinstance(one, dict) for one in value):
            words.append(", ".join(map(describe_network, value)))
        else:
            words.append(key if isinstance(value, dict) else f"{key}={format_value(value)}")
    text = table["name"] + (f"({', '.join(words)})" if words else "")
    return text + (", asynchronous" if table.get("asynchronous") else "")


def forms(name: str) -> Iterator[dict[str, Any]]:
    """Yield the tables of a method with each of its compressors and whole numbers."""
    kind, table = ALGORITHMS[name], {"name": name}
    parts: dict[str, str] = kinds_of_parts(kind)
    table |= {key: {"kind": "clipped"} for key, part in parts.items() if part == "aggregator"}
    compressed = next((key for key, part in parts.items() if part == "compressor"), None)
    counts: dict[str, Whole] = {
        key: allowed for key, allowed in Candidate(kind, {}).open.items() if isinstance(allowed, Whole)
    }
    for compressor in COMPRESSED if compressed else ({},):
        for number in LOCAL if counts else (0,):
            numbers = {key: min(max(number, allowed.least), allowed.most) for key, allowed in counts.items()}
            yield table | ({compressed: compressor} if compressed else {}) | numbers


def rank(goal: Goal, finalists: list[Contender]) -> list[tuple[Difference, Contender]]:
    """Return the first, of those with the most seeds, and the others by how much worse they are on common seeds."""
    most = max(len(one.by_seed) for one in finalists)
    first = min((one for one in finalists if len(one.by_seed) == most), key=lambda one: one.value)
    start = float(np.mean([run.metrics[goal.criterion][0] for run in first.runs.values()]))
    length = goal.length(start, first.value.value)
    ranked = []
    for other in finalists:
        if other is not first:
            common = [first.by_seed[seed] for seed in other.by_seed]
            apart = compare(common, [*other.by_seed.values()], length, goal.matters, len(finalists))
            ranked.append((apart, other))
    ranked.sort(key=lambda pair: (pair[0].mean, pair[1].value))
    return [(Difference(0.0, 0.0, 0.0, "first"), first), *ranked]


def advise(goal: Goal, ranked: Sequence[tuple[Difference, Contender]]) -> list[str]:
    """Return sentences about what more seeds and a larger budget would buy.

    An interval shrinks with the root of the number of seeds, until it leaves what matters on one side.
    """
    first, said = ranked[0][1], []
    for apart, one in ranked:
        if apart.verdict == "undecided" and math.isfinite(apart.high):
            half = apart.high - apart.mean - apart.resolution
            room = abs(abs(apart.mean) - goal.matters) - apart.resolution
            needed = math.ceil(len(one.by_seed) * (half / room) ** 2 - 1e-9) if room > 0 else math.inf
            enough = f"about {needed:,} seeds" if needed < 1_000 else "1,000 seeds and more"
            said.append(f"{enough} would decide on {one.name}.")
    if goal.target is None:
        curve = first.curve(goal.criterion)
        paid = curve[goal.paid]
        start, end = curve["mean"][0], curve["mean"][-1]
        half = float(np.interp(paid[-1] / 2, paid, curve["mean"]))
        if length := goal.length(start, end):
            gained = (half - end) / length
            share = format_number(abs(100 * gained), digits=2)
            lowered = f"{'lowered' if gained >= 0 else 'raised'} {goal.criterion} by {share} %"
            of = "the way from the start to the end" if goal.criterion == "loss" else "its value at the end"
            buys = "more budget would still buy something" if gained > goal.matters else "more budget would buy little"
            said.append(f"the second half of the budget {lowered} of {of}: {buys}.")
    return [text[0].upper() + text[1:] for text in said]


@dataclass
class Search:
    """A search, from all methods and graphs that suit to the answer; see `recommend`."""

    spec: Spec
    goal: Goal
    store: Store
    degree: int = 4
    methods: Sequence[str] | None = None
    graphs: Sequence[str] | None = None
    keep: int = 6
    settings: int = 8
    seeds: int = 5
    seed: int = 0
    report: Report = lambda *_: None
    say: Callable[[str], None] = lambda text: None
    ends: list[float] = field(default_factory=list)
    """The ends of the step sizes that are tried first; `STEPS` unless given."""
    dropped: list[dict[str, str]] = field(default_factory=list)
    """The methods, graphs and contenders that did not go on, the stage in which each was dropped, and why."""
    within: tuple[int, int] = (0, 0)
    """The methods of the first stage that were within what matters of the best, and all of them."""

    def __post_init__(self) -> None:
        self.degree = whole("degree", self.degree)
        self.keep = whole("keep", self.keep, least=2, advice="Fewer than two could not be compared.")
        self.settings = whole("settings", self.settings, least=4, most=WIDEST // 10)
        self.seeds = whole("seeds", self.seeds, least=3, most=250, advice="Fewer seeds give no useful interval.")
        self.first_seed = 1_000 * whole("seed", self.seed, least=0, most=900)
        self.began = time.monotonic()
        # any method and graph do to build the problem
        example = {"algorithm": [{"name": "centralized-sgd", "eta": 1.0}], "network": {"name": "complete"}}
        self.problem = self.spec.model_copy(update=example).parts().problem
        self.ends = self.ends or [end / (self.problem.smoothness or 1.0) for end in STEPS]
        own, asked = self.spec.network, _check_names("graphs", self.graphs, NETWORKS)
        shared = {key: own[key] for key in COMMON if key in own and key != "asynchronous"}
        others = {table["name"]: table | shared for table in GRAPHS if table["name"] != own.get("name")}
        self.networks = [
            own if own.get("name") == name else others.get(name, {"name": name} | shared) for name in asked
        ]
        for table in self.networks:
            self._make_network(table)  # refuses what cannot be made
        if not asked:
            network = self._make_network(own)
            self.networks = [{key: value for key, value in own.items() if key != "asynchronous"}]
            if own.get("name") in READERS or network.stochastic != "doubly":
                why = f"the spec says which links there are ({describe_network(own)}); --graph NAME tries others"
                self.drop("other graphs", why)
                others = {}
            for name, table in others.items():
                try:
                    traffic = self._make_network(table).traffic
                    if traffic > self.degree:
                        raise InputError(
                            f"an agent sends to {traffic:g} others in a round, and degree = {self.degree} is the most"
                        )
                    self.networks.append(table)
                except InputError as error:
                    self.drop(name, str(error))
        self.names = list(_check_names("methods", self.methods, ALGORITHMS))
        if self.names:
            return
        directed = self._make_network(self.networks[0]).stochastic != "doubly"
        for name, kind in ALGORITHMS.items():
            if name in SAME:
                self.drop(name, f"its recursion is that of {SAME[name]}")
            elif kind.needs not in ("doubly", "nothing") and not directed:
                self.drop(name, "it is for directed graphs, and pays for what undirected ones do not need")
            elif "aggregator" in kinds_of_parts(kind).values() and "attack" not in self.spec.network:
                self.drop(name, "it is for networks with attackers, and this one has none")
            else:
                self.names.append(name)

    def drop(self, what: str, why: str, stage: str = "before") -> None:
        self.dropped.append({"what": what, "stage": stage, "why": why})

    def count_kept(self, stage: int) -> int:
        """Return how many contenders go on from a stage of the search, at most."""
        # whole budgets cost most, and every pair of finalists widens the intervals of all
        return self.keep if stage < 1 else min(self.keep, FINALISTS)

    def _make_network(self, table: Mapping[str, Any]) -> Any:
        return of_table(dict(table), self.problem.agents, self.problem.agent_names, self.spec.build_clock())

    def first_form(self, name: str) -> Contender | None:
        """Return a method in its first form on the first graph that suits it; without one, note the reason."""
        reasons = []
        for graph in self.networks:
            try:
                one = Contender.of(self.spec, next(forms(name)), graph)
                one.eta = self.ends
                one.candidate.values(one.section(self.settings))  # which must be enough
                return one
            except InputError as error:
                reasons.append(str(error))
        self.drop(name, reasons[0])
        return None

    def all_forms(self, one: Contender) -> list[Contender]:
        """Return all forms of a method on all graphs, and on asynchronous ones if it has an asynchronous form."""
        name, graphs = one.algorithm["name"], self.networks
        if hasattr(one.candidate.kind, "wake"):
            graphs = graphs + [graph | {"asynchronous": True} for graph in graphs]
        found = [one]
        for form in forms(name):
            for graph in graphs:
                if (form, graph) != (one.algorithm, one.network):
                    try:
                        found.append(Contender.of(self.spec, form, graph))
                    except InputError as error:
                        self.drop(f"{name} on {describe_network(graph)}", str(error))
        return found

    def enter(self) -> list[Contender]:
        """Return the contenders of the first stage, or raise InputError if the budget leaves nothing to try."""
        goal = self.goal
        contenders = [one for name in self.names if (one := self.first_form(name)) is not None]
        if not contenders:
            reasons = "; ".join(f"{row['what']}: {row['why']}" for row in self.dropped)
            raise InputError(f"no method suits this problem and these graphs. {reasons}")
        affordable = self._set_out(contenders, STAGES["methods"])
        if not affordable:
            least = min(contenders, key=lambda one: one.costs.at(goal.paid, 1))
            price = least.costs.at(goal.paid, 1)
            faster = ", or a clock with faster links or queries" if goal.paid == "seconds" else ""
            # rounded up
            enough = next(text for text in (f"{price:.3g}", f"{1.01 * price:.4g}") if float(text) >= price)
            raise InputError(
                f"{goal.paid} = {goal.amount:g} is too small for one round of any method: the cheapest, {least.name}, "
                f"takes {price:.3g} {goal.paid}. Give at least {enough}{faster}."
            )
        longest = max(affordable, key=lambda one: one.rounds * len(one.candidate.open))
        rules = [longest.setup.candidates[0].whole] * longest.section(self.settings).budget
        longest.setup.check_memory(rules, [0], self._plan(longest), self._width(longest))
        return affordable

    def _set_out(self, contenders: list[Contender], share: float) -> list[Contender]:
        """Set the rounds of contenders, and return those of which the budget pays for a round.

        A budget that is never used up raises InputError.
        """
        goal = self.goal
        for one in contenders:
            start, each = one.costs.at(goal.paid, 0), one.costs.at(goal.paid, 1)
            most = one.costs.within(goal.paid, goal.amount)
            if most >= MOST:
                with_times = "a clock with times" if goal.paid == "seconds" else "a network over which agents send"
                raise InputError(
                    f"{goal.paid} = {goal.amount:g} pay for {MOST:,} rounds of {one.name} and more, at "
                    f"{each - start:.3g} each: give less, or {with_times}."
                )
            one.eta = one.eta or self.ends
            # one round at least, if the whole budget pays for one
            one.rounds = min(most, max(1, one.costs.within(goal.paid, share * goal.amount)))
            if one.rounds < 1:
                self.drop(one.name, f"one round takes {each:.3g} {goal.paid}, and the budget is {goal.amount:g}")
        return [one for one in contenders if one.rounds >= 1]

    def run(self) -> Recommendation:
        """Run all stages and the finals, and return the answer."""
        goal, contenders = self.goal, self.enter()
        self.say(self._describe(contenders))
        tried = self._run_stage(0, contenders)
        of_graph = [one for one in tried if one.network == self.networks[0] and one.candidate.kind.needs != "nothing"]
        sound = [one for one in of_graph or tried if one.scores[0].failed < 2]
        simplest = min(sound or tried, key=lambda one: (*one.simplicity, one.form))
        further = [form for one in tried[: self.count_kept(0)] for form in self.all_forms(one)]
        kept = self._run_stage(1, self._set_out(further, STAGES["forms and graphs"]))[: self.count_kept(1)]
        if simplest not in kept:
            kept.append(simplest)
        for one in kept:
            eta = one.settings[0][one.candidate.step]
            one.eta = [eta / AROUND, eta * AROUND]
        ranked = self.run_finals(self._run_stage(2, self._set_out(kept, STAGES["whole budget"])))
        rows = [one.row(apart) | {"simplest": one is simplest} for apart, one in ranked]
        # where nothing is better by what matters, the simplest is the answer
        tied = [k for k, row in enumerate(rows) if row["verdict"] in ("first", "tie")]
        answer = min(tied, key=lambda k: (not rows[k]["simplest"], *ranked[k][1].simplicity, ranked[k][1].form))
        rows = [row | {"answer": k == answer} for k, row in enumerate(rows)]
        # the problem as it was, with the method, its graph and all its rounds
        winner, start, seeds = ranked[answer][1], self.first_seed, rows[answer]["seeds"]
        given = self.spec.model_dump(exclude_unset=True, exclude={"variant", "title", "experiment"})
        given["network"] = winner.network
        given["run"] = {
            "steps": winner.rounds,
            "every": max(1, winner.rounds // 100),
            "seeds": list(range(start, start + seeds)) if start else seeds,
            "dtype": self.spec.run.dtype,
            **({"apart": self.spec.run.apart} if self.spec.run.apart else {}),
        }
        given["algorithm"] = [winner.algorithm | winner.settings[0]]
        heading = f"# Recommended for {goal.sought}: {title(rows[answer])}, {rows[answer]['setting']}.\n\n"
        return Recommendation(
            sought=goal.sought,
            threshold=goal.threshold,
            matters=goal.matters,
            criterion=goal.criterion,
            currency=goal.currency if goal.target is not None else None,
            clock=str(ranked[0][1].setup.clock),
            ranking=rows,
            eliminated=self.dropped,
            curves={title(row): one.curve(goal.criterion) for (_, one), row in zip(ranked, rows, strict=True)},
            within=self.within,
            more=advise(goal, ranked),
            winner=heading + tomlkit.dumps(given),
            took=round(time.monotonic() - self.began, 1),
        )

    def _run_stage(self, stage: int, contenders: list[Contender]) -> list[Contender]:
        """Tune all contenders on one seed that they share, and return them, the best first."""
        # a seed for each stage: what was lucky on the samples of one is tried on others
        goal, seed, name = self.goal, FIRST_SEED + self.first_seed + stage, list(STAGES)[stage]

        def tune(one: Contender) -> None:
            section, scores, tried = one.section(self.settings), [], []
            for count in section.stages:
                # if some run reached the target, those that did not have failed
                kind = min((score.failed for score in scores), default=0)
                costs = [score.value if score.failed == kind < 2 else math.inf for score in scores]
                one.settings = next_settings(one.candidate, section, tried, costs, count)
                runs = [run for (run,) in self._compute(one, [seed])]
                one.start = float(runs[0].metrics[goal.criterion][0])
                tried, scores = tried + one.settings, scores + [goal.score(run, one.costs) for run in runs]
            order = sorted(range(len(scores)), key=scores.__getitem__)
            one.scores, one.settings = [scores[k] for k in order], [tried[k] for k in order]

        self._run_parallel(tune, contenders, name)
        tried = sorted(contenders, key=lambda one: (one.scores[0], -one.work))
        best = tried[0].scores[0]
        if best.failed == 2:
            low, high = self.ends
            raise InputError(
                f"every setting of every method diverged, with step sizes from {low:.3g} to {high:.3g}: give a lower "
                "range in the spec, as [tuning] eta = [lowest, highest]."
            )
        if stage == 0:
            limit = best.value + goal.matters * goal.length(tried[0].start, best.value)
            near = [one for one in tried if one.scores[0].failed == best.failed and one.scores[0].value <= limit]
            self.within = len(near), len(tried)
        kept = self.count_kept(stage)
        within, last = f"in {format_amount(goal.paid, STAGES[name] * goal.amount)}", tried[:kept][-1].scores[0]
        what = goal.criterion if last.failed or goal.target is None else goal.currency
        for one in tried[kept:] if stage < 2 else ():
            own, values = one.scores[0], [format_number(score.value, digits=6) for score in (one.scores[0], last)]
            why = f"{what} {values[0]} {within}; the last that went on: {values[1]}"
            if own.failed == 2:
                why = f"all {len(one.scores)} settings diverged"
            elif own.failed > last.failed:
                why = f"it did not reach the target {within}"
            self.drop(one.name, why, name)
        took, names = time.monotonic() - self.began, "; ".join(one.name for one in tried[:kept])
        self.say(f"{name}: {len(tried)} tried, in {took:.0f} s so far; best: {names}")
        return tried

    def run_finals(self, finalists: list[Contender]) -> list[tuple[Difference, Contender]]:
        """Run the finalists on seeds that the search has not seen, and rank them.

        At each look, the first and those about which nothing is decided run on twice as many seeds.
        """
        first, count = self.first_seed, self.seeds
        for one in finalists:
            one.become_finalist(self.goal, tuple(range(first, first + count)))
        entered, ranked = finalists, []
        for look in range(LOOKS):
            self._run_seeds(entered, list(range(first, first + (count << look))))
            ranked = rank(self.goal, finalists)
            finalists = [one for _, one in ranked]
            entered = [one for apart, one in ranked if apart.verdict in ("first", "undecided")]
            if len(entered) == 1:
                break
        return ranked

    def _run_seeds(self, entered: list[Contender], seeds: list[int]) -> None:
        """Add the runs of the seeds that are missing."""

        def run_one(one: Contender) -> None:
            missing = [seed for seed in seeds if seed not in one.by_seed]
            (runs,) = self._compute(one, missing, finals=True)
            for seed, run in zip(missing, runs, strict=True):
                one.runs[seed], one.by_seed[seed] = run, self.goal.score(run, one.costs)

        self._run_parallel(run_one, entered, "finalists")

    def _plan(self, one: Contender, finals: bool = False) -> RunPlan:
        rounds, every = one.rounds, (one.rounds, one.rounds)
        # a target and a curve need many measured rounds; only the programs of finalists are worth care in compiling
        if finals or self.goal.target is not None:
            every = max(1, rounds // 100), max(1, rounds // 20)
        if finals and self.goal.target is not None and one.scores[0].between:
            # as dense as 2 % of what the target took in the search
            share = one.scores[0].between[1] / one.costs.at(self.goal.currency, rounds)
            every = max(1, int(0.02 * min(share, 1) * rounds), rounds // MOST_MARKS)
        apart = one.setup.plan.apart
        return RunPlan(rounds, every, self.spec.run.dtype, metrics=CRITERIA, quick=not finals, apart=apart)

    def _width(self, one: Contender) -> Width:
        """Return the shape of a contender's blocks: as wide as a stage of its tuning after the first."""
        return Width(max(one.section(self.settings).stages[1:]), 1)

    def _compute(self, one: Contender, seeds: list[int], *, finals: bool = False) -> list[list[Row]]:
        """Return the runs of a contender's settings."""
        width = Width(1, self.seeds) if finals else self._width(one)
        plan = self._plan(one, finals)
        return run_settings(one.setup, one.candidate, one.settings, seeds, plan, width, self.store)

    def _run_parallel(self, work: Callable[[Contender], None], contenders: list[Contender], what: str) -> None:
        """Apply `work` to each contender, as many at a time as there are cores, and report the rounds that are done."""
        longest = sorted(contenders, key=lambda one: -one.work)  # first, so that no core waits for it at the end
        done, total = 0, sum(one.rounds for one in longest)
        pool = ThreadPoolExecutor(WORKERS)  # threads, because compiled blocks and compilation run without the GIL
        try:
            futures = {pool.submit(work, one): one for one in longest}
            for future in as_completed(futures):
                future.result()
                done += futures[future].rounds
                self.report(what, done, total, None)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)  # an interrupt does not wait for the blocks that run

    def _describe(self, contenders: list[Contender]) -> str:
        """Return what is sought and how it is judged, and the stages."""
        goal, setup, keep = self.goal, contenders[0].setup, min(self.count_kept(1), len(contenders))
        first, second, last = (format_amount(goal.paid, share * goal.amount) for share in STAGES.values())
        going = "the same command goes on" if self.store.keeps else "nothing is kept"
        return (
            f"sought: {goal.sought}, {setup.network.agents} agents; clock: {setup.clock}\n"
            f"criterion: {goal.criterion} ({goal.source})\n"
            f"differences above {goal.threshold} matter; all intervals hold together at 95 %\n"
            f"search: {plural(len(contenders), 'method')} in {first}, with {self.settings} settings for each of their "
            f"hyper-parameters; other forms of the best {min(self.keep, len(contenders))} on "
            f"{plural(len(self.networks), 'graph')} in {second}; the best {keep} and the simplest in {last}, and on "
            f"{self.seeds} to {self.seeds << LOOKS - 1} other seeds\nCtrl-C stops, and {going}"
        )


def _check_names(what: str, given: Sequence[str] | None, known: Mapping[str, Any]) -> tuple[str, ...]:
    names = tuple(given or ())
    if isinstance(given, str) or len(set(names)) < len(names) or not all(isinstance(name, str) for name in names):
        raise InputError(f"{what} must be a list of names, all different, but is {brief(given)}.")
    for name in names:
        if name not in known:
            raise InputError(f"{what}: {name!r} is not known; {nearest(name, known)}")
    return names
