"""The claims of the paper on exponential graphs; margins were set before the first run."""

import math

import numpy as np

from gossamer.networks import exponential, one_peer_exponential
from gossamer.papers.verdicts import Claim, Question
from gossamer.papers.vocabulary import Cost, Equal, Exactly, Ratio
from gossamer.results.study import Study

POWERS = (2, 4, 8, 16, 32, 64)
OTHERS = (6, 10, 12, 20, 24, 36, 48)
EVEN = (4, 6, 8, 10, 12, 16, 20, 24, 32, 48, 64)


def left_over(n: int) -> float:
    """Return how far ⌈log₂ n⌉ one-peer rounds are from the average, entry by entry."""
    network, product = one_peer_exponential(n), np.eye(n)
    for t in range(math.ceil(math.log2(n))):
        product = network.matrix(t).toarray() @ product
    return float(abs(product - 1 / n).max() * n)


def inexact(study: Study) -> Question:
    parts = {f"n = {n}": np.array([left_over(n)]) for n in OTHERS}
    return Question("largest entry's distance from 1/n, times n", parts, above=0.01, exact=True)


def gap_errors() -> dict[str, float]:
    """Return the difference of the static graph's spectral gap to 2/(1 + ⌈log₂ n⌉)."""
    gaps = {n: exponential(n).gap for n in EVEN}
    return {f"n = {n}": abs((gap or 0.0) - 2 / (1 + math.ceil(math.log2(n)))) for n, gap in gaps.items()}


CLAIMS = [
    Claim(
        "transient",
        "For n a power of two, up to 64, log₂ n one-peer rounds average exactly",
        "Theorem on one-peer graphs",
        "A sequence of log₂ n one-peer exponential graphs averages exactly.",
        "It is an identity: rounding is all that may be left.",
        Exactly(lambda: {f"n = {n}": left_over(n) for n in POWERS}),
    ),
    Claim(
        "transient",
        "For other even n they do not: some entry is off by more than 1 % of 1/n",
        "Theorem on one-peer graphs",
        "The average is exact only if n is a power of two.",
        "Some other size might average exactly by chance.",
        inexact,
    ),
    Claim(
        "transient",
        "The gap of the static graph is 2/(1 + ⌈log₂ n⌉) for even n, up to 64",
        "Proposition on the static graph",
        "The spectral gap is 2/(1 + ⌈log₂ n⌉) for even n.",
        "It is an identity: rounding is all that may be left.",
        Exactly(gap_errors, tolerance=1e-9),
    ),
    Claim(
        "transient",
        "One peer a round is as good as the static graph: rounds to the target within a factor of 1.25",
        "Theorem on convergence",
        "One-peer and static exponential graphs have the same rate.",
        "A static graph mixes log₂ n neighbours in every round.",
        Equal(Cost(), "d-psgd @ one-peer", ["d-psgd @ exponential"], within=1.25),
    ),
    Claim(
        "transient",
        "It needs fewer rounds to the target than a torus and a ring (margin 10 %)",
        "Table of transient iterations",
        "Exponential graphs have a shorter transient than ring and grid.",
        "At large step sizes the spectral gap matters less than theory says.",
        Ratio(Cost(), "d-psgd @ one-peer", ["d-psgd @ torus", "d-psgd @ ring"]),
    ),
]
