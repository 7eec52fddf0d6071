r"""Plan a run of Biased-DMT: what the theory allows and promises, and beside it what works in practice.

For T rounds, λ is the one in the theorem's range that makes its bound least, with the largest η that goes with it. For
a target, T is the least for which the bound so chosen is at most the target. Both are worked out as printed and as
repaired: see `gossamer.theory.theorem`.

What works in practice is tried below the steps for which Biased-DMT is stable on quadratics with one curvature. For
$f_i(x) = \frac12 a (x - b_i)^2$ its modes are the roots of

$$ (r - w)^2 (r - 1 + \lambda) + \eta\lambda a\, r (r - 1), \qquad w \in \mathrm{spec}(W) . $$

For $w = 1$ one root is $r = 1$, which no error ever enters (the mean tracker is the mean momentum); the other two are
stable for $\eta\lambda a < 4 - 2\lambda$. A loss with other Hessians may be stable for more or for less: what follows
is a heuristic, not a theorem.
"""

import math
import textwrap
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from jaxtyping import Complex, Float

from gossamer.algorithms import ALGORITHMS
from gossamer.algorithms.biased_dmt import BiasedDMT
from gossamer.basics.html import tag
from gossamer.basics.table import Table
from gossamer.basics.text import format_number, json_ready
from gossamer.core import InputError, Range, WarmStart, hyperparameters
from gossamer.engines.block import Block
from gossamer.engines.runs import RunPlan, Setting, Width, fits
from gossamer.engines.simulator import check, plan_run
from gossamer.networks import Network
from gossamer.networks.measures import EXACT_AGENTS
from gossamer.oracles import COVERED, Oracle, completed, exact
from gossamer.problems import Problem
from gossamer.specs.schema import FIRST_SEED
from gossamer.theory.constants import Constants, constants_of
from gossamer.theory.proofs import START, question_of
from gossamer.theory.theorem import (
    FORMS,
    Bound,
    Form,
    bound,
    corollary,
    descent,
    eta_limit,
    floor,
    kappa_of,
    lam_limit,
    sharp_floor,
    steps_limit,
)
from gossamer.worst import LyapunovBound, best_step
from gossamer.worst.exact import SECONDS

CONSTANT_SYMBOLS = {
    "smoothness": "L",
    "heterogeneity": "ζ²",
    "relative": "M_f",
    "absolute": "σ_f²",
    "variance": "σ²",
    "excess": "F(x⁰) − F*",
}

METHOD = "biased-dmt"
"""The method that is planned."""

LAMBDAS = (1.0, 0.3, 0.1, 0.03)
SHARES = (1 / 2, 1 / 8)
"""The shares of the largest stable step that are tried."""

TRIAL_STEPS = 300

GRID = 400
"""How many steps are tried before bisection; a window of instability between two of them is not seen."""

PROOF_SECONDS = 30.0
"""The budget of the search for a proved bound."""

_AT_LEAST_1 = Range(1, float("inf"), False, True, "It is a number of rounds.")
_ABOVE_0 = Range(0, float("inf"), True, True, "It is a mean of squared gradient norms.")


@dataclass(frozen=True)
class Tried:
    """A setting and how it did: the mean of ‖∇F(x̄)‖² over the last third of the run, None where it diverged."""

    eta: float
    lam: float
    limit: float  # the largest stable η for this λ, at curvature L for all agents
    loss: float | None
    gradient: float | None


@dataclass(frozen=True)
class Practical:
    """The settings that were tried, and the one with the least ‖∇F(x̄)‖² among those that lowered the loss."""

    steps: int
    best: Tried | None
    tried: tuple[Tried, ...]

    def asdict(self) -> dict[str, Any]:
        return asdict(self) | {"heuristic": True}


@dataclass(frozen=True)
class Prescription:
    """The step sizes and bounds that a form of the theorem allows and promises."""

    form: Form
    kappa: float
    lam_limit: float
    eta_limit: float  # the largest η with the largest λ
    corollary_steps: float  # the rounds from which Corollary 1's λ is allowed
    corollary_A3: float  # A₃/η for Corollary 1's own η and λ at that T: its proof needs this to be at least 0
    bound: Bound | None
    """At the T that was asked for or is needed; None where M_f is above 1/256, or no T reaches the target."""

    def asdict(self) -> dict[str, Any]:
        return asdict(self) | {"bound": None if self.bound is None else self.bound.asdict()}


@dataclass(frozen=True)
class Plan:
    """The findings of `plan`."""

    network: str
    constants: Constants
    steps: float | None
    target: float | None
    floor: float  # the limit of the theorem's bound, however many rounds there are
    sharp_floor: float
    """The largest ‖∇F‖² at which a tracker without noise can settle: see `gossamer.theory.sharp_floor`."""
    prescriptions: tuple[Prescription, ...]
    practical: Practical | None
    proved: LyapunovBound | str = ""
    """The best bound that a machine proves, with its η and λ, or the reason why there is none."""
    methods: tuple[str, ...] = ()
    """The methods of the experiment, for which the plan says what holds of each."""

    @property
    def others(self) -> dict[str, str]:
        """A sentence about each other method of the experiment."""
        found = {}
        for name in dict.fromkeys(self.methods):
            kind = ALGORITHMS.get(name)
            tracks = kind is not None and any(isinstance(one, WarmStart) for one in hyperparameters(kind).values())
            if name == "gnsd":
                found[name] = f"{name} is Biased-DMT with λ = 1: the rows of that λ hold for it."
            elif name != METHOD and tracks:
                found[name] = f"{name} is a tracker: without noise it settles at the floor of trackers, if it settles."
            elif name != METHOD:
                found[name] = f"{name}: nothing below is about it."
        return found

    @property
    def vacuous(self) -> tuple[Form, ...]:
        """The forms whose bound lies above where the run starts: to stay at the start would keep them too."""
        bounds = [prescription.bound for prescription in self.prescriptions if prescription.bound is not None]
        return tuple(at.form for at in bounds if at.total > self.constants.gradient_at_start)

    @property
    def proves_nothing(self) -> bool:
        """True if the proved bound lies above where the run starts."""
        return isinstance(self.proved, LyapunovBound) and self.proved.bound() > self.constants.gradient_at_start

    def __repr__(self) -> str:
        about = f"{self.network}, n={self.constants.agents}, rho={self.constants.gap:.4g}"
        bounds = (f"{one.form} bound {one.bound.total:.4g}" for one in self.prescriptions if one.bound is not None)
        return f"Plan({about}: {', '.join(bounds) or 'no bound'})"

    def _repr_html_(self) -> str:
        return tag("pre", str(self))

    def asdict(self) -> dict[str, Any]:
        nested = {
            "constants": self.constants.asdict(),
            "theory": {prescription.form: prescription.asdict() for prescription in self.prescriptions},
            "vacuous": self.vacuous,
            "proved": None if isinstance(self.proved, str) else self.proved.asdict() | {"vacuous": self.proves_nothing},
            "unproved": self.proved if isinstance(self.proved, str) else None,
            "practical": None if self.practical is None else self.practical.asdict(),
        }
        kept = {name: getattr(self, name) for name in ("network", "steps", "target", "floor", "sharp_floor")}
        return json_ready({"method": METHOD, "others": self.others} | kept | nested)

    def __str__(self) -> str:
        c = self.constants
        known = [
            [name, format_number(getattr(c, key)), c.sources.get(key, "given")]
            for key, name in CONSTANT_SYMBOLS.items()
        ]
        start = f", warm = {c.warm}," * (c.warm != 0)
        absent = ", which the spec does not run" * bool(self.methods and METHOD not in self.methods)
        lines = [f"A plan for Biased-DMT{start} on {self.network}{absent}: n = {c.agents}, ρ = {c.gap:.6g}."]
        if self.others:
            lines += ["The spec's other methods, whose step sizes `gossamer tune` finds by trying:"]
        lines += [*(f"- {said}" for said in self.others.values()), ""]
        lines.append(Table(["constant", "value", "source"], known, [False, True, False]).text(rule=True))
        lines += textwrap.wrap(f"Of the oracle: {c.note}", 120) if c.note else []
        lines += ["", *self._theory(), "", *self._proof(), *self._floors()]
        return "\n".join([*lines, "", *self._practice()])

    def _theory(self) -> list[str]:
        if self.constants.relative > COVERED:
            return [
                f"Theorem 1 says nothing here: M_f is {self.constants.relative:.4g}, and it covers up to 1/256 "
                f"(missed by a factor of {self.constants.relative / COVERED:.3g})."
            ]
        rows = [
            ["κ", *(format_number(p.kappa) for p in self.prescriptions)],
            ["largest λ", *(format_number(p.lam_limit) for p in self.prescriptions)],
            ["largest η with it", *(format_number(p.eta_limit) for p in self.prescriptions)],
            ["Corollary 1 from T =", *(format_number(p.corollary_steps) for p in self.prescriptions)],
            ["A₃/η of its η, λ", *(format_number(p.corollary_A3) for p in self.prescriptions)],
        ]
        bounds = [p.bound for p in self.prescriptions]
        if all(at is not None for at in bounds):
            parts = {"T": "steps", "λ": "lam", "η": "eta", "4Φ⁰/(ηT)": "transient", "M_f ζ² term": "heterogeneity"}
            parts |= {"σ² term": "noise", "σ_f² term": "bias", "bound": "total"}
            rows += [[name, *(format_number(getattr(at, key)) for at in bounds)] for name, key in parts.items()]
        head = ["Theorem 1", *(p.form for p in self.prescriptions)]
        lines = [Table(head, rows, [False, True, True]).text(rule=True)]
        if self.vacuous:
            lines.append(
                f"Vacuous, {' and '.join(self.vacuous)}: the bound is above ‖∇F(x⁰)‖² = "
                f"{self.constants.gradient_at_start:.4g}, where the run starts, and so promises nothing."
            )
        if self.prescriptions[0].corollary_A3 < 0:
            lines.append(
                "The printed proof of Corollary 1 fails here: A₃ < 0, because ρ is small. The repaired one holds."
            )
        if self.target is not None and self.target <= self.floor:
            lines.append(f"No T reaches {self.target:.4g}: the bound never goes below {self.floor:.4g}.")
        return lines

    def _proof(self) -> list[str]:
        if isinstance(self.proved, str):
            return [*textwrap.wrap(f"No bound was proved by machine: {self.proved}", 120), ""] * bool(self.proved)
        found, c = self.proved, self.constants
        told = {at.form: at.bound for at in self.prescriptions if at.bound is not None}
        others = [
            f"Theorem 1 {form}: {at.total:.4g}, {'valid' if at.applies else 'not valid'}"
            + ", vacuous" * (form in self.vacuous)
            for form, at in told.items()
        ]
        empty = f", vacuous (the start has ‖∇F(x⁰)‖² = {c.gradient_at_start:.4g})" * self.proves_nothing
        lines = [
            f"Proved by machine for T = {found.steps:,.0f}: {found.bound():.4g}, valid{empty}, "
            f"with η = {found.rule.eta:.4g} and λ = {found.rule.lam:.4g}.",
            f"Beside it, {'; '.join(others)}." if others else "",
            f"Its floor is {found.floor:.4g}; `gossamer prove` has all of its constants.",
        ]
        if "estimate" in c.sources.values():
            lines.append("It holds as far as the estimated constants above do.")
        return [line for line in lines if line] + [""]

    def _floors(self) -> list[str]:
        if self.constants.relative >= 1:
            return ["No bound holds for ‖∇F‖² where a tracker settles: M_f is 1 or more."]
        lines = [f"Trackers without noise settle at ‖∇F‖² ≤ (M_f ζ² + σ_f²)/(1 − M_f) = {self.sharp_floor:.4g}."]
        if self.constants.relative <= 1 / 2:
            lines.append("No algorithm has a better worst case.")
        if self.constants.relative <= COVERED:
            lines.append(f"The bound of Theorem 1 stays above 64 M_f ζ² + 16 σ_f² = {self.floor:.4g}.")
        return lines

    def _practice(self) -> list[str]:
        if self.practical is None:
            return ["No setting was tried."]
        rows = [
            [
                *map(format_number, (trial.lam, trial.eta, trial.limit)),
                *(format_number(value, missing="diverged") for value in (trial.loss, trial.gradient)),
            ]
            for trial in self.practical.tried
        ]
        head = ["λ", "η", "stable below", "F(x̄)", "‖∇F(x̄)‖²"]
        lines = [
            f"In practice (a heuristic, not a theorem), tried for {self.practical.steps} rounds:",
            Table(head, rows, [True] * 5).text(rule=True),
        ]
        best, warm = self.practical.best, self.constants.warm
        start = f", warm={warm!r}" * (warm != 0)
        if best is None:
            return [*lines, "None of them lowered the loss."]
        return [*lines, f"Best of these: BiasedDMT(eta={best.eta:.3g}, lam={best.lam:g}{start})"]


def plan(
    problem: Problem,
    network: Network,
    oracle: Oracle | None = None,
    *,
    steps: float | None = None,
    target: float | None = None,
    seeds: int | Sequence[int] = 1,
    trial: bool = True,
    warm: int | Literal["mean"] = 0,
    methods: Sequence[str] = (),
    seconds: float = PROOF_SECONDS,
    **given: float,
) -> Plan:
    """Return what the theory allows and promises for Biased-DMT, and what a short trial says.

    Args:
        problem: what is minimised.
        network: who talks to whom.
        oracle: where gradients come from; the exact ones if it is not given.
        steps: the rounds that the run may take; those of Corollary 1 if neither this nor a target is given.
        target: a mean of ‖∇F(x̄)‖² over the run that the bound should promise.
        seeds: of the run, or how many: σ_f² is the largest over them where it depends on what an oracle draws once.
        trial: whether to try settings on a short run.
        warm: how the tracker starts, as in ``BiasedDMT(warm=…)``: the bound is without the part of Φ⁰ that it removes.
        methods: the names of all methods of the experiment: the plan says what holds of each.
        seconds: the budget of the search for a bound that a machine proves; 0 leaves it out.
        given: constants that are taken as they are: `smoothness`, `excess`, `relative`, `absolute`, `variance` and
            `heterogeneity`.
    """
    if steps is not None and target is not None:
        raise InputError("a plan takes steps or a target, but not both: the one follows from the other.")
    steps = None if steps is None else _AT_LEAST_1.check("steps", steps)
    target = None if target is None else _ABOVE_0.check("target", target)
    seconds = SECONDS.check("seconds", seconds)
    oracle = completed(oracle or exact())
    check([], problem, network, oracle, tuned=1)
    _, numbers = plan_run(1, None, seeds, "float64")
    c = constants_of(problem, network, oracle, seeds=numbers, warm=warm, **given)
    prescriptions = tuple(_prescribe(c, form, steps, target) for form in FORMS)
    tried = try_settings(problem, network, oracle, c.smoothness, warm=c.warm) if trial else None
    bounds = [one.bound.steps for one in prescriptions if one.bound is not None]
    wanted = steps or (bounds[-1] if bounds else prescriptions[-1].corollary_steps)
    proved = find_proof(c, network, wanted, seconds) if seconds else ""
    limits = floor(c), sharp_floor(c)
    return Plan(network.name, c, steps, target, *limits, prescriptions, tried, proved, tuple(methods))


def find_proof(c: Constants, network: Network, steps: float, seconds: float) -> LyapunovBound | str:
    """Return the best bound of Biased-DMT that is proved for T rounds, or the reason why there is none."""
    try:
        rule = BiasedDMT(eta=START["eta"] / c.smoothness, lam=START["lam"], warm=c.warm)
        return best_step(rule, network, seconds=seconds, **question_of(c, steps))
    except InputError as error:  # such as a missing Clarabel
        return str(error)


def best_bound(c: Constants, steps: float, form: Form) -> Bound:
    """Return the least bound after `steps` rounds over all λ that are allowed, each with its largest η."""
    top = math.log(lam_limit(c, form))

    def at(log_lam: float) -> Bound:
        lam = math.exp(log_lam)
        return bound(c, eta_limit(c, lam, form), lam, steps, form)

    # convex in log λ, because the bound is a sum of powers of λ with positive factors; e⁻⁴⁰ of the limit stands for 0
    from scipy.optimize import minimize_scalar  # half a second to import, so only when needed

    optimum: Any = minimize_scalar(
        lambda s: math.log(max(at(s).total, 1e-300)), bounds=(top - 40, top), method="bounded"
    )
    return min(at(float(optimum.x)), at(top), key=lambda bound: bound.total)


def steps_for(c: Constants, target: float, form: Form) -> float | None:
    """Return the least T for which `best_bound` is at most the target; None where there is none."""
    if target <= floor(c):
        return None
    low, high = 0.0, 1.0
    while best_bound(c, math.exp(high), form).total > target:
        low, high = high, 2 * high
        if high > 600:  # floats end at e⁷⁰⁹
            return None
    while high - low > 1e-6:
        middle = (low + high) / 2
        low, high = (low, middle) if best_bound(c, math.exp(middle), form).total <= target else (middle, high)
    return (
        float(math.ceil(math.exp(high))) if high < 30 else math.exp(high)
    )  # beyond, a fraction of a round is below rounding


def _prescribe(c: Constants, form: Form, steps: float | None, target: float | None) -> Prescription:
    lam, rounds = lam_limit(c, form), steps_limit(c, form)
    eta, corollary_lam = corollary(c, rounds)
    wanted = steps or (rounds if target is None else steps_for(c, target, form))
    covered = c.relative <= COVERED and wanted is not None
    return Prescription(
        form=form,
        kappa=kappa_of(c, form),
        lam_limit=lam,
        eta_limit=eta_limit(c, lam, form),
        corollary_steps=rounds,
        corollary_A3=float(descent(c, eta, corollary_lam, form).A3 / eta),
        bound=best_bound(c, wanted, form) if covered and wanted is not None else None,
    )


def try_settings(
    problem: Problem,
    network: Network,
    oracle: Oracle,
    smoothness: float,
    steps: int = TRIAL_STEPS,
    seed: int = FIRST_SEED,
    warm: Any = 0,
) -> Practical:
    """Try λ = 1, 0.3, 0.1 and 0.03, each with a half and an eighth of its largest stable step, all in one program."""
    limits = {lam: step_limit(network, lam, smoothness) for lam in LAMBDAS}
    grid = [(share * limit, lam, limit) for lam, limit in limits.items() for share in SHARES]
    # one block of all settings compiles once
    rules = [BiasedDMT(eta=eta, lam=lam, warm=warm) for eta, lam, _ in grid]
    whole = [Setting(rule, oracle) for rule in rules]
    fits(whole, problem, network, [seed], RunPlan(steps, max(1, steps // 30), "float32"), Width(len(rules), 1))
    block = Block(rules, problem, network, [oracle] * len(rules), seeds=[seed], steps=steps, dtype="float32")
    every = max(1, steps // 30)
    run = block.drive([*range(0, steps, every), steps], lambda done, loss: None)
    late = np.array(run.rounds) > 2 * steps / 3
    loss, gradient = (run.metrics[name][..., 0] for name in ("loss", "grad_norm_sq"))
    tried = []
    for k, setting in enumerate(grid):
        fine = run.diverged[k, 0] < 0 and late.any() and np.isfinite(loss[-1, k])
        ends = (float(loss[late, k].mean()), float(gradient[late, k].mean())) if fine else (None, None)
        tried.append(Tried(*setting, *ends))
    # far out the loss can be flat, so that a small gradient alone is no success
    before = float(loss[0, 0])
    good = [trial for trial in tried if trial.loss is not None and trial.loss < before]
    best = min(good, key=lambda trial: float(trial.gradient or 0.0)) if good else None
    return Practical(steps, best, tuple(tried))


# --- stable step sizes ------------------------------------------------------------------------------------------------


def modes(w: Complex[np.ndarray, " k"], lam: float, step: Float[np.ndarray, " s"]) -> Complex[np.ndarray, "s k 3"]:
    """Return the roots for every ηa in `step` and every eigenvalue w."""
    w, step = np.asarray(w, complex)[None, :], np.asarray(step, float)[:, None]
    push = step * lam
    # (r − w)²(r − 1 + λ) = r³ + c2 r² + c1 r + c0
    c2 = lam - 1 - 2 * w + push
    c1 = w**2 + 2 * w * (1 - lam) - push
    c0 = (lam - 1) * w**2 + 0 * push
    companion = np.zeros((*np.broadcast_shapes(w.shape, step.shape), 3, 3), complex)
    companion[..., 0, :] = np.stack([-c2, -c1, -c0], axis=-1)
    companion[..., 1, 0] = companion[..., 2, 1] = 1
    return np.linalg.eigvals(companion)


def largest(w: Complex[np.ndarray, " k"], lam: float, step: Float[np.ndarray, " s"]) -> Float[np.ndarray, " s"]:
    """Return the largest |r| over all modes for every ηa in `step`, without the root r = 1 of w = 1."""
    w = np.asarray(w, complex)
    ones = np.abs(w - 1) < 1e-9  # the eigenvalue 1, but for rounding
    # r² − (2 − λ − ηλa) r + (1 − λ)
    half = (2 - lam - np.asarray(step) * lam) / 2
    turn = np.sqrt(half.astype(complex) ** 2 - (1 - lam))
    radius = np.maximum(np.abs(half + turn), np.abs(half - turn))
    if not ones.all():
        radius = np.maximum(radius, np.abs(modes(w[~ones], lam, step)).max((1, 2)))
    return radius


def step_limit(network: Network, lam: float, curvature: float) -> float:
    """Return the largest η such that every step up to it is stable, for curvature a and all below."""
    w, top = spectrum(network), min((4 - 2 * lam) / lam, 1e300)  # infinite steps have no modes
    # stability need not be monotone in η: bisection alone could jump over a window of unstable steps
    tried = top * np.geomspace(1e-6, 1.0, GRID)
    unstable = largest(w, lam, tried) >= 1
    if not unstable.any():
        return float(top / curvature)
    first = int(unstable.argmax())
    low, high = (tried[first - 1] if first else 0.0), tried[first]
    for _ in range(50):  # halvings, to all digits of a float
        middle = (low + high) / 2
        low, high = (low, middle) if largest(w, lam, np.array([middle]))[0] >= 1 else (middle, high)
    return float(low / curvature)


def spectrum(network: Network) -> Complex[np.ndarray, " k"]:
    """Return the eigenvalues of W; on very large networks 1 and the whole interval that the others lie in."""
    if network.agents <= EXACT_AGENTS:
        return np.linalg.eigvals(network.mixing).astype(complex)
    inside = 1 - (network.gap or 0.0)
    return np.append(np.linspace(-inside, inside, 129), 1.0).astype(complex)
