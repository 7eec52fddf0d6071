"""Many runs of one rule, in blocks of a fixed width, through a store that keeps what was computed before."""

import math
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise, product
from typing import Any, NamedTuple, TypeVar

from gossamer.basics.progress import Say
from gossamer.core import check_schedules, schedules
from gossamer.engines.block import Block
from gossamer.engines.cells import Piece, Row, RunId, joined, row, segment
from gossamer.engines.costs import costs
from gossamer.engines.devices.haste import in_haste
from gossamer.engines.devices.places import Sharing, shared_out
from gossamer.engines.estimate import Size, Stopwatch, refuse_too_large
from gossamer.engines.program import Form
from gossamer.metrics import Target, own
from gossamer.networks import Network
from gossamer.oracles import Oracle
from gossamer.problems import Problem
from gossamer.results.store import Store

SEGMENT = 5_000
"""Rounds in one cell of the store: what a killed run loses at most, and where a longer run goes on."""


ENDING = (0.9, 0.925, 0.95, 0.975, 1.0)
"""The end of a run, as shares of its rounds: where it is measured if the other marks are dense at the start."""


def growing(first: int, last: int, steps: int) -> Iterator[int]:
    """Rounds below `steps` whose distance is an eighth of the rounds done, but from `first` to `last`.

    They do not depend on `steps`, so that a longer run measures where a shorter one did.
    """
    t = 0
    while t < steps:
        yield t
        t += min(max(first, t // 8), last)


class Setting(NamedTuple):
    """A rule and an oracle, and a function that says what a store calls them, which is asked where there is one."""

    rule: Any
    oracle: Oracle
    key: Callable[[], dict[str, Any]] = dict


class Width(NamedTuple):
    """The size of a block. It changes the last bits of a run, so it belongs to what determines one."""

    settings: int
    seeds: int


class RunPlan(NamedTuple):
    """How long a run is and what is kept of it."""

    steps: int
    every: int | tuple[int, int]
    """Rounds between two that are measured; or, for rounds that are dense at the start, how many at first and how many
    at last."""
    dtype: str
    doublings: int = 0
    """How often the run went on for as long again."""
    until: tuple[Target, ...] = ()
    """What ends a run early: it has come to all of these where it is measured."""
    metrics: tuple[str, ...] | None = None
    """What is measured, the loss among it; if it is not given, all metrics, and max_i F(x_i) at the end."""
    hasty: bool = False
    """Whether programs are compiled in haste, which changes the last bits of a run."""

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
        """The rounds that are measured: those of every shorter run too."""
        if isinstance(self.every, int):
            return sorted({*range(0, self.last, self.every), *self.horizons})
        ends = (round(share * horizon) for share in ENDING for horizon in self.horizons)
        return sorted({*growing(*self.every, self.last), *ends})

    @property
    def segments(self) -> list[tuple[int, int]]:
        """The first and last rounds of the cells that a run is kept in."""
        cuts = sorted({*range(0, self.last, SEGMENT), *self.horizons})
        return list(pairwise(cuts))

    def doubled(self) -> "RunPlan":
        """The plan of the same run, twice as long; it goes on from the cells of this one."""
        return self._replace(doublings=self.doublings + 1)

    @property
    def mark_count(self) -> int:
        """How many marks there are, at most, without making them."""
        if isinstance(self.every, int):
            return -(-self.last // self.every) + 1 + self.doublings
        first, last = self.every
        grown = math.log(max(1.0, min(last, self.last / 8) / first), 9 / 8)  # by an eighth from one to the next
        ends = len(ENDING) * (self.doublings + 1)
        return min(self.last, self.last // last + math.ceil(grown) + 9) + ends + 1


T = TypeVar("T")

Watched = Callable[[int, list[int], dict[str, Any]], bool]
"""`gossamer.engines.block.Watch`, told the seeds of the block as well."""


def fits(
    settings: Sequence[Setting], problem: Problem, network: Network, seeds: Sequence[int], plan: RunPlan, width: Width
) -> float:
    """The bytes that `compute` needs for these runs, or an `InputError` that names the number that is too large.

    A rule that breaks the contract is refused, too: this is the first time that it runs.
    """
    first = settings[0]
    costs(first.rule, problem, network, first.oracle, plan.dtype)
    size = Size(len(settings), len(seeds), plan.last, plan.mark_count, *width)
    return refuse_too_large(first.rule, problem, network, first.oracle, size, plan.dtype)


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
    watched: Watched | None = None,
) -> dict[RunId, Row]:
    """Every setting under every seed. Settings are of one rule and of oracles that differ in numbers only.

    Missing runs are computed in blocks padded to `width` with copies, segment by segment, each from where the one
    before it ended, on the devices that were asked for (`places.using`). `report` is told of rounds, `ended` how many
    runs have come to their end, and `say`, once, how long all will take, and how much memory, if that is beyond some
    seconds. `watched` sees what is measured and may stop.
    """
    sharing = shared_out(len(settings), len(seeds), width, problem, network, settings[0].oracle, say)
    together = Width(*sharing.together)
    needed = fits(settings, problem, network, seeds, plan, together)
    blocks = math.ceil(len(settings) / together.settings) * math.ceil(len(seeds) / together.seeds)
    watch = Stopwatch(blocks * plan.last, needed, store.keeps, say)

    def told(done: int, loss: float | None) -> None:
        watch(done)
        report(done, loss)

    check_schedules((setting.rule for setting in settings), plan.last)
    runs, every_mark = list(product(range(len(settings)), seeds)), plan.marks
    pieces: dict[RunId, list[Piece]] = {run: [] for run in runs}
    named = [setting.key() for setting in settings] if store.keeps else []
    seconds = dict.fromkeys(runs, 0.0)
    # where nothing is kept, a run is one piece: it goes on from where it stands, and no state is copied between
    for first, last in plan.segments if store.keeps else [(0, plan.last)]:
        marks = every_mark[bisect_right(every_mark, first) if first else 0 : bisect_right(every_mark, last)]
        going = [run for run in runs if not pieces[run] or not pieces[run][-1].ended_early]
        keys: dict[RunId, dict[str, Any]] = {}
        newest: dict[RunId, Piece] = {}
        if store.keeps:
            keys = {run: _key(named[run[0]], run[1], plan, network, sharing, first, last, marks) for run in going}
            stored = {run: store.get(keys[run]) for run in going}
            newest = {run: Piece.of_cell(cell) for run, cell in stored.items() if cell is not None}
        missing = [run for run in going if run not in newest]
        ended(sum(_over(piece, last, plan) for piece in newest.values()))
        for some in _chunks_alike(sorted({setting for setting, _ in missing}), settings, together.settings):
            for chosen in _chunks(sorted({seed for setting, seed in missing if setting in some}), together.seeds):
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
                    layout=in_haste(sharing.layout) if plan.hasty else sharing.layout,
                )
                see = None if watched is None else lambda t, rows, chosen=chosen: watched(t, chosen, rows)
                if first:
                    block.resume([[pieces[k, seed][-1].state for seed in chosen] for k in some])
                watch.begin(first)
                for run, piece in segment(block, some, chosen, first, last, marks, told, see).items():
                    if run in going and run not in newest:
                        newest[run] = piece
                        if store.keeps:
                            store.put(keys[run], piece.cell())
                        ended(int(_over(piece, last, plan)))
        for run, piece in newest.items():
            seconds[run] += piece.seconds
            pieces[run] = joined(pieces[run], piece)
    return {run: row(parts, seconds[run]) for run, parts in pieces.items()}


def _over(piece: Piece, last: int, plan: RunPlan) -> bool:
    return last == plan.last or piece.ended_early


def _key(
    setting: dict[str, Any],
    seed: int,
    plan: RunPlan,
    network: Network,
    sharing: Sharing,
    first: int,
    last: int,
    marks: list[int],
) -> dict[str, Any]:
    return {
        "setting": setting,
        "seed": seed,
        "rounds": [first, last],
        "marks": marks,
        "dtype": plan.dtype,
        "width": [sharing.settings, sharing.seeds],
        **({"devices": over} if (over := sharing.layout.agents_over) > 1 else {}),
        **({"until": [list(target) for target in plan.until]} if plan.until else {}),
        **({"clock": clock.mark} if (clock := network.clock) is not None else {}),
        **({"hasty": True} if plan.hasty else {}),
        **({"metrics": names} if (names := sorted(own() if plan.metrics is None else plan.metrics)) else {}),
    }


def _chunks_alike(numbers: list[int], settings: Sequence[Setting], size: int) -> list[list[int]]:
    """Chunks of settings of one program: whether a number has a schedule, and what is static, belongs to it."""
    groups: dict[Any, list[int]] = {}
    for number in numbers:
        rule = settings[number].rule
        groups.setdefault((tuple(schedules(rule)), Form.of(rule)), []).append(number)
    return [chunk for group in groups.values() for chunk in _chunks(group, size)]


def _chunks(values: list[T], size: int) -> list[list[T]]:
    """Lists of this size; the last is filled up with copies of its last value."""
    chunks = [values[k : k + size] for k in range(0, len(values), size)]
    return [chunk + chunk[-1:] * (size - len(chunk)) for chunk in chunks]
