"""How the error and the speed of Biased-DMT depend on the network."""

import math
import tomllib

import numpy as np

from gossamer.paper.claims.evidence import DMT, FLAT, Runs, fact, grid_step, slope_question
from gossamer.paper.verdicts import Claim, Question
from gossamer.results.study import Study

NETWORKS = ("complete", "exponential", "torus", "ring", "path")


def same_floor(study: Study) -> Question:
    gaps = {name: fact(study, name, "gap") for name in NETWORKS}
    floors = {name: Runs.of(study, variant=name, tuned=False).floor() for name in NETWORKS}
    return slope_question(gaps, floors, "floor of ‖∇F‖²", "ρ", above=-FLAT, below=FLAT)


def same_rounds(study: Study) -> Question:
    gaps = {name: fact(study, name, "gap") for name in NETWORKS}
    runs = {name: Runs.of(study, variant=name, tuned=True) for name in NETWORKS}
    goal = tomllib.loads(study.spec)["tuning"]["target"]
    rounds = {name: each.arrivals(goal) for name, each in runs.items()}
    late = [name for name in NETWORKS if max(rounds[name].values()) > runs[name].last]
    logs = np.log(list(gaps.values()))
    step = max(grid_step(study, DMT, name) for name in NETWORKS)
    flat = max(FLAT, math.log(step) / max(np.ptp(logs), 1e-9))
    question = slope_question(gaps, rounds, f"rounds to a loss of {goal:g}", "ρ", -flat, flat)
    note = f"{question.note}; flat is ±{flat:.2g}, with a step of the grid of {step:.3g}"
    if not late:
        return question._replace(note=note)
    # counted as the rounds + 1 they look closer to the others than they are, which must not pass for a flat slope
    note += f"; not reached in every replicate on: {', '.join(late)}"
    return question._replace(note=note, doubted={"": ("holds",)})


TOPOLOGY = [
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
]
