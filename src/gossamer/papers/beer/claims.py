"""The claims of the BEER paper; margins were set before the first run."""

from gossamer.papers.verdicts import Claim
from gossamer.papers.vocabulary import FLAT, Cost, End, Equal, Ratio, Slope

TARGET = 1e-3
"""The squared gradient norm that bytes and rounds are counted to."""

CLAIMS = [
    Claim(
        "algorithms",
        "After 2,000 rounds BEER's ‖∇F‖² is less than half of CHOCO-SGD's",
        "Experiments, logistic regression",
        "With heterogeneous data BEER reaches far smaller gradient norms than CHOCO-SGD.",
        "CHOCO-SGD's error depends on the step size, and a smaller one brings it closer.",
        Ratio(End("grad_norm_sq"), "beer @ ring", ["choco-sgd @ ring"], below=0.5),
    ),
    Claim(
        "algorithms",
        "BEER ties with uncompressed D² a round: after 2,000 rounds their ‖∇F‖² differ by a factor of at most 1.5",
        "Experiments, logistic regression",
        "BEER takes as many rounds as methods without compression.",
        "Compression adds noise of its own, and D² has weights of its own.",
        Equal(End("grad_norm_sq"), "beer @ ring", ["d2 @ lazy ring"], within=1.5),
    ),
    Claim(
        "algorithms",
        "BEER sends fewer bytes than D² and D-PSGD until ‖∇F‖² stays at 1e-3 (margin 10 %)",
        "Experiments, logistic regression",
        "At equal bits BEER is ahead of all that it is compared with.",
        "It sends two compressed vectors a round, and the others one that is exact.",
        Ratio(Cost(TARGET, "grad_norm_sq", "bytes_sent"), "beer @ ring", ["d2 @ lazy ring", "d-psgd @ ring"]),
    ),
    Claim(
        "graphs",
        f"The graph does not matter: the slope of log rounds to ‖∇F‖² = 1e-3 against log ρ is within ±{FLAT}",
        "Experiments, logistic regression",
        "BEER's rounds hardly depend on the topology.",
        "The rate has a factor of ρ, and agents on a ring of 40 mix slowly.",
        Slope(
            Cost(TARGET, "grad_norm_sq"),
            [f"beer @ {graph}" for graph in ("ring", "star", "grid", "erdos-renyi 0.2", "erdos-renyi 0.5")],
            "gap",
            above=-FLAT,
            below=FLAT,
            against="ρ",
        ),
    ),
]
