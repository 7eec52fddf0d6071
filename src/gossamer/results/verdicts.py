r"""Verdicts between the methods of a run: who is ahead at equal cost, who ties, and by how much.

Methods are compared in pairs, on the same replicates (seeds, or tunings with their seeds), at equal rounds, gradient
queries, bytes and, with a clock, seconds and joules. The *budget* of a pair is the largest amount of which all its runs
have a measured round within 5 %, so that nothing is read between two marks. A run is read as tuning reads it: by the
mean of the metric over its marks in the last tenth of the budget.

A difference is a ratio for metrics on a logarithmic axis, such as ‖∇F‖², and else a share of the way from the start to
the better method. Where runs end at a target (`until`), the difference is the ratio of what they paid until there.

The smallest difference that matters, m, is stated before the run. With the interval of a difference,

- one method is *ahead* if the whole interval lies beyond m;
- the two *tie* if the whole interval lies within ±m;
- else the difference is *undecided*.

All intervals of a study hold simultaneously at 95 % (Bonferroni over pairs, budgets and variants).
"""

import math
import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain, combinations, islice, product
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import numpy as np

from gossamer.basics.html import Markup, tag
from gossamer.basics.sizes import format_bytes
from gossamer.basics.table import Table
from gossamer.basics.text import format_duration, format_number, join_words, plural
from gossamer.core import InputError, Range
from gossamer.metrics import AXES
from gossamer.results.result import MethodRuns, Result, SeedRun
from gossamer.results.statistics import END, by_replicate, decide, interval, joint_level

CURRENCIES = ("rounds", "queries", "bytes", "seconds", "joules")
"""The costs of methods, as axes of figures name them; gradients and messages of the start count."""

NEAR = 0.95
"""The share of a budget that a run must have paid at its last mark within that budget."""

MATTERS = {"share": 0.01, "ratio": 0.1, "cost": 0.05}
"""The default difference that matters: 1 % of the way from the start to the better method, 10 % of a metric on a
logarithmic axis, 5 % of the cost until a target."""

MATTERING = Range(0, 1, low_open=True, advice="It is the smallest difference that matters, as a share; 0.01 is 1 %.")

Word = Literal["ahead", "tie", "undecided"]
Kind = Literal["share", "ratio", "cost"]

WORDS: dict[Word, str] = {"ahead": "ahead of", "tie": "tied with", "undecided": "not told apart from"}
"""Verdicts on the better one, in words that follow its name and "is"."""

ENDLESS = 1e4
"""The ratio, or share, from which on the end of an interval is no number worth reading."""


def format_amount(currency: str, amount: float) -> str:
    """Return an amount of rounds, queries, bytes, seconds or joules with its unit."""
    if currency in ("rounds", "queries"):
        return f"{amount:,.0f} {currency}"
    if currency == "seconds":
        return format_duration(amount)
    if currency == "joules":
        return f"{format_number(amount, digits=3)} J"
    return format_bytes(amount)


@dataclass(frozen=True)
class MethodVerdict:
    """The verdict on two methods at one budget. The first is the one that did better in the mean."""

    variant: str
    amounts: dict[str, float]
    """By currency, the amount at which the two are compared; those that read both at the same rounds stand together."""
    first: str
    second: str
    gap: float
    """How much worse the second is: a share of the way from the start to the first, or a ratio less 1."""
    low: float
    high: float
    """The ends of the interval of the gap."""
    verdict: Word
    is_ratio: bool = False
    """True if the gap is that of a ratio."""

    @property
    def words(self) -> str:
        """The verdict on the first, in words that follow its name and "is"."""
        if self.verdict == "undecided" and self.low > 0:
            return "better, but not surely by what matters, than"
        return WORDS[self.verdict]

    @property
    def interval(self) -> str:
        """The gap and its interval, in percent; a ratio from 2 on as a factor."""
        ends = self.gap, self.low, self.high
        if self.is_ratio and self.gap >= 1:
            value, low, high = (format_number(1 + number, digits=3) for number in ends)
            return f"× {value} [{low}, {high if self.high < ENDLESS else '∞'}]"
        value, low, high = map(_percent, ends)
        return f"{value} % [{low}, {high if self.high < ENDLESS else '∞'}]"


def _percent(share: float) -> str:
    return f"{100 * share:,.0f}" if 1 <= abs(share) < math.inf else format_number(100 * share, digits=2)


class Placing(NamedTuple):
    """The leader at a budget, and the other methods by how they stand to it."""

    where: str
    leader: str
    others: dict[str, list[tuple[str, str]]]
    """By words such as "ahead of": methods, each with how much worse it is."""
    rest: list["MethodVerdict"]
    """The pairs without the leader, of three methods at most."""


@dataclass(frozen=True)
class MethodVerdicts:
    """The verdicts between all pairs of methods, at all budgets, in all variants. Printed they are sentences."""

    metric: str
    """The metric, or "cost until the target"."""
    kind: Kind
    matters: float
    """The smallest difference that matters."""
    level: float
    """The level of each interval, so high that all hold simultaneously at 95 %."""
    replicates: int
    verdicts: tuple[MethodVerdict, ...]
    notes: tuple[str, ...] = ()
    """Methods that were not compared, with the reason."""

    @staticmethod
    def none(reason: str) -> "MethodVerdicts":
        """Return no verdicts, with the reason."""
        return MethodVerdicts("", "share", MATTERS["share"], joint_level(1), 0, (), (reason,))

    @property
    def terms(self) -> str:
        """A sentence that says what is compared, what matters, and at which level."""
        share = f"{100 * self.matters:g} %"
        of = {"share": " of the way from the start to the better one", "ratio": "", "cost": ""}[self.kind]
        return (
            f"By {self.metric}. Differences above {share}{of} matter; paired over {self.replicates} replicates, with "
            f"intervals that hold together at 95 % over {plural(len(self.verdicts), 'comparison')}."
        )

    @property
    def standings(self) -> list["Placing"]:
        """The leader and the others, for each variant, currency and amount; currencies of the same verdicts are one."""
        groups: dict[tuple[str, tuple[int, ...]], list[str]] = {}
        for variant, currency in product(dict.fromkeys([one.variant for one in self.verdicts]), CURRENCIES):
            of_it = [(one.amounts.get(currency), k) for k, one in enumerate(self.verdicts) if one.variant == variant]
            # pairs of other prices have other budgets: those at nearly one amount stand together
            near: list[list[int]] = []
            least = math.inf
            for amount, k in sorted([(amount, k) for amount, k in of_it if amount is not None]):
                if near and (self.kind == "cost" or amount <= least / NEAR):
                    near[-1].append(k)
                else:
                    least = amount
                    near.append([k])
            for places in near:
                groups.setdefault((variant, tuple(sorted(places))), []).append(currency)
        return [
            self._stand(variant, [self.verdicts[k] for k in places], currencies)
            for (variant, places), currencies in groups.items()
        ]

    def _stand(self, variant: str, pairs: list[MethodVerdict], currencies: list[str]) -> "Placing":
        # a win counts once, and once more where it is by what matters
        wins = Counter([one.first for one in pairs] + [one.first for one in pairs if one.verdict == "ahead"])
        names = dict.fromkeys(chain.from_iterable([(one.first, one.second) for one in pairs]))
        leader = max(names, key=wins.__getitem__)
        others: dict[str, list[tuple[str, str]]] = {}
        for one in pairs:
            if one.first == leader:
                others.setdefault(one.words, []).append((one.second, one.interval))
            elif one.second == leader:  # in a circle, where each of three is better than another
                is_behind = one.verdict == "ahead"
                effect = one.interval if is_behind else f"which is better by {one.interval}"
                others.setdefault("behind" if is_behind else one.words, []).append((one.first, effect))
        rest = [one for one in pairs if leader not in (one.first, one.second)] if len(names) <= 3 else []
        amounts = [format_amount(currency, max([one.amounts[currency] for one in pairs])) for currency in currencies]
        equal = join_words(currencies)
        where = f"in {equal} until the target" if self.kind == "cost" else f"at equal {equal} ({', '.join(amounts)})"
        return Placing(f"{variant}: {where}" if variant else where[0].upper() + where[1:], leader, others, rest)

    @property
    def sentences(self) -> list[str]:
        """A sentence for each of the standings."""
        lines = []
        for where, leader, others, rest in self.standings:
            parts = [
                f"{words} {', '.join([f'{name} ({effect})' for name, effect in several])}"
                for words, several in others.items()
            ]
            parts += [f"{one.first} is {one.words} {one.second} ({one.interval})" for one in rest]
            lines.append(f"{where}, {leader} is {'; '.join(parts)}.")
        return lines

    @property
    def lines(self) -> list[str]:
        """The sentences, the terms of the comparison, and the notes."""
        return [*self.sentences, *[self.terms] * bool(self.verdicts), *self.notes]

    def __str__(self) -> str:
        return "\n".join(
            textwrap.fill(line, 110, subsequent_indent="  ", break_on_hyphens=False) for line in self.lines
        )

    __repr__ = __str__

    def _repr_html_(self) -> Markup:
        return tag("div", *(tag("div", line) for line in self.lines), self.layout().html())

    def layout(self) -> Table:
        """Return all pairs as a table."""
        rows = [
            [
                *[one.variant] * self.has_variants,
                ", ".join(format_amount(currency, amount) for currency, amount in one.amounts.items()),
                *(one.first, one.second, one.interval, one.verdict),
            ]
            for one in self.verdicts
        ]
        head = [*["variant"] * self.has_variants, "at equal", "better", "other", "by", "verdict"]
        return Table(head, rows)

    @property
    def has_variants(self) -> bool:
        """True if the study has named variants."""
        return any(one.variant for one in self.verdicts)

    def asdict(self) -> dict[str, Any]:
        """Return all fields and the sentences, for a JSON file."""
        return asdict(self) | {"sentences": self.sentences}


def judge_methods(
    results: Mapping[str, Result],
    metric: str = "loss",
    matters: float | None = None,
    tuned: Mapping[tuple[str, str], int] = MappingProxyType({}),
) -> MethodVerdicts:
    """Compare all methods of each variant in pairs; see the module's docstring.

    Args:
        results: by variant.
        metric: a metric that was measured along the runs. Where runs end at a target, their costs are compared.
        matters: the smallest difference that matters, as a share; by default 0.01 of the way from the start to the
            better method, 0.1 of a metric on a logarithmic axis, or 0.05 of the cost until a target.
        tuned: by variant and algorithm, the rounds for which it was tuned. Where a budget ends in fewer, its numbers
            are not the best for that budget, and there is no verdict.
    """
    first = next(iter(results.values()))
    for result in results.values():
        result.check_metric(metric)
    label = first.metrics[metric]
    if label.end:
        raise InputError(
            f"{metric} is measured at the end of a run only, so that it has no value at equal bytes: judge by one of "
            f"{', '.join(first.measured)}."
        )
    has_target = any("reached" in result.table["status"] for result in results.values())
    kind: Kind = "cost" if has_target else "ratio" if label.log else "share"
    margin = MATTERING.check("matters", MATTERS[kind] if matters is None else matters)
    name = "cost until the target" if has_target else label.text
    found: list[tuple[str, list[Scores], float]] = []
    notes: list[str] = []
    replicates = 0
    for variant, result in results.items():
        where = f"{variant}: " if variant else ""
        axes = [axis for axis in CURRENCIES if AXES[axis].name in result.table.columns]
        runs, dropped = _select_runs(result, axes, metric, has_target)
        notes += [where + note for note in dropped]
        replicates = max(replicates, result.table["replicate"].n_unique())
        read = _read_costs if has_target else _read_metric
        readings = []
        for pair in combinations(runs, 2):
            readings += read({name: runs[name] for name in pair}, axes, label.log)
        apart = max((reading.resolution for reading in readings), default=0.0)
        if apart > math.log1p(margin):
            step = f"{100 * math.expm1(apart):.2g} %"
            advice = "" if result.manifest.get("every") == 1 else ": a smaller every decides more"
            notes.append(f"{where}the target was crossed between two marks, {step} apart{advice}.")
        if len(runs) > 1 and not readings:
            notes.append(f"{where}no amount was measured in all runs: measure more often, with a smaller every.")
        horizons = {method: tuned.get((variant, key[0])) for method, key in result.labels.items()}
        readings, said = _leave_out_early(readings, horizons)
        notes += [where + note for note in said]
        found.append((variant, readings, result.rounding))
    count = sum(len(readings) for _, readings, _ in found)
    level, sign = joint_level(count), -1 if label.better == "higher" and not has_target else 1
    if replicates < 2 and count:  # a difference of one pair has no interval, and a verdict without one is luck
        return MethodVerdicts(name, kind, margin, level, replicates, (), (*notes, ONE_SEED))
    verdicts = [
        _judge(variant, reading, rounding, sign, kind, margin, level)
        for variant, readings, rounding in found
        for reading in readings
    ]
    return MethodVerdicts(name, kind, margin, level, replicates, tuple(verdicts), tuple(notes))


PLANNED = ("biased-dmt", "gnsd")
"""The methods whose stable step sizes `gossamer plan` knows."""

ONE_SEED = "No verdict between methods: one seed has no interval. Run at least two, better five: seeds = 5."


def _select_runs(
    result: Result, axes: list[str], metric: str, has_target: bool
) -> tuple[dict[str, MethodRuns], list[str]]:
    """Return the runs by method, and a note on each method that cannot be compared."""
    found: dict[str, MethodRuns] = {}
    notes = []
    for method, key in result.labels.items():
        runs = MethodRuns.of(result.table, key, metric, axes)
        several = list(runs.by_seed.values())
        statuses = Counter([run.status for run in several])
        if lost := statuses["diverged"]:
            notes.append(f"{method} is not compared: {lost} of {plural(len(several), 'run')} diverged.")
        elif has_target and (reached := statuses["reached"]) < len(several):
            notes.append(f"{method} is not compared: {reached} of {plural(len(several), 'run')} reached the target.")
        elif runs.lost:
            notes.append(f"{method} is not compared: {metric} was not measured in all its runs.")
        else:
            found[method] = runs
            start, end = np.mean([[run.values[0], run.values[-1]] for run in several], axis=0).tolist()
            if (end < start) if result.metrics[metric].better == "higher" else (end > start):
                planned = key[0].partition(" (")[0] in PLANNED
                hint = "gossamer plan says which are stable" if planned else "try smaller ones, as gossamer tune does"
                notes.append(
                    f"{method} ended worse than it started ({format_number(start)} to {format_number(end)}): its step "
                    f"size may be too large; {hint}."
                )
    return found, notes


class Scores(NamedTuple):
    """The scores of two methods at one budget."""

    amounts: dict[str, float]
    scores: dict[str, np.ndarray]
    """By method, for each replicate: the metric, its logarithm, or that of the cost."""
    start: float
    """The mean of the metric at the start."""
    resolution: float = 0.0
    """How finely logarithms of costs are known: a target is crossed between two marks."""
    rounds: Mapping[str, int] = {}
    """By method, the last round that the metric is read at."""


def _read_metric(runs: dict[str, MethodRuns], axes: list[str], log: bool) -> list[Scores]:
    """Read the metric of two methods at the budget of each currency; currencies that read the same rounds are one."""
    several = [run for own in runs.values() for run in own.by_seed.values()]
    start = float(np.mean([run.values[0] for run in several]))
    windows: dict[tuple[tuple[int, int], ...], dict[str, float]] = {}
    for group in _group_currencies(several):
        costs = [run.costs[group[0]] for run in several]
        budget = find_budget(costs)
        if budget is None or budget <= 0:
            continue
        window = []
        for own in costs:
            high = int(np.searchsorted(own, budget, "right"))
            # where the last tenth holds no mark, the last one before the budget is read
            window.append((min(int(np.searchsorted(own, END * budget)), high - 1), high))
        paid = np.max([run.costs[:, high - 1] for run, (_, high) in zip(several, window, strict=True)], axis=0)
        windows.setdefault(tuple(window), {}).update({axes[k]: float(paid[k]) for k in group})
    readings = []
    for window, amounts in windows.items():
        means = [float(run.values[low:high].mean()) for run, (low, high) in zip(several, window, strict=True)]
        if log:  # a metric may come to 0 exactly
            means = [math.log(max(value, 1e-300)) for value in means]
        last = iter([int(run.costs[0, high - 1]) for run, (_, high) in zip(several, window, strict=True)])
        rounds = {name: max(islice(last, len(own.by_seed))) for name, own in runs.items()}
        readings.append(Scores(amounts, _over_replicates(runs, means), start, rounds=rounds))
    return readings


def _read_costs(runs: dict[str, MethodRuns], axes: list[str], log: bool) -> list[Scores]:
    """Read the logarithm of what two methods paid until they reached the target."""
    several = [run for own in runs.values() for run in own.by_seed.values()]
    readings = []
    for group in _group_currencies(several):
        costs = [run.costs[group[0]] for run in several]
        if min([own[-1] for own in costs]) <= 0:
            continue  # a run that starts at the target pays nothing
        # the target lies somewhere between the last two marks
        steps = max([math.log(own[-1] / own[-2]) if len(own) > 1 and own[-2] > 0 else math.inf for own in costs])
        scores = _over_replicates(runs, [math.log(own[-1]) for own in costs])
        least = np.min([run.costs[:, -1] for run in several], axis=0)
        readings.append(Scores({axes[k]: float(least[k]) for k in group}, scores, 0.0, steps))
    return readings


def _over_replicates(runs: dict[str, MethodRuns], values: Sequence[float]) -> dict[str, np.ndarray]:
    """Return the values of all runs, in order, by method: a mean for each replicate, in the order of their numbers."""
    left, found = iter(values), {}
    for name, own in runs.items():
        means = by_replicate(dict(zip(own.by_seed, left, strict=False)), own.replicates)
        found[name] = np.array([means[replicate] for replicate in sorted(means)])
    return found


def _leave_out_early(readings: Sequence[Scores], horizons: Mapping[str, int | None]) -> tuple[list[Scores], list[str]]:
    """Return the readings of methods at the rounds that they were tuned for, and notes on the others."""
    kept, early, late, currencies = [], {}, {}, {}
    for reading in readings:
        ahead = {name: at for name, at in reading.rounds.items() if at < NEAR * (horizons[name] or 0)}
        late |= {name: at for name, at in reading.rounds.items() if NEAR * at > (horizons[name] or at)}
        early |= ahead
        if ahead:
            currencies |= dict.fromkeys(reading.amounts)
        else:
            kept.append(reading)

    def say(rounds: Mapping[str, int]) -> str:
        return join_words(
            [f"{name} was tuned for {horizons[name]:,}, not {at:,} rounds" for name, at in rounds.items()]
        )

    notes = []
    if early:
        axes = join_words(list(currencies))
        notes.append(
            f"No verdict at equal {axes} between methods of different prices: {say(early)}. "
            f'equal = "{next(iter(currencies))}" in [run] tunes and runs all for that.'
        )
    if late:
        notes.append(f"Read after tuning ended: {say(late)}.")
    return kept, notes


def _group_currencies(runs: Sequence[SeedRun]) -> list[list[int]]:
    """Return the numbers of the currencies in groups: in one group, what all runs paid in all has the same proportions.

    Within 1 %, or what a round and a half pays: a method that asks for one gradient at its start and one a round pays a
    query more than rounds, which is no reason for two verdicts.
    """
    totals = np.array([run.costs[:, -1] for run in runs]).T  # by currency, the rounds first
    near = 1 + max(0.01, 1.5 / max(1.0, totals[0].min()))
    groups: list[list[int]] = []
    for k, paid in enumerate(totals):
        for group in groups:
            shares = paid / np.maximum(totals[group[0]], 1e-300)  # a currency may cost nothing
            if shares.max() <= near * shares.min():
                group.append(k)
                break
        else:
            groups.append([k])
    return groups


def find_budget(costs: Sequence[np.ndarray]) -> float | None:
    """Return the largest amount of which every run has a mark within 5 % below; None if there is none.

    `costs` holds, for each run, what was paid at its marks, in rising order.
    """
    most = min([float(own[-1]) for own in costs])
    amounts = np.unique(np.concatenate(costs))
    amounts = amounts[amounts <= most]
    for own in costs:
        last = own[np.maximum(np.searchsorted(own, amounts, "right") - 1, 0)]
        amounts = amounts[(last <= amounts) & (last >= NEAR * amounts)]
    return float(amounts[-1]) if len(amounts) else None


def _judge(
    variant: str, reading: Scores, rounding: float, sign: int, kind: Kind, margin: float, level: float
) -> MethodVerdict:
    """Return the verdict on two methods; the better one stands first."""
    means = {name: sign * float(own.mean()) for name, own in reading.scores.items()}
    better, other = sorted(means, key=means.__getitem__)
    values = reading.scores[better], reading.scores[other]
    mean, half = interval(sign * (values[1] - values[0]), level)
    # neither the arithmetic nor the step between two marks may decide
    size = float(np.abs(np.concatenate(values)).max()) if kind == "share" else 1.0
    half = max(half, rounding * size) + reading.resolution
    way = abs(reading.start - sign * means[better]) if kind == "share" else 1.0
    if way:
        mean, half = mean / way, half / way
    elif half:  # nothing moved, so that no share of the way can be told
        half = math.inf
    low, high = mean - half, mean + half
    word = decide(low, high, margin if kind == "share" else math.log1p(margin))
    if kind != "share":  # from logarithms to ratios
        mean, low, high = (math.expm1(min(number, 700.0)) for number in (mean, low, high))
    return MethodVerdict(variant, reading.amounts, better, other, mean, low, high, word, kind != "share")
