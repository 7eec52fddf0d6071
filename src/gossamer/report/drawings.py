"""Networks and data splits, as SVG."""

import math
from collections.abc import Sequence
from typing import Any

from matplotlib import colormaps
from matplotlib.colors import to_hex

from gossamer.report.markup import Markup, joined, tag
from gossamer.report.styles import COLORS

LIMIT = 200
"""The most agents that are drawn; more would be a blot."""


def network(facts: dict[str, Any]) -> Markup:
    """The agents on a circle and their links; a line of text where there is nothing to draw."""
    agents, edges = facts.get("agents"), facts.get("edges")
    if agents and agents > LIMIT:
        return tag("p", f"Not drawn: {agents:,} agents are more than a drawing of {LIMIT} can show.", class_="note")
    if not agents or not edges:
        return tag("p", "Not drawn: the links of this network were not kept.", class_="note")
    links = sorted({(min(i, j), max(i, j)) for i, j in edges if i != j})
    places = [_on_circle(k, agents) for k in range(agents)]
    lines = "".join(f"M{places[i][0]:g} {places[i][1]:g}L{places[j][0]:g} {places[j][1]:g}" for i, j in links)
    degrees = [0] * agents
    for i, j in links:
        degrees[i] += 1
        degrees[j] += 1
    size = max(1.6, min(6.0, 240 / agents))
    faint = max(0.12, min(0.8, 120 / max(len(links), 1)))
    dots = [
        tag("circle", tag("title", f"agent {k}: {degree} neighbours"), cx=f"{x:g}", cy=f"{y:g}", r=f"{size:g}")
        for k, ((x, y), degree) in enumerate(zip(places, degrees, strict=True))
    ]
    drawn = joined(tag("path", d=lines, stroke_opacity=f"{faint:.2f}"), *dots)
    about = f"network of {agents} agents with {len(links)} links"
    return tag("svg", drawn, viewBox="0 0 240 240", class_="network", role="img", aria_label=about)


def split(facts: dict[str, Any]) -> Markup | None:
    """How many rows of each class each agent holds, as stacked bars; None where there are no classes."""
    counts, classes = facts.get("counts"), facts.get("classes")
    if not counts or not classes:
        return None
    if len(counts) > LIMIT:
        totals = [sum(agent) for agent in counts]
        text = f"Not drawn: {len(counts):,} agents, which hold {min(totals):,} to {max(totals):,} rows each."
        return tag("p", text, class_="note")
    colors, most = palette(len(classes)), max(1, *(sum(agent) for agent in counts))
    wide, high, left, low = 420.0, 170.0, 48.0, 24.0
    step = (wide - left) / len(counts)
    bars = []
    for agent, held in enumerate(counts):
        about = ", ".join(f"{count:,} of class {name}" for name, count in zip(classes, held, strict=True) if count)
        base, left_edge, boxes = high, f"{left + (agent + 0.08) * step:.1f}", []
        for color, count in zip(colors, held, strict=True):
            tall = count / most * (high - 10)
            base -= tall
            if count:
                place = {"x": left_edge, "y": f"{base:.1f}", "width": f"{step * 0.84:.1f}", "height": f"{tall:.1f}"}
                boxes.append(tag("rect", fill=color, **place))
        bars.append(tag("g", tag("title", f"agent {agent}: {about or 'no rows'}"), *boxes))
    every = max(1, math.ceil(len(counts) / 12))
    ticks = [
        tag("text", str(agent), x=f"{left + (agent + 0.5) * step:.1f}", y=high + 13, text_anchor="middle")
        for agent in range(0, len(counts), every)
    ]
    scale = [
        joined(
            tag("line", x1=left, x2=wide, y1=f"{y:.1f}", y2=f"{y:.1f}"),
            tag("text", f"{most * share:,.0f}", x=left - 5, y=f"{y + 3:.1f}", text_anchor="end"),
        )
        for share, y in ((share, high - share * (high - 10)) for share in (0, 0.5, 1))
    ]
    drawn = joined(
        *scale, *bars, *ticks, tag("text", "agent", x=(wide + left) / 2, y=high + low + 4, text_anchor="middle")
    )
    about = f"rows of each of {len(classes)} classes that each of {len(counts)} agents holds"
    picture = tag(
        "svg", drawn, viewBox=f"0 0 {wide:g} {high + low + 8:g}", class_="split", role="img", aria_label=about
    )
    return joined(picture, _key(colors, classes))


def palette(classes: int) -> list[str]:
    """A colour for each class: the figures' own, and a ramp where they do not suffice."""
    if classes <= len(COLORS):
        return COLORS[:classes]
    ramp = colormaps["viridis"]
    return [to_hex(ramp(k / (classes - 1))) for k in range(classes)]


def _key(colors: Sequence[str], classes: Sequence[Any]) -> Markup:
    entries = [
        tag("span", tag("svg", tag("rect", width=10, height=10, fill=color), viewBox="0 0 10 10"), f"class {name}")
        for color, name in zip(colors, classes, strict=True)
    ]
    return tag("p", *entries, class_="key")


def _on_circle(k: int, agents: int) -> tuple[float, float]:
    angle = 2 * math.pi * k / agents - math.pi / 2
    return round(120 + 110 * math.cos(angle), 1), round(120 + 110 * math.sin(angle), 1)
