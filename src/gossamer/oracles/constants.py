r"""The constants of Assumption 3, which bound the error of an oracle.

$$ \|\mathbb E\, \tilde g_i(x) - \nabla f_i(x)\|^2 \le M_f \|\nabla f_i(x)\|^2 + \sigma_f^2, \qquad
   \mathbb E \|\tilde g_i(x) - \mathbb E\, \tilde g_i(x)\|^2 \le \sigma^2 $$
"""

import math
from dataclasses import dataclass

COVERED = 1 / 256
"""The largest M_f that the theorem covers."""


@dataclass(frozen=True)
class ErrorBounds:
    """Bounds that hold at every point. A bound without a closed form is None, and the note says why."""

    relative: float | None
    """M_f."""
    absolute: float | None
    """σ_f²."""
    variance: float | None
    """σ²."""
    note: str = ""

    @property
    def unbiased(self) -> bool:
        """True if the oracle is known to have no bias."""
        return self.relative == 0 and self.absolute == 0

    def shift_bias(self, size: float | None) -> tuple[float | None, float | None]:
        """Return M_f and σ_f² with an error of at most this size added to the bias; None is an unknown size."""
        if size == 0:
            return self.relative, self.absolute
        return square_error(root(self.relative), total(root(self.absolute), size))

    def add_notes(self, *more: str) -> str:
        """Return the note, followed by those of the others that it does not hold yet."""
        return " ".join([self.note, *(note for note in more if note not in self.note)]).strip()


def square_error(slope: float | None, level: float | None) -> tuple[float | None, float | None]:
    """Return M_f and σ_f² of an error of at most slope · ‖∇f‖ + level.

    With both, (a + b)² ≤ (1 + θ)a² + (1 + 1/θ)b², where θ = 1, or less if that keeps M_f within what is covered,
    or below 1, half of the way from slope² at most.
    """
    if slope is None:
        return None, None
    if slope == 0 or level == 0:
        return slope**2, None if level is None else level**2
    share = COVERED / slope**2 - 1
    if not 0 < share < 1:
        share = min(1.0, (1 / slope**2 - 1) / 2) if slope < 1 else 1.0
    return (1 + share) * slope**2, None if level is None else (1 + 1 / share) * level**2


def root(value: float | None) -> float | None:
    return None if value is None else math.sqrt(value)


def total(*terms: float | None) -> float | None:
    """Return the sum; None if a term is None."""
    known = [term for term in terms if term is not None]
    return sum(known) if len(known) == len(terms) else None


def times(factor: float, value: float | None) -> float | None:
    """Return the product; zero times an unknown value is zero."""
    return 0.0 if factor == 0 else None if value is None else factor * value
