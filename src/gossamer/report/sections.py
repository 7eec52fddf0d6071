"""The parts of a study that are plain HTML: tables, drawings, spec, provenance."""

import json
from collections.abc import Callable
from typing import Any

import polars as pl

from gossamer.report import tuning
from gossamer.report.markup import Markup, joined, table, tag
from gossamer.report.names import display_name, variants_named, variants_shown
from gossamer.report.tables import HALF, four
from gossamer.results.study import Study

FACTS = {
    "agents": "agents",
    "network": "network",
    "gap": "spectral gap",
    "links": "links",
    "smoothness": "smoothness L",
    "heterogeneity": "heterogeneity at the start",
    "bias_sq": "mean ‖ē‖²",
    "criterion": "tuned by",
}


def facts(study: Study) -> Markup | None:
    """The numbers that describe the variants, and whatever else was noted of them."""
    known = {
        variant: {key: value for key, value in facts.items() if isinstance(value, (str, int, float))}
        for variant, facts in study.facts.items()
    }
    noted = list(dict.fromkeys(key for facts in known.values() for key in facts))
    keys = sorted(noted, key=lambda key: list(FACTS).index(key) if key in FACTS else len(FACTS))
    if not keys:
        return None
    numeric = [all(not isinstance(facts.get(key, 0), str) for facts in known.values()) for key in keys]
    several, shown = len(study.results) > 1, variants_shown(study)
    named = {name: text if text == name else f"{text} ({name})" for name, text in shown.items()}  # as the spec calls it
    rows = [
        [*([named.get(variant, variant)] if several else []), *(_text(facts.get(key)) for key in keys)]
        for variant, facts in known.items()
    ]
    head = [*(["variant"] if several else []), *(FACTS.get(key, key.replace("_", " ")) for key in keys)]
    return table(head, rows, [*([False] if several else []), *numeric], class_="noted")


def drawn(
    study: Study, title: str, draw: Callable[[dict[str, Any]], Markup | None], keys: tuple[str, ...]
) -> Markup | None:
    """A drawing for each variant, once where several share it."""
    shared: dict[str, list[str]] = {}
    for variant, facts in study.facts.items():
        shared.setdefault(json.dumps([facts.get(key) for key in keys]), []).append(variant)
    pictures = []
    for variants in shared.values():
        picture = draw(study.facts[variants[0]])
        if picture is not None:
            pictures.append(tag("figure", picture, _caption(study, variants, study.facts[variants[0]], keys)))
    if not pictures:
        return None
    return joined(tag("h3", title), tag("div", *pictures, class_="drawings"))


def summary(study: Study) -> Markup:
    """The end of the runs: a row for each variant and method, without columns that nobody measured."""
    frame = variants_named(study, summarised(study))
    names = [name for name in frame.columns if frame[name].null_count() < len(frame) and not name.endswith(HALF)]
    if "algorithm" in names:
        frame = frame.with_columns(algorithm=pl.col("algorithm").map_elements(display_name, pl.String))
    rows = [[_mean(row[name], row.get(name + HALF)) for name in names] for row in frame.iter_rows(named=True)]
    texts = {name: label.text for result in study.results.values() for name, label in result.metrics.items()}
    head = [texts.get(name, name.replace("_", " ")) for name in names]
    return table(head, rows, [frame[name].dtype.is_numeric() for name in names], class_="ends")


def summarised(study: Study) -> pl.DataFrame:
    """The summaries of all variants as one table, with the variant in front where there are several."""
    table = study.summary().table
    return table if len(study.results) > 1 or "variant" not in table.columns else table.drop("variant")


def choices(study: Study) -> Markup | None:
    """The chosen settings as a table."""
    frame = tuning.chosen(study)
    if frame is None:
        return None
    frame = variants_named(study, frame)
    rows = [[_text(value) for value in row] for row in frame.iter_rows()]
    head = [name.replace("_", " ") for name in frame.columns]
    return table(head, rows, [frame[name].dtype.is_numeric() for name in frame.columns])


def provenance(study: Study) -> Markup:
    """Versions and machine, and the whole manifests, once where several variants share them."""
    shared: dict[str, list[str]] = {}
    for variant, result in study.results.items():
        known = {part: result.manifest.get(part) or {} for part in ("versions", "machine")}
        shared.setdefault(json.dumps(known, default=str), []).append(variant)
    parts = []
    for text, variants in shared.items():
        if len(shared) > 1:
            parts.append(tag("p", "For ", ", ".join(variants), ":"))
        rows = [[name, value] for known in json.loads(text).values() for name, value in known.items()]
        parts.append(table(["", ""], rows, class_="facts"))
    whole = {variant or "result": result.manifest for variant, result in study.results.items()}
    text = json.dumps(whole, indent=2, ensure_ascii=False, default=str)
    return joined(*parts, folded("Everything that was noted of the runs", text, "long"))


def folded(title: str, text: str, kind: str | None = None) -> Markup:
    """Text that opens by a click."""
    return tag("details", tag("summary", title), tag("pre", text, tabindex="0"), class_=kind)


def opened(title: str, content: Markup) -> Markup:
    """A part of the page that opens by a click."""
    return tag("details", tag("summary", tag("b", title)), content)


def _caption(study: Study, variants: list[str], facts: dict[str, Any], keys: tuple[str, ...]) -> Markup:
    name = facts.get("network") if "edges" in keys else None
    gap = facts.get("gap") if "edges" in keys else None
    about = [name, f"{facts['agents']} agents" if "agents" in facts else None, gap and f"gap {four(gap)}"]
    shown = variants_shown(study)
    where = ", ".join(shown.get(name, name) for name in variants) if len(study.results) > 1 else ""
    text = ", ".join(str(part) for part in about if part)
    return tag("figcaption", tag("b", where) if where else None, ": " if where and text else None, text)


def _mean(value: Any, half: float | None) -> str:
    return _text(value) if half is None else f"{_text(value)} ± {half:.1g}"


def _text(value: Any) -> str:
    if value is None or isinstance(value, float):
        return four(value)
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
