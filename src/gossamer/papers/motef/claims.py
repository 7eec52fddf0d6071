"""The claims of the MoTEF paper; margins were set before the first run."""

from dataclasses import dataclass

from gossamer.papers.verdicts import Claim
from gossamer.papers.vocabulary import End, Equal, LowerLoss, Ratio, Reading, Runs, Slope, average, split_method
from gossamer.results.study import Study, variant_spec

POWER = 0.15
"""How far the exponent of a power law may be off."""


@dataclass(frozen=True)
class Distance:
    """The mean over agents of ‖x_i − x*‖² at the end, exactly: ∇F(x̄) is the mean curvature times x̄ − x*."""

    title = "mean of ‖x_i − x*‖² at the end"

    def __call__(self, study: Study, method: str) -> Reading:
        curvatures = variant_spec(study.spec, split_method(method)[1])["problem"]["curvatures"]
        mean = sum(curvatures) / len(curvatures)
        runs = Runs.of(study, method)
        norms, apart = runs.end("grad_norm_sq"), runs.end("consensus")
        values = {replicate: norms[replicate] / mean**2 + apart[replicate] for replicate in norms}
        return Reading(values, f"{average(values):.4g}")


SIZES = {f"motef @ {n}": n for n in (2, 4, 8, 16)}

CLAIMS = [
    Claim(
        "nodes",
        f"Linear speed-up: the slope of log ‖x − x*‖² against log n is within −1 ± {POWER}",
        "Synthetic experiments",
        "With fixed parameters the error falls in proportion to the number of agents.",
        "Compression and the ring add errors that do not fall with n.",
        Slope(Distance(), list(SIZES), SIZES, above=-1 - POWER, below=-1 + POWER, against="n"),
    ),
    Claim(
        "nodes",
        "No dependence on heterogeneity: with 100 times ζ² the error is the same within a factor of 1.1",
        "Theorem on MoTEF",
        "The rate does not depend on the heterogeneity of the data.",
        "Compression may leave an error that grows with ζ².",
        Equal(Distance(), "motef @ 8, zeta x 100", ["motef @ 8"]),
    ),
    Claim(
        "a9a",
        "MoTEF ends at a smaller ‖∇F‖² than BEER and CHOCO-SGD, all tuned for that (margin 10 %)",
        "Logistic regression",
        "Under noise MoTEF reaches smaller gradient norms than BEER and CHOCO-SGD.",
        "A smaller step size averages noise as well as momentum does.",
        Ratio(End("grad_norm_sq"), "motef", ["beer", "choco-sgd"]),
    ),
    Claim(
        "a9a",
        "MoTEF ends at a lower loss than BEER and CHOCO-SGD (margin 1 % of the way from the start to the lowest end)",
        "Logistic regression",
        "Under noise MoTEF reaches a lower loss than BEER and CHOCO-SGD.",
        "All may come so close to the minimum that the loss no longer tells.",
        LowerLoss("motef", ["beer", "choco-sgd"]),
    ),
]
