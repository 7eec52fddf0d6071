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

The paper's Table I has orders, which leave out all constants, and with them L, σ² and F(x⁰) − F*: a smaller number
there need not be a smaller error. Its first three rows are for gradients without bias; fed the same biased gradients,
GT-DSGD settles where Biased-DMT does, and the ζ² of D-PSGD falls with its step.

Reference: Q. Xu, Y. Liao, W. Fan, X. You and S. Dian, 2026, arXiv 2604.08236, Theorem 1, Corollary 1 and Table I.
"""

import math
from dataclasses import asdict, dataclass
from typing import Any, Literal

from gossamer.basics.table import Table
from gossamer.basics.text import json_ready
from gossamer.oracles import COVERED
from gossamer.theory.constants import Constants
from gossamer.theory.lyapunov import PAPER, Coefficients, Factors, coefficients, kappa

Form = Literal["printed", "repaired"]

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
    phi: float
    """Φ⁰."""
    transient: float
    """4Φ⁰/(ηT)."""
    heterogeneity: float
    """The term of M_f ζ²."""
    noise: float
    """The term of σ²."""
    bias: float
    """The term of σ_f²."""
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
    phi = c.phi(descent(c, eta, lam, form, f))
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


# --- Table I: orders, not bounds --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Order:
    """A row of Table I."""

    method: str
    covers_bias: bool
    formula: str
    transient: float
    """The terms that vanish as T grows."""
    floor: float
    """The terms that do not."""


@dataclass(frozen=True)
class OrderTable:
    """Table I with numbers. They are orders: the table omits constants."""

    steps: float
    rows: tuple[Order, ...]

    def asdict(self) -> dict[str, Any]:
        return json_ready(asdict(self) | {"note": "orders only: the table omits constants"})

    def __str__(self) -> str:
        rows = [
            [row.method, "yes" if row.covers_bias else "no", row.formula, f"{row.transient:.3g}", f"{row.floor:.3g}"]
            for row in self.rows
        ]
        head = ["method", "bias", "order", "vanishing", "floor"]
        table = Table(head, rows, [False, False, False, True, True]).text(rule=True)
        note = "Orders only: the table omits constants, so that a smaller number need not be a smaller error."
        return "\n".join([f"Table I at T = {self.steps:g}", table, note])


def orders_of(c: Constants, steps: float) -> OrderTable:
    """Return Table I for these constants after `steps` rounds."""
    fast, zeta, rho = 1 / math.sqrt(c.agents * steps), c.heterogeneity, c.gap
    bias = c.relative * zeta + c.absolute
    long = "1/√(nT) + n/T + ζ²/ρ² + M_f ζ² + σ_f²"
    rows = (
        Order("D-PSGD", False, "1/√(nT) + ζ²/ρ", fast, zeta / rho),
        Order("GT-DSGD", False, "1/√(nT)", fast, 0.0),
        Order("DSGDm", False, "1/√(nT) + ζ²/ρ", fast, zeta / rho),
        Order("Biased-DSGD", True, long, fast + c.agents / steps, zeta / rho**2 + bias),
        Order("Biased-DMT", True, "1/√(nT) + M_f ζ² + σ_f²", fast, bias),
    )
    return OrderTable(steps, rows)
