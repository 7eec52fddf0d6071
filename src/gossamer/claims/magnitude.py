"""Figure 2: Biased-DMT under a growing bias, in both readings of when the bias is drawn."""

from functools import partial
from itertools import pairwise

import numpy as np

from gossamer.claims.evidence import Runs, average, bias_sq
from gossamer.claims.intervals import decide, difference, log_ratio
from gossamer.claims.verdict import Claim, Finding, Insufficient
from gossamer.study import Study

READINGS = {"once": "bias drawn once", "redrawn": "bias redrawn at every query"}
MAGNITUDES = range(1, 6)


def staircase(reading: str, study: Study) -> Finding:
    steps = ["unbiased", *(f"{reading}-{k}" for k in MAGNITUDES)]
    floors = {step: Runs.of(study, variant=step).floor() for step in steps}
    parts = {f"{b}/{a}": log_ratio(floors[b], floors[a]) for a, b in pairwise(steps)}
    note = f"floors {', '.join(f'{average(floor):.4g}' for floor in floors.values())}"
    return decide("ratio of floors of ‖∇F‖²", parts, above=1, ratio=True, note=note)


def predicted(reading: str, study: Study) -> Finding:
    least = Runs.of(study, variant="unbiased").floor()
    parts = {}
    for k in MAGNITUDES:
        variant = f"{reading}-{k}"
        floor, bias = Runs.of(study, variant=variant).floor(), bias_sq(study, variant)
        expected = {seed: least[seed] + bias[seed] for seed in least.keys() & bias.keys()}
        parts[variant] = log_ratio(floor, expected)
    quantity = "floor of ‖∇F‖² over ‖ē‖² + the unbiased floor"
    return decide(quantity, parts, above=0.9, below=1.1, ratio=True)


def overshoot(reading: str, study: Study) -> Finding:
    unbiased, biased = (Runs.of(study, variant=variant) for variant in ("unbiased", f"{reading}-{MAGNITUDES[-1]}"))
    # fixed beforehand: the lowest of many differences would be below 0 by chance
    early = unbiased.rounds[(unbiased.rounds > 0) & (unbiased.rounds <= unbiased.last / 10)]
    if not len(early):
        raise Insufficient("nothing was measured within the first tenth of the run")
    chosen = sorted({int(early[np.abs(early - share * unbiased.last).argmin()]) for share in (0.01, 0.05)})
    parts = {f"round {round}": difference(biased.at(round), unbiased.at(round)) for round in chosen}
    return decide("loss minus that without bias", parts, below=0, some=True)


def _claims(reading: str, told: str) -> list[Claim]:
    return [
        Claim(
            "fig2",
            f"The floor of ‖∇F‖² rises at each of five steps of the bias (margin 0; {told})",
            "The larger the bias, the higher the level at which the error stays.",
            partial(staircase, reading),
        ),
        Claim(
            "fig2",
            f"The floor of ‖∇F‖² is ‖ē‖² plus the floor without bias, within ±10 % at every magnitude ({told})",
            "The level follows the square of the bias and nothing else.",
            partial(predicted, reading),
        ),
        Claim(
            "fig2",
            "The largest bias accelerates the start: its loss is below that without bias after 1 % or 5 % of the "
            f"rounds (margin 0; {told})",
            "A large bias makes the iterates drift and overshoot early, which speeds up the first phase.",
            partial(overshoot, reading),
        ),
    ]


MAGNITUDE = [claim for reading, told in READINGS.items() for claim in _claims(reading, told)]
