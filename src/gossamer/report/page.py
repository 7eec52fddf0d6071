"""The page of a report: values for the template `web/page.html`, and the data that its script draws."""

import base64
import hashlib
import json
import math
import zlib
from collections import Counter
from collections.abc import Callable, Mapping
from importlib.resources import files
from itertools import groupby
from typing import Any

import polars as pl
from jinja2 import Environment, StrictUndefined

from gossamer.basics.html import Markup
from gossamer.basics.table import Table
from gossamer.basics.text import format_duration, format_number, format_value, plural
from gossamer.core import InputError, nearest
from gossamer.report import page_data
from gossamer.report.drawings import draw_claim, draw_network, draw_split, format_ends, short
from gossamer.report.figures import FLOORED, bias_floors
from gossamer.report.names import display_name, rename_variants, variant_texts
from gossamer.report.tables import HALF
from gossamer.results.study import SIDE_BY_SIDE, Study

ROOM = 7_800_000
"""The bytes that a report may have; curves are thinned until it fits."""

FEWEST = 30
"""A curve is never thinned to fewer points."""

POINT = 14
"""About the bytes of a point of a band: where thinning starts."""

SCRIPTS = ("base.js", "targets.js", "curves.js", "sensitivity.js", "tuning.js", "page.js")
"""The parts of the page's script, in their order."""

PLACE = Markup("<!-- data -->")
"""The place of the data in the page; text cannot hold it, because text is escaped."""

SIGNS = {"holds": "✓", "does not hold": "✗", "tie": "=", "undecided": "?", "not run": "–"}
"""Verdicts, each with a sign that tells it without colour."""

KEYS = ("experiment", "claim", "paper", "measured", "interval", "level", "verdict")
"""Keys of a verdict."""

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
) -> str:
    """Return the whole report as text."""
    library, script = _read_plotly(), "\n".join(_read_resource(name) for name in SCRIPTS)
    full = [page_data.curves(study) for study in studies]
    extras = []
    for study in studies:
        measured = [name for result in study.results.values() for name in page_data.find_metrics(result)]
        metric = FLOORED if FLOORED in measured else next(iter(measured), "")
        grids, steps = page_data.tuning_grids(study), page_data.sensitivity(study)
        extras.append({"tuning": grids, "steps": steps, "profile": page_data.profile(study, metric)})
    anchors = {study.name: (f"study-{number}", study.title or study.name) for number, study in enumerate(studies)}
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.globals |= {"signs": SIGNS, "count": plural}
    page = environment.from_string(_read_resource("page.html")).render(
        title=title,
        policy=_policy(library, script),
        css=Markup(_read_resource("page.css")),
        lead=_lead(studies),
        about={**(about or {}), **_computed(studies)},
        first_command=next((line for line in how_to_repeat.splitlines() if line.strip()), ""),
        how_to_repeat=how_to_repeat,
        verdicts=_verdict_values(verdicts, anchors) if verdicts else None,
        studies=[_study_values(k, study, full[k], extras[k]) for k, study in enumerate(studies)],
        data=PLACE,
        # 4.8 MB of plotly are 2 MB when packed
        packed=base64.b64encode(zlib.compress(library.encode(), 9)).decode(),
        script=Markup(script),
    )
    before, after = page.strip().split(PLACE)
    room = ROOM - len(before.encode(errors="replace")) - len(after.encode(errors="replace"))
    return f"{before}{_fit(full, extras, room)}{after}\n"


def _policy(*scripts: str) -> str:
    """Return the page's policy: only these scripts run, and nothing is loaded from anywhere."""
    hashes = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in scripts]
    # the page shows what others wrote: even if an escape were missing, their scripts would not run
    allowed = {
        "default-src": "'none'",
        "script-src": " ".join(f"'sha256-{digest}'" for digest in hashes),
        "style-src": "'unsafe-inline'",
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    return "; ".join(f"{kind} {sources}" for kind, sources in allowed.items())


def _lead(studies: list[Study]) -> str:
    """Return how many studies, methods and seeds there are."""
    results = [result for study in studies for result in study.results.values()]
    methods = len({algorithm for result in results for algorithm, _ in result.states})
    seeds = sorted({len(result.seeds) for result in results})
    # runs side by side are a section of their own, but no study more
    count = sum(study.name != SIDE_BY_SIDE for study in studies) or 1
    few_to_many = " to ".join(dict.fromkeys(map(str, (seeds[0], seeds[-1]))))
    return (
        f"{count} {'study' if count == 1 else 'studies'}, {plural(methods, 'method')}, "
        f"{few_to_many} {'seed' if seeds == [1] else 'seeds'} for each"
    )


def _computed(studies: list[Study]) -> dict[str, str]:
    """Return when the runs were made, and how long they computed."""
    manifests = [result.manifest for study in studies for result in study.results.values()]
    dates = sorted({str(manifest["date"])[:10] for manifest in manifests if manifest.get("date")})
    seconds = sum(sum(manifest.get("seconds", {}).values()) for manifest in manifests)
    computed = {}
    if dates:
        computed["Date"] = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    if seconds:
        took = format_duration(seconds)
        computed["Computing"] = f"{took} in the runs that are shown; tuning, compiling and waiting not counted"
    return computed


def _fit(full: list[dict[str, Any]], extras: list[dict[str, Any]], room: int) -> Markup:
    """Return the data of all studies, with as many points as there is room for."""
    methods = [method for study in full for variant in study["variants"] for method in variant["methods"] if method]
    bands = sum(band is not None for method in methods for both in method["bands"] for band in both)
    points = min(page_data.POINTS, max(FEWEST, room // (POINT * max(bands, 1))))
    while True:
        data = embed([page_data.thin(study, points) | extra for study, extra in zip(full, extras, strict=True)], "data")
        if len(data) <= room or points <= FEWEST:
            return data
        points = max(FEWEST, int(points * min(0.95, 0.99 * room / len(data))))


def embed(data: Any, name: str) -> Markup:
    """Return data for a script to read by `JSON.parse`: no letter of it can end the element or begin another."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)  # ASCII, so that U+2028 and U+2029 are escaped
    for letter in "<>&":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return Markup(f'<script type="application/json" id="{name}">{text}</script>')


def _read_plotly() -> str:
    try:
        from plotly.offline import get_plotlyjs
    except ImportError as error:
        raise InputError("a report needs the package plotly: pip install 'plotly>=6'.") from error
    return get_plotlyjs()


def _read_resource(name: str) -> str:
    return (files("gossamer.report") / "web" / name).read_text(encoding="utf-8")


# --- verdicts ---------------------------------------------------------------------------------------------------------


def check_verdicts(verdicts: list[dict[str, Any]]) -> None:
    """Refuse verdicts that do not have all their parts."""
    for number, verdict in enumerate(verdicts):
        for key in KEYS:
            if key not in verdict:
                raise InputError(
                    f"verdict {number} has no {key!r}; it has {', '.join(map(str, verdict)) or 'nothing'}."
                )
        if not isinstance(verdict["level"], (int, float, type(None))):
            raise InputError(f"verdict {number} has the level {verdict['level']!r}, but a level is a number or None.")
        if verdict["verdict"] not in SIGNS:
            raise InputError(f"verdict {number} is {verdict['verdict']!r}; {nearest(str(verdict['verdict']), SIGNS)}")


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
    between = "–" if bounds is None else f"{_number(bounds[0])} to {_number(bounds[1])}"
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
            "Measured": _number(verdict["measured"]),
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


def _number(value: Any) -> str:
    return format_number(value) if isinstance(value, float) else str(value)


# --- studies ----------------------------------------------------------------------------------------------------------


def _study_values(number: int, study: Study, data: dict[str, Any], extras: dict[str, Any]) -> dict[str, Any]:
    texts = variant_texts(study)
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
    edges, counts = ("network", "agents", "gap", "edges"), ("classes", "counts")
    whole = {variant or "result": result.manifest for variant, result in study.results.items()}
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
        "ranks": _rank_table(extras["profile"]) if extras["profile"] else None,
        "summary": _summary_table(study),
        "tuned_variants": [texts.get(name, name) for name in tuned],
        "tuned_methods": list(dict.fromkeys(grid["algorithm"] for grid in extras["tuning"])),
        "chosen": _chosen_table(study),
        "has_facts": bool(study.facts),
        "facts": _facts_table(study, texts),
        "networks": _pictures(study, texts, draw_network, edges),
        "splits": _pictures(study, texts, draw_split, counts),
        "provenance": _provenance(study),
        "manifests": json.dumps(whole, indent=2, ensure_ascii=False, default=str),
    }


def _rank_table(profile: dict[str, Any]) -> Table:
    rows = [
        [
            method["label"],
            f"{method['rank']:.2f}" + ("" if method["half"] is None else f" ± {method['half']:.2f}"),
            f"{method['best']} of {profile['variants']}",
        ]
        for method in sorted(profile["methods"], key=lambda method: method["rank"])
    ]
    return Table(["Method", "Mean rank", "Best in"], rows, [False, True, True])


def summarize(study: Study) -> pl.DataFrame:
    """Return the summaries of all variants as one table, with the variant in front where there are several."""
    table = study.summary().table
    return table if len(study.results) > 1 or "variant" not in table.columns else table.drop("variant")


def _summary_table(study: Study) -> Table:
    """Return the end of the runs: a row for each variant and method, without columns that were not measured."""
    frame = rename_variants(study, summarize(study))
    shown = [name for name in frame.columns if frame[name].null_count() < len(frame) and not name.endswith(HALF)]
    if "algorithm" in shown:
        frame = frame.with_columns(algorithm=pl.col("algorithm").map_elements(display_name, pl.String))
    rows = []
    for row in frame.iter_rows(named=True):
        halves = [row.get(name + HALF) for name in shown]
        rows.append(
            [
                row[name] if half is None else f"{format_value(row[name])} ± {half:.1g}"
                for name, half in zip(shown, halves, strict=True)
            ]
        )
    titles = {name: label.text for result in study.results.values() for name, label in result.metrics.items()}
    head = [titles.get(name, name.replace("_", " ")) for name in shown]
    return Table(head, rows, [frame[name].dtype.is_numeric() for name in shown])


def _chosen_table(study: Study) -> Table | None:
    """Return the chosen settings."""
    frame = page_data.chosen_settings(study)
    if frame is None:
        return None
    frame = rename_variants(study, frame)
    head = [name.replace("_", " ") for name in frame.columns]
    return Table(head, frame.rows(), [kind.is_numeric() for kind in frame.dtypes])


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


def _provenance(study: Study) -> list[tuple[str, Table]]:
    """Return versions and machine, once where several variants share them."""
    shared: dict[str, list[str]] = {}
    for variant, result in study.results.items():
        known = {part: result.manifest.get(part) or {} for part in ("versions", "machine")}
        shared.setdefault(json.dumps(known, default=str), []).append(variant)
    return [
        (
            ", ".join(variants) if len(shared) > 1 else "",
            Table(
                ["", ""], [[name, str(value)] for known in json.loads(text).values() for name, value in known.items()]
            ),
        )
        for text, variants in shared.items()
    ]
