"""Display names of methods and variants: proper names, and the numbers in which variants differ."""

import re
from collections import Counter
from typing import Any

import polars as pl

from gossamer.algorithms import ALGORITHMS
from gossamer.basics.text import SYMBOLS
from gossamer.report import styles
from gossamer.report.styles import Look
from gossamer.results.result import Result
from gossamer.results.study import Study, flatten, read_spec, variant_spec

WORDS = {"redraw": ("drawn once", "redrawn")}
"""Words for the choices between False and True that have some."""

COUNTED = re.compile(r"([a-z][a-z-]*):(\d+(?:\.\d+)?)")
"""A choice with a number, such as mixed:0.25."""

NOT_SHOWN = ("run", "name", "title", "experiment", "variant", "tuning", "clock")
"""Keys of a variant that say how it was run, not what it is."""

MOST = 30
"""The most variants that are put in an order."""


def display_name(algorithm: str) -> str:
    """Return an algorithm's name as papers write it; a user's own keeps the name that it has in specs.

    The brackets that a tuning puts behind a name, as in "biased-dmt (warm=20)", stay.
    """
    name, bracket, start = algorithm.partition(" (")
    kind = ALGORITHMS.get(name)
    # a user's own class may have any docstring, and so any title
    if kind is None or not kind.__module__.startswith("gossamer.algorithms."):
        return algorithm
    return kind.title.partition(":")[0] + bracket + start


def name_labels(result: Result) -> dict[str, str]:
    """Return a name for each label of a result, all different: the method, and the numbers that tell settings apart."""
    parts = {setting: _split_setting(setting) for _, setting in result.labels.values()}
    names = {}
    for label, (algorithm, setting) in result.labels.items():
        names[label] = display_name(algorithm)
        if label != algorithm:
            others = [{*parts[other]} for name, other in result.labels.values() if name == algorithm]
            shared = set.intersection(*others)
            names[label] += f" ({', '.join(part for part in parts[setting] if part not in shared) or setting})"
    return names if len({*names.values()}) == len(names) else {label: label for label in result.labels}


def _split_setting(setting: str) -> list[str]:
    """Split a setting such as "eta=0.1, compressor=top_k(share=0.1, seed=1)" at the commas outside of brackets."""
    parts, depth = [""], 0
    for letter in setting:
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts]


def name_variants(study: Study) -> dict[str, Look]:
    """Return the name and style of each variant. Where they differ in a number, it is both: μ = 0.0004."""
    ordered = _order_by_number(study)
    if not ordered:  # by their network's spectral gap, where they differ in their networks
        gaps = {name: study.facts.get(name, {}).get("gap") for name in study.results}
        networks = {study.facts.get(name, {}).get("network") for name in study.results}
        if len(gaps) >= 3 and len(networks) >= len(gaps) and all(_is_number(gap) for gap in gaps.values()):
            ordered = {
                name: (float(gap), (), f"{name}, ρ = {gap:.3g}") for name, gap in gaps.items() if gap is not None
            }
    if ordered is None:
        methods = [algorithm for result in study.results.values() for algorithm, _ in result.states]
        if len(methods) == len({*methods}) == len(study.results):  # a method each: it keeps its style
            return dict(zip(study.results, map(Look, study.results, styles.style_methods(methods)), strict=True))
        return {name: Look(name, styles.style_of(number)) for number, name in enumerate(study.results)}
    families = list(dict.fromkeys(family for _, family, _ in ordered.values()))
    named = {}
    for number, (name, (value, family, text)) in enumerate(ordered.items()):
        steps = sorted({other for other, own, _ in ordered.values() if own == family})
        share = steps.index(value) / max(len(steps) - 1, 1)
        named[name] = Look(text, styles.shade_of(share, families.index(family), number))
    return named


def variant_texts(study: Study) -> dict[str, str]:
    """Return the display name of each variant."""
    return {name: named.text for name, named in name_variants(study).items()}


def rename_variants(study: Study, frame: pl.DataFrame) -> pl.DataFrame:
    """Return a table with the display names of its variants."""
    if "variant" not in frame.columns:
        return frame
    return frame.with_columns(pl.col("variant").replace(variant_texts(study)))


Order = dict[str, tuple[float, tuple[str, ...], str]]
"""By variant: its number, the family in which it is ordered, and its name."""


def _order_by_number(study: Study) -> Order | None:
    """Return the variants by the first number of the spec that tells them apart; the other differences are families."""
    listed = {table.get("name") for table in read_spec(study.spec).get("variant", [])}
    if not 3 <= len(study.results) <= MOST or listed != set(study.results):
        return None  # the spec does not describe these variants, or there are too few or too many to order
    # the spec of each variant as one level of keys, in which a choice such as mixed:0.25 is a number
    flat: dict[str, dict[str, Any]] = {name: {} for name in study.results}
    for name, own in flat.items():
        for key, value in flatten(variant_spec(study.spec, name)):
            if re.split(r"\W", key)[0] not in NOT_SHOWN:
                counted = COUNTED.fullmatch(value) if isinstance(value, str) else None
                key, value = (f"{key}.{counted[1]}", float(counted[2])) if counted else (key, value)
                own[key] = value
    keys = list(dict.fromkeys(key for spec in flat.values() for key in spec))
    differing = [key for key in keys if len({repr(spec.get(key)) for spec in flat.values()}) > 1]
    numeric = [key for key in differing if all(_is_number(spec.get(key)) for spec in flat.values())]
    if not numeric:
        return None
    first = max(numeric, key=lambda key: len({spec[key] for spec in flat.values()}))
    if len({spec[first] for spec in flat.values()}) < 3:  # two values are told apart by names as well
        return None
    families: dict[str, tuple[str, ...]] = dict.fromkeys(flat, ())
    for key in differing:
        if key not in numeric:
            finer = {name: (*families[name], _describe(key, spec.get(key))) for name, spec in flat.items()}
            if len({*finer.values()}) > len({*families.values()}):  # else the key tells nothing new apart
                families = finer
    counts = Counter(families.values())
    if sum(counts[family] == 1 for family in families.values()) > len(flat) / 4:
        # too many families of one variant: the names, without the number, tell families apart instead
        for name, spec in flat.items():
            number = rf"[-:= ]*(?<![\d.]){re.escape(f'{spec[first]:g}')}(?![\d.])"
            families[name] = (re.sub(number, "", name, count=1).strip(),)
    ordered: Order = {}
    for name, spec in flat.items():
        text = f"{_symbol(first)} = {spec[first]:g}".replace("= -", "= −")
        ordered[name] = float(spec[first]), families[name], ", ".join([text, *filter(None, families[name])])
    return ordered if len({text for _, _, text in ordered.values()}) == len(ordered) else None


def _symbol(key: str) -> str:
    last = key.rpartition(".")[2]
    return SYMBOLS.get(last, last.replace("_", " "))


def _describe(key: str, value: Any) -> str:
    """Return a value of a spec in words."""
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, bool) and (words := WORDS.get(key.rpartition(".")[2])):
        return words[value]
    number = f"{value:g}".replace("-", "−") if isinstance(value, float) else value
    return f"{_symbol(key)} = {number}"


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
