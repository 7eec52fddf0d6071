r"""The paper's Table I for given constants: orders, not bounds.

| method | order |
| --- | --- |
| D-PSGD | $1/\sqrt{nT} + \zeta^2/\rho$ |
| GT-DSGD | $1/\sqrt{nT}$ |
| DSGDm | $1/\sqrt{nT} + \zeta^2/\rho$ |
| Biased-DSGD | $1/\sqrt{nT} + n/T + \zeta^2/\rho^2 + M_f\zeta^2 + \sigma_f^2$ |
| Biased-DMT | $1/\sqrt{nT} + M_f\zeta^2 + \sigma_f^2$ |

The table leaves out all constants, and with them L, σ² and F(x⁰) − F*: a smaller number here need not be a smaller
error. The first three rows are for gradients without bias; fed the same biased gradients, GT-DSGD settles where
Biased-DMT does, and the ζ² of D-PSGD falls with its step.

Reference: Q. Xu, Y. Liao, W. Fan, X. You and S. Dian, 2026, arXiv 2604.08236, Table I.
"""

import math
from dataclasses import asdict, dataclass
from typing import Any

from gossamer.theory.constants import Constants
from gossamer.theory.text import plain, table


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
class Orders:
    """Table I with numbers. They are orders: the table omits constants."""

    steps: float
    rows: tuple[Order, ...]

    def asdict(self) -> dict[str, Any]:
        return plain(asdict(self) | {"note": "orders only: the table omits constants"})

    def __str__(self) -> str:
        rows = [
            [row.method, "yes" if row.covers_bias else "no", row.formula, f"{row.transient:.3g}", f"{row.floor:.3g}"]
            for row in self.rows
        ]
        lines = table(["method", "bias", "order", "vanishing", "floor"], rows)
        note = "Orders only: the table omits constants, so that a smaller number need not be a smaller error."
        return "\n".join([f"Table I at T = {self.steps:g}", *lines, note])


def orders_of(c: Constants, steps: float) -> Orders:
    """Table I for these constants after `steps` rounds."""
    fast, zeta, rho = 1 / math.sqrt(c.agents * steps), c.heterogeneity, c.gap
    bias = c.relative * zeta + c.absolute
    return Orders(
        steps,
        (
            Order("D-PSGD", False, "1/√(nT) + ζ²/ρ", fast, zeta / rho),
            Order("GT-DSGD", False, "1/√(nT)", fast, 0.0),
            Order("DSGDm", False, "1/√(nT) + ζ²/ρ", fast, zeta / rho),
            Order(
                "Biased-DSGD",
                True,
                "1/√(nT) + n/T + ζ²/ρ² + M_f ζ² + σ_f²",
                fast + c.agents / steps,
                zeta / rho**2 + bias,
            ),
            Order("Biased-DMT", True, "1/√(nT) + M_f ζ² + σ_f²", fast, bias),
        ),
    )
