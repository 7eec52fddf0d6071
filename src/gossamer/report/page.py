"""The page of a report: values for the template `web/page.html`, and the data that its script draws."""

import base64
import hashlib
import json
import math
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from importlib.resources import files
from itertools import groupby
from typing import Any

import numpy as np
import polars as pl
from jinja2 import Environment, StrictUndefined
from scipy.stats import rankdata

from gossamer.basics.html import Markup
from gossamer.basics.table import Table
from gossamer.basics.text import SYMBOLS, format_duration, format_number, format_value, plural
from gossamer.core import InputError
from gossamer.metrics import Column, fit_unit
from gossamer.report import names, styles
from gossamer.report.drawings import draw_claim, draw_network, draw_split, format_ends, short
from gossamer.report.figures import FLOORED, band, bias_floors, find_end, method_looks, needs_log, step_lines
from gossamer.report.tables import HALF
from gossamer.results.result import Result, last_rows
from gossamer.results.statistics import interval
from gossamer.results.study import MARKS, SIDE_BY_SIDE, TUNING, Study, format_criterion, variant_spec
from gossamer.results.verdicts import MethodVerdicts

ROOM = 7_800_000
"""The bytes that a report may have; curves are thinned until it fits."""

POINTS, FEWEST = 1000, 30
"""The most points of a curve, and the fewest to which it is thinned."""

POINT = 14
"""About the bytes of a point of a band: where thinning starts."""

SCRIPTS = ("base.js", "targets.js", "curves.js", "sensitivity.js", "tuning.js", "page.js")
"""The parts of the page's script, in their order."""

PLACE = Markup("<!-- data -->")
"""The place of the data in the page; text cannot hold it, because text is escaped."""

FEWEST_VARIANTS = 3
"""A profile over variants needs at least this many."""

SIGNS = {"holds": "✓", "does not hold": "✗", "tie": "=", "undecided": "?", "not run": "–", "not tested": "!"}
"""Verdicts, each with a sign that tells it without colour."""

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
"""Titles of the facts about a variant."""


def render(
    studies: list[Study],
    verdicts: list[dict[str, Any]],
    title: str,
    how_to_repeat: str,
    about: Mapping[str, str] | None = None,
    judged: Sequence[MethodVerdicts | None] | None = None,
) -> str:
    """Return the whole report as text. `judged` has what `judge_study` returns of each study, where it is known."""
    if not studies:
        raise InputError("there is no study to report on: give at least one.")
    judged = [judge_study(study) for study in studies] if judged is None else judged
    full, extras = [], []
    for study in studies:
        measured = [name for result in study.results.values() for name in find_metrics(result)]
        metric = FLOORED if FLOORED in measured else next(iter(measured), "")
        full.append(curves(study))
        extras.append({"tuning": tuning_grids(study), "steps": sensitivity(study), "profile": profile(study, metric)})
    results = [result for study in studies for result in study.results.values()]
    methods = len({algorithm for result in results for algorithm, _ in result.states})
    seeds = sorted({len(result.seeds) for result in results})
    # runs side by side are a section of their own, but no study more
    count = sum(study.name != SIDE_BY_SIDE for study in studies) or 1
    lead = f"{count} {'study' if count == 1 else 'studies'}, {plural(methods, 'method')}, "
    lead += " to ".join(dict.fromkeys(map(str, (seeds[0], seeds[-1]))))
    lead += f" {'seed' if seeds == [1] else 'seeds'} for each"
    facts = dict(about or {})
    if dates := sorted({str(result.manifest["date"])[:10] for result in results if result.manifest.get("date")}):
        facts["Date"] = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    if seconds := sum(sum(result.manifest.get("seconds", {}).values()) for result in results):
        shown = "in the runs that are shown; tuning, compiling and waiting not counted"
        facts["Computing"] = f"{format_duration(seconds)} {shown}"
    anchors = {study.name: (f"study-{number}", study.title or study.name) for number, study in enumerate(studies)}
    page = render_template(
        read_resource("page.html"),
        read_resource("page.css"),
        "\n".join(read_resource(name) for name in SCRIPTS),
        title=title,
        lead=lead,
        about=facts,
        first_command=next((line for line in how_to_repeat.splitlines() if line.strip()), ""),
        how_to_repeat=how_to_repeat,
        verdicts=_verdict_values(verdicts, anchors) if verdicts else None,
        studies=[_study_values(k, study, full[k], extras[k], judged[k]) for k, study in enumerate(studies)],
        data=PLACE,
    )
    before, after = page.strip().split(PLACE)
    room = ROOM - len(before.encode(errors="replace")) - len(after.encode(errors="replace"))
    return f"{before}{_fit(full, extras, room)}{after}\n"


def render_template(text: str, css: str, script: str, **values: Any) -> str:
    """Return the page of a template, which holds plotly and this script and lets no other script run."""
    from plotly.offline import get_plotlyjs  # figures, which this room also holds, do without

    library = get_plotlyjs()
    # StrictUndefined: a name that the template misspells is an error, and no gap in the page
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.globals |= {"signs": SIGNS, "count": plural, "shown": format_value}
    return environment.from_string(text).render(
        # the page shows what others wrote: even if an escape were missing, their scripts would not run
        hashes=[base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in (library, script)],
        css=Markup(css),
        # 4.8 MB of plotly are 2 MB when packed
        packed=base64.b64encode(zlib.compress(library.encode(), 9)).decode(),
        script=Markup(script),
        **values,
    )


def _fit(full: list[dict[str, Any]], extras: list[dict[str, Any]], room: int) -> Markup:
    """Return the data of all studies, with as many points as there is room for."""
    methods = [method for study in full for variant in study["variants"] for method in variant["methods"] if method]
    bands = sum(band is not None for method in methods for both in method["bands"] for band in both)
    points = min(POINTS, max(FEWEST, room // (POINT * max(bands, 1))))
    while True:
        data = embed_json([thin(study, points) | extra for study, extra in zip(full, extras, strict=True)], "data")
        if len(data) <= room or points <= FEWEST:
            return data
        # at least a twentieth fewer, so that the loop ends soon
        points = max(FEWEST, int(points * min(0.95, 0.99 * room / len(data))))


def embed_json(data: Any, name: str) -> Markup:
    """Return data for a script to read by `JSON.parse`: no letter of it can end the element or begin another."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)  # ASCII, so that U+2028 and U+2029 are escaped
    for letter in "<>&":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return Markup(f'<script type="application/json" id="{name}">{text}</script>')


def read_resource(name: str) -> str:
    """Return the text of a file of the page."""
    return (files("gossamer.report") / "web" / name).read_text(encoding="utf-8")


# --- verdicts ---------------------------------------------------------------------------------------------------------


def _verdict_values(verdicts: list[dict[str, Any]], anchors: Mapping[str, tuple[str, str]]) -> dict[str, Any]:
    """Return the claims by experiment; `anchors` has the anchor and the title of each study by name."""
    groups = []
    for experiment, members in groupby(verdicts, key=lambda verdict: str(verdict["experiment"])):
        rows = list(members)
        anchor, title = anchors.get(experiment, (None, experiment))
        judged = [_claim_values(row) for row in rows if row["verdict"] != "not run"]
        not_run = [_claim_values(row) for row in rows if row["verdict"] == "not run"]
        groups.append({"name": experiment, "anchor": anchor, "title": title, "judged": judged, "not_run": not_run})
    left_out = ", ".join(f"{group['name']} ({len(group['not_run'])})" for group in groups if not group["judged"])
    words = Counter(verdict["verdict"] for verdict in verdicts)
    return {
        "total": len(verdicts),
        "tally": {word: words[word] for word in SIGNS if word in words},
        "groups": groups,
        "left_out": [left_out] if left_out else [],
    }


def _claim_values(verdict: dict[str, Any]) -> dict[str, Any]:
    word, evidence = str(verdict["verdict"]), find_evidence(verdict)
    deciding = next((part for part in evidence["parts"] if part.get("decides")), None) if evidence else None
    bounds, level, paper = verdict["interval"], verdict["level"], verdict["paper"]
    between = "–" if bounds is None else f"{format_value(bounds[0])} to {format_value(bounds[1])}"
    reading = {}
    if verdict.get("reading"):  # how the methods got their numbers, and what of the authors' setting was not followed
        setting = "the authors'" if verdict["setting"] == "theirs" else f"{verdict['setting']} the authors'"
        reading = {"Reading": verdict["reading"], "Setting": "; ".join([setting, *verdict["differs"]])}
    return {
        "verdict": word,
        "kind": word.replace(" ", "-"),
        "text": verdict.get("short") or verdict["claim"],
        "quantity": evidence["quantity"] if evidence else "",
        "picture": draw_claim(evidence, word) if evidence else "",
        "value": short(deciding["value"]) if deciding else "",
        "ends": format_ends(deciding) if deciding else "",
        "details": {
            "Claim": verdict["claim"],
            "The paper says": f"{paper} ({verdict['section']})" if verdict.get("section") else paper,
            "It could fail": verdict.get("why"),
            **reading,
            "Measured": format_value(verdict["measured"]),
            "Interval": between + (f", at {100 * level:.4g} %" if level else ""),
        },
    }


def find_evidence(verdict: dict[str, Any]) -> dict[str, Any] | None:
    """Return the parts of a claim's picture; where a verdict has its interval alone, that without a region."""
    evidence = verdict.get("evidence")
    if evidence:
        parts = [part for part in evidence["parts"] if all(_is_number(part[key]) for key in ("value", "low", "high"))]
        return {**evidence, "parts": parts} if parts else None
    bounds, measured = verdict["interval"], verdict["measured"]
    if bounds is None or not all(_is_number(end) for end in bounds):
        return None
    middle = measured if _is_number(measured) else sum(bounds) / 2
    part = {"name": "", "value": middle, "low": bounds[0], "high": bounds[1], "decides": True}
    return {"quantity": "", "parts": [part], "region": [None, None], "tie": None, "ratio": False}


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


# --- studies ----------------------------------------------------------------------------------------------------------


def _study_values(
    number: int, study: Study, data: dict[str, Any], extras: dict[str, Any], judged: MethodVerdicts | None
) -> dict[str, Any]:
    texts = names.variant_texts(study)
    # the script numbers views so: every variant, and then the methods that several variants have
    views = [variant["label"] for variant in data["variants"]]
    if len(views) > 1:
        views += [
            f"all variants: {style['label']}"
            for k, style in enumerate(data["methods"])
            if sum(variant["methods"][k] is not None for variant in data["variants"]) > 1
        ]
    head = ["Until", *(axis["short"] for axis in data["axes"])]
    tuned = dict.fromkeys(str(grid["variant"]) for grid in extras["tuning"])
    edges, counts = ("network", "agents", "gap", "edges", "agent_names"), ("classes", "counts", "agent_names")
    whole = {variant or "result": result.manifest for variant, result in study.results.items()}
    ranks = extras["profile"] and [
        [
            method["label"],
            f"{method['rank']:.2f}" + ("" if method["half"] is None else f" ± {method['half']:.2f}"),
            f"{method['best']} of {extras['profile']['variants']}",
        ]
        for method in sorted(extras["profile"]["methods"], key=lambda method: method["rank"])
    ]
    # versions and machine; where variants differ, all of their values
    origins: dict[str, dict[str, None]] = {}
    for manifest in whole.values():
        for name, value in {**(manifest.get("versions") or {}), **(manifest.get("machine") or {})}.items():
            origins.setdefault(name, {})[str(value)] = None
    return {
        "number": number,
        "title": study.title or study.name,
        "spec": study.spec,
        "data": data,
        "views": views,
        "has_floor": bool(bias_floors(study)),
        "targets": Table(head, [], [False] + [True] * len(data["axes"])),
        "step_variants": [texts.get(str(entry["variant"]), str(entry["variant"])) for entry in extras["steps"]],
        "profile": extras["profile"],
        "ranks": Table(["Method", "Mean rank", "Best in"], ranks, [False, True, True]) if ranks else None,
        "judged": judged and _judged_values(judged, study, data),
        "summary": _summary_table(study),
        "tuned_variants": [texts.get(name, name) for name in tuned],
        "tuned_methods": list(dict.fromkeys(grid["algorithm"] for grid in extras["tuning"])),
        "chosen": _chosen_table(study),
        "has_facts": bool(study.facts),
        "facts": _facts_table(study, texts),
        "networks": _pictures(study, texts, draw_network, edges),
        "splits": _pictures(study, texts, draw_split, counts),
        "provenance": Table(["", ""], [[name, ", ".join(values)] for name, values in origins.items()]),
        "manifests": json.dumps(whole, indent=2, ensure_ascii=False, default=str),
    }


def judge_study(study: Study) -> MethodVerdicts | None:
    """Return the verdicts between a study's methods; None where nothing was measured that they could be judged by."""
    measured = [set(result.measured) for result in study.results.values()]
    if not measured or not set.intersection(*measured):
        return None
    judged = study.verdicts(None if all("loss" in own for own in measured) else sorted(set.intersection(*measured))[0])
    return judged if judged.verdicts or judged.notes else None


def _judged_values(judged: MethodVerdicts, study: Study, data: dict[str, Any]) -> dict[str, Any]:
    """Return the verdicts between methods, with display names and the numbers of the methods' looks."""
    texts = {label: text for result in study.results.values() for label, text in names.name_labels(result).items()}
    looks = {method["label"]: number for number, method in enumerate(data["methods"])}

    def named(label: str, effect: str = "") -> dict[str, Any]:
        text = texts.get(label, label)  # variants are compared where each has one method
        return {"name": text, "look": looks.get(text, ""), "effect": effect}

    standings = [
        {
            "where": where,
            "leader": named(leader),
            "others": {words: [named(name, effect) for name, effect in several] for words, several in others.items()},
        }
        for where, leader, others, _ in judged.standings
    ]
    notes = judged.notes
    for label in sorted(texts, key=len, reverse=True):
        notes = tuple(re.sub(rf"(^|: ){re.escape(label)} is not", rf"\1{texts[label]} is not", note) for note in notes)
    shown = [replace(one, first=named(one.first)["name"], second=named(one.second)["name"]) for one in judged.verdicts]
    table = replace(judged, verdicts=tuple(shown)).layout()
    hint = " ".join([*[judged.terms] * bool(shown), *notes])
    return {"standings": standings, "hint": hint, "pairs": table if len(shown) > 1 else None}


def summarize(study: Study) -> pl.DataFrame:
    """Return the summaries of all variants as one table, with the variant in front where there are several."""
    table = study.summary().table
    return table if len(study.results) > 1 or "variant" not in table.columns else table.drop("variant")


def _summary_table(study: Study) -> Table:
    """Return the end of the runs: a row for each variant and method, without columns that were not measured."""
    frame = names.rename_variants(study, summarize(study))
    shown = [name for name in frame.columns if frame[name].null_count() < len(frame) and not name.endswith(HALF)]
    if "algorithm" in shown:
        frame = frame.with_columns(algorithm=pl.col("algorithm").map_elements(names.display_name, pl.String))
    rows = [
        [row[name] if (half := row.get(name + HALF)) is None else format_number(row[name], half) for name in shown]
        for row in frame.iter_rows(named=True)
    ]
    titles = {name: label.text for result in study.results.values() for name, label in result.metrics.items()}
    head = [titles.get(name, name.replace("_", " ")) for name in shown]
    return Table(head, rows, [frame[name].dtype.is_numeric() for name in shown])


def _chosen_table(study: Study) -> Table | None:
    """Return the chosen settings as the page shows them."""
    frame = chosen_settings(study)
    if frame is None:
        return None
    frame = names.rename_variants(study, frame)
    numeric = {name: kind.is_numeric() for name, kind in frame.schema.items() if name not in MARKS}
    if MARKS[0] in frame.columns:
        frame = frame.with_columns(value=pl.Series([format_criterion(row) for row in frame.to_dicts()]))
    head = [name.replace("_", " ") for name in numeric]
    return Table(head, frame.select(*numeric).rows(), [*numeric.values()])


def _facts_table(study: Study, texts: dict[str, str]) -> Table | None:
    """Return the numbers that describe the variants, and whatever else was noted of them."""
    known = {
        variant: {key: value for key, value in facts.items() if isinstance(value, (str, int, float))}
        for variant, facts in study.facts.items()
    }
    noted = list(dict.fromkeys(key for facts in known.values() for key in facts))
    keys = sorted(noted, key=lambda key: list(FACTS).index(key) if key in FACTS else len(FACTS))
    if not keys:
        return None
    head = [FACTS.get(key, key.replace("_", " ")) for key in keys]
    rows = [[facts.get(key) for key in keys] for facts in known.values()]
    numeric = [all(not isinstance(facts.get(key, 0), str) for facts in known.values()) for key in keys]
    if len(study.results) > 1:
        # with the spec's own name of a variant, where it has another here
        named = {name: text if text == name else f"{text} ({name})" for name, text in texts.items()}
        head, numeric = ["variant", *head], [False, *numeric]
        rows = [[named.get(variant, variant), *row] for variant, row in zip(known, rows, strict=True)]
    return Table(head, rows, numeric)


def _pictures(
    study: Study, texts: dict[str, str], draw: Callable[[dict[str, Any]], Markup | None], keys: tuple[str, ...]
) -> list[dict[str, Any]]:
    """Return a drawing for each variant, once where several share it, with its caption."""
    shared: dict[str, list[str]] = {}
    for variant, facts in study.facts.items():
        shared.setdefault(json.dumps([facts.get(key) for key in keys]), []).append(variant)
    pictures = []
    for variants in shared.values():
        facts = study.facts[variants[0]]
        if (svg := draw(facts)) is None:
            continue
        agents, gap = facts.get("agents"), facts.get("gap")
        about = [None if agents is None else f"{agents} agents"]
        if "edges" in keys:
            about = [facts.get("network"), *about, gap and f"gap {format_number(gap)}"]
        where = ", ".join(texts.get(name, name) for name in variants) if len(study.results) > 1 else ""
        pictures.append({"svg": svg, "where": where, "about": ", ".join(str(part) for part in about if part)})
    return pictures


# --- curves -----------------------------------------------------------------------------------------------------------


def find_axes(result: Result) -> dict[str, str]:
    """Return the x-axes of a result that were counted, and their columns."""
    return {name: column for name, column in result.axes.items() if result.has(column)}


def find_metrics(result: Result) -> list[str]:
    """Return the metrics that were measured along the runs, at more than one round."""
    rounds = {name: result.table.filter(pl.col(name).is_not_null())["round"].n_unique() for name in result.measured}
    return [name for name, count in rounds.items() if count > 1]


def curves(study: Study) -> dict[str, Any]:
    """Return the curves of a study; variants, methods, x-axes and metrics are numbered."""
    drawn = study.curves()
    results, merged = list(drawn.values()), len(drawn) < len(study.results)
    columns = {variant: find_axes(result) for variant, result in drawn.items()}
    most: dict[str, float] = {}
    for variant, axes in columns.items():
        for name, column in axes.items():
            top: Any = drawn[variant].table[column].max()
            most[name] = max(most.get(name, 0), top or 0)
    across = {name: fit_unit(name, value) for name, value in most.items()}
    # backwards, so that the label of the first result counts
    up = {name: result.metrics[name] for result in results[::-1] for name in find_metrics(result)}
    methods = list(dict.fromkeys(label for result in results for label in result.labels))
    named, bias = names.name_variants(study), bias_floors(study)
    proper = {label: text for result in results for label, text in names.name_labels(result).items()}
    algorithms = {label: algorithm for result in results for label, (algorithm, _) in result.labels.items()}
    looks = styles.style_methods([algorithms[label] for label in methods])
    variants = []
    for variant, result in drawn.items():
        labels = result.labels
        own = [_method(result, label, columns[variant], across, up) if label in labels else None for label in methods]
        for label, method in zip(methods, own, strict=True):
            if method is not None:
                method["floor"] = bias.get(label if merged else variant)
        look = {} if merged else named[variant].style.web()
        variants.append({"name": variant, "label": variant if merged else named[variant].text, **look, "methods": own})
    # ‖∇F‖² is shown first where gradients are biased, else the metric that was measured first
    specs = [variant_spec(study.spec, variant) for variant in study.results]
    specs += [variant_spec(result.spec) for result in study.results.values()]
    is_biased = bool(bias) or any("stages" in spec.get("oracle", {}) for spec in specs)
    metric = [*up].index(FLOORED) if FLOORED in up and is_biased else 0
    return {
        "axes": [{"title": column.title, "short": column.short} for column in across.values()],
        "metrics": [
            {"key": name, "title": label.text, "log": label.log, "better": label.better} for name, label in up.items()
        ],
        "first": {"metric": metric, "view": _first_view(study, methods)},
        "methods": [
            {"label": named[label].text, **named[label].style.web()}
            if merged
            else {"label": proper[label], **look.web()}
            for label, look in zip(methods, looks, strict=True)
        ],
        "variants": variants,
    }


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


def _method(
    result: Result, label: str, columns: Mapping[str, str], across: Mapping[str, Column], up: Iterable[str]
) -> dict[str, Any]:
    """Return the bands of a method for the metrics `up`, and what was paid along the axes `across`."""
    rows = result.of(label)
    alive = rows.filter(pl.col("status") != "diverged")
    measured = [name for name in up if name in rows.columns and rows[name].null_count() < len(rows)]
    others = [column for column in columns.values() if column != "round"]
    marks = alive.group_by("round").agg(pl.col(others).mean()).sort("round")
    position = {mark: k for k, mark in enumerate(marks["round"].to_list())}
    paid = {name: marks[column].cast(pl.Float64).to_numpy() * across[name].factor for name, column in columns.items()}
    bands = []
    for name in up:
        both: list[dict[str, np.ndarray] | None] = [None, None]
        for log in (False, True) if name in measured else ():
            points = band(alive, name, "round", log)
            places = [position[int(mark)] for mark in points["x"]]
            mean, wide = np.full(len(position), np.nan), np.full(len(position), np.nan)
            mean[places] = points["mean"]
            # how far the interval goes from the mean: a difference, or on a log axis a factor
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                wide[places] = points["high"] / points["mean"] if log else points["high"] - points["mean"]
            both[log] = {"mean": mean, "wide": wide}
        bands.append(both)
    return {
        "setting": result.labels[label][1],
        "seeds": len(result.seeds),
        "diverged": rows.filter(pl.col("status") == "diverged").height,
        "ended": find_end(result, label),
        "x": [paid.get(name) for name in across],
        "bands": bands,
    }


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
    keep = np.unique(np.linspace(0, max(length - 1, 0), min(points, length)).round().astype(int))
    # three digits of an interval are finer than a pixel, and they halve the size of the page
    bands = [
        [curve and {"mean": _round(curve["mean"][keep], 6), "wide": _round(curve["wide"][keep], 3)} for curve in both]
        for both in method["bands"]
    ]
    shown: list[Any] = [_round(rounds[keep], 12)]
    for x in others:
        if x is None:
            shown.append(None)
            continue
        each = (x[-1] - x[0]) / (rounds[-1] - rounds[0]) if length > 1 else 0.0
        start = x[0] - each * rounds[0] if length else 0.0
        # two numbers suffice where each round costs the same: unless the network changes, or a clock runs
        is_even = np.allclose(x, start + each * rounds, rtol=1e-9, atol=0)
        shown.append({"start": float(start), "each": float(each)} if is_even else _round(x[keep], 7))
    return method | {"x": shown, "bands": bands}


def _round(values: np.ndarray, digits: int) -> list[float | int | None]:
    """Round for JSON: null for what is not finite, and whole numbers without their point."""
    rounded = []
    for value in values.tolist():
        short = float(f"{value:.{digits}g}") if math.isfinite(value) else None
        # floats hold whole numbers up to 2^53 exactly, and JavaScript has no others
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
        log = label.log or needs_log(tried)
        order = [name for name, _ in study.results[variant].states]
        shown = []
        for text, style, points, stable in step_lines(tried, order, log):
            is_shown = np.logical_and.reduce([np.isfinite(points[key]) for key in ("mean", "low", "high")])
            is_shown &= points["x"] > 0
            rounded = {key: [float(f"{value:.5g}") for value in values[is_shown]] for key, values in points.items()}
            ends = [float(stable.min()), float(stable.max())] if len(stable) else None
            if rounded["x"]:
                curve = {"eta": rounded.pop("x"), **rounded, "stable": ends}
                shown.append({"label": text, **style.web(), **curve})
        if shown and max(len(line["eta"]) for line in shown) > 1:
            drawn.append({"variant": variant, "title": f"{label.text}, at the end", "log": log, "methods": shown})
    return drawn


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
    # ranks in each variant and replicate, where equal methods share theirs
    common = sorted(set.intersection(*(set(by) for variant in ends for by in variant)))
    values = [[[by[replicate] for by in variant] for variant in ends] for replicate in common]
    ranks = rankdata(values, axis=2).mean(1) if common else np.full((1, len(shared)), math.nan)
    looks = method_looks(first)
    methods = []
    for number, label in enumerate(shared):
        mean, half = interval(ranks[:, number])
        methods.append(
            {
                "label": looks[label].text,
                **looks[label].style.web(),
                "shares": [float((np.round(ratios[:, number], 6) <= factor).mean()) for factor in factors],
                "rank": mean,
                "half": None if math.isnan(half) else half,
                "best": int((ratios[:, number] == 1).sum()),
            }
        )
    return {"metric": first.metrics[metric].text, "variants": len(results), "factors": factors, "methods": methods}


def _ends(result: Result, label: str, metric: str) -> dict[int, float]:
    """Return the end of each replicate, infinite where one of its runs diverged."""
    last = last_rows(result.of(label))
    lost = pl.when(pl.col("status") == "diverged").then(math.inf).otherwise(pl.col(metric).fill_null(math.inf))
    return dict(last.group_by("replicate", maintain_order=True).agg(lost.mean().alias("end")).iter_rows())


# --- tuning -----------------------------------------------------------------------------------------------------------


def tuning_grids(study: Study) -> list[dict[str, Any]]:
    """Return a grid for each variant and algorithm: the step size across, what else was varied up.

    Values are means over the replicates in which a setting was tried. A setting is chosen if a replicate chose it.
    """
    if study.tuning is None:
        return []
    hyper = [name for name in study.tuning.columns if name not in TUNING]
    merged = study.tuning.group_by("variant", "algorithm", "setting", *hyper, maintain_order=True).agg(
        pl.col("value", *(name for name in MARKS if name in study.tuning.columns)).mean(),
        pl.col("diverged").sum(),
        pl.col("stage").min(),
        pl.col("chosen").any(),
    )
    grids = []
    for (variant, algorithm), tried in merged.group_by("variant", "algorithm", maintain_order=True):
        own = [name for name in hyper if tried[name].null_count() < len(tried)]
        varied = [name for name in own if tried[name].n_unique() > 1] or own[:1]
        across = "eta" if "eta" in varied else next(iter(varied), None)
        up = [name for name in varied if name != across]
        rows = tried.sort(*up, *([across] if across else [])).to_dicts()
        # numbers by size, then the rest by name
        columns = sorted(
            {row[across] if across else "" for row in rows},
            key=lambda value: (False, value, "") if isinstance(value, (int, float)) else (True, 0.0, str(value)),
        )
        lines = list(dict.fromkeys(tuple(row[name] for name in up) for row in rows))
        # a logarithmic axis for the step sizes, if they can have one
        positive = all(isinstance(value, (int, float)) and math.isfinite(value) and value > 0 for value in columns)
        grids.append(
            {
                "variant": str(variant),
                "algorithm": str(algorithm),
                "across": SYMBOLS.get(across or "", across or "setting"),
                "up": ", ".join(SYMBOLS.get(name, name) for name in up),
                "columns": [format_value(value) for value in columns],
                "numbers": columns if positive else None,
                "lines": [", ".join(format_value(value) for value in line) for line in lines],
                "settings": [
                    {
                        "column": columns.index(row[across] if across else ""),
                        "line": lines.index(tuple(row[name] for name in up)),
                        "setting": row["setting"],
                        "value": row["value"] if row["value"] is not None and math.isfinite(row["value"]) else None,
                        "diverged": int(row["diverged"] or 0),
                        "stage": int(row["stage"] or 0),
                        "chosen": bool(row["chosen"]),
                        "between": None if row.get(MARKS[0]) is None else format_criterion(row),
                    }
                    for row in rows
                ],
            }
        )
    return grids


def chosen_settings(study: Study) -> pl.DataFrame | None:
    """Return the chosen settings, one row for each variant, replicate and algorithm."""
    if study.tuning is None:
        return None
    tried = ["variant", "replicate", "algorithm"]
    counts = study.tuning.group_by(tried).agg(
        pl.len().alias("settings"),
        (pl.col("diverged") > 0).sum().alias("settings_diverged"),
        (pl.col("stage").max() + 1).alias("stages"),
    )
    marks = [name for name in MARKS if name in study.tuning.columns]
    best = study.tuning.filter("chosen").select(*tried, "setting", "value", *marks)
    table = best.join(counts, on=tried, how="left", maintain_order="left")
    table = table if study.tuning["replicate"].n_unique() > 1 else table.drop("replicate")
    return table if len(study.results) > 1 else table.drop("variant")
