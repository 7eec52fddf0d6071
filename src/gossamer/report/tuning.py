"""How the methods were tuned: every setting that was tried, and which was chosen."""

import math
from typing import Any

import polars as pl

from gossamer.results.study import TUNING, Study

GREEK = {"eta": "η", "lam": "λ", "beta": "β", "gamma": "γ", "alpha": "α", "rho": "ρ"}


def of(study: Study) -> list[dict[str, Any]]:
    """A grid for each variant and algorithm: the step size across, what else was varied up.

    Values are means over the replicates in which a setting was tried, and chosen is what any of them chose.
    """
    if study.tuning is None:
        return []
    grids = []
    hyper = [name for name in study.tuning.columns if name not in TUNING]
    merged = study.tuning.group_by("variant", "algorithm", "setting", *hyper, maintain_order=True).agg(
        pl.col("value").mean(), pl.col("diverged").sum(), pl.col("extension").min(), pl.col("chosen").any()
    )
    for (variant, algorithm), tried in merged.group_by("variant", "algorithm", maintain_order=True):
        grids.append({"variant": str(variant), "algorithm": str(algorithm), **_grid(tried)})
    return grids


def chosen(study: Study) -> pl.DataFrame | None:
    """The chosen settings, one row for each variant, replicate and algorithm; what there is one of is left out."""
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
    names = [name for name in tried.columns if name not in TUNING and tried[name].null_count() < len(tried)]
    varied = [name for name in names if tried[name].n_unique() > 1] or names[:1]
    across = "eta" if "eta" in varied else next(iter(varied), None)
    up = [name for name in varied if name != across]
    rows = tried.sort(*up, *([across] if across else [])).to_dicts()
    columns = list(dict.fromkeys(row[across] if across else "" for row in rows))
    columns = sorted(columns, key=_order)
    lines = list(dict.fromkeys(tuple(row[name] for name in up) for row in rows))
    return {
        "across": GREEK.get(across or "", across or "setting"),
        "up": ", ".join(GREEK.get(name, name) for name in up),
        "columns": [_shown(value) for value in columns],
        "numbers": columns if all(_positive(value) for value in columns) else None,
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


def _order(value: Any) -> tuple[bool, float, str]:
    """Numbers by size, then the rest by name."""
    number = isinstance(value, (int, float))
    return not number, float(value) if number else 0.0, str(value)


def _positive(value: Any) -> bool:
    return isinstance(value, (int, float)) and math.isfinite(value) and value > 0


def _shown(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, (int, float)) else "–" if value is None else str(value)
