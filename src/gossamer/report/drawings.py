"""Networks, data splits and the intervals of claims, as SVG."""

import math
from typing import Any, NamedTuple

from matplotlib import colormaps
from matplotlib.colors import to_hex

from gossamer.basics.html import Markup, join_markup, tag
from gossamer.basics.text import format_number
from gossamer.report.styles import COLORS

LIMIT = 200
"""The most agents that are drawn; more would be a blot."""

WIDE = 300.0
"""The width of a claim's picture, in its own units."""

EDGE = 14.0
"""The margin at both ends of a claim's picture."""


def draw_network(facts: dict[str, Any]) -> Markup:
    """Draw the agents on a circle and their links; a line of text where there is nothing to draw."""
    agents, edges, names = facts.get("agents"), facts.get("edges"), facts.get("agent_names")
    if agents and agents > LIMIT:
        return tag("p", f"Not drawn: {agents:,} agents are more than a drawing of {LIMIT} can show.", class_="note")
    if not agents or not edges:
        return tag("p", "Not drawn: the links of this network were not kept.", class_="note")
    # a link in both directions is drawn once
    links = sorted({(min(i, j), max(i, j)) for i, j in edges if i != j})
    angles = [2 * math.pi * k / agents - math.pi / 2 for k in range(agents)]
    places = [(round(120 + 110 * math.cos(angle), 1), round(120 + 110 * math.sin(angle), 1)) for angle in angles]
    lines = "".join(f"M{places[i][0]:g} {places[i][1]:g}L{places[j][0]:g} {places[j][1]:g}" for i, j in links)
    degrees = [0] * agents
    for i, j in links:
        degrees[i] += 1
        degrees[j] += 1
    size = max(1.6, min(6.0, 240 / agents))
    faint = max(0.12, min(0.8, 120 / max(len(links), 1)))
    dots = [
        tag("circle", tag("title", f"{call(k, names)}: {degree} neighbours"), cx=f"{x:g}", cy=f"{y:g}", r=f"{size:g}")
        for k, ((x, y), degree) in enumerate(zip(places, degrees, strict=True))
    ]
    drawn = join_markup(Markup(f'<path d="{lines}" stroke-opacity="{faint:.2f}"/>'), *dots)
    about = f"network of {agents} agents with {len(links)} links"
    return tag("svg", drawn, viewBox="0 0 240 240", class_="network", role="img", aria_label=about)


def call(agent: int, names: list[str] | None) -> str:
    """Return the name of an agent, or its number where the agents have no names."""
    return names[agent] if names else f"agent {agent}"


def draw_split(facts: dict[str, Any]) -> Markup | None:
    """Draw how many rows of each class each agent holds, as stacked bars; None where there are no classes."""
    counts, classes, names = facts.get("counts"), facts.get("classes"), facts.get("agent_names")
    if not counts or not classes:
        return None
    if len(counts) > LIMIT:
        totals = [sum(agent) for agent in counts]
        text = f"Not drawn: {len(counts):,} agents, which hold {min(totals):,} to {max(totals):,} rows each."
        return tag("p", text, class_="note")
    colors, most = palette(len(classes)), max(1, *(sum(agent) for agent in counts))
    wide, high, left, low = 420.0, 170.0, 48.0, 24.0
    step = (wide - left) / len(counts)
    parts = []
    for share in (0, 0.5, 1):
        y = high - share * (high - 10)
        parts.append(tag("line", x1=left, x2=wide, y1=f"{y:.1f}", y2=f"{y:.1f}"))
        parts.append(tag("text", f"{most * share:,.0f}", x=left - 5, y=f"{y + 3:.1f}", text_anchor="end"))
    for agent, held in enumerate(counts):
        about = ", ".join(f"{count:,} of class {name}" for name, count in zip(classes, held, strict=True) if count)
        base, boxes = high, ""
        across = f'x="{left + (agent + 0.08) * step:.1f}" width="{step * 0.84:.1f}"'
        for color, count in zip(colors, held, strict=True):
            tall = count / most * (high - 10)
            base -= tall
            if count:
                boxes += f'<rect {across} y="{base:.1f}" height="{tall:.1f}" fill="{color}"/>'
        parts.append(tag("g", tag("title", f"{call(agent, names)}: {about or 'no rows'}"), Markup(boxes)))
    for agent in range(0, len(counts), max(1, math.ceil(len(counts) / 12))):
        middle = f"{left + (agent + 0.5) * step:.1f}"
        parts.append(tag("text", str(agent), x=middle, y=high + 13, text_anchor="middle"))
    parts.append(tag("text", "agent", x=(wide + left) / 2, y=high + low + 4, text_anchor="middle"))
    about = f"rows of each of {len(classes)} classes that each of {len(counts)} agents holds"
    box = f"0 0 {wide:g} {high + low + 8:g}"
    key = [
        tag("span", tag("svg", tag("rect", width=10, height=10, fill=color), viewBox="0 0 10 10"), f"class {name}")
        for color, name in zip(colors, classes, strict=True)
    ]
    picture = tag("svg", *parts, viewBox=box, class_="split", role="img", aria_label=about)
    return join_markup(picture, tag("p", *key, class_="key"))


def palette(classes: int) -> list[str]:
    """Return a colour for each class: those of the figures, and a ramp where these do not suffice."""
    if classes <= len(COLORS):
        return COLORS[:classes]
    ramp = colormaps["viridis"]
    return [to_hex(ramp(k / (classes - 1))) for k in range(classes)]


class Scale(NamedTuple):
    """A linear or logarithmic scale over the width of a claim's picture."""

    low: float
    high: float
    log: bool

    def __call__(self, value: float) -> float:
        shown = math.log(max(value, 1e-300)) if self.log else value
        place = (shown - self.low) / (self.high - self.low)
        # clipped a little beyond the ends, so that a bar which leaves the picture shows that it does
        return EDGE + (WIDE - 2 * EDGE) * min(max(place, -0.02), 1.02)

    @staticmethod
    def around(values: list[float], ratio: bool) -> "Scale":
        """Return a scale that shows all of these values."""
        log = ratio and min(values) > 0
        ends = [math.log(value) for value in values] if log else values
        low, high = min(ends), max(ends)
        pad = 0.06 * (high - low) or abs(high) or 1.0
        return Scale(low - pad, high + pad, log)


def draw_claim(evidence: dict[str, Any], verdict: str) -> Markup:
    """Draw the intervals of a claim as bars over the region that the claim names."""
    parts, ratio, tie = evidence["parts"], bool(evidence["ratio"]), evidence["tie"]
    none, bounds = (1.0 if ratio else 0.0), [end for end in evidence["region"] if end is not None]
    marks = [*bounds, *(end for end in tie or () if end is not None)]
    has_region = bool(bounds)
    measured = [part[key] for part in parts for key in ("value", "low", "high")]
    scale = Scale.around([*measured, *marks, *([none] if has_region else [])], ratio)
    pitch = 14.0 if len(parts) == 1 else 10.0
    top, foot = 4.0, 4.0 + pitch * len(parts)
    tall = f"{foot - top:g}"
    drawn = [tag("rect", x=0, y=top, width=WIDE, height=tall, class_="line")]
    for ends, kind in ((tie, "tied"), (evidence["region"], "region")):
        if ends is not None and has_region:
            low, high = 0.0 if ends[0] is None else scale(ends[0]), WIDE if ends[1] is None else scale(ends[1])
            drawn.append(tag("rect", x=_at(low), y=top, width=_at(max(high - low, 0)), height=tall, class_=kind))
    if has_region:
        drawn.append(tag("line", x1=_at(scale(none)), x2=_at(scale(none)), y1=top - 3, y2=_at(foot + 3), class_="none"))
    for number, part in enumerate(parts):
        y, kind = top + pitch * (number + 0.5), str(part.get("verdict") or verdict).replace(" ", "-")
        low, high, middle = (scale(part[key]) for key in ("low", "high", "value"))
        drawn.append(
            tag(
                "g",
                tag("title", f"{part['name']} {short(part['value'])} {format_ends(part)}".strip()),
                tag("line", x1=_at(low), x2=_at(max(high, low + 1)), y1=_at(y), y2=_at(y)),
                tag("circle", cx=_at(middle), cy=_at(y), r=3.5 if len(parts) > 1 else 4.5),
                class_=f"bar {kind}{' decides' if part.get('decides') else ''}",
            )
        )
    # the region's ends come first, and no label lies on another
    shown: list[float] = []
    for value in [*bounds, *([none] if has_region else []), *marks] or [parts[0]["low"], parts[0]["high"]]:
        if all(abs(scale(value) - scale(other)) > 36 for other in shown):
            shown.append(value)
            drawn.append(tag("text", short(value), x=_at(scale(value)), y=_at(foot + 11), text_anchor="middle"))
    values = "; ".join(f"{part['name']} {short(part['value'])}".strip() for part in parts)
    about = f"{evidence['quantity']}: {values}: {verdict}"
    box = f"0 0 {WIDE:g} {foot + 14:g}"
    return tag("svg", *drawn, viewBox=box, class_="forest", role="img", aria_label=about)


def short(value: float) -> str:
    """Return a number to three digits, with a true minus."""
    return format_number(value, digits=3, minus="−")


def format_ends(part: dict[str, Any]) -> str:
    """Return an interval in brackets."""
    return f"[{short(part['low'])}, {short(part['high'])}]"


def _at(place: float) -> str:
    return f"{place:.1f}"
