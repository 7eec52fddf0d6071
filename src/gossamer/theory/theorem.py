r"""Theorem 1 and Corollary 1, as printed and as repaired: conditions, settings, and the bound term by term.

$$ \frac1T \sum_{t<T} \mathbb{E}\|\nabla F(\bar x^t)\|^2 \le \frac{4\Phi^0}{\eta T}
   + 64 M_f \Big(1 + \frac{9\kappa\lambda^2 n}{4\rho^2}\Big) \zeta^2
   + \frac{8\lambda}{n} \Big(1 + \frac{3\kappa\lambda(1+\lambda) n^2}{2\rho^2}\Big) \sigma^2
   + 16 \Big(1 + \frac{9\kappa\lambda^2 n}{4\rho^2}\Big) \sigma_f^2 $$

*Printed*: $\kappa = 1$, for $M_f \le 1/256$, $\lambda \le \rho/(4\sqrt n)$ and
$\eta \le \min\{1/L,\; \rho\lambda/(8L),\; \lambda/(16L(1+M_f))\}$.

*Repaired*: $\kappa = \max\{1, 1/(4n\rho^2)\}$, for $M_f \le 1/256$, $\lambda \le \rho/(4\sqrt{n\kappa})$ and
$\eta \le \lambda/(16L(1+M_f))$, without $\rho$. Corollary 1 takes $\eta = \lambda/(16L)$, which the printed conditions
allow only for $\rho \ge 1/2$; the repaired ones always do.

The proof follows a Lyapunov function, and how much of it one round takes away:

$$ \Phi^t = \mathbb{E}[F(\bar x^t) - F^*] + c_1 \Xi_x^t + c_2 \Xi_v^t + c_3 \hat G^t + c_4 \mathcal{G}^t $$

$$ c_2 = \frac{\kappa\eta}{\rho}, \qquad c_3 = \frac{2\eta}{\lambda n^2}, \qquad
   c_4 = \frac{3\kappa\eta\lambda}{\rho^2}, \qquad c_1 \text{ such that } A_2 = 0 $$

For every $\eta \le 1/(2L)$ the lemmas add up to

$$ \Phi^{t+1} - \Phi^t \le -A_1 \mathbb{E}\|\nabla F(\bar x^t)\|^2 - A_m \mathbb{E}\|\bar m^t\|^2 - A_2 \Xi_x^t
   - A_3 \Xi_v^t - A_4 \hat G^t - A_5 \mathcal{G}^t + 2n C_g \zeta^2 + C_n \sigma^2 + C_b \sigma_f^2 . $$

Reference: Q. Xu, Y. Liao, W. Fan, X. You and S. Dian, 2026, arXiv 2604.08236, Theorem 1, its proof, and Corollary 1.
"""

import math
from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from gossamer.oracles import COVERED
from gossamer.theory.constants import Constants

Form = Literal["printed", "repaired"]
FORMS: tuple[Form, ...] = ("printed", "repaired")

Number = Any
"""A float, or arrays of one shape: everything here works on whole grids of settings."""


@dataclass(frozen=True)
class Factors:
    """The factors of Lemmas 1 to 7 and of Theorem 1; the defaults are the paper's.

    They are parameters so that a test can pass a wrong one: a checker that then finds nothing checks nothing.
    """

    change: float = 3.0  # Lemma 1: three errors make up a change of the momentum
    shift: float = 2.0  # Lemmas 1, 4, 5: ‖∇F(X⁺)‖² ≤ 2‖∇F(X)‖² + 2L²‖X⁺ − X‖²
    tracking: float = 1.0  # Lemma 2: before ‖M⁺ − M‖²/ρ
    consensus: float = 1.0  # Lemma 3: before η²Ξ_v/ρ
    drift: float = 2.0  # Lemmas 4 and 5: before L²‖X⁺ − X‖²/λ
    bias: float = 2.0  # Lemmas 4 and 5: before λ times the squared bias
    noise: float = 1.0  # Lemmas 4 and 5: before λ²nσ²
    mixing: float = 12.0  # Lemma 6: before Ξ_x
    moved: float = 3.0  # Lemma 6: before η²Ξ_v and nη²‖m̄‖²; squared, before what bounds ‖m̄‖²
    apart: float = 2.0  # ‖∇F(X)‖² ≤ 2n‖∇F(x̄)‖² + 2L²Ξ_x + 2nζ²
    direction: float = 1.0  # Lemma 7: before ηĜ/n² and ηL²Ξ_x/n
    initial: float = 4.0  # Theorem 1: before Φ⁰/(ηT)
    relative: float = 64.0  # Theorem 1: before M_f ζ²
    variance: float = 8.0  # Theorem 1: before λσ²/n
    absolute: float = 16.0  # Theorem 1: before σ_f²
    network_bias: float = 9 / 4  # Theorem 1: before λ²n/ρ² in both terms of the bias
    network_noise: float = 3 / 2  # Theorem 1: before λ(1 + λ)n²/ρ² in the term of the noise


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
    moved: Number  # C_ΔX, before E‖X⁺ − X‖²
    gradients: Number  # C_g, before E‖∇F(X)‖²
    noise: Number  # C_n, before σ²
    bias: Number  # C_b, before σ_f²

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


# --- conditions and bound ---------------------------------------------------------------------------------------------

LIMIT_ROUNDING = 1e-12
"""The relative error that a limit forgives, so that the last bits do not decide about a setting on it."""


@dataclass(frozen=True)
class Condition:
    """A condition of a statement, and the value here."""

    text: str
    value: float
    limit: float

    @property
    def holds(self) -> bool:
        return self.value <= self.limit * (1 + LIMIT_ROUNDING)

    @property
    def missed_by(self) -> float | None:
        """The factor it is missed by; None where it holds."""
        return None if self.holds else self.value / self.limit

    def asdict(self) -> dict[str, Any]:
        return asdict(self) | {"holds": self.holds, "missed_by": self.missed_by}

    def __str__(self) -> str:
        verdict = "holds" if self.holds else f"missed by a factor of {self.missed_by:.3g}"
        return f"{self.text:<20} {self.value:<10.4g} limit {self.limit:<10.4g} {verdict}"


@dataclass(frozen=True)
class Bound:
    """The right-hand side of Theorem 1 for one setting, term by term."""

    form: Form
    eta: float
    lam: float
    steps: float
    phi: float  # Φ⁰
    transient: float  # 4Φ⁰/(ηT)
    heterogeneity: float  # the term of M_f ζ²
    noise: float  # the term of σ²
    bias: float  # the term of σ_f²
    conditions: tuple[Condition, ...]

    @property
    def total(self) -> float:
        return self.transient + self.heterogeneity + self.noise + self.bias

    @property
    def applies(self) -> bool:
        """True if all conditions hold; if not, the number bounds nothing."""
        return all(condition.holds for condition in self.conditions)

    def asdict(self) -> dict[str, Any]:
        conditions = [condition.asdict() for condition in self.conditions]
        return asdict(self) | {"conditions": conditions, "total": self.total, "applies": self.applies}


def kappa_of(c: Constants, form: Form) -> float:
    """Return κ of a form: 1 as printed."""
    return float(kappa(c.agents, c.gap)) if form == "repaired" else 1.0


def lam_limit(c: Constants, form: Form = "repaired") -> float:
    """Return the largest λ that the theorem covers."""
    return c.gap / (4 * math.sqrt(c.agents * kappa_of(c, form)))


def eta_limit(c: Constants, lam: float, form: Form = "repaired") -> float:
    """Return the largest η that the theorem covers for this λ."""
    return min(_eta_limits(c, lam, form).values())


def steps_limit(c: Constants, form: Form = "repaired") -> float:
    r"""Return the fewest rounds for which Corollary 1's $\lambda = \sqrt{n/T}$ is covered: $16 n^2 \kappa / \rho^2$."""
    return 16 * c.agents**2 * kappa_of(c, form) / c.gap**2


def corollary(c: Constants, steps: float) -> tuple[float, float]:
    r"""Return Corollary 1's own choice for T rounds: $\eta = \lambda/(16L)$ and $\lambda = \sqrt{n/T}$."""
    lam = math.sqrt(c.agents / steps)
    return lam / (16 * c.smoothness), lam


def conditions(c: Constants, eta: float, lam: float, form: Form = "repaired") -> tuple[Condition, ...]:
    """Return the conditions of Theorem 1, each condition with the value here."""
    root = "4√n" if form == "printed" else "4√(nκ)"
    return (
        Condition("M_f ≤ 1/256", c.relative, COVERED),
        Condition(f"λ ≤ ρ/({root})", lam, lam_limit(c, form)),
        *(Condition(f"η ≤ {text}", eta, limit) for text, limit in _eta_limits(c, lam, form).items()),
    )


def bound(
    c: Constants, eta: float, lam: float, steps: float, form: Form = "repaired", factors: Factors = PAPER
) -> Bound:
    """Return the bound after `steps` rounds; whether it applies is in its conditions."""
    f, n, k = factors, c.agents, kappa_of(c, form)
    phi = phi_at_start(c, descent(c, eta, lam, form, f))
    network = 1 + f.network_bias * k * lam**2 * n / c.gap**2
    spread = 1 + f.network_noise * k * lam * (1 + lam) * n**2 / c.gap**2
    return Bound(
        form=form,
        eta=eta,
        lam=lam,
        steps=steps,
        phi=phi,
        transient=f.initial * phi / (eta * steps),
        heterogeneity=f.relative * c.relative * network * c.heterogeneity,
        noise=f.variance * lam / n * spread * c.variance,
        bias=f.absolute * network * c.absolute,
        conditions=conditions(c, eta, lam, form),
    )


def phi_at_start(c: Constants, w: Coefficients) -> float:
    """Return Φ⁰, at most."""
    start = c.start
    return float(c.excess + w.c2 * start.tracking + w.c3 * start.average + w.c4 * start.estimation)


def descent(c: Constants, eta: float, lam: float, form: Form = "repaired", factors: Factors = PAPER) -> Coefficients:
    """A₁ … A₅, A_m and the C's of one setting."""
    return coefficients(c.agents, c.gap, c.smoothness, c.relative, eta, lam, kappa_of(c, form), factors)


def floor(c: Constants, factors: Factors = PAPER) -> float:
    r"""Return what no number of rounds goes below: the bound as $T \to \infty$ and $\lambda \to 0$."""
    return factors.relative * c.relative * c.heterogeneity + factors.absolute * c.absolute


def sharp_floor(c: Constants) -> float:
    r"""Return the largest $\|\nabla F\|^2$ at which a tracker without noise can settle; infinite for $M_f \ge 1$.

    $$ \frac{M_f \zeta^2 + \sigma_f^2}{1 - M_f} $$

    It is attained, and for $M_f \le 1/2$ no algorithm has a better worst case: docs/theory.md has both proofs.
    """
    least = c.relative * c.heterogeneity + c.absolute
    return least / (1 - c.relative) if c.relative < 1 else math.inf


def _eta_limits(c: Constants, lam: float, form: Form) -> dict[str, float]:
    limits = {"λ/(16L(1+M_f))": lam / (16 * c.smoothness * (1 + c.relative))}
    if form == "printed":
        limits |= {"1/L": 1 / c.smoothness, "ρλ/(8L)": c.gap * lam / (8 * c.smoothness)}
    return limits
