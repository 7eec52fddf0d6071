"""What a notebook shows of a network: a line about it, and a picture of its links while there are few."""

import math
from typing import TYPE_CHECKING

from gossamer.basics.html import Markup, panel, tag

if TYPE_CHECKING:
    from gossamer.networks.network import Network

DRAWN_AGENTS, DRAWN_LINKS = 60, 600
"""The most agents and links of a picture that can still be read."""

SIZE = 180


def network_html(network: "Network") -> Markup:
    line = tag("code", repr(network))
    few = 1 < network.agents <= DRAWN_AGENTS and network.links <= DRAWN_LINKS
    return panel(line, _picture(network) if few else None)


def _picture(network: "Network") -> Markup:
    """The agents on a circle, in order, and a line for every pair that exchanges messages in some round."""
    angles = [2 * math.pi * agent / network.agents for agent in range(network.agents)]
    middle, radius = SIZE / 2, SIZE / 2 - 10
    places = [(middle + radius * math.sin(angle), middle - radius * math.cos(angle)) for angle in angles]
    pairs = {
        (min(agent, other), max(agent, other))
        for agent in range(network.agents)
        for other in map(int, network.neighbors(agent))
    }
    lines = [
        tag("line", x1=_at(places[a][0]), y1=_at(places[a][1]), x2=_at(places[b][0]), y2=_at(places[b][1]))
        for a, b in sorted(pairs)
    ]
    dots = [tag("circle", cx=_at(x), cy=_at(y), r=3) for x, y in places]
    # the colour of the page's text: dark on light, and light on dark
    return tag(
        "svg",
        tag("g", *lines, stroke="currentColor", stroke_opacity="0.5"),
        tag("g", *dots, fill="currentColor"),
        width=SIZE,
        height=SIZE,
        role="img",
        aria_label=f"{network.agents} agents and {network.links} links",
    )


def _at(coordinate: float) -> str:
    return f"{coordinate:.1f}"
