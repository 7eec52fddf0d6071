"""What methods and variants are called where they are shown: proper names, and the numbers that variants differ in."""

import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import polars as pl

from gossamer.algorithms import ALGORITHMS
from gossamer.report import styles
from gossamer.report.styles import Style
from gossamer.results.result import Result
from gossamer.results.study import Study

GREEK = {"eta": "η", "lam": "λ", "beta": "β", "gamma": "γ", "alpha": "α", "rho": "ρ", "mean": "μ", "std": "σ"}
SYMBOLS = GREEK | {"agents": "n", "delta": "δ"}
"""How a paper writes what a spec calls by these names."""

WORDS = {("redraw", False): "drawn once", ("redraw", True): "redrawn"}
"""What a choice means, in words."""

COUNTED = re.compile(r"([a-z][a-z-]*):(\d+(?:\.\d+)?)")
"""A choice with a number, such as mixed:0.25."""

NOT_SHOWN = ("run", "name", "title", "variant", "tuning", "clock")
"""Parts of a variant that say how it was run, not what it is."""

MOST = 30
"""The most variants that are put in an order."""


def display_name(algorithm: str) -> str:
    """How a paper writes an algorithm: ours by their proper name, a user's own by the name it has in specs.

    What a tuning has behind a name in brackets, such as "biased-dmt (warm=20)", stays there.
    """
    name, bracket, start = algorithm.partition(" (")
    kind = ALGORITHMS.get(name)
    if kind is None or not kind.__module__.startswith("gossamer.algorithms."):
        return algorithm
    return kind.title.partition(":")[0] + bracket + start


def shown(result: Result) -> dict[str, str]:
    """What each label of a result is called in a figure, all different."""
    names = {}
    for label, (algorithm, setting) in result.labels.items():
        others = [other for name, other in result.labels.values() if name == algorithm]
        names[label] = display_name(algorithm) + ("" if label == algorithm else f" ({_apart_from(setting, others)})")
    return names if len({*names.values()}) == len(names) else {label: label for label in result.labels}


def _apart_from(setting: str, all_settings: list[str]) -> str:
    """The numbers of a setting that not all of these settings share."""
    shared = set.intersection(*({*_numbers(other)} for other in all_settings))
    return ", ".join(part for part in _numbers(setting) if part not in shared) or setting


def _numbers(setting: str) -> list[str]:
    """The parts of a setting such as "eta=0.1, compressor=top_k(share=0.1, seed=1)", without splitting brackets."""
    parts, depth = [""], 0
    for letter in setting:
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts]


class Named(NamedTuple):
    """A variant as it is shown among the others."""

    text: str
    style: Style


def variants(study: Study) -> dict[str, Named]:
    """The variants of a study. Where they differ in a number, that number is their name and shade: μ = 0.0004."""
    names = list(study.results)
    ordered = _by_numbers(study) or _by_gap(study)
    if ordered is None:
        return {name: Named(name, styles.of(number)) for number, name in enumerate(names)}
    values = {
        family: sorted({value for value, own, _ in ordered.values() if own == family})
        for _, family, _ in ordered.values()
    }
    families = list(values)
    named = {}
    for number, (name, (value, family, text)) in enumerate(ordered.items()):
        steps = values[family]
        share = steps.index(value) / max(len(steps) - 1, 1)
        named[name] = Named(text, styles.ordered(share, families.index(family), number))
    return named


def variants_shown(study: Study) -> dict[str, str]:
    """What each variant is called where it is shown."""
    return {name: named.text for name, named in variants(study).items()}


def variants_named(study: Study, frame: pl.DataFrame) -> pl.DataFrame:
    """A table with the names that variants are shown by."""
    if "variant" not in frame.columns:
        return frame
    return frame.with_columns(pl.col("variant").replace(variants_shown(study)))


Found = dict[str, tuple[float, tuple[str, ...], str]]
"""By variant: its number, the family in which it is ordered, and its name."""


def _by_numbers(study: Study) -> Found | None:
    """The first number of the spec that tells the variants apart, with what else they differ in as families."""
    flat = _flat_specs(study)
    if flat is None:
        return None
    keys = list(dict.fromkeys(key for spec in flat.values() for key in spec))
    differing = [key for key in keys if len({repr(spec.get(key)) for spec in flat.values()}) > 1]
    numeric = [key for key in differing if all(_is_number(spec.get(key)) for spec in flat.values())]
    if not numeric:
        return None
    first = max(numeric, key=lambda key: len({spec[key] for spec in flat.values()}))
    if len({spec[first] for spec in flat.values()}) < 3:
        return None
    families = _families(flat, [key for key in differing if key not in numeric])
    counts = Counter(families.values())
    if sum(counts[family] == 1 for family in families.values()) > len(flat) / 4:  # too many orders of one: as names do
        families = {name: (_without(name, spec[first]),) for name, spec in flat.items()}
    ordered: Found = {}
    for name, spec in flat.items():
        text = f"{_symbol(first)} = {spec[first]:g}".replace("= -", "= −")
        ordered[name] = float(spec[first]), families[name], ", ".join([text, *filter(None, families[name])])
    return ordered if len({text for _, _, text in ordered.values()}) == len(ordered) else None


def _families(flat: dict[str, dict[str, Any]], keys: list[str]) -> dict[str, tuple[str, ...]]:
    """What variants have in common, in words; a key that tells apart no more than those before it is left out."""
    families: dict[str, tuple[str, ...]] = dict.fromkeys(flat, ())
    for key in keys:
        finer = {name: (*families[name], _word(key, spec.get(key))) for name, spec in flat.items()}
        if len({*finer.values()}) > len({*families.values()}):
            families = finer
    return families


def _without(name: str, number: float) -> str:
    """A name without the number that is told apart from it."""
    return re.sub(rf"[-:= ]*(?<![\d.]){re.escape(f'{number:g}')}(?![\d.])", "", name, count=1).strip()


def apart(settings: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """A name for each setting: what it does not share with the others, all different; "" where there is one."""
    flat = {key: dict(_flattened("", setting)) for key, setting in settings.items()}
    keys = list(dict.fromkeys(name for setting in flat.values() for name in setting))
    told = {key: ", ".join(filter(None, family)) for key, family in _families(flat, keys).items()}
    alike = Counter(told.values())
    return {
        key: text if alike[text] == 1 else f"{text or 'variant'} ({number})"
        for number, (key, text) in enumerate(told.items(), 1)
    }


def _by_gap(study: Study) -> Found | None:
    """The variants by their network's spectral gap, where that is what they differ in."""
    gaps = {name: study.facts.get(name, {}).get("gap") for name in study.results}
    networks = {study.facts.get(name, {}).get("network") for name in study.results}
    if len(gaps) < 3 or len(networks) < len(gaps) or not all(_is_number(gap) for gap in gaps.values()):
        return None
    return {name: (float(gap), (), f"{name}, ρ = {gap:.3g}") for name, gap in gaps.items() if gap is not None}


def _flat_specs(study: Study) -> dict[str, dict[str, Any]] | None:
    """The spec of each variant as one level of keys; None where the spec tells nothing of these variants."""
    if not 3 <= len(study.results) <= MOST:
        return None
    try:
        spec = tomllib.loads(study.spec)
        listed = {str(variant["name"]): variant for variant in spec["variant"]}
    except (tomllib.TOMLDecodeError, KeyError, TypeError, RecursionError):
        return None
    if set(listed) != set(study.results):
        return None
    return {name: dict(_flattened("", _merged(spec, listed[name]))) for name in study.results}


def _merged(spec: Mapping[str, Any], variant: Mapping[str, Any]) -> dict[str, Any]:
    whole = {**spec, **variant}
    for key in variant:
        if isinstance(spec.get(key), dict) and isinstance(variant[key], dict):
            whole[key] = {**spec[key], **variant[key]}
    return {key: value for key, value in whole.items() if key not in NOT_SHOWN}


def _flattened(before: str, value: Any) -> Iterable[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _flattened(f"{before}.{key}", inner)
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _flattened(f"{before}.{number}", inner)
    elif isinstance(value, str) and (counted := COUNTED.fullmatch(value)):
        yield f"{before}.{counted[1]}", float(counted[2])
    else:
        yield before, value


def _symbol(key: str) -> str:
    last = key.rpartition(".")[2]
    return SYMBOLS.get(last, last.replace("_", " "))


def _word(key: str, value: Any) -> str:
    last = key.rpartition(".")[2]
    if value is None:
        return ""
    if (last, value) in WORDS:
        return WORDS[last, value]
    number = f"{value:g}".replace("-", "−") if isinstance(value, float) else value
    return value if isinstance(value, str) else f"{_symbol(key)} = {number}"


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
