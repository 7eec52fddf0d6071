"""A spec with the numbers that tuning chose, in place of what it left open.

A spec holds one number for one algorithm. Where variants, or replicates of the tuning, chose different numbers, no
single spec says so, and one of them must be named. The exception is a spec with one algorithm: there each variant can
carry its own numbers.
"""

import os
from pathlib import Path
from typing import Any

import polars as pl
import tomlkit

from gossamer.algorithms import ALGORITHMS
from gossamer.basics.text import visible
from gossamer.core import InputError, Whole, brief, nearest
from gossamer.engines.simulator import plan_run
from gossamer.experiments.tuning import column_of, numbers_of, searches
from gossamer.specs.experiment import Candidate
from gossamer.specs.spec import PATHS, Spec

Chosen = dict[str, dict[str, float]]
"""By algorithm, the columns of the setting that was chosen."""


def tuned_spec(
    spec: Spec, table: pl.DataFrame, *, variant: str | None = None, replicate: int | None = None
) -> dict[str, Any]:
    """Return the spec as a dictionary with every number given and no [tuning].

    Args:
        spec: what was tuned.
        table: what was tried, as `gossamer.experiments.running.tune_spec` returns it.
        variant: only this one, which the spec then is; needed where variants chose different numbers.
        replicate: the choice of this one, with its own seeds; needed where replicates chose different numbers.
    """
    if variant is not None:
        known = spec.variants()
        if variant not in known or not spec.variant:
            raise InputError(f"the spec has no variant {brief(variant)}; {nearest(variant, known)}")
        spec, table = known[variant], table.filter(pl.col("variant") == variant)
    given = spec.model_dump(exclude_unset=True)
    given.pop("tuning", None)
    if not given.get("variant"):
        given.pop("variant", None)
    for changes in given.get("variant", []):
        changes.pop("tuning", None)
    if replicate is not None:
        count = spec.tuning.replicates if spec.tuning else 1
        if not 0 <= replicate < count:
            raise InputError(f"there is no replicate {replicate}: the tuning has {count}, counted from 0.")
        if spec.variant:
            raise InputError(
                "the spec has variants, each with seeds of its own: name a variant as well as a replicate."
            )
        table = table.filter(pl.col("replicate") == replicate)
        _, seeds = plan_run(spec.run.steps, spec.run.every, spec.run.seeds, spec.run.dtype)
        size = len(seeds) // count
        given["run"]["seeds"] = seeds[replicate * size : (replicate + 1) * size]
    _fill(given, _choices(table))
    return given


def text_of(given: dict[str, Any], file: Path, source: str, table: pl.DataFrame) -> str:
    """Return the text of a tuned spec: the origin of its numbers, then the spec with paths as seen from the file."""
    folder = os.path.realpath(file.parent)
    for section in (given["problem"], *(changes.get("problem", {}) for changes in given.get("variant", []))):
        for key in PATHS:
            path = str(section.get(key, ""))
            if os.path.isabs(path) and os.path.commonpath([os.path.realpath(path), folder]) == folder:
                section[key] = os.path.relpath(path, folder)
    heading = [f"Tuned by `gossamer tune {source}`: of what was tried, these were best."]
    for search in searches(table):
        chosen = search.chosen
        heading.append(f"  {search.title}: {chosen['setting']}, {chosen['criterion']} {chosen['value']:.6g}")
    return "".join(f"# {visible(line)}\n" for line in heading) + "\n" + tomlkit.dumps(given)


def _choices(table: pl.DataFrame) -> dict[str, Chosen]:
    """Return what each variant chose, if all its replicates chose the same."""
    choices: dict[str, Chosen] = {}
    for search in searches(table):
        chosen = {name: search.chosen[name] for name in numbers_of(search.rows)}
        if choices.setdefault(search.variant, {}).setdefault(search.algorithm, chosen) != chosen:
            raise InputError(
                f"the replicates of the tuning chose different numbers for {search.title}: one spec with either would "
                "hide how much the choice owes to chance. Run the spec with its [tuning] as it is, or name a replicate."
            )
    return choices


def _fill(given: dict[str, Any], choices: dict[str, Chosen]) -> None:
    """Write the numbers into the algorithms, or, if there is one algorithm, into the variants that differ."""
    several = list(choices.values())
    if all(chosen == several[0] for chosen in several):
        for options in given["algorithm"]:
            options |= _open_numbers(options, several[0])
        return
    if len(given["algorithm"]) > 1:
        differ = next(name for name in several[0] if any(chosen.get(name) != several[0][name] for chosen in several))
        raise InputError(
            f"the variants chose different numbers for {differ}, and a spec gives an algorithm the same ones in all "
            f"its variants: name one of them, {', '.join(map(repr, choices))}."
        )
    fixed = given["algorithm"][0]
    for changes in given["variant"]:
        own = changes.get("algorithm", {})
        changes["algorithm"] = own | _open_numbers(fixed | own, choices.get(changes["name"], {}))


def _open_numbers(options: dict[str, Any], chosen: Chosen) -> dict[str, float | int]:
    """Return the chosen values of what an algorithm leaves open."""
    fixed = {key: value for key, value in options.items() if key != "name"}
    candidate = Candidate(ALGORITHMS[options["name"]], fixed)
    numbers: dict[str, float | int] = {}
    for key, allowed in candidate.open.items():
        value = chosen[candidate.title][column_of(key, candidate)]
        numbers[key] = int(value) if isinstance(allowed, Whole) else value
    return numbers
