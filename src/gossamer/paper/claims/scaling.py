"""How Biased-DMT's error and speed depend on the network and on the data."""

import math
import tomllib
from collections.abc import Mapping
from functools import partial

import numpy as np

from gossamer.paper.claims.evidence import DMT, Readings, Runs, average, fact, log_slope
from gossamer.paper.claims.fig1 import grid_step
from gossamer.paper.claims.verdict import Claim, Question
from gossamer.results.study import Study

NETWORKS = ("complete", "exponential", "torus", "ring", "path")
SPLITS = ("mixed:0", "mixed:0.25", "mixed:0.5", "mixed:0.75", "mixed:1")

FLAT = 0.05
"""A slope no steeper than this counts as none."""


def same_floor(study: Study) -> Question:
    gaps = {name: fact(study, name, "gap") for name in NETWORKS}
    floors = {name: Runs.of(study, variant=name, tuned=False).floor() for name in NETWORKS}
    return _slope(gaps, floors, "floor of ‖∇F‖²", "ρ", above=-FLAT, below=FLAT)


def same_rounds(study: Study) -> Question:
    gaps = {name: fact(study, name, "gap") for name in NETWORKS}
    runs = {name: Runs.of(study, variant=name, tuned=True) for name in NETWORKS}
    goal = tomllib.loads(study.spec)["tuning"]["target"]
    rounds = {name: each.arrivals(goal) for name, each in runs.items()}
    late = [name for name in NETWORKS if max(rounds[name].values()) > runs[name].last]
    logs = np.log(list(gaps.values()))
    step = max(grid_step(study, DMT, name) for name in NETWORKS)
    flat = max(FLAT, math.log(step) / max(np.ptp(logs), 1e-9))
    question = _slope(gaps, rounds, f"rounds to a loss of {goal:g}", "ρ", -flat, flat)
    note = f"{question.note}; flat is ±{flat:.2g}, with a step of the grid of {step:.3g}"
    if not late:
        return question._replace(note=note)
    # counted as the rounds + 1 they look closer to the others than they are, which must not pass for a flat slope
    note += f"; not reached in every replicate on: {', '.join(late)}"
    return question._replace(note=note, doubted={"": ("holds",)})


def heterogeneity(bias: str, above: float, below: float, study: Study) -> Question:
    variants = [f"{bias} {split}" for split in SPLITS]
    spreads = {name: fact(study, name, "heterogeneity") for name in variants}
    floors = {name: Runs.of(study, variant=name).floor() for name in variants}
    return _slope(spreads, floors, "floor of ‖∇F‖²", "heterogeneity", above, below)


def _slope(
    x: Mapping[str, float],
    y: Mapping[str, Readings],
    quantity: str,
    against: str,
    above: float = -math.inf,
    below: float = math.inf,
) -> Question:
    note = f"{quantity} by {against}: "
    note += ", ".join(f"{average(y[name]):.4g} at {x[name]:.4g}" for name in sorted(y, key=lambda name: x[name]))
    text = f"slope of log {quantity} against log {against}"
    return Question(text, {"": log_slope(x, y)}, above=above, below=below, note=note)


SCALING = [
    Claim(
        "topology",
        f"The floor does not depend on the network: the slope of log floor of ‖∇F‖² against log ρ is within ±{FLAT}, "
        "at one step size and momentum",
        "The network's spectral gap does not enter the level at which the error stays.",
        same_floor,
    ),
    Claim(
        "topology",
        "The network does not slow it down when step size and momentum are tuned on each: the slope of log rounds to "
        f"the target against log ρ is within ±{FLAT}, or what one step of the grid of step sizes can make",
        "Tuning the momentum makes up for what a sparse network costs early on.",
        same_rounds,
    ),
    Claim(
        "heterogeneity",
        "Under absolute bias the floor does not depend on heterogeneity: the slope of log floor of ‖∇F‖² against log "
        f"heterogeneity is within ±{FLAT}",
        "Under absolute bias heterogeneous data leave no error.",
        partial(heterogeneity, "absolute", -FLAT, FLAT),
    ),
    Claim(
        "heterogeneity",
        "Under relative bias the floor grows with heterogeneity: the slope of log floor of ‖∇F‖² against log "
        f"heterogeneity is above {FLAT}",
        "Under relative bias an error in proportion to the heterogeneity remains.",
        partial(heterogeneity, "relative", FLAT, math.inf),
    ),
]
