"""The claims of the RelaySGD paper; margins were set before the first run."""

from gossamer.papers.verdicts import Claim
from gossamer.papers.vocabulary import Cost, Equal, Ratio, Slope

ROUNDS = Cost(1e-6, "grad_norm_sq")
SIZES = (4, 8, 16, 32, 64)

CLAIMS = [
    Claim(
        "heterogeneity",
        "Heterogeneity costs nothing: the rounds of RelaySGD to ‖∇F‖² = 1e-6 at ζ² = 0.1 and 10 are within a factor of "
        "1.25 of those at ζ² = 0",
        "Appendix, Figure 7",
        "RelaySGD reaches the target in as many steps whatever the heterogeneity.",
        "The step size may have to fall with ζ², as that of gossip does.",
        Equal(ROUNDS, "relay-sgd @ zeta 0", ["relay-sgd @ zeta 0.1", "relay-sgd @ zeta 10"], within=1.25),
    ),
    Claim(
        "chain",
        "On a chain RelaySGD needs fewer rounds than D² and gradient tracking, all tuned for that (margin 10 %)",
        "Section 5",
        "On chains RelaySGD is ahead of D² and of gradient tracking.",
        "Its messages arrive with delays as long as the chain, which limit the step size.",
        Ratio(ROUNDS, "relay-sgd @ chain", ["gnsd @ chain", "d2 @ lazy chain"]),
    ),
    Claim(
        "agents",
        "Gossip on a ring needs more rounds as n grows: the slope of log rounds against log n is above 0.25",
        "Figure 2",
        "Gossip slows down as the network grows.",
        "At small heterogeneity the step size and not the network may decide.",
        Slope(
            ROUNDS,
            [f"d-psgd @ ring {n}" for n in SIZES],
            {f"d-psgd @ ring {n}": n for n in SIZES},
            above=0.25,
            against="n",
        ),
    ),
    Claim(
        "agents",
        "RelaySGD on a tree does not: its slope is within ±0.25",
        "Figure 2",
        "RelaySGD needs about as many steps however large the network is.",
        "A larger tree is deeper, and its messages arrive later.",
        Slope(
            ROUNDS,
            [f"relay-sgd @ tree {n}" for n in SIZES],
            {f"relay-sgd @ tree {n}": n for n in SIZES},
            above=-0.25,
            below=0.25,
            against="n",
        ),
    ),
]
