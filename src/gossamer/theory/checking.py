r"""Certify a run of Biased-DMT: are the paper's inequalities true of it, and does its bound apply?

On quadratics with an oracle that is affine in the gradient, both sides of Lemmas 1 to 7, of the descent of Φ and of
Theorem 1 are exact numbers at every round, and nothing is sampled. Elsewhere the run is simulated and its mean of
$\|\nabla F(\bar x^t)\|^2$, with an interval over seeds, is put beside the bound.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np
import polars as pl

from gossamer.algorithms.biased_dmt import BiasedDMT
from gossamer.basics.html import tag
from gossamer.core import InputError
from gossamer.engines.simulator import check, plan_run, simulate
from gossamer.networks import Network
from gossamer.oracles import Oracle, completed, exact
from gossamer.problems import Problem, Quadratic
from gossamer.results.statistics import interval
from gossamer.theory.affine import Affine, affine_of
from gossamer.theory.constants import Constants, constants_of
from gossamer.theory.factors import PAPER, Factors
from gossamer.theory.lemmas import Sides, first_phi, lemmas, lyapunov, warm_start
from gossamer.theory.moments import LONGEST_STATE, propagate
from gossamer.theory.text import plain, table
from gossamer.theory.theorem import Bound, bound

Judgement = Literal["holds", "violated", "undecided", "does not apply"]

MEASURED_ROUNDS = 200
"""The most rounds at which a simulated run is measured; their mean stands for the mean over all rounds."""


@dataclass(frozen=True)
class Check:
    """An inequality over a whole run."""

    name: str
    verdict: Judgement
    slack: float
    """The least of (right − left)/max(|left|, |right|) over the rounds: negative where the inequality is false."""
    round: int
    """The round in which the slack is least."""
    left: float
    right: float
    violations: int
    """The number of rounds in which it is false, counted even where it does not apply."""
    missing: tuple[str, ...]
    """The conditions that do not hold."""


@dataclass(frozen=True)
class Certificate:
    """The findings of `certify`."""

    kind: Literal["exact", "simulated"]
    eta: float
    lam: float
    steps: int
    constants: Constants
    bounds: tuple[Bound, ...]
    """Theorem 1 as printed and as repaired."""
    checks: tuple[Check, ...]
    measured: float
    """The mean of ‖∇F(x̄)‖² over the rounds: exact, or over seeds."""
    interval: tuple[float, float] | None
    """Its 95 % interval over seeds, where it was simulated."""

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
        return plain(asdict(self) | nested)

    def __str__(self) -> str:
        exactly = "exact second moments" if self.kind == "exact" else "simulated"
        start = f", warm = {self.constants.warm}" * (self.constants.warm != 0)
        setting = f"eta = {self.eta:g}, lambda = {self.lam:g}{start}"
        lines = [f"Biased-DMT, {setting}, {self.steps:,} rounds ({exactly})", ""]
        rows = [
            [
                *(inequality.name, inequality.verdict, f"{inequality.slack:.3g}", f"{inequality.round:,}"),
                *(f"{inequality.left:.4g}", f"{inequality.right:.4g}"),
            ]
            for inequality in self.checks
        ]
        lines += table(["inequality", "verdict", "least slack", "round", "left", "right"], rows)
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
    factors: Factors = PAPER,
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
        factors: the numbers in the inequalities, if not the paper's.
        given: constants that are taken as they are: `smoothness`, `excess`, `relative`, `absolute`, `variance` and
            `heterogeneity`.
    """
    oracle = completed(oracle or exact())
    check([rule], problem, network, oracle)
    if not isinstance(rule, BiasedDMT) or callable(rule.eta) or callable(rule.lam):
        raise InputError(f"the theory is about Biased-DMT with one η and one λ, but the rule is {rule!r}.")
    plan, numbers = plan_run(steps, None, seeds, "float64")
    if isinstance(problem, Quadratic) and 3 * problem.agents * problem.dim <= LONGEST_STATE:
        affine = affine_of(oracle, problem, numbers[0])
        if affine is not None:
            return _exactly(rule, problem, network, oracle, affine, plan.steps, factors, given)
    return _simulated(rule, problem, network, oracle, plan.steps, numbers, factors, given)


def _exactly(
    rule: BiasedDMT,
    problem: Quadratic,
    network: Network,
    oracle: Oracle,
    affine: Affine,
    steps: int,
    factors: Factors,
    given: dict[str, float],
) -> Certificate:
    eta, lam = float(rule.eta), float(rule.lam)
    c = constants_of(problem, network, oracle, seeds=(), warm=rule.warm, **(affine.constants | given))
    start = np.asarray(problem.start)
    m = propagate(problem, network, affine, eta, lam, steps, start=start, warm=rule.warm)
    known = {name: "exact" for name in (*affine.constants, "heterogeneity") if name not in given}
    c = replace(c, sources={**c.sources, **known})
    if "heterogeneity" in known:
        c = replace(c, heterogeneity=float(m.heterogeneity[:-1].max()))
    forms = ("printed", "repaired")
    sides = warm_start(c, m, propagate(problem, network, affine, eta, lam, 0, start=start))
    sides += lemmas(c, m, eta, lam, factors)
    for form in forms:
        sides += lyapunov(c, m, eta, lam, form, factors)
    bounds = []
    for form in forms:
        # Φ⁰ is known here, and need not be bounded
        phi = first_phi(c, m, eta, lam, form, factors)
        at = bound(c, eta, lam, steps, form, factors)
        bounds.append(replace(at, phi=phi, transient=factors.initial * phi / (eta * steps)))
    checks = tuple(judged(inequality) for inequality in sides)
    return Certificate("exact", eta, lam, steps, c, tuple(bounds), checks, float(m.gradient[:-1].mean()), None)


def judged(sides: Sides) -> Check:
    """The verdict on one inequality: false where left exceeds right by more than rounding can."""
    left, right = sides.left, sides.right
    scale = np.maximum(np.abs(left), np.abs(right))
    false = left - right > 1e-9 * scale + sides.rounding
    # where all that is left is rounding there is nothing to compare
    told = scale > 10 * sides.rounding
    slack = np.where(told, (right - left) / np.where(told, scale, 1.0), np.inf)
    worst = int(slack.argmin())
    verdict: Judgement = "does not apply" if sides.missing else "violated" if false.any() else "holds"
    return Check(
        sides.name,
        verdict,
        float(slack[worst]),
        worst,
        float(left[worst]),
        float(right[worst]),
        int(false.sum()),
        sides.missing,
    )


def _simulated(
    rule: BiasedDMT,
    problem: Problem,
    network: Network,
    oracle: Oracle,
    steps: int,
    seeds: list[int],
    factors: Factors,
    given: dict[str, float],
) -> Certificate:
    if len(seeds) < 2:
        raise InputError("an interval over seeds needs at least two of them: give seeds=5.")
    c = constants_of(problem, network, oracle, seeds=seeds, warm=rule.warm, **given)
    eta, lam = float(rule.eta), float(rule.lam)
    every = max(1, steps // MEASURED_ROUNDS)
    result = simulate(rule, problem, network, oracle, steps=steps, every=every, seeds=seeds, progress=False)
    # a run that diverged has no finite mean
    lost = (pl.col("status") == "diverged").any()
    mean = pl.col("grad_norm_sq").filter(pl.col("round") < steps).mean()
    values = result.frame().group_by("seed").agg(pl.when(lost).then(math.inf).otherwise(mean).alias("mean"))["mean"]
    values = values.to_numpy()
    middle, half = interval(values) if np.isfinite(values).all() else (math.inf, 0.0)
    low, high = middle - half, middle + half
    bounds = tuple(bound(c, eta, lam, steps, form, factors) for form in ("printed", "repaired"))
    checks = tuple(_compared(at, float(values.mean()), low, high, steps) for at in bounds)
    return Certificate("simulated", eta, lam, steps, c, bounds, checks, float(values.mean()), (low, high))


def _compared(at: Bound, mean: float, low: float, high: float, steps: int) -> Check:
    missing = tuple(str(condition) for condition in at.conditions if not condition.holds)
    verdict: Judgement = "does not apply"
    if at.applies:
        verdict = "holds" if high <= at.total else "violated" if low > at.total else "undecided"
    slack = (at.total - mean) / at.total if at.total else -math.inf if mean else 0.0
    return Check(f"Theorem 1 ({at.form})", verdict, slack, steps, mean, at.total, int(low > at.total), missing)
