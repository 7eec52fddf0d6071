"""The numbers of the interactive curves: bands over seeds of every metric, against all that can be paid."""

import math
import tomllib
from typing import Any

import numpy as np
import polars as pl

from gossamer.metrics import AXES
from gossamer.report import names, styles
from gossamer.report.figures import FLOORED, PAID, Look
from gossamer.report.tables import band
from gossamer.results.concat import SIDE_BY_SIDE
from gossamer.results.result import Result
from gossamer.results.study import Study

POINTS = 1000
"""The most points of a curve."""


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


def floors(study: Study) -> dict[str, float]:
    """‖ē‖² by variant, where there is a bias: the level that ‖∇F‖² cannot leave."""
    known = {variant: study.facts.get(variant, {}).get("bias_sq") for variant in study.results}
    return {name: float(size) for name, size in known.items() if isinstance(size, (int, float)) and size > 0}


def looks(study: Study) -> dict[str, Look]:
    """How the variants of a study look in one figure."""
    levels = floors(study)
    return {name: Look(named.text, named.style, levels.get(name)) for name, named in names.variants(study).items()}


def first_metric(study: Study, measured: list[str]) -> int:
    """What is shown first: the squared gradient norm where there is a bias, else the first that was measured."""
    return measured.index(FLOORED) if FLOORED in measured and (floors(study) or _distorted(study)) else 0


def _distorted(study: Study) -> bool:
    """Whether the gradients of a spec go through stages, which make them biased."""
    texts = {study.spec, *(result.spec or "" for result in study.results.values())}
    return any(_has_stages(text) for text in texts)


def _has_stages(text: str) -> bool:
    try:
        spec = tomllib.loads(text)
        tables = [spec.get("oracle", {}), *(variant.get("oracle", {}) for variant in spec.get("variant", []))]
        return any(bool(table.get("stages")) for table in tables)
    except (tomllib.TOMLDecodeError, AttributeError, TypeError, RecursionError):
        return False


def first_variant(study: Study) -> int:
    """Which view is shown first: where a bias is present, a variant that was tuned for the squared gradient norm; of
    runs side by side, a method in all of them, which comes after the variants."""
    drawn = list(study.curves().values())
    if study.name == SIDE_BY_SIDE and any(
        sum(label in result.labels for result in drawn) > 1 for label in labels(study)
    ):
        return len(drawn)
    if study.tuning is None or not floors(study):
        return 0
    tuned = study.tuning.filter(pl.col("criterion") == FLOORED)["variant"].unique().to_list()
    return next((number for number, variant in enumerate(study.curves()) if variant in tuned), 0)


def of(study: Study) -> dict[str, Any]:
    """The curves of a study, by number throughout: variants, methods, x-axes and metrics."""
    drawn = study.curves()
    results, merged = list(drawn.values()), len(drawn) < len(study.results)
    across = list(dict.fromkeys(name for result in results for name in axes(result)))
    up = {name: result.metrics[name] for result in results[::-1] for name in metrics(result)}
    methods, named, bias = labels(study), names.variants(study), floors(study)
    proper = {label: text for result in results for label, text in names.shown(result).items()}
    return {
        "axes": [{"title": PAID[name][0], "short": AXES[name].short} for name in across],
        "metrics": [
            {"key": name, "title": label.text, "log": label.log, "better": label.better} for name, label in up.items()
        ],
        "first": {"metric": first_metric(study, list(up)), "view": first_variant(study)},
        "methods": [
            {"label": named[label].text, **named[label].style.web()}
            if merged
            else {"label": proper[label], **styles.of(number).web()}
            for number, label in enumerate(methods)
        ],
        "variants": [
            {
                "name": variant,
                "label": variant if merged else named[variant].text,
                **({} if merged else named[variant].style.web()),
                "methods": [
                    _method(result, label, across, list(up)) | {"floor": bias.get(label if merged else variant)}
                    if label in result.labels
                    else None
                    for label in methods
                ],
            }
            for variant, result in drawn.items()
        ],
    }


def thinned(study: dict[str, Any], points: int) -> dict[str, Any]:
    """The same curves with at most `points` points: the first, the last and others at equal distances."""
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
        "x": [_column(marks, columns[name], PAID[name][1]) if name in columns else None for name in across],
        "bands": [
            [_band(alive, name, log, position) if _has(rows, name) else None for log in (False, True)] for name in up
        ],
    }


def _column(marks: pl.DataFrame, column: str, factor: float) -> np.ndarray:
    return marks[column].cast(pl.Float64).to_numpy() * factor


def _has(frame: pl.DataFrame, name: str) -> bool:
    return name in frame.columns and frame[name].null_count() < len(frame)


def _band(alive: pl.DataFrame, metric: str, log: bool, position: dict[int, int]) -> dict[str, np.ndarray]:
    """The mean, and how far the interval goes from it: a difference, or on a log axis a factor."""
    points = band(alive, metric, "round", log)
    places = [position[int(mark)] for mark in points["x"]]
    mean, wide = np.full(len(position), np.nan), np.full(len(position), np.nan)
    mean[places] = points["mean"]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        wide[places] = points["high"] / points["mean"] if log else points["high"] - points["mean"]
    return {"mean": mean, "wide": wide}


def _thin(method: dict[str, Any] | None, points: int) -> dict[str, Any] | None:
    if method is None:
        return None
    length = len(method["x"][0])
    keep = (
        np.unique(np.linspace(0, length - 1, min(points, length)).round().astype(int)) if length else np.array([], int)
    )
    bands = [
        [
            curve and {"mean": _numbers(curve["mean"][keep], 6), "wide": _numbers(curve["wide"][keep], 3)}
            for curve in both
        ]
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
