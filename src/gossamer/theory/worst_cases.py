"""The exact worst cases of an experiment's methods, for the numbers of its problem."""

import textwrap
import time
from collections.abc import Callable, Sequence
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
from gossamer.worst import METRICS, Worst, convex, smooth, worst_case
from gossamer.worst.case import check_bias
from gossamer.worst.exact import SECONDS
from gossamer.worst.program import load_solver

STEPS = 8
"""The rounds of a worst case, where nothing else is asked for."""

USED = {"smoothness": "L", "excess": "Δ", "relative": "M_f", "absolute": "σ_f²"}
"""The constants of a problem that a worst case takes and that may be estimates; ζ₀² is exact."""


@dataclass(frozen=True)
class WorstRow:
    """A method and its worst case, or the reason why there is none."""

    method: str
    found: Worst | None
    reason: str
    seconds: float

    def asdict(self, replay: bool) -> dict[str, Any]:
        about = {"method": self.method, "reason": self.reason or None, "took": self.seconds}
        return about if self.found is None else self.found.asdict(replay) | about


@dataclass(frozen=True)
class WorstCases:
    """The findings of `worst_cases`."""

    network: str
    constants: Constants
    steps: int
    metric: str
    rows: tuple[WorstRow, ...]
    replayed: bool

    def __repr__(self) -> str:
        return (
            f"WorstCases({self.network}: {sum(row.found is not None for row in self.rows)} of {len(self.rows)} found)"
        )

    def _repr_html_(self) -> str:
        return tag("pre", str(self))

    def asdict(self) -> dict[str, Any]:
        """Return what was found, for JSON."""
        about = {"network": self.network, "steps": self.steps, "metric": self.metric}
        rows = [row.asdict(self.replayed) for row in self.rows]
        return json_ready(about | {"constants": self.constants.asdict(), "methods": rows})

    def __str__(self) -> str:
        c, known = self.constants, [(row, row.found) for row in self.rows if row.found is not None]
        lines = [
            f"{METRICS[self.metric]}, T = {self.steps}, on {self.network}: L = {c.smoothness:.4g}, "
            f"Δ = {c.excess:.4g}, ζ₀² = {c.heterogeneity_at_start:.4g}, M_f = {c.relative:.4g}, "
            f"σ_f² = {c.absolute:.4g}.",
            "",
        ]
        if known:
            head = ["method", "at most", *(["replayed"] if self.replayed else []), "which is", "s"]
            rows = []
            for row, found in known:
                lower = found.replayed.value if self.replayed and found.replayed is not None else None
                seen = [format_number(lower, digits=7, missing="none")] if self.replayed else []
                rows.append(
                    [
                        f"{row.method} ({setting(found.rule)})",
                        format_number(found.upper, digits=7),
                        *seen,
                        found.sum,
                        f"{row.seconds:.1f}",
                    ]
                )
            lines += [Table(head, rows, [False, *[True] * (len(head) - 3), False, True]).text(rule=True), ""]
            lines += [
                "At most: proved in exact and interval arithmetic for all losses of the class, starts and biases.",
                *{f"It is {found.holds_for}." for _, found in known},
            ]
            if c.variance:
                lines.append(
                    f"It is without noise, of which the oracle has σ² = {c.variance:.4g}; `gossamer prove` counts it."
                )
            if self.replayed:
                lines.append("Replayed: measured by the simulator on the worst losses; the truth lies between.")
        missing = [f"- {row.method}: {row.reason}" for row in self.rows if row.found is None]
        lines += ["", *missing] if missing else []
        estimated = [symbol for name, symbol in USED.items() if c.sources.get(name) == "estimate"]
        if known and estimated:
            lines.append(f"All of the above depends on what was estimated: {', '.join(estimated)}.")
        lines += textwrap.wrap(f"Of the oracle: {c.note}", 120) if c.note else []
        return "\n".join(lines)


def worst_cases(
    candidates: Sequence[Any],
    problem: Problem,
    network: Network,
    oracle: Oracle | None = None,
    *,
    steps: int = STEPS,
    metric: str = "mean_gradient",
    spectrum: tuple[float, float] | None = None,
    mu: float | None = None,
    start: float | None = None,
    distance: float | None = None,
    seeds: Sequence[int] = (0,),
    seconds: float = 120.0,
    replay: bool = True,
    progress: Callable[[str], None] | None = None,
    **given: float,
) -> WorstCases:
    """Return the worst case of each method after so many rounds, in its share of the seconds.

    Args:
        candidates: rules with their numbers.
        problem, network, oracle: the experiment, from which L, Δ, ζ₀², M_f and σ_f² are taken.
        steps: T.
        metric: one of `METRICS` that needs no minimum's distance.
        spectrum: in place of the network, all with eigenvalues in (low, high).
        mu: the least curvature of convex losses; without it they need not be convex.
        start: ζ₀², if not that of the problem.
        distance: a bound on ‖x⁰ − x*‖², which convex losses need.
        seeds: of the run: σ_f² is the largest over them where it depends on what an oracle draws once.
        seconds: the budget.
        replay: whether to run the worst losses in the simulator.
        progress: called with the size of each program before it is solved.
        given: constants that are taken as they are: `smoothness`, `excess`, `relative` and `absolute`.
    """
    load_solver()
    if metric not in METRICS:
        raise InputError(f"metric must be one of {', '.join(METRICS)}, but is {metric}.")
    c = constants_of(problem, network, completed(oracle or exact()), seeds=seeds, warm=0, **given)
    question = {
        "steps": steps,
        "metric": metric,
        "functions": smooth(c.smoothness) if mu is None else convex(c.smoothness, mu),
        "bias": check_bias((c.relative, c.absolute)),
        "excess": c.excess,
        "start": c.heterogeneity_at_start if start is None else start,
        "distance": distance,
        "dim": problem.dim,
    }
    where = {"network": network} if spectrum is None else {"spectrum": spectrum}
    rows, deadline = [], time.monotonic() + SECONDS.check("seconds", seconds)
    for number, given_rule in enumerate(candidates):
        candidate = given_rule if isinstance(given_rule, Candidate) else Candidate.of_rule(given_rule)
        share, began = (deadline - time.monotonic()) / (len(candidates) - number), time.monotonic()
        found, reason = None, ""
        try:
            if candidate.open:
                raise InputError(f"left to tuning: {', '.join(candidate.open)}. A worst case needs a number: give it.")
            say = None if progress is None else lambda text, name=candidate.title: progress(f"{name}: {text}")
            rule = candidate.kind(**candidate.fixed)
            found = worst_case(rule, **where, **question, seconds=max(share, 0.1), progress=say)
            if replay and found.replayed is not None and say is not None:
                say(f"replayed in the simulator by {found.replayed.agents} agents, d = {found.replayed.dim}")
        except MissingPackage:
            raise
        except InputError as error:
            reason = str(error)
        rows.append(WorstRow(candidate.title, found, reason, time.monotonic() - began))
    name = network.name if spectrum is None else f"all networks with eigenvalues in [{spectrum[0]:g}, {spectrum[1]:g}]"
    return WorstCases(name, c, steps, metric, tuple(rows), replay)
