"""The claims of the D-PSGD paper; margins were set before the first run."""

from gossamer.papers.verdicts import Claim
from gossamer.papers.vocabulary import Cost, Equal, Floor, Ratio, Slope

SIZES = (2, 4, 8, 16)
POWER = 0.15
"""How far the exponent of a power law may be off."""

CLAIMS = [
    Claim(
        "links",
        "D-PSGD needs as many rounds to the target as centralised SGD, within a factor of 1.1, both tuned for that",
        "Convergence in iterations",
        "On IID data D-PSGD converges like centralised SGD, round for round.",
        "A ring of 16 mixes slowly, and agents drift apart by their noise.",
        Equal(Cost(), "d-psgd @ slow, all-reduce", ["centralized-sgd @ slow, all-reduce"], within=1.1),
    ),
    Claim(
        "links",
        "On slow links it takes less time to the target than centralised SGD by a ring all-reduce (margin 10 %)",
        "Convergence in time",
        "On slow networks D-PSGD is faster than its centralised counterparts.",
        "An all-reduce over a ring sends no more bytes, and only its latency counts.",
        Ratio(Cost(pays="seconds"), "d-psgd @ slow, all-reduce", ["centralized-sgd @ slow, all-reduce"]),
        "On slow links it takes less time than a ring all-reduce",
    ),
    Claim(
        "links",
        "On slow links it takes less time to the target than centralised SGD by a server (margin 10 %)",
        "Convergence in time",
        "A server is the bottleneck of centralised SGD.",
        "A server needs two messages a round, however many agents there are.",
        Ratio(Cost(pays="seconds"), "d-psgd @ slow, server", ["centralized-sgd @ slow, server"]),
        "On slow links it takes less time than a server",
    ),
    Claim(
        "links",
        "On fast links it takes no longer than a ring all-reduce, within a factor of 1.25",
        "Convergence in time",
        "On fast networks the two take about as long.",
        "Where messages are free, only the rounds count.",
        Equal(Cost(pays="seconds"), "d-psgd @ fast, all-reduce", ["centralized-sgd @ fast, all-reduce"], within=1.25),
    ),
    Claim(
        "speedup",
        f"The floor of ‖∇F‖² falls as 1/n: the slope of its logarithm against log n is within −1 ± {POWER}",
        "Corollary on linear speed-up",
        "The noise falls in proportion to the number of agents.",
        "On a ring agents hear a few neighbours only.",
        Slope(
            Floor(),
            [f"d-psgd @ {n}" for n in SIZES],
            {f"d-psgd @ {n}": n for n in SIZES},
            above=-1 - POWER,
            below=-1 + POWER,
            against="n",
        ),
    ),
]
