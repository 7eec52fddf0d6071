"""The claims of a paper and what became of them: a picture with a row for each, whose details fold out."""

import math
from collections.abc import Mapping
from itertools import groupby
from typing import Any, NamedTuple

from gossamer.core import InputError, nearest
from gossamer.report.markup import Markup, joined, tag
from gossamer.report.tables import four

SIGNS = {"holds": "✓", "does not hold": "✗", "tie": "=", "undecided": "?", "not run": "–"}
"""Verdicts, and the sign that says them without colour."""

KEYS = ("experiment", "claim", "paper", "measured", "interval", "level", "verdict")

ABOUT = (
    "A row is a claim. The dot is the mean that was measured, the bar its interval. The shaded part of the line is "
    "where the claim puts it, the dotted box where a difference is too small to matter, and the dashed line is no "
    "difference at all. A claim holds if its bars lie within the shade; of several bars the heavy one decides. The "
    "intervals are so wide that all of a page hold simultaneously at 95 %. A click on a row shows its details."
)

WIDE = 300.0
"""The width of a picture, in its own units."""

EDGE = 14.0
"""What is left free at both ends."""


def checked(verdicts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The verdicts, after checking that they have all their parts."""
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
    return verdicts


def section(given: list[dict[str, Any]], places: Mapping[str, tuple[str, str]]) -> Markup | None:
    """All claims by experiment; `places` are the anchors and titles of the studies by name."""
    if not given:
        return None
    words = [str(verdict["verdict"]) for verdict in given]
    tally = [
        tag("span", tag("b", words.count(word)), " ", _signed(word), class_=f"badge {_kind(word)}")
        for word in SIGNS
        if word in words
    ]
    counted = f"{len(given)} {'claim' if len(given) == 1 else 'claims'}: "
    parts, left_out = [], []
    for experiment, rows in groupby(given, key=lambda verdict: str(verdict["experiment"])):
        anchor, title = places.get(experiment, (None, experiment))
        head = tag("a", title, href=f"#{anchor}") if anchor else title
        judged, not_run = [], []
        for verdict in rows:
            (not_run if verdict["verdict"] == "not run" else judged).append(_row(verdict))
        if judged:
            parts += [tag("h3", head), *judged, _not_run(not_run)]
        else:
            left_out.append((experiment, not_run))
    if left_out:
        counted_out = ", ".join(f"{experiment} ({len(rows)})" for experiment, rows in left_out)
        parts += [
            tag("h3", "Experiments that were not run"),
            _not_run([row for _, rows in left_out for row in rows], counted_out),
        ]
    return tag(
        "section",
        tag("h2", "What was found"),
        tag("p", counted, *tally, class_="tally"),
        tag("details", tag("summary", "How to read it"), tag("p", ABOUT), class_="hint"),
        *parts,
        id="verdicts",
        class_="verdicts",
    )


def _not_run(rows: list[Markup], where: str = "") -> Markup | None:
    """Claims that were not run, behind one line."""
    if not rows:
        return None
    text = f"{len(rows)} {'claim' if len(rows) == 1 else 'claims'} not run{f': {where}' if where else ''}"
    return tag("details", tag("summary", text), *rows, class_="unrun")


def _row(verdict: dict[str, Any]) -> Markup:
    word, evidence = str(verdict["verdict"]), evidence_of(verdict)
    deciding = next((part for part in evidence["parts"] if part.get("decides")), None) if evidence else None
    if deciding is not None:
        ends = f"[{_short(deciding['low'])}, {_short(deciding['high'])}]"
        effect = tag("span", tag("b", _short(deciding["value"])), " ", tag("small", ends), class_="effect")
    else:
        effect = tag("span", tag("small", "no interval"), class_="effect")
    text = tag("b", verdict.get("short") or verdict["claim"])
    below = tag("small", evidence["quantity"]) if evidence and evidence["quantity"] else None
    summary = tag(
        "summary",
        tag("span", _signed(word), class_=f"badge {_kind(word)}"),
        tag("span", text, below, class_="text"),
        tag("span", picture(evidence, word) if evidence else None, class_="picture"),
        effect,
    )
    bounds, level = verdict["interval"], verdict["level"]
    between = "–" if bounds is None else f"{_number(bounds[0])} to {_number(bounds[1])}"
    told = {
        "Claim": verdict["claim"],
        "The paper says": f"{verdict['paper']} ({verdict['section']})" if verdict.get("section") else verdict["paper"],
        "It could fail": verdict.get("why"),
        "Measured": _number(verdict["measured"]),
        "Interval": between + (f", at {100 * level:.4g} %" if level else ""),
    }
    listed = [joined(tag("dt", name), tag("dd", text)) for name, text in told.items() if text]
    return tag("details", summary, tag("dl", *listed), class_=f"claim {_kind(word)}")


def evidence_of(verdict: dict[str, Any]) -> dict[str, Any] | None:
    """What the picture is drawn from; where a verdict has its interval alone, that without a region."""
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


class Scale(NamedTuple):
    """Where numbers stand on the line."""

    low: float
    high: float
    log: bool

    def __call__(self, value: float) -> float:
        place = (self._of(value) - self.low) / (self.high - self.low)
        return EDGE + (WIDE - 2 * EDGE) * min(max(place, -0.02), 1.02)

    def _of(self, value: float) -> float:
        return math.log(max(value, 1e-300)) if self.log else value

    @staticmethod
    def around(values: list[float], ratio: bool) -> "Scale":
        log = ratio and min(values) > 0
        ends = [math.log(value) for value in values] if log else values
        low, high = min(ends), max(ends)
        pad = 0.06 * (high - low) or abs(high) or 1.0
        return Scale(low - pad, high + pad, log)


def picture(evidence: dict[str, Any], word: str) -> Markup:
    """The bars of a claim over the region that it names."""
    parts, ratio, tie = evidence["parts"], bool(evidence["ratio"]), evidence["tie"]
    none, bounds = (1.0 if ratio else 0.0), [end for end in evidence["region"] if end is not None]
    marks = [*bounds, *(end for end in tie or () if end is not None)]
    has_region = bool(bounds)
    measured = [part[key] for part in parts for key in ("value", "low", "high")]
    scale = Scale.around([*measured, *marks, *([none] if has_region else [])], ratio)
    pitch = 14.0 if len(parts) == 1 else 10.0
    top, foot = 4.0, 4.0 + pitch * len(parts)
    drawn = [tag("rect", x=0, y=top, width=WIDE, height=f"{foot - top:g}", class_="line")]
    if tie is not None and has_region:
        drawn.append(_span(scale, tie, top, foot, "tied"))
    if has_region:
        drawn.append(_span(scale, evidence["region"], top, foot, "region"))
        drawn.append(tag("line", x1=_at(scale(none)), x2=_at(scale(none)), y1=top - 3, y2=_at(foot + 3), class_="none"))
    for number, part in enumerate(parts):
        kind = _kind(str(part.get("verdict") or word))
        drawn.append(_bar(scale, part, top + pitch * (number + 0.5), kind, len(parts) > 1))
    # the region's ends come first, and no label lies on another
    shown: list[float] = []
    for value in [*bounds, *([none] if has_region else []), *marks] or [parts[0]["low"], parts[0]["high"]]:
        if all(abs(scale(value) - scale(other)) > 36 for other in shown):
            shown.append(value)
            drawn.append(tag("text", _short(value), x=_at(scale(value)), y=_at(foot + 11), text_anchor="middle"))
    told = "; ".join(f"{part['name']} {_short(part['value'])}".strip() for part in parts)
    about = f"{evidence['quantity']}: {told}: {word}"
    box = f"0 0 {WIDE:g} {foot + 14:g}"
    return tag("svg", *drawn, viewBox=box, class_="forest", role="img", aria_label=about)


def _span(scale: Scale, ends: list[float | None], top: float, foot: float, kind: str) -> Markup:
    low = 0.0 if ends[0] is None else scale(ends[0])
    high = WIDE if ends[1] is None else scale(ends[1])
    return tag("rect", x=_at(low), y=top, width=_at(max(high - low, 0)), height=f"{foot - top:g}", class_=kind)


def _bar(scale: Scale, part: dict[str, Any], y: float, kind: str, several: bool) -> Markup:
    low, high, middle = (scale(part[key]) for key in ("low", "high", "value"))
    heavy = " decides" if part.get("decides") else ""
    ends = f"{_short(part['value'])} [{_short(part['low'])}, {_short(part['high'])}]"
    said = f"{part['name']} {ends}".strip()
    return tag(
        "g",
        tag("title", said),
        tag("line", x1=_at(low), x2=_at(max(high, low + 1)), y1=_at(y), y2=_at(y)),
        tag("circle", cx=_at(middle), cy=_at(y), r=3.5 if several else 4.5),
        class_=f"bar {kind}{heavy}",
    )


def _signed(word: str) -> Markup:
    return joined(tag("span", SIGNS[word], aria_hidden="true"), f" {word}")


def _kind(word: str) -> str:
    return word.replace(" ", "-")


def _at(place: float) -> str:
    return f"{place:.1f}"


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _short(value: float) -> str:
    """Three digits, with a true minus."""
    return f"{value:.3g}".replace("-", "−")


def _number(value: Any) -> str:
    return four(value) if isinstance(value, float) else str(value)
