r"""Certify a run of Biased-DMT: are the paper's inequalities true of it, and does its bound apply?

On quadratics with an oracle that is affine in the gradient, both sides of Lemmas 1 to 7, of the descent of Φ and of
Theorem 1 are exact numbers at every round, and nothing is sampled. Elsewhere the run is simulated and its mean of
$\|\nabla F(\bar x^t)\|^2$, with an interval over seeds, is put beside the bound.

Reference: Q. Xu, Y. Liao, W. Fan, X. You and S. Dian, 2026, arXiv 2604.08236, Section IV and the appendix.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np
import polars as pl

from gossamer.algorithms.biased_dmt import BiasedDMT
from gossamer.basics.html import tag
from gossamer.basics.table import Table
from gossamer.basics.text import json_ready
from gossamer.core import InputError
from gossamer.engines.simulator import check, plan_run, simulate
from gossamer.networks import Network
from gossamer.oracles import Oracle, completed, exact
from gossamer.problems import Problem, Quadratic
from gossamer.results.statistics import interval
from gossamer.theory.constants import Constants, constants_of
from gossamer.theory.moments import CHANGES, LONGEST_STATE, Affine, Moments, Series, affine_of, propagate
from gossamer.theory.theorem import FORMS, PAPER, Bound, Factors, Form, bound, conditions, descent

Judgement = Literal["holds", "violated", "undecided", "does not apply"]

Terms = dict[str, float]
"""A sum of moments: `{"tracking+": 1}` stands for Ξ_v at t + 1, `{"tracking": 1 - rho}` for (1 − ρ)Ξ_v at t, and the
name "1" for a constant."""

MEASURED_ROUNDS = 200
"""The most rounds at which a simulated run is measured; their mean stands for the mean over all rounds."""


@dataclass(frozen=True)
class Check:
    """An inequality over a whole run."""

    name: str
    verdict: Judgement
    slack: float
    """The least of (right − left)/max(|left|, |right|) over the rounds: negative where the inequality is false."""
    round: int  # the round in which the slack is least
    left: float
    right: float
    violations: int  # the number of rounds in which it is false, counted even where it does not apply
    missing: tuple[str, ...]  # the conditions that do not hold


@dataclass(frozen=True)
class Certificate:
    """The findings of `certify`."""

    kind: Literal["exact", "simulated"]
    eta: float
    lam: float
    steps: int
    constants: Constants
    bounds: tuple[Bound, ...]  # Theorem 1 as printed and as repaired
    checks: tuple[Check, ...]
    measured: float  # the mean of ‖∇F(x̄)‖² over the rounds: exact, or over seeds
    interval: tuple[float, float] | None  # its 95 % interval over seeds, where it was simulated

    @property
    def violated(self) -> list[str]:
        """The inequalities that are false although their conditions hold."""
        return [inequality.name for inequality in self.checks if inequality.verdict == "violated"]

    @property
    def holds(self) -> bool:
        """True if nothing was violated, among the inequalities that apply."""
        return not self.violated

    def __repr__(self) -> str:
        words = [check.verdict for check in self.checks]
        told = ", ".join(f"{words.count(word)} {word}" for word in dict.fromkeys(words))
        return f"Certificate({self.kind}, eta={self.eta:g}, lam={self.lam:g}, {self.steps:,} rounds: {told})"

    def _repr_html_(self) -> str:
        return tag("pre", str(self))

    def asdict(self) -> dict[str, Any]:
        nested = {
            "constants": self.constants.asdict(),
            "bounds": [bound.asdict() for bound in self.bounds],
            "violated": self.violated,
            "holds": self.holds,
        }
        return json_ready(asdict(self) | nested)

    def __str__(self) -> str:
        exactly = "exact second moments" if self.kind == "exact" else "simulated"
        start = f", warm = {self.constants.warm}" * (self.constants.warm != 0)
        setting = f"η = {self.eta:g}, λ = {self.lam:g}{start}"
        lines = [f"Biased-DMT, {setting}, {self.steps:,} rounds ({exactly})", ""]
        rows = [
            [
                *(inequality.name, inequality.verdict, f"{inequality.slack:.3g}", f"{inequality.round:,}"),
                *(f"{inequality.left:.4g}", f"{inequality.right:.4g}"),
            ]
            for inequality in self.checks
        ]
        head = ["inequality", "verdict", "least slack", "round", "left", "right"]
        lines.append(Table(head, rows, [False, False, True, True, True, True]).text(rule=True))
        for inequality in self.checks:
            if inequality.violations:
                where = ", where it does not apply" if inequality.missing else ""
                lines.append(
                    f"! {inequality.name} is false in {inequality.violations:,} of {self.steps:,} rounds{where}."
                )
        for missing in dict.fromkeys(inequality.missing for inequality in self.checks if inequality.missing):
            names = " and ".join(inequality.name for inequality in self.checks if inequality.missing == missing)
            lines += ["", f"not applicable here: {names}, because", *(f"  {text}" for text in missing)]
        spread = "" if self.interval is None else f" [{self.interval[0]:.4g}, {self.interval[1]:.4g}]"
        lines += ["", f"mean of ‖∇F(x̄)‖² over the rounds: {self.measured:.4g}{spread}"]
        lines += [
            f"bound, {bound.form}: {bound.total:.4g}{'' if bound.applies else ' (not valid here)'}"
            for bound in self.bounds
        ]
        said = "violated: " + ", ".join(self.violated) if self.violated else "nothing that applies is violated"
        return "\n".join([*lines, said])


def certify(
    rule: BiasedDMT,
    problem: Problem,
    network: Network,
    oracle: Oracle | None = None,
    *,
    steps: int,
    seeds: int | Sequence[int] = 5,
    **given: float,
) -> Certificate:
    """Check the paper's inequalities on a run of Biased-DMT.

    Args:
        rule: ``BiasedDMT(eta=…, lam=…)``, with numbers and no schedules. Where its tracker starts `warm`, Φ⁰ has what
            is left of Ξ_v⁰, and that is checked too.
        problem: what is minimised.
        network: who talks to whom.
        oracle: where gradients come from; the exact ones if it is not given.
        steps: rounds.
        seeds: how many runs are simulated; exact moments take the first for what an oracle draws once.
        given: constants that are taken as they are: `smoothness`, `excess`, `relative`, `absolute`, `variance` and
            `heterogeneity`.
    """
    oracle = completed(oracle or exact())
    check([rule], problem, network, oracle)
    if not isinstance(rule, BiasedDMT) or callable(rule.eta) or callable(rule.lam):
        raise InputError(f"the theory is about Biased-DMT with one η and one λ, but the rule is {rule!r}.")
    plan, numbers = plan_run(steps, None, seeds, "float64")
    # a longer state takes longer to follow than many seeds take to run
    if isinstance(problem, Quadratic) and 3 * problem.agents * problem.dim <= LONGEST_STATE:
        affine = affine_of(oracle, problem, numbers[0])
        if affine is not None:
            return _certify_exactly(rule, problem, network, oracle, affine, plan.steps, given)
    return _certify_by_simulation(rule, problem, network, oracle, plan.steps, numbers, given)


def _certify_exactly(
    rule: BiasedDMT,
    problem: Quadratic,
    network: Network,
    oracle: Oracle,
    affine: Affine,
    steps: int,
    given: dict[str, float],
) -> Certificate:
    eta, lam = float(rule.eta), float(rule.lam)
    c = constants_of(problem, network, oracle, seeds=(), warm=rule.warm, **(affine.constants | given))
    start = np.asarray(problem.start)
    m = propagate(problem, network, affine, eta, lam, steps, start=start, warm=rule.warm)
    known = {name: "exact" for name in (*affine.constants, "heterogeneity") if name not in given}
    c = replace(c, sources={**c.sources, **known})
    if "heterogeneity" in known:
        # the theorem asks for ζ² where the run goes, and the moments know where that is
        c = replace(c, heterogeneity=float(m.heterogeneity[:-1].max()))
    checks, bounds = [], []
    if c.warm != 0:
        cold = propagate(problem, network, affine, eta, lam, 0, start=start)
        checks.append(check_warm_start(c, m, cold))
    checks += check_lemmas(c, m, eta, lam)
    for form in FORMS:
        checks += check_descent(c, m, eta, lam, form)
        # Φ⁰ is known here, and need not be bounded
        phi = first_phi(c, m, eta, lam, form)
        at = bound(c, eta, lam, steps, form)
        bounds.append(replace(at, phi=phi, transient=PAPER.initial * phi / (eta * steps)))
    measured = float(m.gradient[:-1].mean())
    return Certificate("exact", eta, lam, steps, c, tuple(bounds), tuple(checks), measured, None)


def _certify_by_simulation(
    rule: BiasedDMT,
    problem: Problem,
    network: Network,
    oracle: Oracle,
    steps: int,
    seeds: list[int],
    given: dict[str, float],
) -> Certificate:
    if len(seeds) < 2:
        raise InputError("an interval over seeds needs at least two of them: give seeds=5.")
    c = constants_of(problem, network, oracle, seeds=seeds, warm=rule.warm, **given)
    eta, lam = float(rule.eta), float(rule.lam)
    every = max(1, steps // MEASURED_ROUNDS)  # a measurement costs as much as dozens of rounds
    result = simulate(rule, problem, network, oracle, steps=steps, every=every, seeds=seeds, progress=False)
    # a run that diverged has no finite mean
    lost = (pl.col("status") == "diverged").any()
    mean = pl.col("grad_norm_sq").filter(pl.col("round") < steps).mean()
    means = result.frame().group_by("seed").agg(pl.when(lost).then(math.inf).otherwise(mean).alias("mean"))["mean"]
    values = means.to_numpy()
    measured = float(values.mean())
    middle, half = interval(values) if np.isfinite(values).all() else (math.inf, 0.0)
    low, high = middle - half, middle + half
    bounds = tuple(bound(c, eta, lam, steps, form) for form in FORMS)
    checks = []
    for at in bounds:
        missing = tuple(str(condition) for condition in at.conditions if not condition.holds)
        verdict: Judgement = "does not apply"
        if not missing:
            verdict = "holds" if high <= at.total else "violated" if low > at.total else "undecided"
        slack = (at.total - measured) / at.total if at.total else -math.inf if measured else 0.0
        violations = int(low > at.total)
        checks.append(Check(f"Theorem 1 ({at.form})", verdict, slack, steps, measured, at.total, violations, missing))
    return Certificate("simulated", eta, lam, steps, c, bounds, tuple(checks), measured, (low, high))


# --- inequalities on exact moments ------------------------------------------------------------------------------------


def check_lemmas(c: Constants, m: Moments, eta: float, lam: float, factors: Factors = PAPER) -> list[Check]:
    """Check Lemmas 1 to 7."""
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
        _check_terms(m, "Lemma 1, momentum change", {"changed": 1.0}, _times(f.change * lam**2, change)),
        _check_terms(m, "Lemma 2, tracking", {"tracking+": 1.0}, {"tracking": 1 - rho, "changed": f.tracking / rho}),
        _check_terms(
            m, "Lemma 3, consensus", {"consensus+": 1.0}, {"consensus": 1 - rho, "tracking": f.consensus * eta**2 / rho}
        ),
        _check_terms(
            m,
            "Lemma 4, mean momentum",
            {"average+": 1.0},
            {"average": 1 - lam, **_times(n, drift), "1": n**2 * f.bias * lam * c.absolute + noise},
        ),
        _check_terms(
            m,
            "Lemma 5, each momentum",
            {"estimation+": 1.0},
            {"estimation": 1 - lam, **drift, "1": n * f.bias * lam * c.absolute + noise},
        ),
        _check_terms(m, "Lemma 6, parameters", {"moved": 1.0}, parameters),
        _check_terms(m, "Lemma 7, descent", fall, error, too_long),
    ]


def check_warm_start(c: Constants, m: Moments, cold: Moments) -> Check:
    r"""Check the proposition on warm starts, $\Xi_v^0 \le (1-\rho)^{2k} \, \mathbb{E}\|M^0 - \bar M^0\|^2$.

    The right side is taken from the `cold` start $V^0 = M^0$.
    """
    left, right = m.tracking[:1], c.kept_apart * cold.tracking[:1]
    rounding = m.rounding["tracking"][:1] + c.kept_apart * cold.rounding["tracking"][:1]
    return check_sides("Proposition 1, warm start", left, right, rounding)


def check_descent(
    c: Constants, m: Moments, eta: float, lam: float, form: Form, factors: Factors = PAPER
) -> list[Check]:
    r"""Check a step of Φ (for any $\eta \le 1/(2L)$), its descent, and Theorem 1 after each round.

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
    rounds, at = np.arange(1, len(m.loss)), bound(c, eta, lam, 1, form, factors)
    floor = at.heterogeneity + at.noise + at.bias
    right = factors.initial * first_phi(c, m, eta, lam, form, factors) / (eta * rounds) + floor
    left, rounding = (np.cumsum(series[:-1]) / rounds for series in (m.gradient, m.rounding["gradient"]))
    return [
        _check_terms(m, f"Φ, one step ({form})", full, added, too_long),
        _check_terms(m, f"Φ, descent ({form})", step | {"gradient": eta / 4}, added, missing),
        check_sides(f"Theorem 1 ({form})", left, right, rounding, missing),
    ]


def first_phi(c: Constants, m: Moments, eta: float, lam: float, form: Form, factors: Factors = PAPER) -> float:
    """Return Φ⁰, exactly."""
    return float(_value(m, _phi(c, eta, lam, form, factors))[0])


def check_sides(name: str, left: Series, right: Series, rounding: Series, missing: tuple[str, ...] = ()) -> Check:
    """Check left ≤ right at every round: false where left exceeds right by more than `rounding` can explain."""
    scale = np.maximum(np.abs(left), np.abs(right))
    # 1e-9 forgives sides that are equal but for rounding
    false = left - right > 1e-9 * scale + rounding
    # where all that is left is rounding there is nothing to compare
    compared = scale > 10 * rounding
    slack = np.where(compared, (right - left) / np.where(compared, scale, 1.0), np.inf)
    worst = int(slack.argmin())
    verdict: Judgement = "does not apply" if missing else "violated" if false.any() else "holds"
    ends = float(left[worst]), float(right[worst])
    return Check(name, verdict, float(slack[worst]), worst, *ends, int(false.sum()), missing)


def _phi(c: Constants, eta: float, lam: float, form: Form, factors: Factors) -> Terms:
    w = descent(c, eta, lam, form, factors)
    return {"loss": 1.0, "consensus": w.c1, "tracking": w.c2, "average": w.c3, "estimation": w.c4}


def _times(factor: float, terms: Terms) -> Terms:
    return {name: factor * weight for name, weight in terms.items()}


def _check_terms(m: Moments, name: str, left: Terms, right: Terms, missing: tuple[str, ...] = ()) -> Check:
    return check_sides(name, _value(m, left), _value(m, right), _rounding(m, left) + _rounding(m, right), missing)


def _value(m: Moments, terms: Terms) -> Series:
    return np.sum([weight * _series(vars(m), name, len(m.moved)) for name, weight in terms.items()], axis=0)


def _rounding(m: Moments, terms: Terms) -> Series:
    known = [abs(weight) * _series(m.rounding, name, len(m.moved)) for name, weight in terms.items() if name != "1"]
    return np.sum(known, axis=0)


def _series(values: dict[str, Series], name: str, rounds: int) -> Series:
    """Return a moment at rounds 0 … T − 1, or, behind a +, at 1 … T."""
    if name == "1":
        return np.ones(rounds)
    if name in CHANGES:
        return values[name]
    return values[name[:-1]][1:] if name.endswith("+") else values[name][:-1]
