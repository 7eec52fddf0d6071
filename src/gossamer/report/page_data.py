"""The numbers that the page's script draws: curves, ends by step size, profiles over variants, and tuning grids."""

import math
import tomllib
from typing import Any

import numpy as np
import polars as pl
from scipy.stats import rankdata

from gossamer.basics.text import SYMBOLS, format_number
from gossamer.metrics import AXES
from gossamer.report import names, styles
from gossamer.report.figures import FLOORED, band, bias_floors, needs_log, order_methods
from gossamer.results.result import Result
from gossamer.results.statistics import interval
from gossamer.results.study import SIDE_BY_SIDE, TUNING, Study

POINTS = 1000
"""The most points of a curve."""

FEWEST_VARIANTS = 3
"""A profile over variants needs at least this many."""


# --- curves -----------------------------------------------------------------------------------------------------------


def find_axes(result: Result) -> dict[str, str]:
    """Return the x-axes of a result that were counted, and their columns."""
    frame = result.frame()
    return {name: column for name, column in result.axes.items() if _has(frame, column)}


def find_metrics(result: Result) -> list[str]:
    """Return the metrics that were measured along the runs, at more than one round."""
    rounds = {name: result.table.filter(pl.col(name).is_not_null())["round"].n_unique() for name in result.measured}
    return [name for name, count in rounds.items() if count > 1]


def _has(frame: pl.DataFrame, name: str) -> bool:
    return name in frame.columns and frame[name].null_count() < len(frame)


def curves(study: Study) -> dict[str, Any]:
    """Return the curves of a study; variants, methods, x-axes and metrics are numbered."""
    drawn = study.curves()
    results, merged = list(drawn.values()), len(drawn) < len(study.results)
    across = list(dict.fromkeys(name for result in results for name in find_axes(result)))
    # backwards, so that the label of the first result counts
    up = {name: result.metrics[name] for result in results[::-1] for name in find_metrics(result)}
    methods = list(dict.fromkeys(label for result in results for label in result.labels))
    named, bias = names.name_variants(study), bias_floors(study)
    proper = {label: text for result in results for label, text in names.name_labels(result).items()}
    return {
        "axes": [{"title": AXES[name].title, "short": AXES[name].short} for name in across],
        "metrics": [
            {"key": name, "title": label.text, "log": label.log, "better": label.better} for name, label in up.items()
        ],
        "first": {"metric": _first_metric(study, list(up)), "view": _first_view(study, methods)},
        "methods": [
            {"label": named[label].text, **named[label].style.web()}
            if merged
            else {"label": proper[label], **styles.style_of(number).web()}
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


def _first_metric(study: Study, measured: list[str]) -> int:
    """Return the metric that is shown first: ‖∇F‖² where gradients are biased, else the first that was measured."""
    if FLOORED not in measured:
        return 0
    biased = bool(bias_floors(study))
    for text in {study.spec, *(result.spec or "" for result in study.results.values())}:
        try:
            spec = tomllib.loads(text)
            oracles = [spec.get("oracle", {}), *(variant.get("oracle", {}) for variant in spec.get("variant", []))]
            biased = biased or any(bool(oracle.get("stages")) for oracle in oracles)
        except (tomllib.TOMLDecodeError, AttributeError, TypeError, RecursionError):
            continue  # a result may hold any spec
    return measured.index(FLOORED) if biased else 0


def _first_view(study: Study, methods: list[str]) -> int:
    """Return the view that is shown first.

    It is the first variant; under a bias, the first that was tuned by ‖∇F‖²; and of runs side by side, a method in all
    of them, which views number after the variants.
    """
    drawn = study.curves()
    shared = any(sum(label in result.labels for result in drawn.values()) > 1 for label in methods)
    if study.name == SIDE_BY_SIDE and shared:
        return len(drawn)
    if study.tuning is None or not bias_floors(study):
        return 0
    tuned = study.tuning.filter(pl.col("criterion") == FLOORED)["variant"].unique().to_list()
    return next((number for number, variant in enumerate(drawn) if variant in tuned), 0)


def _method(result: Result, label: str, across: list[str], up: list[str]) -> dict[str, Any]:
    rows = result.of(label)
    alive = rows.filter(pl.col("status") != "diverged")
    columns = find_axes(result)
    others = [column for column in columns.values() if column != "round"]
    marks = alive.group_by("round").agg(pl.col(others).mean()).sort("round")
    position = {mark: k for k, mark in enumerate(marks["round"].to_list())}
    paid = {name: marks[column].cast(pl.Float64).to_numpy() * AXES[name].factor for name, column in columns.items()}
    return {
        "setting": result.labels[label][1],
        "seeds": len(result.seeds),
        "diverged": rows.filter(pl.col("status") == "diverged").height,
        "x": [paid.get(name) for name in across],
        "bands": [
            [_band(alive, name, log, position) if _has(rows, name) else None for log in (False, True)] for name in up
        ],
    }


def _band(alive: pl.DataFrame, metric: str, log: bool, position: dict[int, int]) -> dict[str, np.ndarray]:
    """Return the mean, and how far the interval goes from it: a difference, or on a log axis a factor."""
    points = band(alive, metric, "round", log)
    places = [position[int(mark)] for mark in points["x"]]
    mean, wide = np.full(len(position), np.nan), np.full(len(position), np.nan)
    mean[places] = points["mean"]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        wide[places] = points["high"] / points["mean"] if log else points["high"] - points["mean"]
    return {"mean": mean, "wide": wide}


def thin(study: dict[str, Any], points: int) -> dict[str, Any]:
    """Return the same curves with at most `points` points: the first, the last and others at equal distances."""
    variants = [
        variant | {"methods": [method and _thin(method, points) for method in variant["methods"]]}
        for variant in study["variants"]
    ]
    return study | {"variants": variants}


def _thin(method: dict[str, Any], points: int) -> dict[str, Any]:
    rounds, *others = method["x"]
    length = len(rounds)
    keep = np.array([], int)
    if length:
        keep = np.unique(np.linspace(0, length - 1, min(points, length)).round().astype(int))
    # three digits of an interval are finer than a pixel, and they halve the size of the page
    bands = [
        [curve and {"mean": _round(curve["mean"][keep], 6), "wide": _round(curve["wide"][keep], 3)} for curve in both]
        for both in method["bands"]
    ]
    paid = [None if x is None else _paid(x, rounds, keep) for x in others]
    return method | {"x": [_round(rounds[keep], 12), *paid], "bands": bands}


def _paid(x: np.ndarray, rounds: np.ndarray, keep: np.ndarray) -> dict[str, float] | list[float | int | None]:
    """Return what was paid at each round; two numbers suffice where each round costs the same."""
    each = (x[-1] - x[0]) / (rounds[-1] - rounds[0]) if len(rounds) > 1 else 0.0
    start = x[0] - each * rounds[0] if len(rounds) else 0.0
    # each round costs the same unless the network changes, or a clock runs
    if np.allclose(x, start + each * rounds, rtol=1e-9, atol=0):
        return {"start": float(start), "each": float(each)}
    return _round(x[keep], 7)


def _round(values: np.ndarray, digits: int) -> list[float | int | None]:
    """Round for JSON: null for what is not finite, and whole numbers without their point."""
    rounded = []
    for value in values.tolist():
        short = float(f"{value:.{digits}g}") if math.isfinite(value) else None
        rounded.append(int(short) if short is not None and short.is_integer() and abs(short) < 1e15 else short)
    return rounded


# --- step sizes and variants ------------------------------------------------------------------------------------------


def sensitivity(study: Study) -> list[dict[str, Any]]:
    """Return, for each variant that was tuned by a metric, the end of every method against its step size.

    A step size is in a method's stable range if it is stable in every replicate. Bands are 95 % intervals over
    replicates.
    """
    if study.tuning is None:
        return []
    drawn = []
    tuned = study.tuning.filter(pl.col("criterion") != "rounds").select("variant", "criterion")
    for variant, criterion in tuned.unique(maintain_order=True).iter_rows():
        label, tried = study.results[variant].metrics.get(criterion), study.step_sizes(variant)
        if label is None:
            continue
        methods = order_methods(tried, [name for name, _ in study.results[variant].states])
        log = label.log or needs_log(tried)
        lines = [_line(tried.filter(pl.col("algorithm") == name), name, k, log) for k, name in enumerate(methods)]
        shown = [line for line in lines if line["eta"]]
        if shown and max(len(line["eta"]) for line in shown) > 1:
            drawn.append({"variant": variant, "title": f"{label.text}, at the end", "log": log, "methods": shown})
    return drawn


def _line(own: pl.DataFrame, name: str, number: int, log: bool) -> dict[str, Any]:
    points = band(own, "value", "eta", log)
    always = own.group_by("eta").agg(pl.col("stable").all()).filter("stable")["eta"].to_numpy()
    kept = np.isfinite(points["mean"]) & np.isfinite(points["low"]) & np.isfinite(points["high"]) & (points["x"] > 0)
    rounded = {key: [float(f"{value:.5g}") for value in values[kept]] for key, values in points.items()}
    return {
        "label": names.display_name(name),
        **styles.style_of(number).web(),
        "eta": rounded["x"],
        **{key: rounded[key] for key in ("mean", "low", "high")},
        "stable": [float(always.min()), float(always.max())] if len(always) else None,
    }


def profile(study: Study, metric: str) -> dict[str, Any] | None:
    """Return each method's share of variants within a factor of the best, and its mean rank.

    The shares are a performance profile (Dolan and Moré, 2002) of the mean ends. Ranks are taken in each variant and
    replicate; the interval of a mean rank is over replicates. None where fewer than three variants have two methods, or
    where the metric has no ratios.
    """
    results = list(study.results.values())
    first = results[0]
    shared = [label for label in first.labels if all(label in result.labels for result in results)]
    if len(results) < FEWEST_VARIANTS or len(shared) < 2 or metric not in first.metrics:
        return None
    if first.metrics[metric].better != "lower" or not all(result.has(metric) for result in results):
        return None
    ends = [[_ends(result, label, metric) for label in shared] for result in results]
    means = np.array([[float(np.mean([*by.values()])) for by in variant] for variant in ends])
    best = means.min(1, keepdims=True)
    if not np.isfinite(best).all() or not (best > 0).all():
        return None
    ratios = means / best
    # rounded, so that ratios that are equal but for the last bits are one step of the profile
    finite = np.unique(np.round(ratios[np.isfinite(ratios)], 6))
    factors = [*finite.tolist(), float(finite.max()) * 1.2]  # the last step is drawn to beyond its factor
    shown, ranks = names.name_labels(first), _ranks(ends)
    methods = []
    for number, label in enumerate(shared):
        mean, half = interval(ranks[:, number])
        methods.append(
            {
                "label": shown[label],
                **styles.style_of(list(first.labels).index(label)).web(),
                "shares": [float((np.round(ratios[:, number], 6) <= factor).mean()) for factor in factors],
                "rank": mean,
                "half": None if math.isnan(half) else half,
                "best": int((ratios[:, number] == 1).sum()),
            }
        )
    return {"metric": first.metrics[metric].text, "variants": len(results), "factors": factors, "methods": methods}


def _ends(result: Result, label: str, metric: str) -> dict[int, float]:
    """Return the end of each replicate, infinite where one of its runs diverged."""
    last = result.of(label).group_by("replicate", "seed", maintain_order=True).last()
    lost = pl.when(pl.col("status") == "diverged").then(math.inf).otherwise(pl.col(metric).fill_null(math.inf))
    return dict(last.group_by("replicate", maintain_order=True).agg(lost.mean().alias("end")).iter_rows())


def _ranks(ends: list[list[dict[int, float]]]) -> np.ndarray:
    """Return [replicates, methods]: the mean over variants of a method's rank, where equal ones share theirs."""
    common = set.intersection(*(set(by) for variant in ends for by in variant))
    if not common:
        return np.full((1, len(ends[0])), math.nan)
    values = np.array([[[by[replicate] for by in variant] for variant in ends] for replicate in sorted(common)])
    return rankdata(values, axis=2).mean(1)


# --- tuning -----------------------------------------------------------------------------------------------------------


def tuning_grids(study: Study) -> list[dict[str, Any]]:
    """Return a grid for each variant and algorithm: the step size across, what else was varied up.

    Values are means over the replicates in which a setting was tried. A setting is chosen if a replicate chose it.
    """
    if study.tuning is None:
        return []
    hyper = [name for name in study.tuning.columns if name not in TUNING]
    merged = study.tuning.group_by("variant", "algorithm", "setting", *hyper, maintain_order=True).agg(
        pl.col("value").mean(), pl.col("diverged").sum(), pl.col("extension").min(), pl.col("chosen").any()
    )
    return [
        {"variant": str(variant), "algorithm": str(algorithm), **_grid(tried)}
        for (variant, algorithm), tried in merged.group_by("variant", "algorithm", maintain_order=True)
    ]


def chosen_settings(study: Study) -> pl.DataFrame | None:
    """Return the chosen settings, one row for each variant, replicate and algorithm."""
    if study.tuning is None:
        return None
    tried = ["variant", "replicate", "algorithm"]
    counts = study.tuning.group_by(tried).agg(
        pl.len().alias("settings"), (pl.col("diverged") > 0).sum().alias("settings_diverged"), pl.col("extension").max()
    )
    best = study.tuning.filter("chosen").select(*tried, "setting", "value")
    table = best.join(counts, on=tried, how="left", maintain_order="left").rename({"extension": "extensions"})
    table = table if study.tuning["replicate"].n_unique() > 1 else table.drop("replicate")
    return table if len(study.results) > 1 else table.drop("variant")


def _grid(tried: pl.DataFrame) -> dict[str, Any]:
    hyper = [name for name in tried.columns if name not in TUNING and tried[name].null_count() < len(tried)]
    varied = [name for name in hyper if tried[name].n_unique() > 1] or hyper[:1]
    across = "eta" if "eta" in varied else next(iter(varied), None)
    up = [name for name in varied if name != across]
    rows = tried.sort(*up, *([across] if across else [])).to_dicts()
    # numbers by size, then the rest by name
    columns = sorted(
        {row[across] if across else "" for row in rows},
        key=lambda value: (False, value, "") if isinstance(value, (int, float)) else (True, 0.0, str(value)),
    )
    lines = list(dict.fromkeys(tuple(row[name] for name in up) for row in rows))
    positive = all(isinstance(value, (int, float)) and math.isfinite(value) and value > 0 for value in columns)
    return {
        "across": SYMBOLS.get(across or "", across or "setting"),
        "up": ", ".join(SYMBOLS.get(name, name) for name in up),
        "columns": [_shown(value) for value in columns],
        "numbers": columns if positive else None,
        "lines": [", ".join(_shown(value) for value in line) for line in lines],
        "settings": [
            {
                "column": columns.index(row[across] if across else ""),
                "line": lines.index(tuple(row[name] for name in up)),
                "setting": row["setting"],
                "value": row["value"] if row["value"] is not None and math.isfinite(row["value"]) else None,
                "diverged": int(row["diverged"] or 0),
                "extension": int(row["extension"] or 0),
                "chosen": bool(row["chosen"]),
            }
            for row in rows
        ],
    }


def _shown(value: Any) -> str:
    return format_number(value) if value is None or isinstance(value, (int, float)) else str(value)
