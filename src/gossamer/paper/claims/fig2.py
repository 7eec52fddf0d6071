"""Figure 2: Biased-DMT under a growing bias, in both readings of when the bias is drawn."""

from functools import partial
from itertools import pairwise

import numpy as np

from gossamer.paper.claims.evidence import DMT, SHARE, Runs, average, bias_sq, difference, log_ratio, target, way
from gossamer.paper.verdicts import Claim, Question
from gossamer.results.study import Study

READINGS = {"once": "bias drawn once", "redrawn": "bias redrawn at every query"}
SIGNS = {"": "positive", "-minus": "negative"}
MAGNITUDES = range(1, 6)
EARLY = (10, 20, 40, 60, 80, 100)
"""Rounds whose differences are told beside the verdict on the start."""


def staircase(reading: str, study: Study) -> Question:
    steps = ["unbiased", *(f"{reading}-{k}" for k in MAGNITUDES)]
    runs = {step: Runs.of(study, variant=step) for step in steps}
    floors = {step: each.floor() for step, each in runs.items()}
    parts = {f"{b}/{a}": log_ratio(floors[b], floors[a]) for a, b in pairwise(steps)}
    note = f"floors {', '.join(f'{average(floor):.4g}' for floor in floors.values())}"
    return Question("ratio of floors of ‖∇F‖²", parts, above=1.1, tie=(1 / 1.1, 1.1), ratio=True, note=note)


def predicted(reading: str, study: Study) -> Question:
    unbiased = Runs.of(study, variant="unbiased")
    biased = {variant: Runs.of(study, variant=variant) for variant in (f"{reading}-{k}" for k in MAGNITUDES)}
    least, parts = unbiased.floor(), {}
    for variant, runs in biased.items():
        bias = bias_sq(study, variant)
        expected = {replicate: least[replicate] + bias[replicate] for replicate in least.keys() & bias.keys()}
        parts[variant] = log_ratio(runs.floor(), expected)
    quantity = "floor of ‖∇F‖² over ‖ē‖² + the unbiased floor"
    return Question(quantity, parts, above=0.9, below=1.1, ratio=True)


def accelerated(reading: str, sign: str, study: Study) -> Question:
    variant = f"{reading}-{MAGNITUDES[-1]}{sign}"
    unbiased, biased = Runs.of(study, variant="unbiased"), Runs.of(study, variant=variant)
    start, end = way([unbiased])
    least, arrival = SHARE * (start - end), average(unbiased.arrivals(target([unbiased], 0.9)))
    parts = {"": difference(biased.mean("loss", arrival), unbiased.mean("loss", arrival))}
    note = f"{DMT} without bias covers 90 % of the way in {arrival:.4g} rounds; smallest difference that matters "
    note += f"{least:.2g}; differences at the nearest measured rounds: {_profile(biased, unbiased)}"
    return Question("mean loss on the way minus that without bias", parts, below=-least, tie=(-least, least), note=note)


def _profile(biased: Runs, unbiased: Runs) -> str:
    shared, in_biased, in_unbiased = np.intersect1d(biased.rounds, unbiased.rounds, return_indices=True)
    changes = biased.values("loss").mean(0)[in_biased] - unbiased.values("loss").mean(0)[in_unbiased]
    places = dict.fromkeys(int(abs(shared - round).argmin()) for round in EARLY)
    return ", ".join(f"{changes[k]:.2g} at {shared[k]}" for k in places)


def _claims(reading: str, told: str) -> list[Claim]:
    return [
        Claim(
            "fig2",
            f"The floor of ‖∇F‖² rises at each of five steps of the bias (margin 10 %; {told})",
            "The larger the bias, the higher the level at which the error stays.",
            partial(staircase, reading),
            f"The floor rises at each of five steps of the bias, {told.removeprefix('bias ')}",
        ),
        Claim(
            "fig2",
            f"The floor of ‖∇F‖² is ‖ē‖² plus the floor without bias, within ±10 % at every magnitude ({told})",
            "The level follows the square of the bias and nothing else.",
            partial(predicted, reading),
            f"The floor is ‖ē‖² plus the floor without bias, {told.removeprefix('bias ')}",
        ),
        *(
            Claim(
                "fig2",
                f"The largest bias, of {word} mean, accelerates the start: its mean loss is lower than without bias "
                "until 90 % of the way to the end without bias is covered (margin "
                f"{100 * SHARE:g} % of that way; {told})",
                "A large bias makes the iterates drift and overshoot early, which speeds up the first phase.",
                partial(accelerated, reading, sign),
                f"The largest bias, of {word} mean, speeds up the start, {told.removeprefix('bias ')}",
            )
            for sign, word in SIGNS.items()
        ),
    ]


FIG2 = [claim for reading, told in READINGS.items() for claim in _claims(reading, told)]
