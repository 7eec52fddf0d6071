"""The claims of the Momentum Tracking paper; margins were set before the first run."""

from gossamer.papers.verdicts import Claim
from gossamer.papers.vocabulary import End, Equal, LowerLoss, Ratio

NORM = End("grad_norm_sq")

CLAIMS = [
    Claim(
        "classes",
        "Plain momentum hurts: D-PSGD ends at a lower loss than DSGDm (margin 1 % of the way down)",
        "Introduction",
        "On heterogeneous data DSGDm does worse than D-PSGD.",
        "A smaller step size may make up for what momentum amplifies.",
        LowerLoss("d-psgd", ["dsgdm"]),
    ),
    Claim(
        "classes",
        "Momentum Tracking ends at a lower loss than DSGDm, QG-DSGDm and DecentLaM (margin 1 % of the way down)",
        "Image classification",
        "With few classes an agent Momentum Tracking is ahead of all other methods with momentum.",
        "All may fit the data in that time.",
        LowerLoss("momentum-tracking", ["dsgdm", "qg-dsgdm", "decentlam"]),
    ),
    Claim(
        "zeta",
        "Momentum Tracking is indifferent to ζ² at β = 0.9: with 10,000 times ζ² it ends at the same ‖∇F‖² within a "
        "factor of 1.25",
        "Theorem on any β in [0, 1)",
        "The rate does not depend on heterogeneity, for any momentum.",
        "The start of the tracker holds the gradients' differences, which take time to vanish.",
        Equal(NORM, "momentum-tracking @ beta 0.9, high", ["momentum-tracking @ beta 0.9, low"], within=1.25),
        "Momentum Tracking is indifferent to ζ² at β = 0.9",
    ),
    Claim(
        "zeta",
        "Momentum Tracking is indifferent to ζ² at β = 0.99: with 10,000 times ζ² it ends at the same ‖∇F‖² within a "
        "factor of 1.25",
        "Theorem on any β in [0, 1)",
        "The rate does not depend on heterogeneity, for any momentum.",
        "A larger momentum remembers the start for longer.",
        Equal(NORM, "momentum-tracking @ beta 0.99, high", ["momentum-tracking @ beta 0.99, low"], within=1.25),
        "Momentum Tracking is indifferent to ζ² at β = 0.99",
    ),
    Claim(
        "zeta",
        "DSGDm is not: with 10,000 times ζ² its ‖∇F‖² at the end is more than twice as large, at β = 0.9",
        "Introduction",
        "DSGDm depends on heterogeneity.",
        "A small step may hide it.",
        Ratio(NORM, "dsgdm @ beta 0.9, high", ["dsgdm @ beta 0.9, low"], above=2.0),
    ),
]
