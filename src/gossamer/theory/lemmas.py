r"""Both sides of Lemmas 1 to 7, of the descent of Φ and of Theorem 1, from exact moments.

An inequality is two sums of moments: ``{"tracking+": 1}`` stands for $\Xi_v^{t+1}$, ``{"tracking": 1 - rho}`` for
$(1-\rho)\Xi_v^t$, and the name ``"1"`` for a constant.

Reference: Q. Xu, Y. Liao, W. Fan, X. You and S. Dian, 2026, arXiv 2604.08236, Section IV and the appendix.
"""

from typing import NamedTuple

import numpy as np

from gossamer.theory.constants import Constants
from gossamer.theory.factors import PAPER, Factors
from gossamer.theory.lyapunov import weights
from gossamer.theory.moments import CHANGES, Moments, Series
from gossamer.theory.theorem import Form, bound, conditions, descent, kappa_of

Terms = dict[str, float]


class Sides(NamedTuple):
    """An inequality at every round: left ≤ right."""

    name: str
    left: Series
    right: Series
    rounding: Series
    """How far the difference may be off because numbers are rounded."""
    missing: tuple[str, ...]
    """The conditions that do not hold; where there are some, the statement says nothing."""


def lemmas(c: Constants, m: Moments, eta: float, lam: float, factors: Factors = PAPER) -> list[Sides]:
    """Lemmas 1 to 7."""
    f, n, rho, L, M = factors, c.agents, c.gap, c.smoothness, c.relative
    biased = f.bias * f.shift * lam * M
    drift = {"moved": (f.drift / lam + biased) * L**2, "gradients": biased}
    change = {
        "estimation": 1.0,
        "moved": L**2 * (1 + f.shift * M),
        "gradients": f.shift * M,
        "1": n * (c.variance + c.absolute),
    }
    noise = f.noise * lam**2 * n * c.variance
    parameters = {
        "consensus": f.mixing + f.moved**2 * eta**2 * L**2,
        "tracking": f.moved * eta**2,
        "average": f.moved**2 * eta**2 / n,
        "gradient": f.moved**2 * eta**2 * n,
    }
    error = {"average": f.direction * eta / n**2, "consensus": f.direction * eta * L**2 / n}
    fall = {"loss+": 1.0, "loss": -1.0, "gradient": eta / 2, "momentum": eta / 2 * (1 - L * eta)}
    too_long = () if eta * L <= 1 else (f"η ≤ 1/L: η is {eta:.3g}, 1/L is {1 / L:.3g}",)
    return [
        _sides(m, "Lemma 1, momentum change", {"changed": 1.0}, _times(f.change * lam**2, change)),
        _sides(m, "Lemma 2, tracking", {"tracking+": 1.0}, {"tracking": 1 - rho, "changed": f.tracking / rho}),
        _sides(
            m, "Lemma 3, consensus", {"consensus+": 1.0}, {"consensus": 1 - rho, "tracking": f.consensus * eta**2 / rho}
        ),
        _sides(
            m,
            "Lemma 4, mean momentum",
            {"average+": 1.0},
            {"average": 1 - lam, **_times(n, drift), "1": n**2 * f.bias * lam * c.absolute + noise},
        ),
        _sides(
            m,
            "Lemma 5, each momentum",
            {"estimation+": 1.0},
            {"estimation": 1 - lam, **drift, "1": n * f.bias * lam * c.absolute + noise},
        ),
        _sides(m, "Lemma 6, parameters", {"moved": 1.0}, parameters),
        _sides(m, "Lemma 7, descent", fall, error, too_long),
    ]


def warm_start(c: Constants, m: Moments, cold: Moments) -> list[Sides]:
    r"""The proposition on warm starts, $\Xi_v^0 \le (1-\rho)^{2k} \, \mathbb{E}\|M^0 - \bar M^0\|^2$, beside a run from
    $V^0 = M^0$; nothing where this run is one."""
    left, right = m.tracking[:1], c.kept_apart * cold.tracking[:1]
    rounding = m.rounding["tracking"][:1] + c.kept_apart * cold.rounding["tracking"][:1]
    return [] if c.warm == 0 else [Sides("Proposition 1, warm start", left, right, rounding, ())]


def lyapunov(c: Constants, m: Moments, eta: float, lam: float, form: Form, factors: Factors = PAPER) -> list[Sides]:
    r"""Return both sides of a step of Φ (for any $\eta \le 1/(2L)$), of its descent, and of Theorem 1 after each round.

    A step takes ζ² at the round's own mean, in expectation: that is all that the proof uses. The theorem takes the ζ²
    of the constants, and Φ⁰ as it is.
    """
    a, phi = descent(c, eta, lam, form, factors), _phi(c, eta, lam, form, factors)
    step = {f"{name}+": weight for name, weight in phi.items()} | _times(-1, phi)
    added = {
        "heterogeneity": factors.apart * c.agents * a.gradients,
        "1": a.noise * c.variance + a.bias * c.absolute,
    }
    taken = {
        "gradient": a.A1,
        "momentum": a.Am,
        "consensus": a.A2,
        "tracking": a.A3,
        "average": a.A4,
        "estimation": a.A5,
    }
    full = {name: step.get(name, 0.0) + taken.get(name, 0.0) for name in step | taken}
    half = 1 / (2 * c.smoothness)
    too_long = () if eta <= half else (f"η ≤ 1/(2L): η is {eta:.3g}, 1/(2L) is {half:.3g}",)
    missing = tuple(str(condition) for condition in conditions(c, eta, lam, form) if not condition.holds)
    return [
        _sides(m, f"Φ, one step ({form})", full, added, too_long),
        _sides(m, f"Φ, descent ({form})", step | {"gradient": eta / 4}, added, missing),
        _theorem(c, m, eta, lam, form, factors, missing),
    ]


def first_phi(c: Constants, m: Moments, eta: float, lam: float, form: Form, factors: Factors = PAPER) -> float:
    """Φ⁰, exactly."""
    return float(_value(m, _phi(c, eta, lam, form, factors))[0])


def _theorem(
    c: Constants, m: Moments, eta: float, lam: float, form: Form, factors: Factors, missing: tuple[str, ...]
) -> Sides:
    rounds, at = np.arange(1, len(m.loss)), bound(c, eta, lam, 1, form, factors)
    floor = at.heterogeneity + at.noise + at.bias
    right = factors.initial * first_phi(c, m, eta, lam, form, factors) / (eta * rounds) + floor
    left, rounding = (np.cumsum(series[:-1]) / rounds for series in (m.gradient, m.rounding["gradient"]))
    return Sides(f"Theorem 1 ({form})", left, right, rounding, missing)


def _phi(c: Constants, eta: float, lam: float, form: Form, factors: Factors) -> Terms:
    w = weights(c.agents, c.gap, c.smoothness, c.relative, eta, lam, kappa_of(c, form), factors)
    return {"loss": 1.0, "consensus": w.c1, "tracking": w.c2, "average": w.c3, "estimation": w.c4}


def _times(factor: float, terms: Terms) -> Terms:
    return {name: factor * weight for name, weight in terms.items()}


def _sides(m: Moments, name: str, left: Terms, right: Terms, missing: tuple[str, ...] = ()) -> Sides:
    return Sides(name, _value(m, left), _value(m, right), _rounding(m, left) + _rounding(m, right), missing)


def _value(m: Moments, terms: Terms) -> Series:
    return np.sum([weight * _series(vars(m), name, len(m.moved)) for name, weight in terms.items()], axis=0)


def _rounding(m: Moments, terms: Terms) -> Series:
    known = [abs(weight) * _series(m.rounding, name, len(m.moved)) for name, weight in terms.items() if name != "1"]
    return np.sum(known, axis=0)


def _series(values: dict[str, Series], name: str, rounds: int) -> Series:
    """A moment at rounds 0 … T − 1, or, behind a +, at 1 … T."""
    if name == "1":
        return np.ones(rounds)
    if name in CHANGES:
        return values[name]
    return values[name[:-1]][1:] if name.endswith("+") else values[name][:-1]
