"""Two runs side by side: in what they differ, and whether their results differ by more than chance."""

import math
import tomllib
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from gossamer.basics.html import tag
from gossamer.basics.table import Table
from gossamer.basics.text import some
from gossamer.core import InputError, brief
from gossamer.results.result import Key, Result
from gossamer.results.settings import ROUNDING, differing, flattened, told
from gossamer.results.statistics import LEVEL, by_replicate, difference, interval
from gossamer.results.study import Study, study_of

LEFT_OUT = ("consensus",)
"""Metrics of a summary that say nothing of how good a model is."""

Pair = tuple[str, tuple[str, Key], tuple[str, Key]]
"""What a comparison is called, and the variant and method of each side."""


@dataclass(frozen=True)
class Ends:
    """The ends of the runs of one method, for one metric."""

    values: dict[int, float]
    """By replicate; seeds that diverged have none."""
    seeds: dict[int, frozenset[int]]
    """The seeds of each replicate."""
    last: int
    """The last measured round."""
    diverged: int

    @staticmethod
    def of(result: Result, key: Key, metric: str) -> "Ends":
        own = result.table.filter((pl.col("algorithm") == key[0]) & (pl.col("setting") == key[1]))
        last = own.group_by("seed", maintain_order=True).last()
        replicates = dict(last.select("seed", "replicate").iter_rows())
        alive = last.filter(
            (pl.col("status") != "diverged") & pl.col(metric).is_not_null() & pl.col(metric).is_finite()
        )
        seeds: dict[int, set[int]] = {}
        for seed, replicate in replicates.items():
            seeds.setdefault(replicate, set()).add(seed)
        values = by_replicate(dict(alive.select("seed", metric).iter_rows()), replicates)
        most: Any = last["round"].max()
        return Ends(values, {k: frozenset(v) for k, v in seeds.items()}, int(most), len(last) - len(alive))


@dataclass(frozen=True)
class Comparison:
    """What `compare` found. Printed it is text for a terminal."""

    labels: tuple[str, str]
    table: pl.DataFrame
    """A row for each common method and metric: method, metric, first and first_±, second and second_±, difference and
    difference_± (of the second from the first), paired, rounds and verdict."""
    level: float
    """Of each interval of a difference: so high that all hold simultaneously at 95 %."""
    spec: list[tuple[str, Any, Any]] | None
    """The keys of the specs that differ, with both values (None for a key that is not there); None unless both have
    a spec."""
    made_by: list[tuple[str, Any, Any]]
    """The versions, code fingerprints and machines that differ."""
    settings: list[str]
    """What else differs, a line each."""
    only: tuple[list[str], list[str]]
    """The methods that only one of them ran."""

    @property
    def significant(self) -> list[str]:
        """What differs by more than chance: "method, metric"."""
        rows = self.table.filter(pl.col("verdict").str.starts_with("lower"))
        return [f"{method}, {metric}" for method, metric in rows.select("method", "metric").iter_rows()]

    def asdict(self) -> dict[str, Any]:
        """All of it, for a JSON file."""
        keys = None if self.spec is None else [{"key": key, "first": a, "second": b} for key, a, b in self.spec]
        made_by = [{"what": what, "first": first, "second": second} for what, first, second in self.made_by]
        return {
            "labels": list(self.labels),
            "level": self.level,
            "significant": self.significant,
            "comparisons": self.table.to_dicts(),
            "only": dict(zip(("first", "second"), self.only, strict=True)),
            "spec": keys,
            "made_by": made_by,
            "settings": self.settings,
        }

    def __repr__(self) -> str:
        names = " and ".join(map(repr, self.labels))
        return f"Comparison({names}: {len(self.table)} comparisons, {len(self.significant)} significant)"

    def _repr_html_(self) -> str:
        return tag("pre", str(self))

    def __str__(self) -> str:
        first, second = self.labels
        names = (
            letter if label == letter else f"{letter} = {label}" for letter, label in (("A", first), ("B", second))
        )
        head = ["method", "metric", *names, "B − A", "paired", "verdict"]
        body = [
            [
                row["method"],
                row["metric"],
                *(_number(row[side], row[f"{side}_±"]) for side in ("first", "second", "difference")),
                row["paired"],
                row["verdict"],
            ]
            for row in self.table.iter_rows(named=True)
        ]
        parts = [[Table(head, body).text(keys=2)]]
        parts[0].append(
            f"Means with 95 % intervals. Those of the differences are at {100 * self.level:.4g} %, so that all hold "
            "together at 95 %."
        )
        parts += [[f"only in {name}: {some(names, 20)}"] for name, names in zip("AB", self.only, strict=True) if names]
        keys = [f"  {key}: {_value(first)} | {_value(other)}" for key, first, other in self.spec or []]
        alike = "the specs are the same" if self.spec is not None else "no specs: an oracle is known by a spec only"
        parts += [["specs differ (A | B):", *keys]] if keys else [[alike]]
        made_by = [f"  {what}: {_value(first)} | {_value(other)}" for what, first, other in self.made_by]
        parts += [["made by (A | B):", *made_by]] if made_by else [["the same code, versions and machine"]]
        parts += [self.settings] if self.settings else []
        return "\n\n".join("\n".join(part) for part in parts)


def compare(first: Result | Study, second: Result | Study, labels: tuple[str, str] = ("A", "B")) -> Comparison:
    """Compare two results, or two studies, at the ends of their runs, method by method.

    Methods are matched by algorithm and setting, or by the algorithm alone where each run has it once. Where both ran
    the same seeds in the same replicates, values are paired by them; else Welch's interval is taken. The level is
    such that all intervals hold simultaneously at 95 %. Differences that rounding can make count as none.
    """
    first, second = (study_of(given, label) for given, label in zip((first, second), labels, strict=True))
    pairs, only = _pairs(first, second)
    if not pairs:
        raise InputError(
            f"nothing can be compared: the first runs {some(only[0], 8)}, the second {some(only[1], 8)}, and no method "
            "is in both. `gossamer.concat` puts results side by side."
        )
    wanted = [
        (name, metric, own, other)
        for name, own, other in pairs
        for metric in _compared(first.results[own[0]], second.results[other[0]])
    ]
    level = 1 - (1 - LEVEL) / max(1, len(wanted))
    rows = []
    for name, metric, (variant, key), (other_variant, other_key) in wanted:
        sides = first.results[variant], second.results[other_variant]
        dtypes = [str(side.manifest.get("dtype")) for side in sides]
        rounding = max(ROUNDING.get(dtype, 1e-5) for dtype in dtypes)
        ends = Ends.of(sides[0], key, metric), Ends.of(sides[1], other_key, metric)
        rows.append({"method": name, "metric": metric, **_judged(*ends, level, rounding)})
    floats = {f"{side}{half}": pl.Float64 for side in ("first", "second", "difference") for half in ("", "_±")}
    left, right = next(iter(first.results.values())), next(iter(second.results.values()))
    return Comparison(
        labels=labels,
        table=pl.DataFrame(rows, schema_overrides=floats),
        level=level,
        spec=changed(_keys(first.spec), _keys(second.spec)) if first.spec and second.spec else None,
        made_by=changed(_made_by(left), _made_by(right)),
        settings=told(differing({"A": left, "B": right})) if len(first.results) == len(second.results) == 1 else [],
        only=only,
    )


def changed(first: dict[str, Any], second: dict[str, Any]) -> list[tuple[str, Any, Any]]:
    """The keys whose values differ, in the order of the first, with both values."""
    keys = dict.fromkeys([*first, *second])
    return [(key, first.get(key), second.get(key)) for key in keys if first.get(key) != second.get(key)]


def _compared(first: Result, second: Result) -> list[str]:
    """The metrics of a summary that both measured."""
    shown = [name for name, label in first.metrics.items() if label.summary and name not in LEFT_OUT]
    return [name for name in shown if first.has(name) and second.has(name)]


def _pairs(first: Study, second: Study) -> tuple[list[Pair], tuple[list[str], list[str]]]:
    """The methods that both ran, and those that only one of them did."""
    single = len(first.results) == len(second.results) == 1
    pairs: list[Pair] = []
    matched: tuple[set[tuple[str, Key]], set[tuple[str, Key]]] = set(), set()
    for variant, result in first.results.items():
        other_variant = next(iter(second.results)) if single else variant
        if other_variant not in second.results:
            continue
        other = second.results[other_variant]
        for label, key in result.labels.items():
            partner = _partner(key, list(result.states), list(other.states))
            if partner is not None:
                name = label if single or not variant else f"{variant}: {label}"
                pairs.append((name, (variant, key), (other_variant, partner)))
                matched[0].add((variant, key))
                matched[1].add((other_variant, partner))
    left = [
        [
            f"{variant}: {label}" if variant else label
            for variant, result in study.results.items()
            for label, key in result.labels.items()
            if (variant, key) not in done
        ]
        for study, done in zip((first, second), matched, strict=True)
    ]
    return pairs, (left[0], left[1])


def _partner(key: Key, own: list[Key], others: list[Key]) -> Key | None:
    if key in others:
        return key
    named = [other for other in others if other[0] == key[0]]
    alone = sum(mine[0] == key[0] for mine in own) == 1
    return named[0] if alone and len(named) == 1 else None


def _judged(first: Ends, second: Ends, level: float, rounding: float) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for side, ends in (("first", first), ("second", second)):
        mean, half = interval(np.array(list(ends.values.values()))) if ends.values else (math.nan, math.nan)
        row |= {side: _finite(mean), f"{side}_±": _finite(half)}
    row |= {"difference": None, "difference_±": None, "paired": "", "rounds": [first.last, second.last]}
    lost = [f"{ends.diverged} in {name}" for ends, name in ((first, "A"), (second, "B")) if ends.diverged]
    if lost:
        return row | {"verdict": f"undecided: runs diverged, {' and '.join(lost)}"}
    paired = first.seeds == second.seeds
    sides = [np.array([ends.values[k] for k in sorted(ends.values)]) for ends in (first, second)]
    mean, half = difference(sides[0], sides[1], paired=paired, level=level)
    row |= {"difference": mean, "difference_±": _finite(half), "paired": "by seed" if paired else "no (Welch)"}
    if paired and (sides[0] == sides[1]).all():
        return row | {"verdict": "identical"}
    if math.isnan(half):
        return row | {"verdict": "undecided: one replicate has no interval"}
    noise = max(half, rounding * max(abs(float(side.mean())) for side in sides))
    if abs(mean) <= noise:
        return row | {"verdict": "not distinguishable"}
    return row | {"verdict": "lower in B" if mean < 0 else "lower in A"}


def _keys(spec: str) -> dict[str, Any]:
    try:
        return dict(flattened(tomllib.loads(spec)))
    except (tomllib.TOMLDecodeError, RecursionError):
        return {}


def _made_by(result: Result) -> dict[str, Any]:
    parts = (result.manifest.get(part) or {} for part in ("versions", "machine"))
    return {name: value for part in parts for name, value in part.items()}


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _number(value: float | None, half: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:.4g}" if half is None else f"{value:.4g} ± {half:.2g}"


def _value(value: Any) -> str:
    return "not given" if value is None else brief(value)
