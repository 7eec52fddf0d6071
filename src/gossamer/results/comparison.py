"""Comparison of two runs: their differences, and whether their ends differ by more than chance."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from gossamer.basics.html import tag
from gossamer.basics.table import Table
from gossamer.basics.text import format_number, some
from gossamer.core import InputError, brief
from gossamer.results.result import MethodRuns, Result, last_rows
from gossamer.results.statistics import difference, interval, joint_level
from gossamer.results.study import (
    Study,
    describe_differences,
    find_differences,
    flatten,
    read_spec,
    study_of,
)

LEFT_OUT = ("consensus",)
"""Metrics of a summary that do not measure how good a model is."""


@dataclass(frozen=True)
class Comparison:
    """The outcome of `compare`. Printed it is text for a terminal."""

    labels: tuple[str, str]
    table: pl.DataFrame
    """A row for each common method and metric: method, metric, first and first_±, second and second_±, difference and
    difference_± (of the second from the first), paired, rounds and verdict."""
    level: float
    """The level of each interval of a difference, so high that all hold simultaneously at 95 %."""
    spec: list[tuple[str, Any, Any]] | None
    """The keys of the specs that differ, with both values (None for a key that is not there); None unless both have
    a spec."""
    made_by: list[tuple[str, Any, Any]]
    """The versions, digests of the code and machines that differ."""
    settings: list[str]
    """Other differences, a line each."""
    only: tuple[list[str], list[str]]
    """The methods that only one of them ran."""

    @property
    def significant(self) -> list[str]:
        """The differences beyond chance, as "method, metric"."""
        rows = self.table.filter(pl.col("verdict").str.starts_with("lower"))
        return [f"{method}, {metric}" for method, metric in rows.select("method", "metric").iter_rows()]

    def asdict(self) -> dict[str, Any]:
        """Return all fields, for a JSON file."""
        keys = None if self.spec is None else [{"key": key, "first": a, "second": b} for key, a, b in self.spec]
        return {
            "labels": list(self.labels),
            "level": self.level,
            "significant": self.significant,
            "comparisons": self.table.to_dicts(),
            "only": dict(zip(("first", "second"), self.only, strict=True)),
            "spec": keys,
            "made_by": [{"what": what, "first": first, "second": second} for what, first, second in self.made_by],
            "settings": self.settings,
        }

    def __repr__(self) -> str:
        names = " and ".join(map(repr, self.labels))
        return f"Comparison({names}: {len(self.table)} comparisons, {len(self.significant)} significant)"

    def _repr_html_(self) -> str:
        return tag("pre", str(self))

    def __str__(self) -> str:
        def list_changes(changes: list[tuple[str, Any, Any]]) -> list[str]:
            shown = ([what, *("not given" if one is None else brief(one) for one in both)] for what, *both in changes)
            return [f"  {what}: {first} | {second}" for what, first, second in shown]

        named = zip("AB", self.labels, strict=True)
        names = [letter if label == letter else f"{letter} = {label}" for letter, label in named]
        sides = ("first", "second", "difference")
        body = [
            [
                *(row["method"], row["metric"]),
                *(format_number(row[side], row[f"{side}_±"], half_digits=2) for side in sides),
                *(row["paired"], row["verdict"]),
            ]
            for row in self.table.iter_rows(named=True)
        ]
        table = Table(["method", "metric", *names, "B − A", "paired", "verdict"], body).text(keys=2)
        note = "Means with 95 % intervals. Those of the differences are at "
        note += f"{100 * self.level:.4g} %, so that all hold together at 95 %."
        parts = [[table, note]]
        parts += [[f"only in {name}: {some(names, 20)}"] for name, names in zip("AB", self.only, strict=True) if names]
        alike = "the specs are the same" if self.spec is not None else "no specs: an oracle is known by a spec only"
        parts += [["specs differ (A | B):", *list_changes(self.spec)]] if self.spec else [[alike]]
        same = ["the same version of Gossamer, packages and machine; code of your own is not compared"]
        parts += [["made by (A | B):", *list_changes(self.made_by)] if self.made_by else same]
        parts += [self.settings] if self.settings else []
        return "\n\n".join("\n".join(part) for part in parts)


def compare(first: Result | Study, second: Result | Study, labels: tuple[str, str] = ("A", "B")) -> Comparison:
    """Compare two results, or two studies, at the ends of their runs, method by method.

    Methods are matched by algorithm and setting, or by the algorithm alone where each run has it once. Where both ran
    the same seeds in the same replicates, values are paired by them; else Welch's interval is taken. The level is
    such that all intervals hold simultaneously at 95 %. Differences that rounding can make count as none.
    """
    first, second = (study_of(given, label) for given, label in zip((first, second), labels, strict=True))
    is_single = len(first.results) == len(second.results) == 1
    if is_single:  # two results are compared whatever their variants are called
        first, second = (Study("", "", one.spec, {"": one.result}, None) for one in (first, second))
    pairs = {}  # the variants and methods that both ran, by those of the first
    for variant in (variant for variant in first.results if variant in second.results):
        own, others = first.results[variant].states, second.results[variant].states
        for key in own:
            namesakes = [other for other in others if other[0] == key[0]]
            is_alone = len(namesakes) == sum(other[0] == key[0] for other in own) == 1
            if key in others or is_alone:  # of the same setting, or, where each side has it once, of the same algorithm
                pairs[variant, key] = variant, key if key in others else namesakes[0]
    only = [
        [
            f"{variant}: {label}" if variant else label
            for variant, result in study.results.items()
            for label, key in result.labels.items()
            if (variant, key) not in matched
        ]
        for study, matched in ((first, {*pairs}), (second, {*pairs.values()}))
    ]
    if not pairs:
        raise InputError(
            f"nothing can be compared: the first runs {some(only[0], 8)}, the second {some(only[1], 8)}, and no method "
            "is in both. `gossamer.concat` puts results side by side."
        )
    compared: list[tuple[dict[str, Any], MethodRuns, MethodRuns, float]] = []
    for (variant, key), (_, other_key) in pairs.items():
        one, other = first.results[variant], second.results[variant]
        label = next(label for label, own in one.labels.items() if own == key)
        ends = last_rows(one.table), last_rows(other.table)
        rounding = max(one.rounding, other.rounding)
        for metric, shown in one.metrics.items():
            if shown.summary and metric not in LEFT_OUT and one.has(metric) and other.has(metric):
                row = {"method": f"{variant}: {label}" if variant else label, "metric": metric}
                compared.append(
                    (row, MethodRuns.of(ends[0], key, metric), MethodRuns.of(ends[1], other_key, metric), rounding)
                )
    level = joint_level(len(compared))  # of many intervals at 95 %, some would miss
    rows = [row | _judge(one, other, level, rounding) for row, one, other, rounding in compared]
    floats = {f"{side}{half}": pl.Float64 for side in ("first", "second", "difference") for half in ("", "_±")}
    left, right = next(iter(first.results.values())), next(iter(second.results.values()))
    origins = [(side.manifest.get("versions") or {}) | (side.manifest.get("machine") or {}) for side in (left, right)]
    specs = [dict(flatten(read_spec(study.spec))) for study in (first, second)]
    return Comparison(
        labels=labels,
        table=pl.DataFrame(rows, schema_overrides=floats).fill_nan(None),
        level=level,
        spec=find_changes(*specs) if first.spec and second.spec else None,
        made_by=find_changes(*origins),
        settings=describe_differences(find_differences({"A": left, "B": right})) if is_single else [],
        only=(only[0], only[1]),
    )


def find_changes(first: dict[str, Any], second: dict[str, Any]) -> list[tuple[str, Any, Any]]:
    """Return the keys whose values differ, in the order of the first, with both values."""
    keys = dict.fromkeys([*first, *second])
    return [(key, first.get(key), second.get(key)) for key in keys if first.get(key) != second.get(key)]


def _judge(first: MethodRuns, second: MethodRuns, level: float, rounding: float) -> dict[str, Any]:
    """Return the rest of a row of the table: means, their difference and the verdict."""
    row: dict[str, Any] = {}
    ends = first.ends, second.ends
    for side, by_replicate in zip(("first", "second"), ends, strict=True):
        mean, half = interval(np.array([*by_replicate.values()])) if by_replicate else (math.nan, math.nan)
        row |= {side: mean, f"{side}_±": half}
    row |= {"difference": None, "difference_±": None, "paired": "", "rounds": [first.last, second.last]}
    lost = [f"{runs.lost} in {name}" for runs, name in ((first, "A"), (second, "B")) if runs.lost]
    if lost:  # the seeds that are left are the lucky ones: their mean would flatter the method
        return row | {"verdict": f"undecided: runs diverged, {' and '.join(lost)}"}
    paired = first.replicates == second.replicates
    sides = [np.array([by_replicate[k] for k in sorted(by_replicate)]) for by_replicate in ends]
    mean, half = difference(sides[0], sides[1], paired=paired, level=level)
    row |= {"difference": mean, "difference_±": half, "paired": "by seed" if paired else "no (Welch)"}
    if paired and (sides[0] == sides[1]).all():
        return row | {"verdict": "identical"}
    if math.isnan(half):
        return row | {"verdict": "undecided: one replicate has no interval"}
    # equal seeds on two machines differ by rounding alone, and then their interval is next to nothing
    noise = max(half, rounding * max(abs(float(side.mean())) for side in sides))
    if abs(mean) <= noise:
        return row | {"verdict": "not distinguishable"}
    return row | {"verdict": "lower in B" if mean < 0 else "lower in A"}
