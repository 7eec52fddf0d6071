r"""The paper's claims, and how they are judged: whether what was measured bears out what the paper says.

A claim is a region that a number should lie in: a ratio of floors above 2, a slope within ±0.05. The measurement gives
an interval for that number (Student's t over replicates, paired where two methods share them). The claim *holds* if the
interval lies inside the region and *does not hold* if it lies outside. A claim that something is smaller, or larger,
names the smallest difference that matters; where the whole interval is below that, it is a *tie*. Anything else is
*undecided*, also where runs diverged or floors have not settled. What was not run is *not run*, and a claim whose own
conditions nothing meets is *not tested*.

A page of $k$ claims takes each at $1 - 0.05/k$, and a claim that makes $m$ comparisons takes each at $1 - 0.05/(km)$
(Bonferroni), so that all intervals of the page hold together at 95 %. What replicates, ends and floors are stands in
`gossamer.results.statistics`.
"""

from collections.abc import Sequence

from gossamer.paper.claims.fig1 import FIG1
from gossamer.paper.claims.fig2 import FIG2
from gossamer.paper.claims.heterogeneity import HETEROGENEITY
from gossamer.paper.claims.sensitivity import SENSITIVITY
from gossamer.paper.claims.speedup import SPEEDUP
from gossamer.paper.claims.topology import TOPOLOGY
from gossamer.paper.verdicts import ERROR, Claim, Verdicts
from gossamer.results.study import Study

CLAIMS: list[Claim] = [*FIG1, *SENSITIVITY, *FIG2, *SPEEDUP, *TOPOLOGY, *HETEROGENEITY]
"""Every claim, by experiment, in the order of the paper's figures and then of its theorems."""


def judge(studies: dict[str, Study], wanted: Sequence[str] = ()) -> Verdicts:
    """The verdict on every claim whose study is among these; studies go by the names of their experiments.

    A claim about another experiment that is `wanted` gets the verdict "not run". The level is that of a page with all
    claims of all experiments, whatever part of them is judged here.
    """
    error = ERROR / len(CLAIMS)
    return Verdicts(
        claim(studies.get(claim.experiment), error)
        for claim in CLAIMS
        if claim.experiment in studies or claim.experiment in wanted
    )


__all__ = ["CLAIMS", "judge"]
