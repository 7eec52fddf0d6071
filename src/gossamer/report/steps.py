"""What a study says across settings and variants: how methods bear other step sizes, and how they rank overall."""

import math
from typing import Any

import numpy as np
import polars as pl

from gossamer.report import names, styles
from gossamer.report.figures import far_apart, in_order
from gossamer.report.tables import band
from gossamer.results.statistics import interval
from gossamer.results.study import Study

FEWEST = 3
"""A summary over variants needs at least this many."""


def sensitivity(study: Study) -> list[dict[str, Any]]:
    """By variant that was tuned by a metric: what every method ended at against its step size, and its stable range.

    A step size is in the stable range if it is stable in every replicate; bands are 95 % intervals over replicates.
    """
    if study.tuning is None:
        return []
    drawn = []
    tuned = study.tuning.filter(pl.col("criterion") != "rounds").select("variant", "criterion")
    for variant, criterion in tuned.unique(maintain_order=True).iter_rows():
        label, tried = study.results[variant].metrics.get(criterion), study.step_sizes(variant)
        if label is None:
            continue
        methods = in_order(tried, [name for name, _ in study.results[variant].states])
        log = label.log or far_apart(tried)
        lines = [_line(tried.filter(pl.col("algorithm") == name), name, k, log) for k, name in enumerate(methods)]
        shown = [line for line in lines if line["eta"]]
        if shown and max(len(line["eta"]) for line in shown) > 1:
            drawn.append({"variant": variant, "title": f"{label.text}, at the end", "log": log, "methods": shown})
    return drawn


def _line(own: pl.DataFrame, name: str, number: int, log: bool) -> dict[str, Any]:
    points = band(own, "value", "eta", log)
    always = own.group_by("eta").agg(pl.col("stable").all()).filter("stable")["eta"]
    kept = np.isfinite(points["mean"]) & np.isfinite(points["low"]) & np.isfinite(points["high"]) & (points["x"] > 0)
    rounded = {key: [float(f"{value:.5g}") for value in values[kept]] for key, values in points.items()}
    return {
        "label": names.display_name(name),
        **styles.of(number).web(),
        "eta": rounded["x"],
        **{key: rounded[key] for key in ("mean", "low", "high")},
        "stable": [float(always.to_numpy().min()), float(always.to_numpy().max())] if len(always) else None,
    }


def profile(study: Study, metric: str) -> dict[str, Any] | None:
    """How methods do over all variants: in which share each is within a factor of the best, and its mean rank.

    The shares are a performance profile (Dolan and Moré, 2002) of the mean ends. Ranks are taken in each variant and
    replicate; the interval of a mean rank is over replicates. None where fewer than three variants have two methods, or
    where the metric has no ratios.
    """
    results = study.results
    shared = [
        label
        for label in next(iter(results.values())).labels
        if all(label in result.labels for result in results.values())
    ]
    if len(results) < FEWEST or len(shared) < 2:
        return None
    first = next(iter(results.values()))
    if (
        metric not in first.metrics
        or first.metrics[metric].better != "lower"
        or not all(result.has(metric) for result in results.values())
    ):
        return None
    ends = {variant: {label: _ends(result, label, metric) for label in shared} for variant, result in results.items()}
    ratios = _ratios(ends, shared)
    if ratios is None:
        return None
    finite = np.unique(np.round(ratios[np.isfinite(ratios)], 6))
    factors = [*finite.tolist(), float(finite.max()) * 1.2]
    shown, ranks = names.shown(first), _ranks(ends, shared)
    methods = []
    for number, label in enumerate(shared):
        mean, half = interval(ranks[:, number])
        methods.append(
            {
                "label": shown[label],
                **styles.of(list(first.labels).index(label)).web(),
                "shares": [float((np.round(ratios[:, number], 6) <= factor).mean()) for factor in factors],
                "rank": mean,
                "half": None if math.isnan(half) else half,
                "best": int((ratios[:, number] == 1).sum()),
            }
        )
    return {"metric": first.metrics[metric].text, "variants": len(results), "factors": factors, "methods": methods}


Ends = dict[str, dict[str, dict[int, float]]]
"""By variant and method: the end of each replicate, infinite where a run of it diverged."""


def _ends(result: Any, label: str, metric: str) -> dict[int, float]:
    last = result.of(label).group_by("replicate", "seed", maintain_order=True).last()
    lost = pl.when(pl.col("status") == "diverged").then(math.inf).otherwise(pl.col(metric).fill_null(math.inf))
    return dict(last.group_by("replicate", maintain_order=True).agg(lost.mean().alias("end")).iter_rows())


def _ratios(ends: Ends, shared: list[str]) -> np.ndarray | None:
    """[variants, methods]: the mean end over that of the best."""
    means = np.array([[float(np.mean([*by[label].values()])) for label in shared] for by in ends.values()])
    best = means.min(1, keepdims=True)
    return means / best if np.isfinite(best).all() and (best > 0).all() else None


def _ranks(ends: Ends, shared: list[str]) -> np.ndarray:
    """[replicates, methods]: the mean over variants of a method's rank, where equal ones share theirs."""
    common = set.intersection(*(set(by[label]) for by in ends.values() for label in shared))
    rows = []
    for replicate in sorted(common):
        values = np.array([[by[label][replicate] for label in shared] for by in ends.values()])
        less, equal = (
            (values[:, None, :] < values[:, :, None]).sum(2),
            (values[:, None, :] == values[:, :, None]).sum(2),
        )
        rows.append((less + (equal + 1) / 2).mean(0))
    return np.array(rows) if rows else np.full((1, len(shared)), math.nan)
