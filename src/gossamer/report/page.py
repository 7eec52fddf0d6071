"""The page: its head, a section for each study, and the data that its script draws from."""

import base64
import hashlib
import zlib
from importlib.resources import files
from typing import Any

from gossamer.core import InputError
from gossamer.report import curves, drawings, sections, tuning
from gossamer.report.markup import Markup, embedded, joined, tag
from gossamer.results.study import Study

ROOM = 7_800_000
"""The bytes that a report may have; curves are thinned until it fits."""

FEWEST = 30
"""A curve is never thinned to fewer points."""

POINT = 14
"""About the bytes of a point of a band: where thinning starts."""

HINT = (
    "Lines are means over replicates, geometric on a logarithmic axis; bands are 95 % intervals. Untick a method to "
    "hide it; drag to zoom, double-click to see all, also what diverged beyond the axis."
)

MARKS = (
    "★ chosen, × diverged for some seed, (+k) or an open dot: added by the k-th extension of the grid. "
    "What is white was not tried; the worst quarter has one colour."
)


def made(studies: list[Study], verdicts: list[dict[str, Any]], title: str, how_to_repeat: str) -> str:
    """The whole report as text."""
    library, own = _plotly(), _resource("page.js")
    anchors = {study.name: f"study-{number}" for number, study in enumerate(studies)}
    full = [curves.of(study) for study in studies]
    grids = [tuning.of(study) for study in studies]
    links = [
        tag("li", tag("a", study.title or study.name, href=f"#study-{number}")) for number, study in enumerate(studies)
    ]
    body = joined(
        tag("header", tag("h1", title), tag("p", _lead(studies), class_="lead")),
        sections.verdicts(verdicts, anchors),
        tag("nav", tag("h2", "Studies"), tag("ol", *links), aria_label="Studies") if len(studies) > 1 else None,
        tag("main", *(_section(k, study, full[k], grids[k]) for k, study in enumerate(studies))),
        tag("section", tag("h2", "How to repeat it"), tag("pre", how_to_repeat, tabindex="0")),
        tag("footer", "Drawn with plotly.js (© Plotly, Inc., MIT license), which is part of this file.", class_="hint"),
    )
    head = _head(title, [library, own])
    packed = base64.b64encode(zlib.compress(library.encode(), 9)).decode()
    frame = (
        f'<!DOCTYPE html>\n<html lang="en">\n{head}\n<body>\n{body}\n',
        f'\n<script type="text/plain" id="plotly">{packed}</script>\n<script>{own}</script>\n</body>\n</html>\n',
    )
    data = _fitting(full, grids, ROOM - sum(len(part.encode(errors="replace")) for part in frame))
    return data.join(frame)


def _head(title: str, scripts: list[str]) -> Markup:
    """Only the scripts of these hashes run, and nothing is loaded from anywhere."""
    hashes = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in scripts]
    allowed = {
        "default-src": "'none'",
        "script-src": " ".join(f"'sha256-{one}'" for one in hashes),
        "style-src": "'unsafe-inline'",
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
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
    counted = [
        f"{len(studies)} {'study' if len(studies) == 1 else 'studies'}",
        f"{methods} {'method' if methods == 1 else 'methods'}",
        f"{' or '.join(map(str, seeds))} {'seed' if seeds == [1] else 'seeds'} for each",
    ]
    return f"Decentralized stochastic optimization with biased gradients, measured with Gossamer: {', '.join(counted)}."


def _section(number: int, study: Study, drawn: dict[str, Any], grids: list[dict[str, Any]]) -> Markup:
    return tag(
        "section",
        tag("h2", study.title or study.name),
        _curves(number, drawn),
        _tuning(number, study, grids),
        sections.drawn(study, "Network", drawings.network, ("network", "agents", "gap", "edges")),
        sections.facts(study),
        sections.drawn(study, "Data of each agent", drawings.split, ("classes", "counts")),
        tag("h3", "At the end of the runs"),
        tag("p", "Means over the runs that did not diverge, with 95 % intervals over replicates.", class_="hint"),
        sections.summary(study),
        tag("h3", "Spec, versions and machine"),
        sections.folded("The spec", study.spec),
        sections.provenance(study),
        id=f"study-{number}",
    )


def _curves(number: int, drawn: dict[str, Any]) -> Markup:
    if not drawn["metrics"]:
        return tag("p", "No metric was measured along these runs.", class_="note")
    variants = [variant["name"] for variant in drawn["variants"]]
    switches = [
        _switch("variant", "Variant", variants) if len(variants) > 1 else None,
        _switch("metric", "Metric", [metric["title"] for metric in drawn["metrics"]]),
        _switch("x", "Against", drawn["axes"]),
        tag("label", tag("input", type="checkbox", name="log"), "logarithmic axis", class_="tick"),
    ]
    return tag(
        "div",
        tag("div", *switches, class_="switches"),
        tag("div", class_="plot", id=f"curves-{number}", role="img", aria_label="Curves of the chosen metric"),
        tag("fieldset", class_="legend", aria_label="Methods"),
        tag("p", HINT, class_="hint"),
        class_="curves",
        data_study=number,
    )


def _tuning(number: int, study: Study, grids: list[dict[str, Any]]) -> Markup | None:
    if not grids:
        return None
    variants = list(dict.fromkeys(grid["variant"] for grid in grids))
    switches = [
        _switch("tuned-variant", "Variant", variants) if len(variants) > 1 else None,
        _switch("tuned-method", "Method", list(dict.fromkeys(grid["algorithm"] for grid in grids))),
    ]
    return joined(
        tag("h3", "Tuning"),
        tag(
            "div",
            tag("div", *switches, class_="switches"),
            tag("div", class_="plot", id=f"tuning-{number}", role="img", aria_label="The settings that were tried"),
            tag("p", MARKS, class_="hint"),
            class_="tuning",
            data_study=number,
        ),
        sections.choices(study),
    )


def _switch(name: str, title: str, options: list[str]) -> Markup:
    chosen = [tag("option", option, value=number) for number, option in enumerate(options)]
    return tag("label", title, tag("select", *chosen, name=name, autocomplete="off"))


def _fitting(full: list[dict[str, Any]], grids: list[list[dict[str, Any]]], room: int) -> Markup:
    """The data of all studies, with as many points as there is room for."""
    methods = [method for study in full for variant in study["variants"] for method in variant["methods"] if method]
    bands = sum(band is not None for method in methods for both in method["bands"] for band in both)
    points = min(curves.POINTS, max(FEWEST, room // (POINT * max(bands, 1))))
    while True:
        pairs = zip(full, grids, strict=True)
        data = embedded([curves.thinned(study, points) | {"tuning": grid} for study, grid in pairs], "data")
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
    return (files("gossamer.report") / name).read_text(encoding="utf-8")
