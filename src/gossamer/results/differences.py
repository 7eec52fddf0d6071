"""Differences between results besides their methods: data, network, precision, length, seeds and code."""

import math
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

from gossamer.basics.text import some
from gossamer.results.result import Result

ROUNDING = {"float32": 1e-5, "float64": 1e-10}
"""The relative difference that arithmetic alone can make."""

PROBLEM = ("data", "dimension", "F at the start", "problem")
"""Settings of the problem: results that differ here minimised different functions, or began elsewhere."""

Differences = dict[str, dict[str, Any]]
"""By setting: the value of each result, by its label; None where the value is not known."""


def find_differences(results: Mapping[str, Result], problems: Mapping[str, Any] | None = None) -> Differences:
    """Return the settings that are known of at least two results and not the same in all.

    `problems` holds the [problem] of the spec of each result, by its label.
    """
    settings = {label: _settings(result, (problems or {}).get(label)) for label, result in results.items()}
    rounding = max((ROUNDING.get(str(setting["dtype"]), 1e-5) for setting in settings.values()), default=0.0)

    def is_same(first: Any, second: Any) -> bool:
        if isinstance(first, float) and isinstance(second, float):
            return math.isclose(first, second, rel_tol=rounding, abs_tol=1e-300)
        return first == second

    differences: Differences = {}
    for key in next(iter(settings.values()), {}):
        values = {label: setting[key] for label, setting in settings.items()}
        known = [value for value in values.values() if value is not None]
        if known and not all(is_same(value, known[0]) for value in known):
            differences[key] = values
    return differences


def _settings(result: Result, problem: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return what is known of a result besides its methods."""
    manifest, seeds = result.manifest, result.seeds
    data, network, versions = (manifest.get(part) or {} for part in ("data", "network", "versions"))
    iterates = next(iter(result.states.values()), None)
    digest = data.get("sha256")
    if problem is not None:  # data with a checksum are known by it, wherever their files are
        by_digest = ("data", "test") if digest is not None else ()
        problem = dict(flatten({key: value for key, value in problem.items() if key not in by_digest}))
    losses = result.table.filter(result.table["round"] == 0)["loss"].drop_nulls()
    in_a_row = seeds == list(range(seeds[0], seeds[0] + len(seeds))) and len(seeds) > 2
    return {
        "data": f"{data.get('name')} ({str(digest)[:12]})" if digest else None,
        "problem": problem,
        "dimension": None if iterates is None else int(iterates.shape[-1]),
        "F at the start": float(losses[0]) if len(losses) else None,
        "agents": network.get("agents"),
        "network": network.get("name"),
        "clock": manifest.get("clock"),
        "dtype": manifest.get("dtype"),
        "steps": manifest.get("steps"),
        "seeds": f"{seeds[0]} … {seeds[-1]}" if in_a_row else ", ".join(map(str, seeds[:20])),
        "code": versions.get("code"),
        "jax": versions.get("jax"),
    }


def describe_differences(differences: Differences) -> list[str]:
    """Return a line of text for each difference, in which equal values stand once."""

    def text(value: Any) -> str:
        if isinstance(value, dict):
            return ", ".join(f"{key} = {inner}" for key, inner in value.items())
        return "not known" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)

    lines = []
    for key, values in differences.items():
        labels: dict[str, list[str]] = {}
        for label, value in values.items():
            labels.setdefault(text(value), []).append(label)
        lines.append(f"{key} differs: " + "; ".join(f"{value} ({some(own)})" for value, own in labels.items()))
    return lines


def problem_of(spec: str | None, variant: str = "") -> dict[str, Any] | None:
    """Return the [problem] that a spec's text states for a variant; None where it cannot be read."""
    try:
        given = tomllib.loads(spec or "")
    except (tomllib.TOMLDecodeError, RecursionError):
        return None
    if not isinstance(given.get("problem"), dict):
        return None
    own = next((table for table in given.get("variant", []) if table.get("name") == variant), {})
    return given["problem"] | own.get("problem", {})


def flatten(value: Any, where: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the leaves of a spec by their path; tables of a list by their names, if all have different ones."""
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from flatten(inner, f"{where}.{key}" if where else str(key))
    elif isinstance(value, list) and value and all(isinstance(inner, dict) for inner in value):
        names = [inner.get("name") for inner in value]
        named = all(isinstance(name, str) for name in names) and len({*names}) == len(names)
        for number, inner in enumerate(value):
            yield from flatten(inner, f"{where}[{names[number] if named else number}]")
    else:
        yield where, value
