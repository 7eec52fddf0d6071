"""A figure of networks side by side: their graphs, and how fast their agents agree."""

import math
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from gossamer.core import InputError
from gossamer.networks import Comparison, Network
from gossamer.report import figures, styles

DRAWN_AGENTS = 100
"""The most agents of a graph that can still be read; beyond, only the curves are drawn."""

ACROSS = 6
"""Graphs in a row."""


def figure(compared: Comparison) -> Figure:
    """The agents of each network on a circle with the links of all rounds, and below them the disagreement that is left
    against rounds and against messages."""
    count = len(compared.rows)
    down = math.ceil(count / ACROSS) if compared.agents <= DRAWN_AGENTS else 0
    made = Figure(figsize=(2 * figures.COLUMN, 1.3 * down + 4.2), layout="constrained", dpi=200)
    parts: Any = made.subfigures(2, 1, height_ratios=[1.3 * down, 4.2]) if down else (None, made)
    above, below = parts
    looks = [styles.of(k) for k in range(count)]
    if above is not None:
        for k, axes in enumerate(np.ravel(above.subplots(down, ACROSS, squeeze=False))):
            axes.set_axis_off()
            if k < count:
                _graph(axes, compared.rows[k].name, compared.rows[k].network, looks[k].color)
    left, right = below.subplots(1, 2, sharey=True)
    for row, look in zip(compared.rows, looks, strict=True):
        # what is exact is drawn at the foot of the figure
        seen = np.maximum(row.disagreement, compared.target / 10)
        for axes, paid in ((left, np.arange(len(seen))), (right, row.messages)):
            axes.plot(paid + 1, seen, color=look.color, linestyle=look.line, linewidth=1.1, label=row.name)
    for axes, what in ((left, "1 + rounds"), (right, "1 + messages sent by an agent")):
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_ylim(compared.target / 10, 1.5)
        axes.set_xlabel(what, fontsize=8)
        axes.tick_params(labelsize=7)
        axes.grid(alpha=0.25, linewidth=0.5)
    left.set_ylabel(r"$\Vert x - \bar x \Vert$, relative to the start", fontsize=8, usetex=False)
    handles, labels = left.get_legend_handles_labels()
    below.legend(handles, labels, loc="outside lower center", ncols=5, fontsize=6, frameon=False)
    return made


def check(path: Path) -> None:
    """Refuse, before anything is measured, a file that no figure can be written to."""
    if path.suffix not in (".pdf", ".png", ".svg"):
        raise InputError(f"cannot write a figure as {path.suffix or 'a file without suffix'}; use .pdf, .png or .svg.")
    if path.is_dir():
        raise InputError(f"cannot write {path}: it is a directory.")


def save(compared: Comparison, path: Path) -> Path:
    """Write the figure; the suffix chooses the format (.pdf, .png, .svg)."""
    return figures.save(figure(compared), path)


def _graph(axes: Any, name: str, network: Network, color: str) -> None:
    n = network.agents
    angles = 2 * np.pi * np.arange(n) / n
    places = np.stack([np.sin(angles), np.cos(angles)], axis=1)
    ends = np.array([(i, j) for i in range(n) for j in network.neighbors(i).tolist()])
    faint = min(1.0, max(0.12, 60 / max(network.links, 1)))
    axes.add_collection(LineCollection(list(places[ends]), colors=color, linewidths=0.5, alpha=faint))
    axes.scatter(places[:, 0], places[:, 1], s=5, color=color, zorder=2)
    axes.set(xlim=(-1.15, 1.15), ylim=(-1.15, 1.15), aspect="equal")
    axes.set_title(name, fontsize=6, pad=2)
