"""How the error of Biased-DMT depends on how far the agents' data differ, under absolute and under relative bias."""

import math
from functools import partial

from gossamer.paper.claims.evidence import FLAT, Runs, fact, slope_question
from gossamer.paper.verdicts import Claim, Question
from gossamer.results.study import Study

MIXED_SPLITS = ("mixed:0", "mixed:0.25", "mixed:0.5", "mixed:0.75", "mixed:1")


def floor_by_heterogeneity(bias: str, above: float, below: float, study: Study) -> Question:
    variants = [f"{bias} {split}" for split in MIXED_SPLITS]
    spreads = {name: fact(study, name, "heterogeneity") for name in variants}
    floors = {name: Runs.of(study, variant=name).floor() for name in variants}
    return slope_question(spreads, floors, "floor of ‖∇F‖²", "heterogeneity", above, below)


HETEROGENEITY = [
    Claim(
        "heterogeneity",
        "Under absolute bias the floor does not depend on heterogeneity: the slope of log floor of ‖∇F‖² against log "
        f"heterogeneity is within ±{FLAT}",
        "Under absolute bias heterogeneous data leave no error.",
        partial(floor_by_heterogeneity, "absolute", -FLAT, FLAT),
    ),
    Claim(
        "heterogeneity",
        "Under relative bias the floor grows with heterogeneity: the slope of log floor of ‖∇F‖² against log "
        f"heterogeneity is above {FLAT}",
        "Under relative bias an error in proportion to the heterogeneity remains.",
        partial(floor_by_heterogeneity, "relative", FLAT, math.inf),
    ),
]
