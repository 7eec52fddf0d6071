"""Many runs of one rule, in blocks of a fixed width, through a store that keeps what was computed before.

Before a run, its memory is forecast from shapes; during it, its time is forecast from the first seconds.
"""

import math
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise, product
from operator import itemgetter
from typing import Any, NamedTuple, TypeVar

import jax
import numpy as np
from jaxtyping import Float, Int

from gossamer.basics.progress import Say
from gossamer.basics.sizes import refuse_beyond_memory
from gossamer.basics.tabulate import check_schedules
from gossamer.core import InputError, schedules
from gossamer.engines.agents import BLOCK
from gossamer.engines.block import Block, Outcome, Watch
from gossamer.engines.costs import trace
from gossamer.engines.devices import DeviceLayout, Width, choose_layout, samples_a_query
from gossamer.engines.mixing import with_tables
from gossamer.engines.program import RuleForm
from gossamer.metrics import Target, own
from gossamer.networks import Network
from gossamer.oracles import Oracle
from gossamer.problems import Empirical, Problem
from gossamer.results.store import Store

SEGMENT = 5_000
"""Rounds in one cell of the store: what a killed run loses at most, and where a longer run goes on."""

ENDING = (0.9, 0.925, 0.95, 0.975, 1.0)
"""The end of a run, as shares of its rounds: where it is measured if the other marks are dense at the start."""

ROW = 1_000
"""Bytes that one measured round of one run takes, from the program to the table of the result."""

COPIES = 3
"""Copies of a block's state: the one that a call takes over and gives back, and what a round makes on its way; that
is 0.6 to 3.5 times as much by the rule and the network, and never more than is counted with the end of the runs."""

LONG = 3600.0
"""Seconds from which on the time of runs is always said."""

WORTH = 5.0
"""Seconds from which on the time of runs is said to one who watches."""

ENOUGH = 1.0
"""Seconds that are timed before anything is said."""

T = TypeVar("T")


class Setting(NamedTuple):
    """A rule, an oracle, and a function that returns their cache key."""

    rule: Any
    oracle: Oracle
    key: Callable[[], dict[str, Any]] = dict


class RunPlan(NamedTuple):
    """The length of a run and what is kept of it."""

    steps: int
    every: int | tuple[int, int]
    """Rounds between two that are measured; a pair for rounds that are dense at the start: the first and the last."""
    dtype: str
    doublings: int = 0
    """How often the run went on for as long again."""
    until: tuple[Target, ...] = ()
    """Targets: a run that meets all of them where it is measured ends early."""
    metrics: tuple[str, ...] | None = None
    """The metrics that are measured, the loss among them; None for all, and for max_i F(x_i) at the end."""
    quick: bool = False
    """True if programs are compiled with less effort, which changes the last bits of a run."""
    apart: tuple[float, float] | None = None
    """The lowest and the highest number that is added to a coordinate of a start., if agents start apart."""

    @property
    def last(self) -> int:
        """The last round."""
        return self.steps << self.doublings

    @property
    def horizons(self) -> list[int]:
        """The rounds at which the run ended, or would have if it had not gone on."""
        return [self.steps << k for k in range(self.doublings + 1)]

    @property
    def marks(self) -> list[int]:
        """The rounds that are measured, those of every shorter run included."""
        if isinstance(self.every, int):
            return sorted({*range(0, self.last, self.every), *self.horizons})
        # the average of a run's last tenth needs marks there
        ends = (round(share * horizon) for share in ENDING for horizon in self.horizons)
        return sorted({*growing(*self.every, self.last), *ends})

    @property
    def segments(self) -> list[tuple[int, int]]:
        """The first and last rounds of the cells of a run."""
        cuts = sorted({*range(0, self.last, SEGMENT), *self.horizons})  # so that a shorter run is a prefix
        return list(pairwise(cuts))

    def double(self) -> "RunPlan":
        """Return the plan of the same run, twice as long; it goes on from the cells of this one."""
        return self._replace(doublings=self.doublings + 1)

    @property
    def mark_count(self) -> int:
        """An upper bound on the number of marks, without making them."""
        if isinstance(self.every, int):
            return -(-self.last // self.every) + 1 + self.doublings
        first, last = self.every
        grown = math.log(max(1.0, min(last, self.last / 8) / first), 9 / 8)  # by an eighth from one to the next
        ends = len(ENDING) * (self.doublings + 1)
        return min(self.last, self.last // last + math.ceil(grown) + 9) + ends + 1


def growing(first: int, last: int, steps: int) -> Iterator[int]:
    """Yield rounds below `steps` whose distance is an eighth of the rounds done, but from `first` to `last`.

    They do not depend on `steps`, so that a longer run measures where a shorter one did.
    """
    t = 0
    while t < steps:
        yield t
        t += min(max(first, t // 8), last)


class Need(NamedTuple):
    """Bytes of memory: the number that they grow with, as a user wrote it, and what to lower."""

    what: str
    bytes: float
    lower: str


def fits(
    settings: Sequence[Setting], problem: Problem, network: Network, seeds: Sequence[int], plan: RunPlan, width: Width
) -> float:
    """Return the bytes that `compute` needs for these runs; raise InputError with the number that is too large.

    A rule that breaks the contract is refused, too: this is the first time that it is traced.
    """
    needs = forecast_memory(settings, problem, network, seeds, plan, width)
    total, most = sum([need.bytes for need in needs]), max(needs, key=lambda need: need.bytes)
    refuse_beyond_memory(most.what, total, f"lower {most.lower}", most.bytes)
    return total


def forecast_memory(
    settings: Sequence[Setting], problem: Problem, network: Network, seeds: Sequence[int], plan: RunPlan, width: Width
) -> list[Need]:
    """Return what runs of this rule need, part by part."""
    rule, oracle = settings[0].rule, settings[0].oracle
    item, runs, block = np.dtype(plan.dtype).itemsize, len(settings) * len(seeds), width.settings * width.seeds
    found = trace(rule, problem, network, oracle, plan.dtype)
    state, memory = (block * _count_bytes(tree) for tree in (found.before, found.memory))
    end = (state + memory) / block + 2 * problem.agents * problem.dim * item
    marks = plan.mark_count
    # a refusal names the largest of the numbers that a part grows with
    together = {"together": width.settings, "seeds": width.seeds}
    widest, count = _largest(together | {"the number of parameters": problem.dim, "agents": problem.agents})
    several, number = _largest({"seeds": len(seeds), "settings": len(settings)})
    # the samples of the queries that are answered together
    queries = float(min(problem.agents, BLOCK) * block)
    if isinstance(problem, Empirical):
        drawn = samples_a_query(problem, oracle) or 0
        name = "the number of samples" if drawn == problem.longest else "batch"
        most, samples = _largest({name: drawn} | together)
        queried = Need(f"{most} = {samples:,}", queries * drawn * item * (1 + problem.numbers_a_sample), most)
    else:
        queried = Need("the queries", queries * problem.dim * item, "agents")
    rarer = several if number > marks else "steps, or measure less often with a larger every"
    forgetting = "the delay or the number of agents, or leave out saga"
    table = f"the table of {marks:,} measured rounds (steps = {plan.last:,}) of {runs:,} runs"
    return [
        Need(f"the state of a block ({widest} = {count:,})", COPIES * state, widest),
        Need("what the oracle remembers of its queries", COPIES * memory, forgetting),
        Need(f"the end of {runs:,} runs ({several} = {number:,})", runs * end, several),
        Need(table, ROW * marks * runs, rarer),
        Need("the data, in the precision of the run,", _count_bytes(problem, item), "the number of samples"),
        Need("the network", _count_bytes(with_tables(rule, network), item), "the number of links"),
        queried,
    ]


def _largest(counts: dict[str, int]) -> tuple[str, int]:
    return max(counts.items(), key=itemgetter(1))


def _count_bytes(tree: Any, item: int | None = None) -> float:
    """Return the bytes of all leaves, of `item` bytes a number or of their own."""
    return float(sum([np.size(leaf) * (item or leaf.dtype.itemsize) for leaf in jax.tree.leaves(tree)]))


class Stopwatch:
    """A timer of the rounds of blocks. It says once how long all will take: beyond an hour to everyone, beyond some
    seconds as an aside."""

    def __init__(self, rounds: float, resumable: bool, say: Say):
        """Time so many rounds of blocks in all."""
        self._rounds, self._resumable, self._say = rounds, resumable, say
        self._at, self._done, self._spoke = 0, 0, False
        self._since: float | None = None

    def begin(self, t: int) -> None:
        """Note that a block goes on from round t."""
        self._at = t

    def __call__(self, t: int) -> None:
        """Note that the block is at round t. The first call of all goes nowhere, because it compiles."""
        now = time.perf_counter()
        self._since = now if self._since is None else self._since
        self._done, self._at = self._done + t - self._at, t
        if self._spoke or not self._done or now - self._since <= ENOUGH:
            return
        self._spoke = True
        speed = self._done / (now - self._since)
        seconds = (self._rounds - self._done) / speed
        if seconds <= min(WORTH, LONG):
            return
        units = (("seconds", 1, 120), ("minutes", 60, 120), ("hours", 3600, 96), ("days", 86400, math.inf))
        unit, length = next((unit, length) for unit, length, most in units if seconds < most * length)
        text = f"about {_short(seconds / length)} {unit} at {_short(speed)} rounds a second"
        if seconds > LONG:
            after = "and the same command goes on from there" if self._resumable else "but nothing is kept"
            self._say(f"{text}; Ctrl-C stops, {after}")
        else:
            self._say(text, aside=True)


def _short(number: float) -> str:
    return f"{number:,.0f}" if number >= 10 else f"{number:.2g}"


Cell = dict[str, np.ndarray]
"""A run, or a segment of one, as the store keeps it: arrays by name."""

RunId = tuple[int, int]
"""The number of a setting, and a seed."""

ENDS = ("diverged", "reached", "stopped")
"""The reasons for which a run may end early: each is a round, or −1."""


@dataclass(frozen=True)
class Row:
    """A run, or a segment of one: its metrics, and its state at the end."""

    rounds: Int[np.ndarray, " rounds"]
    metrics: dict[str, Float[np.ndarray, " rounds"]]
    diverged: int
    """The round in which the run diverged, or −1."""
    x: Float[np.ndarray, "agents d"]
    bias: Float[np.ndarray, "agents d"] | None
    """The constant bias of every agent, where the oracle has one; of later segments, None."""
    seconds: float = 0.0
    """The run's share of the time that its blocks took."""
    reached: int = -1
    """The round at which the run met its targets and ended, or −1."""
    stopped: int = -1
    """The round at which a user's callback ended the run, or −1."""
    ends: dict[str, float] = field(default_factory=dict)
    """The metrics of the end; none where only some metrics were measured."""
    state: list[np.ndarray] = field(default_factory=list)
    """All arrays from which the next segment goes on; none for a whole run."""

    @property
    def ended_early(self) -> bool:
        """True if the run ended for another reason than its last round."""
        return max(self.diverged, self.reached, self.stopped) >= 0

    def cell(self) -> Cell:
        """Return the arrays that the store keeps."""
        cell = {"rounds": self.rounds, "x": self.x, "seconds": np.asarray(self.seconds, np.float64)}
        for name in ENDS:
            cell[name] = np.asarray(getattr(self, name), np.int64)
        if self.bias is not None:
            cell["bias"] = self.bias
        for group, values in (("metric", self.metrics), ("end", self.ends), ("state", dict(enumerate(self.state)))):
            for name, value in values.items():
                cell[f"{group}/{name}"] = np.asarray(value)
        return cell

    def extend(self, later: "Row") -> "Row":
        """Return the run of this segment and a later one, in the state of the later."""
        metrics = {name: np.concatenate([values, later.metrics[name]]) for name, values in self.metrics.items()}
        rounds, seconds = np.concatenate([self.rounds, later.rounds]), self.seconds + later.seconds
        return replace(later, rounds=rounds, metrics=metrics, seconds=seconds, bias=self.bias)

    @staticmethod
    def of_cell(cell: Cell) -> "Row":
        """Return the segment of a cell."""
        groups: dict[str, dict[str, np.ndarray]] = {"metric": {}, "end": {}, "state": {}}
        for name, array in cell.items():
            group, _, key = name.partition("/")
            if key:
                groups[group][key] = array
        return Row(
            rounds=cell["rounds"],
            metrics=groups["metric"],
            ends={name: float(value) for name, value in groups["end"].items()},
            diverged=int(cell["diverged"]),
            reached=int(cell["reached"]),
            stopped=int(cell["stopped"]),
            seconds=float(cell["seconds"]),
            state=[groups["state"][str(number)] for number in range(len(groups["state"]))],
            x=cell["x"],
            bias=cell.get("bias"),
        )


def _rows(
    block: Block, outcome: Outcome, some: list[int], chosen: list[int], first: int, began: float
) -> dict[RunId, Row]:
    """Return the runs of a block that was driven.

    A padded block holds some runs more than once, and the copies are the same. A run that met its targets has no
    rounds beyond, however long the others of its block went on.
    """
    ends, bias = block.finish()
    if first:  # the row of the first segment has it
        bias = None
    if bias is not None and (bias == bias[:, :, :1]).all():  # one bias for all agents, such as none, needs no copies
        bias = np.broadcast_to(bias[:, :, :1].copy(), bias.shape)
    states, x = block.leaves(), block.x
    seconds = (time.perf_counter() - began) / (len({*some}) * len({*chosen}))
    rows, rounds = {}, np.array(outcome.rounds, np.int64)
    for (g, k), (s, seed) in product(enumerate(some), enumerate(chosen)):
        reached = int(outcome.reached[g, s])
        within = rounds <= reached if reached >= 0 else np.full(rounds.shape, True)
        rows[k, seed] = Row(
            rounds=rounds[within],
            metrics={name: values[within, g, s] for name, values in outcome.metrics.items()},
            diverged=int(outcome.diverged[g, s]),
            reached=reached,
            stopped=int(outcome.stopped),
            ends={name: float(values[g, s]) for name, values in ends.items()},
            seconds=seconds,
            state=[leaf[g, s] for leaf in states],
            x=x[g, s],
            bias=None if bias is None else bias[g, s],
        )
    return rows


def compute(
    settings: Sequence[Setting],
    problem: Problem,
    network: Network,
    seeds: Sequence[int],
    plan: RunPlan,
    *,
    width: Width,
    store: Store,
    report: Callable[[int, float | None], None] = lambda done, loss: None,
    ended: Callable[[int], None] = lambda runs: None,
    say: Say = lambda text, *, aside=False: None,
    watch: Watch | None = None,
    forecast: bool = True,
) -> dict[RunId, Row]:
    """Run every setting under every seed. Settings are of one rule and of oracles that differ in numbers only.

    Missing runs are computed in blocks padded to `width` with copies, segment by segment, each from where the one
    before it ended, on the devices that were asked for (`use_devices`). `report` is called with the round, and the mean
    loss where it was measured; `ended` with the number of runs that have come to their end; `say` once with how long
    all will take, if that is beyond some seconds; `watch` sees what is measured, and may stop. Set `forecast` to False
    where the caller has refused what would not fit into memory.
    """
    rule, oracle = settings[0].rule, settings[0].oracle
    layout, width = choose_layout(len(settings), len(seeds), width, problem, network, oracle, say)
    together = width.times(layout)
    if forecast or layout.mesh is not None:
        fits(settings, problem, network, seeds, plan, together)
    if layout.agents > 1:
        for name, array in trace(rule, problem, network, oracle, plan.dtype).before.items():
            if array.shape[:1] != (problem.agents,):
                raise InputError(
                    f"{rule.name}: {name} of its State has no axis of agents, so that they cannot be shared out over "
                    'devices: let it start with one, or take split = "runs".'
                )
    blocks = math.ceil(len(settings) / together.settings) * math.ceil(len(seeds) / together.seeds)
    stopwatch = Stopwatch(blocks * plan.last, store.keeps, say)

    def report_round(done: int, loss: float | None) -> None:
        stopwatch(done)
        report(done, loss)

    check_schedules((setting.rule for setting in settings), plan.last)  # before anything is compiled
    runs: dict[RunId, Row] = {}
    every_run, every_mark = list(product(range(len(settings)), seeds)), plan.marks
    names = [setting.key() for setting in settings] if store.keeps else []
    # where nothing is stored, a run is one piece: it goes on from where it stands, and no state is copied between
    for first, last in plan.segments if store.keeps else [(0, plan.last)]:
        marks = every_mark[bisect_right(every_mark, first) if first else 0 : bisect_right(every_mark, last)]
        going = [run for run in every_run if run not in runs or not runs[run].ended_early]
        keys: dict[RunId, dict[str, Any]] = {}
        newest: dict[RunId, Row] = {}
        if store.keeps:
            common = _cell_key(plan, network, layout, width, first, last, marks)
            for setting, seed in going:
                keys[setting, seed] = key = {"setting": names[setting], "seed": seed, **common}
                if (cell := store.get(key)) is not None:
                    newest[setting, seed] = Row.of_cell(cell)
        missing = {run for run in going if run not in newest}
        at_end = last == plan.last
        ended(sum(at_end or row.ended_early for row in newest.values()))
        for some in _group_settings(sorted({setting for setting, _ in missing}), settings, together.settings):
            for chosen in _chunk(sorted({seed for setting, seed in missing if setting in some}), together.seeds):
                block = Block(
                    [settings[k].rule for k in some],
                    problem,
                    network,
                    [settings[k].oracle for k in some],
                    seeds=chosen,
                    steps=plan.last,
                    dtype=plan.dtype,
                    until=plan.until,
                    metrics=plan.metrics,
                    layout=layout,
                    quick=plan.quick,
                    apart=plan.apart,
                )
                if first:  # copies and ended runs of the block have a state, too
                    block.resume([[runs[k, seed].state for seed in chosen] for k in some])
                stopwatch.begin(first)
                began = time.perf_counter()
                outcome = block.drive(marks, report_round, first, last, watch)
                for run, row in _rows(block, outcome, some, chosen, first, began).items():
                    if run in missing and run not in newest:  # padding, or a run that had ended, is not kept
                        newest[run] = row
                        if store.keeps:
                            store.put(keys[run], row.cell())
                        ended(int(at_end or row.ended_early))
        runs |= {run: runs[run].extend(row) if run in runs else row for run, row in newest.items()}
    return {run: _close(runs[run]) for run in every_run}


def _close(run: Row) -> Row:
    """Return a run that has ended, without the state from which it could go on."""
    diverged, x = run.diverged, run.x
    if diverged < 0 and not math.isfinite(run.ends.get("worst_loss", 0.0)):
        # one agent's model is lost, which the mean may hide; metrics of a user decide nothing
        diverged = int(run.rounds[-1])
    if diverged >= 0:
        # it ran on until its block was looked at next, which the clock decides: these numbers would not repeat
        x = np.full_like(x, np.nan)
    return replace(run, diverged=diverged, x=x, state=[])


def _cell_key(
    plan: RunPlan, network: Network, layout: DeviceLayout, width: Width, first: int, last: int, marks: list[int]
) -> dict[str, Any]:
    """Return all that determines the cells of a segment, besides the setting and the seed."""
    metrics = sorted(own() if plan.metrics is None else plan.metrics)
    return {
        "rounds": [first, last],
        "marks": marks,
        "dtype": plan.dtype,
        "width": list(width),
        # a usual run has none of these keys, so that a new option leaves what was stored before as it is
        **({"devices": layout.agents} if layout.agents > 1 else {}),
        **({"until": [list(target) for target in plan.until]} if plan.until else {}),
        **({"clock": clock.mark} if (clock := network.clock) is not None else {}),
        **({"quick": True} if plan.quick else {}),
        **({"apart": list(plan.apart)} if plan.apart else {}),
        **({"metrics": metrics} if metrics else {}),
    }


def _group_settings(numbers: list[int], settings: Sequence[Setting], size: int) -> list[list[int]]:
    """Return chunks of settings of one program: which numbers have schedules, and what is static, belong to it."""
    groups: dict[Any, list[int]] = {}
    for number in numbers:
        rule = settings[number].rule
        groups.setdefault((tuple(schedules(rule)), RuleForm.of(rule)), []).append(number)
    return [chunk for group in groups.values() for chunk in _chunk(group, size)]


def _chunk(values: list[T], size: int) -> list[list[T]]:
    """Return lists of this size; the last is padded with copies of its last value."""
    chunks = [values[k : k + size] for k in range(0, len(values), size)]
    return [chunk + chunk[-1:] * (size - len(chunk)) for chunk in chunks]
