r"""The Lyapunov function behind Theorem 1, and how much of it one round takes away.

$$ \Phi^t = \mathbb{E}[F(\bar x^t) - F^*] + c_1 \Xi_x^t + c_2 \Xi_v^t + c_3 \hat G^t + c_4 \mathcal{G}^t $$

$$ c_2 = \frac{\kappa\eta}{\rho}, \qquad c_3 = \frac{2\eta}{\lambda n^2}, \qquad
   c_4 = \frac{3\kappa\eta\lambda}{\rho^2}, \qquad c_1 \text{ such that } A_2 = 0 $$

For every $\eta \le 1/(2L)$ the lemmas add up to

$$ \Phi^{t+1} - \Phi^t \le -A_1 \mathbb{E}\|\nabla F(\bar x^t)\|^2 - A_m \mathbb{E}\|\bar m^t\|^2 - A_2 \Xi_x^t
   - A_3 \Xi_v^t - A_4 \hat G^t - A_5 \mathcal{G}^t + 2n C_g \zeta^2 + C_n \sigma^2 + C_b \sigma_f^2 . $$

$\kappa = 1$ is the paper's choice; $\kappa = \max\{1, 1/(4n\rho^2)\}$ is the repair for sparse graphs, see `theorem`.

Reference: Q. Xu, Y. Liao, W. Fan, X. You and S. Dian, 2026, arXiv 2604.08236, the proof of Theorem 1.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

Number = Any
"""A float, or arrays of one shape: everything here works on whole grids of settings."""


@dataclass(frozen=True)
class Factors:
    """The factors of Lemmas 1 to 7 and of Theorem 1; the defaults are the paper's.

    They are parameters so that a test can pass a wrong one: a checker that then finds nothing checks nothing.
    """

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


class Coefficients(NamedTuple):
    """The weights of the four errors in Φ, the terms that a round takes from Φ, and those that it adds."""

    c1: Number
    c2: Number
    c3: Number
    c4: Number
    A1: Number
    Am: Number
    A2: Number
    A3: Number
    A4: Number
    A5: Number
    moved: Number
    """C_ΔX, before E‖X⁺ − X‖²."""
    gradients: Number
    """C_g, before E‖∇F(X)‖²."""
    noise: Number
    """C_n, before σ²."""
    bias: Number
    """C_b, before σ_f²."""

    @property
    def least(self) -> Number:
        """The smallest of the A's: the proof of the bound needs it to be at least 0."""
        return np.minimum.reduce([np.asarray(a) for a in (self.A1, self.Am, self.A2, self.A3, self.A4, self.A5)])


def kappa(n: Number, rho: Number) -> Number:
    r"""Return $\kappa = \max\{1, 1/(4n\rho^2)\}$: how much more weight the repaired proof gives to the disagreement."""
    return np.maximum(1.0, 1 / (4 * n * rho**2))


def coefficients(
    n: Number,
    rho: Number,
    L: Number,
    relative: Number,
    eta: Number,
    lam: Number,
    k: Number = 1.0,
    factors: Factors = PAPER,
) -> Coefficients:
    """Return the weights c₁ … c₄ with κ = `k`, and with them A₁ … A₅, A_m and the C's."""
    f = factors
    c2, c3, c4 = k * eta / rho, 2 * eta / (lam * n**2), 3 * k * eta * lam / rho**2
    # what Lemmas 1, 2, 4 and 5 add in a round, weighted
    change, biased = f.tracking * f.change * c2 * lam**2 / rho, f.bias * f.shift * lam * relative
    moved = L**2 * (
        change * (1 + f.shift * relative) + c3 * n * (f.drift / lam + biased) + c4 * (f.drift / lam + biased)
    )
    gradients = change * f.shift * relative + c3 * n * biased + c4 * biased
    c1 = (f.direction * eta * L**2 / n + f.mixing * moved + f.apart * L**2 * gradients) / rho
    return Coefficients(
        c1=c1,
        c2=c2,
        c3=c3,
        c4=c4,
        A1=eta / 2 - f.apart * n * gradients,
        Am=eta / 4 - f.moved * n * eta**2 * moved,
        A2=0.0 * eta,  # that is what c₁ is chosen for
        A3=c2 * rho - f.consensus * c1 * eta**2 / rho - f.moved * eta**2 * moved,
        A4=c3 * lam - f.direction * eta / n**2,
        A5=c4 * lam - f.tracking * f.change * c2 * lam**2 / rho,
        moved=moved,
        gradients=gradients,
        noise=change * n + (c3 + c4) * f.noise * lam**2 * n,
        bias=change * n + (c3 * n + c4) * f.bias * lam * n,
    )
