"""The numbers that stand in the paper's inequalities, as parameters.

They are in one place so that a check can be run with a wrong one: a checker that then finds nothing checks nothing.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Factors:
    """The factors of Lemmas 1 to 7 and of Theorem 1; the defaults are the paper's."""

    change: float = 3.0
    """Lemma 1: three errors make up a change of the momentum."""
    shift: float = 2.0
    """Lemmas 1, 4, 5: ‖∇F(X⁺)‖² ≤ 2‖∇F(X)‖² + 2L²‖X⁺ − X‖²."""
    tracking: float = 1.0
    """Lemma 2: before ‖M⁺ − M‖²/ρ."""
    consensus: float = 1.0
    """Lemma 3: before η²Ξ_v/ρ."""
    drift: float = 2.0
    """Lemmas 4 and 5: before L²‖X⁺ − X‖²/λ."""
    bias: float = 2.0
    """Lemmas 4 and 5: before λ times the squared bias."""
    noise: float = 1.0
    """Lemmas 4 and 5: before λ²nσ²."""
    mixing: float = 12.0
    """Lemma 6: before Ξ_x."""
    moved: float = 3.0
    """Lemma 6: before η²Ξ_v and nη²‖m̄‖²; squared, before what bounds ‖m̄‖²."""
    apart: float = 2.0
    """‖∇F(X)‖² ≤ 2n‖∇F(x̄)‖² + 2L²Ξ_x + 2nζ²."""
    direction: float = 1.0
    """Lemma 7: before ηĜ/n² and ηL²Ξ_x/n."""
    initial: float = 4.0
    """Theorem 1: before Φ⁰/(ηT)."""
    relative: float = 64.0
    """Theorem 1: before M_f ζ²."""
    variance: float = 8.0
    """Theorem 1: before λσ²/n."""
    absolute: float = 16.0
    """Theorem 1: before σ_f²."""
    network_bias: float = 9 / 4
    """Theorem 1: before λ²n/ρ² in both terms of the bias."""
    network_noise: float = 3 / 2
    """Theorem 1: before λ(1 + λ)n²/ρ² in the term of the noise."""


PAPER = Factors()
