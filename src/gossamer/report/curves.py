"""The numbers of the interactive curves: bands over seeds of every metric, against all that can be paid."""

import math
from typing import Any

import numpy as np
import polars as pl

from gossamer.report.figures import COLORS, DASHES, PAID
from gossamer.report.tables import band
from gossamer.results.result import Result
from gossamer.results.study import Study

POINTS = 1000
"""The most points of a curve."""

PLOTLY = dict(zip(DASHES, ["solid", "dash", "dashdot", "dot"], strict=True))


def axes(result: Result) -> dict[str, str]:
    """The x-axes of a result, and their columns: what is paid, where it was counted."""
    frame = result.frame()
    return {name: column for name, column in result.axes.items() if _has(frame, column)}


def metrics(result: Result) -> list[str]:
    """The metrics that were measured along the runs, at more than one round."""
    rounds = {name: result.table.filter(pl.col(name).is_not_null())["round"].n_unique() for name in result.measured}
    return [name for name, count in rounds.items() if count > 1]


def labels(study: Study) -> list[str]:
    """The methods of all variants, each once."""
    return list(dict.fromkeys(label for result in study.curves().values() for label in result.labels))


def of(study: Study) -> dict[str, Any]:
    """The curves of a study, by number throughout: variants, methods, x-axes and metrics."""
    results = list(study.curves().values())
    across = list(dict.fromkeys(name for result in results for name in axes(result)))
    up = {name: result.metrics[name] for result in results[::-1] for name in metrics(result)}
    methods = labels(study)
    return {
        "axes": [PAID[name] for name in across],
        "metrics": [{"title": label.text, "log": label.log} for label in up.values()],
        "methods": [
            {
                "label": label,
                "color": COLORS[number % len(COLORS)],
                "dash": PLOTLY[DASHES[number // len(COLORS) % len(DASHES)]],
            }
            for number, label in enumerate(methods)
        ],
        "variants": [
            {
                "name": variant,
                "methods": [
                    _method(result, label, across, list(up)) if label in result.labels else None for label in methods
                ],
            }
            for variant, result in study.curves().items()
        ],
    }


def thinned(study: dict[str, Any], points: int) -> dict[str, Any]:
    """The same curves with so many points at most: the first, the last and others at equal distances."""
    variants = [
        variant | {"methods": [_thin(method, points) for method in variant["methods"]]} for variant in study["variants"]
    ]
    return study | {"variants": variants}


def _method(result: Result, label: str, across: list[str], up: list[str]) -> dict[str, Any]:
    rows = result.of(label)
    alive = rows.filter(pl.col("status") != "diverged")
    columns = axes(result)
    others = [column for column in columns.values() if column != "round"]
    marks = alive.group_by("round").agg(pl.col(others).mean()).sort("round")
    position = {mark: k for k, mark in enumerate(marks["round"].to_list())}
    return {
        "setting": result.labels[label][1],
        "seeds": len(result.seeds),
        "diverged": rows.filter(pl.col("status") == "diverged").height,
        "x": [marks[columns[name]].cast(pl.Float64).to_numpy() if name in columns else None for name in across],
        "bands": [
            [_band(alive, name, log, position) if _has(rows, name) else None for log in (False, True)] for name in up
        ],
    }


def _has(frame: pl.DataFrame, name: str) -> bool:
    return name in frame.columns and frame[name].null_count() < len(frame)


def _band(alive: pl.DataFrame, metric: str, log: bool, position: dict[int, int]) -> dict[str, np.ndarray]:
    """The mean, and how far the interval goes from it: a difference, or on a log axis a factor."""
    found = band(alive, metric, "round", log)
    places = [position[int(mark)] for mark in found["x"]]
    mean, wide = np.full(len(position), np.nan), np.full(len(position), np.nan)
    mean[places] = found["mean"]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        wide[places] = found["high"] / found["mean"] if log else found["high"] - found["mean"]
    return {"mean": mean, "wide": wide}


def _thin(method: dict[str, Any] | None, points: int) -> dict[str, Any] | None:
    if method is None:
        return None
    length = len(method["x"][0])
    keep = (
        np.unique(np.linspace(0, length - 1, min(points, length)).round().astype(int)) if length else np.array([], int)
    )
    bands = [
        [one and {"mean": _numbers(one["mean"][keep], 6), "wide": _numbers(one["wide"][keep], 3)} for one in both]
        for both in method["bands"]
    ]
    rounds, *others = method["x"]
    paid = [None if x is None else _paid(x, rounds, keep) for x in others]
    return method | {"x": [_numbers(rounds[keep], 12), *paid], "bands": bands}


def _paid(x: np.ndarray, rounds: np.ndarray, keep: np.ndarray) -> dict[str, float] | list[float | int | None]:
    """What was paid at each round, in two numbers where each round costs the same."""
    each = (x[-1] - x[0]) / (rounds[-1] - rounds[0]) if len(rounds) > 1 else 0.0
    start = x[0] - each * rounds[0] if len(rounds) else 0.0
    if np.allclose(x, start + each * rounds, rtol=1e-9, atol=0):
        return {"start": float(start), "each": float(each)}
    return _numbers(x[keep], 7)


def _numbers(values: np.ndarray, digits: int) -> list[float | int | None]:
    """Rounded, with null for what JSON cannot say, and whole numbers without their point."""
    return [_short(float(f"{value:.{digits}g}")) if math.isfinite(value) else None for value in values.tolist()]


def _short(value: float) -> float | int:
    return int(value) if value.is_integer() and abs(value) < 1e15 else value
