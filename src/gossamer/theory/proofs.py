"""Bounds of an experiment's methods that a machine proves: the numbers of its problem, and the best Lyapunov functions.

Of a method with all its numbers the bound is for these; of one that tuning would choose step sizes for, it is for the
best η, and λ where the method has one.
"""

import math
import textwrap
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from gossamer.basics.html import tag
from gossamer.basics.table import Table
from gossamer.basics.text import format_number, json_ready
from gossamer.core import InputError, MissingPackage, setting
from gossamer.networks import Network
from gossamer.oracles import Oracle, completed, exact
from gossamer.problems import Problem
from gossamer.specs.setup import Candidate
from gossamer.theory.constants import Constants, constants_of
from gossamer.worst import Bias, LyapunovBound, NotProven, best_step, certificate, diverging, largest_step, smooth
from gossamer.worst.certificate import CONSTANTS, SYMBOLS, ask
from gossamer.worst.divergence import MOST_AGENTS
from gossamer.worst.exact import SECONDS
from gossamer.worst.program import load_solver

START = {"eta": 0.25, "lam": 0.5}
"""The start of a search for the best numbers; η is in units of 1/L."""

USED = {
    "smoothness": "L",
    "excess": "Δ",
    "heterogeneity": "ζ²",
    "relative": "M_f",
    "absolute": "σ_f²",
    "variance": "σ²",
}
"""The constants of a problem that may be estimates."""


@dataclass(frozen=True)
class Proved:
    """A method and the bound that was proved of it, or the reason why there is none."""

    method: str
    found: LyapunovBound | None
    largest: LyapunovBound | None
    """The certificate of the largest η with a floor below ‖∇F(x⁰)‖², all other numbers being the same."""
    reason: str
    seconds: float

    def asdict(self) -> dict[str, Any]:
        about = {"method": self.method, "reason": self.reason or None, "seconds": self.seconds}
        about["largest"] = None if self.largest is None else self.largest.rule.eta
        if self.found is None:
            return about | {"verified": False}
        kept = ("rule", "constants", "bound", "floor", "phi")
        return about | {k: v for k, v in self.found.asdict().items() if k in kept} | {"verified": True}


@dataclass(frozen=True)
class Proofs:
    """The findings of `prove`."""

    network: str
    constants: Constants
    steps: int
    rows: tuple[Proved, ...]

    def __repr__(self) -> str:
        return f"Proofs({self.network}: {sum(row.found is not None for row in self.rows)} of {len(self.rows)} proved)"

    def _repr_html_(self) -> str:
        return tag("pre", str(self))

    def asdict(self) -> dict[str, Any]:
        """Return what was proved, for JSON."""
        rows = [row.asdict() for row in self.rows]
        return json_ready(
            {"network": self.network, "steps": self.steps, "constants": self.constants.asdict(), "methods": rows}
        )

    def __str__(self) -> str:
        c = self.constants
        proved = [(row, row.found) for row in self.rows if row.found is not None]
        shown = [k for k in CONSTANTS if any(found.constants[k] > 1e-6 for _, found in proved)]
        head = ["method", *(SYMBOLS[k] + "/T" * (k in CONSTANTS[:4]) for k in shown), f"T = {self.steps:,}", "T → ∞"]
        rows = [
            [
                f"{row.method} ({setting(found.rule)})",
                *(format_number(found.constants[k]) for k in shown),
                format_number(found.bound()),
                format_number(found.floor),
                format_number(row.largest.rule.eta if row.largest else None, missing="?"),
                "yes",
                f"{row.seconds:.1f}",
            ]
            for row, found in proved
        ]
        lines = [
            f"Bounds of the mean of ‖∇F(x̄)‖² on {self.network}, n = {c.agents}, L = {c.smoothness:.4g}, for "
            f"Δ = {c.excess:.4g}, ζ₀² = {c.heterogeneity_at_start:.4g}, ζ² = {c.heterogeneity:.4g}, "
            f"M_f = {c.relative:.4g}, σ_f² = {c.absolute:.4g}, σ² = {c.variance:.4g}:",
            "",
        ]
        if rows:
            head += ["largest η", "verified", "s"]
            lines += [
                Table(head, rows, [False, *[True] * (len(head) - 1)]).text(rule=True),
                "The largest η, found by bisection, is that of a proved floor below ‖∇F(x⁰)‖²",
                f"= {c.gradient_at_start:.4g}; a bound above that says nothing, since to stay at the start keeps it.",
            ]
        lines += [f"- {row.method}: {row.reason}" for row in self.rows if row.found is None]
        estimated = [symbol for name, symbol in USED.items() if c.sources.get(name) == "estimate"]
        if estimated:
            lines.append(f"The bounds depend on what was estimated: {', '.join(estimated)}.")
        lines += textwrap.wrap(f"Of the oracle: {c.note}", 120) if c.note else []
        return "\n".join(lines)


def question_of(c: Constants, steps: float) -> dict[str, Any]:
    """Return the numbers of a problem as `certificate` takes them."""
    return {
        "functions": smooth(c.smoothness),
        "bias": Bias(c.relative, c.absolute),
        "noise": c.variance,
        "steps": steps,
        "excess": c.excess,
        "start": c.heterogeneity_at_start,
        "heterogeneity": c.heterogeneity,
    }


def prove(
    candidates: Sequence[Any],
    problem: Problem,
    network: Network,
    oracle: Oracle | None = None,
    *,
    steps: int,
    seeds: Sequence[int] = (0,),
    seconds: float = 120.0,
    progress: Callable[[str], None] | None = None,
    **given: float,
) -> Proofs:
    """Prove a bound for each method, in its share of the seconds.

    Args:
        candidates: rules, or classes or names of rules whose step sizes are searched.
        problem, network, oracle: the experiment.
        steps: T, for which bounds are made least; they hold for all others.
        seeds: of the run: σ_f² is the largest over them where it depends on what an oracle draws once.
        seconds: the budget.
        progress: called with a line now and then.
        given: constants that are taken as they are, such as `smoothness` and `excess`.
    """
    load_solver()
    c = constants_of(problem, network, completed(oracle or exact()), seeds=seeds, warm=0, **given)
    if c.relative >= 1:
        raise InputError(f"M_f is {c.relative:.4g}: from 1 on a gradient may be answered by zero, and no method moves.")
    about, rows = question_of(c, steps) | {"dim": problem.dim}, []
    deadline = time.monotonic() + SECONDS.check("seconds", seconds)
    for number, candidate in enumerate(candidates):
        share = max(deadline - time.monotonic(), 0.0) / (len(candidates) - number)
        rows.append(_prove(_candidate(candidate), network, c, about, share, progress))
    return Proofs(network.name, c, steps, tuple(rows))


def _candidate(given: Any) -> Candidate:
    if isinstance(given, Candidate):
        return given
    return Candidate.of(given) if isinstance(given, (str, type)) else Candidate.of_rule(given)


def _prove(
    candidate: Candidate,
    network: Network,
    c: Constants,
    about: dict[str, Any],
    seconds: float,
    progress: Callable[[str], None] | None,
) -> Proved:
    began = time.monotonic()

    def say(text: str) -> None:
        if progress:
            progress(f"{candidate.title}: {text}")

    found = largest = rule = None
    reason = ""
    try:
        start = {"eta": START["eta"] / c.smoothness, "lam": START["lam"]}
        if unknown := [name for name in candidate.open if name not in start]:
            raise InputError(f"{unknown[0]} is left to tuning: a proof needs its value.")
        rule = candidate.kind(**{**{k: start[k] for k in candidate.open}, **candidate.fixed})
        say(f"{ask(rule, network, **about).build(rule).size}, several times over")
        if candidate.open:
            found = best_step(rule, network, over=[*candidate.open], seconds=seconds / 2, progress=say, **about)
        else:
            found = certificate(rule, network, seconds=seconds / 2, **about)
    except MissingPackage:
        raise
    except NotProven as error:
        reason = str(error)
        if rule is not None and network.agents <= MOST_AGENTS:
            with suppress(InputError):
                # agents of one curvature first: their ζ² is bounded, as the proof supposes
                where = diverging(rule, network, about["functions"], alike=True)
                where = where or diverging(rule, network, about["functions"])
                reason += f" In fact {where}." if where else " No quadratic was found on which it diverges."
    except InputError as error:  # no bound of the rule can be had, at whatever step size
        reason, rule = str(error), None
    try:
        one = rule if found is None else found.rule
        if one is not None and isinstance(getattr(one, "eta", None), float):
            left = max(seconds - (time.monotonic() - began), 0.0)
            floor = c.gradient_at_start or math.inf
            largest = largest_step(one, network, floor=floor, seconds=left, progress=say, **about)
    except InputError as error:
        say(str(error))
    if largest is not None and found is None:
        reason += f" The largest proved η is {largest.rule.eta:.4g}, with a floor of {largest.floor:.4g}."
    return Proved(candidate.title, found, largest, reason, time.monotonic() - began)
