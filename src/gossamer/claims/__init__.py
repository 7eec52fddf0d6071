r"""Verdicts: what the paper says, what was measured, and whether the one bears out the other.

A claim is a region that a number should lie in: a ratio of floors above 2, a slope within ±0.05. The measurement gives
a 95 % interval for that number (Student's t over seeds, paired where two runs share their seeds). The claim *holds* if
the interval lies inside the region, *does not hold* if it lies outside, and is *undecided* otherwise, or where the
runs do not suffice. A claim that makes $k$ comparisons takes each at $1 - 0.05/k$ (Bonferroni), so that at most one
claim in twenty is judged wrongly. That is the error of each claim, not of the list of them.

The *floor* of a run is the mean of a metric over the last third of its measured rounds.
"""

from gossamer.claims.comparison import COMPARISON
from gossamer.claims.magnitude import MAGNITUDE
from gossamer.claims.scaling import SCALING
from gossamer.claims.verdict import Claim, Verdict
from gossamer.study import Study

CLAIMS: list[Claim] = [*COMPARISON, *MAGNITUDE, *SCALING]
"""Every claim, by experiment, in the order of the paper's figures and then of its theorems."""


def judge(studies: dict[str, Study]) -> list[Verdict]:
    """The verdict on every claim whose study is among these, which are named "fig1", "fig2", "speedup" …"""
    return [claim(studies[claim.experiment]) for claim in CLAIMS if claim.experiment in studies]


__all__ = ["CLAIMS", "Claim", "Verdict", "judge"]
