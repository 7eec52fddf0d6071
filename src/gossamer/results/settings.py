"""In what several results differ besides their methods: data, network, precision, length, seeds and code."""

import math
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

from gossamer.basics.text import some
from gossamer.results.result import Result

ROUNDING = {"float32": 1e-5, "float64": 1e-10}
"""A relative difference that arithmetic alone can make."""

PROBLEM = ("data", "dimension", "F at the start", "problem")
"""What is known of a problem: results that differ here minimised different functions, or began elsewhere."""

Differences = dict[str, dict[str, Any]]
"""By what differs: the value of each result, by its label; None where it is not known."""


def settings_of(result: Result, problem: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """What a result says of itself; `problem` is what its spec says, if there is one."""
    manifest = result.manifest
    data, network, versions = (manifest.get(part) or {} for part in ("data", "network", "versions"))
    iterates = next(iter(result.states.values()), None)
    known = data.get("sha256")
    return {
        "data": f"{data.get('name')} ({str(known)[:12]})" if known else None,
        "problem": None if problem is None else _without_files(problem, known is not None),
        "dimension": None if iterates is None else int(iterates.shape[-1]),
        "F at the start": _start(result),
        "agents": network.get("agents"),
        "network": network.get("name"),
        "clock": manifest.get("clock"),
        "dtype": manifest.get("dtype"),
        "steps": manifest.get("steps"),
        "seeds": _listed(result.seeds),
        "code": versions.get("code"),
        "jax": versions.get("jax"),
    }


def differing(results: Mapping[str, Result], problems: Mapping[str, Any] | None = None) -> Differences:
    """What is known of at least two results, and not the same in all."""
    settings = {label: settings_of(result, (problems or {}).get(label)) for label, result in results.items()}
    rounding = max((ROUNDING.get(str(setting["dtype"]), 1e-5) for setting in settings.values()), default=0.0)
    differences: Differences = {}
    for key in next(iter(settings.values()), {}):
        values = {label: setting[key] for label, setting in settings.items()}
        known = [value for value in values.values() if value is not None]
        if known and not all(_same(value, known[0], rounding) for value in known):
            differences[key] = values
    return differences


def told(differences: Differences) -> list[str]:
    """A line for each difference; equal values stand once."""
    lines = []
    for key, values in differences.items():
        held: dict[str, list[str]] = {}
        for label, value in values.items():
            held.setdefault("not known" if value is None else _shown(value), []).append(label)
        lines.append(f"{key} differs: " + "; ".join(f"{value} ({some(labels)})" for value, labels in held.items()))
    return lines


def problem_of(spec: str | None, variant: str = "") -> dict[str, Any] | None:
    """The [problem] that a spec's text states for a variant; None where it cannot be read."""
    try:
        given = tomllib.loads(spec or "")
    except (tomllib.TOMLDecodeError, RecursionError):
        return None
    if not isinstance(given.get("problem"), dict):
        return None
    own = next((table for table in given.get("variant", []) if table.get("name") == variant), {})
    return given["problem"] | own.get("problem", {})


def flattened(value: Any, where: str = "") -> Iterator[tuple[str, Any]]:
    """The leaves of a spec by their path; tables of a list by their name where all have one of their own."""
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from flattened(inner, f"{where}.{key}" if where else str(key))
    elif isinstance(value, list) and value and all(isinstance(inner, dict) for inner in value):
        names = [inner.get("name") for inner in value]
        named = all(isinstance(name, str) for name in names) and len({*names}) == len(names)
        for number, inner in enumerate(value):
            yield from flattened(inner, f"{where}[{names[number] if named else number}]")
    else:
        yield where, value


def _without_files(problem: Mapping[str, Any], data_known: bool) -> dict[str, Any]:
    """Where the data are known by their checksum, the place of their files says nothing."""
    kept = {key: value for key, value in problem.items() if not (data_known and key in ("data", "test"))}
    return dict(flattened(kept))


def _start(result: Result) -> float | None:
    """F at the common start, where it was measured."""
    losses = result.table.filter(result.table["round"] == 0)["loss"].drop_nulls()
    return float(losses[0]) if len(losses) else None


def _listed(seeds: list[int]) -> str:
    whole = seeds == list(range(seeds[0], seeds[0] + len(seeds)))
    return f"{seeds[0]} … {seeds[-1]}" if whole and len(seeds) > 2 else ", ".join(map(str, seeds[:20]))


def _same(first: Any, second: Any, rounding: float) -> bool:
    if isinstance(first, float) and isinstance(second, float):
        return math.isclose(first, second, rel_tol=rounding, abs_tol=1e-300)
    return first == second


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} = {inner}" for key, inner in value.items())
    return f"{value:.6g}" if isinstance(value, float) else str(value)
