"""The page: its head, a section for each study, and the data that its script draws from."""

import base64
import hashlib
import html
import zlib
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from gossamer.core import InputError
from gossamer.report import boxes, curves, drawings, figures, sections, steps, tuning
from gossamer.report import verdicts as claims
from gossamer.report.markup import Markup, embedded, joined, tag
from gossamer.report.tables import duration
from gossamer.results.concat import SIDE_BY_SIDE
from gossamer.results.study import Study

ROOM = 7_800_000
"""The bytes that a report may have; curves are thinned until it fits."""

FEWEST = 30
"""A curve is never thinned to fewer points."""

POINT = 14
"""About the bytes of a point of a band: where thinning starts."""

SCRIPTS = ("base.js", "targets.js", "curves.js", "sensitivity.js", "tuning.js", "live.js", "page.js")
"""The parts of the page's script, in their order."""


def made(
    studies: list[Study],
    verdicts: list[dict[str, Any]],
    title: str,
    how_to_repeat: str,
    about: Mapping[str, str] | None = None,
    live: str | None = None,
) -> str:
    """The whole report as text; `live` marks a page that asks its own server whether there is a newer one."""
    library, own = _plotly(), "\n".join(_resource(name) for name in SCRIPTS)
    anchors = {study.name: (f"study-{number}", study.title or study.name) for number, study in enumerate(studies)}
    full = [curves.of(study) for study in studies]
    extras = [_extras(study) for study in studies]
    body = joined(
        _navigation(studies, bool(verdicts), live),
        tag(
            "header",
            tag("h1", title),
            tag("p", _lead(studies), class_="lead"),
            _about({**(about or {}), **_computed(studies)}, how_to_repeat),
        ),
        claims.section(verdicts, anchors),
        tag("main", *(_section(k, study, full[k], extras[k], live) for k, study in enumerate(studies))),
        tag("section", tag("h2", "How to repeat it"), tag("pre", how_to_repeat, tabindex="0"), id="repeat"),
        tag("footer", "Drawn with plotly.js (© Plotly, Inc., MIT license), which is part of this file.", class_="hint"),
    )
    head = _head(title, [library, own], live is not None)
    packed = base64.b64encode(zlib.compress(library.encode(), 9)).decode()
    marked = "" if live is None else f' data-live="{html.escape(live)}"'
    frame = (
        f'<!DOCTYPE html>\n<html lang="en">\n{head}\n<body{marked}>\n{body}\n',
        f'\n<script type="text/plain" id="plotly">{packed}</script>\n<script>{own}</script>\n</body>\n</html>\n',
    )
    data = _fitting(full, extras, ROOM - sum(len(part.encode(errors="replace")) for part in frame))
    return data.join(frame)


def _extras(study: Study) -> dict[str, Any]:
    """What is drawn besides the curves."""
    measured = [name for result in study.results.values() for name in curves.metrics(result)]
    metric = figures.FLOORED if figures.FLOORED in measured else next(iter(measured), "")
    return {"tuning": tuning.of(study), "steps": steps.sensitivity(study), "profile": steps.profile(study, metric)}


def _navigation(studies: list[Study], judged: bool, live: str | None) -> Markup:
    places = {"#verdicts": "What was found"} if judged else {}
    places |= {f"#study-{number}": study.title or study.name for number, study in enumerate(studies)}
    places["#repeat"] = "Repeat it"
    links = [tag("li", tag("a", text, href=place)) for place, text in places.items()]
    button = tag("button", "◐ theme", type="button", id="theme", hidden="", title="Light or dark")
    told = None if live is None else tag("span", "live", id="live", role="status")
    return tag("nav", tag("ol", *links), told, button, aria_label="Contents")


def _about(known: Mapping[str, str], how_to_repeat: str) -> Markup:
    """What a reader asks first: which paper, how much of it, when, how long, how to repeat it."""
    rows = [joined(tag("dt", name), tag("dd", text)) for name, text in known.items()]
    first = next((line for line in how_to_repeat.splitlines() if line.strip()), "")
    if first:
        rows.append(joined(tag("dt", "Repeat it"), tag("dd", tag("code", first))))
    return tag("dl", *rows, class_="about")


def _computed(studies: list[Study]) -> dict[str, str]:
    """When the runs were made, and how long they computed."""
    manifests = [result.manifest for study in studies for result in study.results.values()]
    dates = sorted({str(manifest["date"])[:10] for manifest in manifests if manifest.get("date")})
    seconds = sum(sum(manifest.get("seconds", {}).values()) for manifest in manifests)
    told = {}
    if dates:
        told["Date"] = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    if seconds:
        told["Computing"] = f"{duration(seconds)} in the runs that are shown; tuning, compiling and waiting not counted"
    return told


def _head(title: str, scripts: list[str], live: bool) -> Markup:
    """Only the scripts of these hashes run, and nothing is loaded from anywhere; a live page may ask its own server."""
    hashes = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in scripts]
    allowed = {
        "default-src": "'none'",
        "script-src": " ".join(f"'sha256-{digest}'" for digest in hashes),
        "style-src": "'unsafe-inline'",
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    if live:
        allowed["connect-src"] = "'self'"
    policy = "; ".join(f"{kind} {sources}" for kind, sources in allowed.items())
    return tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("title", title),
        tag("style", Markup(_resource("page.css"))),
    )


def _lead(studies: list[Study]) -> str:
    results = [result for study in studies for result in study.results.values()]
    methods = len({algorithm for result in results for algorithm, _ in result.states})
    seeds = sorted({len(result.seeds) for result in results})
    counted = sum(study.name != SIDE_BY_SIDE for study in studies) or 1
    told = [
        f"{counted} {'study' if counted == 1 else 'studies'}",
        f"{methods} {'method' if methods == 1 else 'methods'}",
        f"{' to '.join(dict.fromkeys(map(str, (seeds[0], seeds[-1]))))} {'seed' if seeds == [1] else 'seeds'} for each",
    ]
    return f"Decentralized stochastic optimization with biased gradients, measured with Gossamer: {', '.join(told)}."


def _section(number: int, study: Study, drawn: dict[str, Any], extras: dict[str, Any], live: str | None) -> Markup:
    network = sections.drawn(study, "Network", drawings.network, ("network", "agents", "gap", "edges"))
    split = sections.drawn(study, "Data of each agent", drawings.split, ("classes", "counts"))
    return tag(
        "section",
        tag("h2", study.title or study.name),
        boxes.curves(number, study, drawn),
        boxes.sensitivity(number, study, extras["steps"]),
        boxes.profile(number, extras["profile"]),
        tag("h3", "At the end of the runs" if live is None else "Where the runs are"),
        tag("p", "Means over the runs that did not diverge, with 95 % intervals over replicates.", class_="hint"),
        sections.summary(study),
        boxes.tuning(number, study, extras["tuning"]),
        sections.opened("Network and data", joined(network, sections.facts(study), split)) if study.facts else None,
        tag("h3", "Spec, versions and machine"),
        sections.folded("The spec", study.spec),
        sections.opened("Versions, machine and notes", sections.provenance(study)),
        id=f"study-{number}",
    )


def _fitting(full: list[dict[str, Any]], extras: list[dict[str, Any]], room: int) -> Markup:
    """The data of all studies, with as many points as there is room for."""
    methods = [method for study in full for variant in study["variants"] for method in variant["methods"] if method]
    bands = sum(band is not None for method in methods for both in method["bands"] for band in both)
    points = min(curves.POINTS, max(FEWEST, room // (POINT * max(bands, 1))))
    while True:
        pairs = zip(full, extras, strict=True)
        data = embedded([curves.thinned(study, points) | extra for study, extra in pairs], "data")
        if len(data) <= room or points <= FEWEST:
            return data
        points = max(FEWEST, int(points * min(0.95, 0.99 * room / len(data))))


def _plotly() -> str:
    try:
        from plotly.offline import get_plotlyjs
    except ImportError as error:
        raise InputError("a report needs the package plotly: pip install 'plotly>=6'.") from error
    return get_plotlyjs()


def _resource(name: str) -> str:
    return (files("gossamer.report") / "web" / name).read_text(encoding="utf-8")
