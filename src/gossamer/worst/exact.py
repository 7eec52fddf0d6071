r"""The exact worst case of a rule: the largest that a metric can be, over all functions, biases and starts.

The rule itself runs on symbolic vectors. All that it asked for, and the conditions that any answer keeps, are a
semidefinite program whose value is the worst case; nothing is sampled. The answer is an interval: its upper end is
proved from the program's multipliers without the solver, its lower end is measured by replaying the worst functions
in the simulator.

References: Y. Drori and M. Teboulle, "Performance of first-order methods for smooth convex minimization: a novel
approach", 2014, arXiv 1206.3209. S. Colla and J. M. Hendrickx, "Automatic performance estimation for decentralized
optimization", 2023, arXiv 2203.05963.
"""

import dataclasses
import math
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from gossamer.basics.text import format_number
from gossamer.core import InputError, Range, brief, is_rule, setting, whole
from gossamer.networks import Network
from gossamer.networks.compatibility import suits
from gossamer.worst.case import (
    DIMENSION,
    Bias,
    Case,
    Form,
    Functions,
    Point,
    check_bias,
    describe_messages,
    run,
    smooth,
)
from gossamer.worst.program import NotProven, Program, Proof, Solution
from gossamer.worst.spaces import Eigenvalues, Given, Interval, NeedsMatrix, Space, exactly, find_space

if TYPE_CHECKING:
    from gossamer.worst.replay import WorstRun

Metric = Literal["mean_gradient", "last_gradient", "least_gradient", "gap", "average_gap", "distance"]

METRICS: dict[str, str] = {
    "mean_gradient": "the mean of ‖∇F(x̄)‖² over rounds 0 … T − 1",
    "last_gradient": "‖∇F(x̄)‖² after T rounds",
    "least_gradient": "the least ‖∇F(x̄)‖² of rounds 0 … T",
    "gap": "F(x̄) − F* after T rounds",
    "average_gap": "F − F* at the mean of all models of rounds 0 … T",
    "distance": "the mean over agents of ‖x_i − x*‖² after T rounds",
}

SYMBOLS = {
    "excess": "Δ",
    "distance": "‖x⁰ − x*‖²",
    "start": "ζ₀²",
    "heterogeneity": "ζ²",
    "optimum": "ζ*²",
    "bias": "σ_f²",
    "gradients": "G²",
}
"""The bounds of a case, and their symbols."""

MARGINS = (1e-9, 1e-8, 1e-7, 1e-6)
"""The least eigenvalues that are asked of the dual matrices, one after the other, until a proof goes through."""

TOLERANCE = 1e-10
"""The solver's."""

PRECISE = 5e-7
"""The share of the bound within which a replay needs no second solution."""

BUDGET = 600.0
"""The seconds that a worst case may take, unless the caller says otherwise."""

SECONDS = Range(0, math.inf, False, True, "It is a budget.")


@dataclass(frozen=True)
class Size:
    """The size of a program, and a forecast of what it takes."""

    blocks: tuple[int, ...]
    """The order of each matrix."""
    multipliers: int
    seconds: float
    memory: float
    """In bytes."""

    @staticmethod
    def of(orders: Sequence[int], multipliers: int) -> "Size":
        """Return the size of a program of matrices of these orders, with a forecast."""
        triangles = [n * (n + 1) / 2 for n in orders]
        # an interior point method factorises one dense matrix a cone and one of the multipliers, some 15 times
        work = sum(t**3 for t in triangles) / 3 + multipliers**3 / 3 + multipliers**2 * sum(triangles) / 8
        solving = 7e-9 * work + 2.5e-6 * work ** (2 / 3)  # large matrices are multiplied faster than small ones
        building = 5e-4 * multipliers * len(triangles) + 2e-8 * multipliers * sum(triangles)
        memory = 1e7 + 100 * (sum(t**2 for t in triangles) + multipliers**2)
        return Size(tuple(orders), multipliers, 0.05 + building + solving, memory)

    def __str__(self) -> str:
        several = f"{len(self.blocks)} matrices of up to {max(self.blocks, default=0)} rows"
        return (
            f"{several}, {self.multipliers:,} multipliers: about {format_number(self.seconds, digits=2)} s of solving "
            f"and {format_number(self.memory / 1e6, digits=2)} MB"
        )


@dataclass(eq=False)
class Worst:
    """The worst case of a rule, as an interval in which the truth lies."""

    rule: Any
    functions: Functions
    bias: Bias
    steps: int
    metric: str
    network: Network | None
    upper: float
    """No function, bias and start of the class does worse: proved, without the solver."""
    solved: float
    """The solver's word."""
    per: dict[str, float]
    """Factors of the bounds: upper = Σ per[label] · bound. They hold for all other bounds, too."""
    size: Size
    case: Case = field(repr=False)
    goal: Form = field(repr=False)
    """The metric, in the program's units."""
    states: list[Any] = field(repr=False)
    points: list[Point] = field(repr=False)
    """The points whose gradients are the metric's, in the order of the rounds."""
    solution: Solution = field(repr=False)
    proof: Proof = field(repr=False)
    bounds: dict[str, float] = field(default_factory=dict)

    @property
    def holds_for(self) -> str:
        """The networks that this is true of, and in which sense."""
        holds, is_given = self.case.space.holds, isinstance(self.case.space, Given)
        if is_given and not self.functions.is_convex and "excess" in self.bounds:
            holds += ", and an upper bound where losses do not attain the condition on inf F"
        return holds + describe_messages(self.rule, self.case.dim)

    @property
    def exact(self) -> bool:
        """True if the program loses nothing of the network."""
        return getattr(self.case.space, "exact", True)

    @cached_property
    def replayed(self) -> "WorstRun | None":
        """The worst functions in the simulator; None for a metric of one's own, and for a bound that is relaxed.

        Of a spectrum's interval, those of four agents whose W has its two ends; None where its weights are negative.
        """
        from gossamer.worst.replay import four_agents, replay

        if self.metric not in METRICS or not self.exact:
            return None
        if not isinstance(self.case.space, Interval):
            first = replay(self)
            if self.upper - first.value <= PRECISE * max(1.0, self.upper):
                return first
            # a proof needs a margin, and the margin costs precision: without it vectors are often nearer to feasible
            program, cost = self.case.dual(self.goal)
            second = replay(dataclasses.replace(self, solution=program.solve(cost, tolerance=TOLERANCE)))
            return max(first, second, key=lambda found: found.value)
        if self.case.space.low + (1 + self.case.space.high) / 2 < 0:
            return None
        network = four_agents(self.case.space.low, self.case.space.high)
        bounds = {name: bound for name, bound in self.bounds.items() if name not in ("bias", "gradients")}
        given = self.rule, Eigenvalues([self.case.space.low, self.case.space.high]), self.functions, self.bias
        return replay(_solve(*given, self.steps, self.metric, bounds, network, BUDGET, self.case.dim))

    def check(self, multipliers: Sequence[Fraction] | None = None) -> None:
        """Raise NotProven unless the multipliers, those of the proof or others, prove a bound for this case."""
        self.case.dual(self.goal)[0].check(self.proof.y if multipliers is None else multipliers)

    @property
    def lower(self) -> float:
        """The metric that was measured in the simulator; not a number where nothing could be replayed."""
        found = self.replayed
        return math.nan if found is None else found.value

    def asdict(self, replay: bool = True) -> dict[str, Any]:
        """Return what is known, for JSON."""
        found = self.replayed if replay else None
        return {
            "method": self.rule.name,
            "setting": setting(self.rule),
            "functions": str(self.functions),
            "relative": self.bias.relative,
            "absolute": self.bias.absolute,
            "steps": self.steps,
            "metric": self.metric,
            "bounds": self.bounds,
            "upper": self.upper,
            "lower": None if found is None else found.value,
            "violation": None if found is None else found.violation,
            "per": self.per,
            "holds_for": self.holds_for,
            "exact": self.exact,
            "solver": {
                "status": self.solution.status,
                "value": self.solved,
                "residual": self.solution.residual,
                "seconds": self.solution.seconds,
            },
        }

    def __repr__(self) -> str:
        return f"Worst({self.rule.name}, T = {self.steps}: at most {self.upper:.8g}, {self.sum})"

    def __str__(self) -> str:
        found = self.replayed
        lines = [
            f"{self.rule.name} ({setting(self.rule)}), {self.steps} rounds, losses that are {self.functions}:",
            f"  {METRICS.get(self.metric, self.metric)} is at most {self.upper:.8g} = {self.sum},",
            f"  proved in exact and interval arithmetic; {self.holds_for}.",
        ]
        if found is not None:
            lines.append(
                f"  Attained: {found.value:.8g}, by {found.dim}-dimensional losses of {found.agents} agents in the "
                f"simulator, which keep every condition to {max(found.violation, 0):.1g}."
            )
        return "\n".join(lines)

    @property
    def sum(self) -> str:
        """The bound as a sum of the bounds of the case, each with its factor."""
        parts = [f"{w:.4g} {SYMBOLS.get(k, k)}" for k, w in self.per.items() if w > 5e-7]
        return " + ".join(parts) or "0"


def worst_case(
    rule: Any,
    network: Any = None,
    *,
    steps: int,
    spectrum: tuple[float, float] | None = None,
    functions: Functions | None = None,
    bias: Any = None,
    metric: Metric | Callable[[Case, list[Any]], Form] = "mean_gradient",
    excess: float | None = None,
    distance: float | None = None,
    start: float | None = None,
    heterogeneity: float | None = None,
    optimum: float | None = None,
    noise: float | None = None,
    exact: bool = True,
    dim: int = DIMENSION,
    seconds: float = BUDGET,
    progress: Callable[[str], None] | None = None,
) -> Worst:
    r"""Return the exact worst case of a rule after so many rounds, with a proof.

    Args:
        rule: any rule that is linear in its arrays, with its numbers.
        network: a network, or anything that `gossamer.networks.of` takes with its agents; one of them or a spectrum.
        steps: T, the rounds.
        spectrum: in place of a network: all symmetric W whose eigenvalues, but that of the mean, lie in (low, high).
        functions: the class of every agent's loss: `smooth` (the default, L = 1), `convex` or `lipschitz`.
        bias: (M_f, σ_f²): every answer g̃ keeps ‖g̃ − ∇f_i‖² ≤ M_f ‖∇f_i‖² + σ_f².
        metric: "mean_gradient", "last_gradient", "least_gradient", and for convex losses "gap", "average_gap" and
            "distance"; or a function of the case and the states that returns a form.
        excess: Δ: F(x⁰) − inf F is at most this. 1 unless given, for losses that are not convex.
        distance: ‖x⁰ − x*‖² is at most this. 1 unless given, for convex losses.
        start: ζ₀²: the mean of ‖∇f_i(x⁰) − ∇F(x⁰)‖² is at most this. 1 unless given, for losses that are not convex.
        heterogeneity: ζ²: the same at every mean model of the run, and at the optimum of convex losses.
        optimum: the mean of ‖∇f_i(x*)‖² is at most this, for convex losses. 1 unless given or bounded otherwise.
        noise: none can be had here: `certificate` has it.
        exact: False takes the program of eigenvalues also where agents are not all alike: faster, an upper bound.
        dim: the dimension for which a compressor says how much of a message it keeps.
        seconds: the budget. What would not fit is refused before it starts, with what would.
        progress: called with the size of the program, and a forecast of its time and memory, before it is solved.
    """
    if noise:
        raise InputError(
            "an exact worst case is of gradients without noise: gossamer.certificate(rule, network, noise=True) bounds "
            "the mean over noise, for every number of rounds."
        )
    functions, bias, steps = functions or smooth(), check_bias(bias), whole("steps", steps, most=500)
    check_rule(rule)
    if not isinstance(functions, Functions):
        raise InputError(f"functions must be made by gossamer.smooth, convex or lipschitz, but is {brief(functions)}.")
    seconds, dim = SECONDS.check("seconds", seconds), whole("dim", dim)
    if not callable(metric) and not (isinstance(metric, str) and metric in METRICS):
        raise InputError(f"metric must be one of {', '.join(METRICS)}, but is {brief(metric)}.")
    convex = functions.is_convex
    given = {"excess": excess, "distance": distance, "start": start, "heterogeneity": heterogeneity, "optimum": optimum}
    bounds = {k: Range(0, math.inf, False, True).check(k, v) for k, v in given.items() if v is not None}
    if not convex:
        wrong = [name for name in ("distance", "optimum") if name in bounds]
        if wrong or metric in ("gap", "average_gap", "distance"):
            raise InputError(
                f"{wrong[0] if wrong else metric} is about a minimum, which losses that are not convex need not have: "
                "take functions = gossamer.convex(L), or bounds `excess` and `start` and a metric of gradients."
            )
        bounds = {"excess": 1.0, "start": 1.0} | bounds
    else:
        if "excess" not in bounds and "distance" not in bounds:
            bounds["distance"] = 1.0
        if "distance" not in bounds and functions.mu == 0:
            raise InputError(
                "without a bound on ‖x⁰ − x*‖² the minimum of convex losses may lie infinitely far away, and nothing "
                "can be proved: give distance=…, or take functions = gossamer.convex(L, mu) with mu above 0."
            )
        if not {"start", "heterogeneity", "optimum"} & set(bounds) and math.isinf(functions.G):
            bounds["optimum"] = 1.0
    made = choose_space(rule, network, spectrum, exact)
    try:
        return _solve(rule, made(), functions, bias, steps, metric, bounds, network, seconds, dim, progress)
    except NeedsMatrix:
        if network is None:
            raise
        return _solve(rule, Given(network), functions, bias, steps, metric, bounds, network, seconds, dim, progress)


def check_rule(rule: Any) -> None:
    """Raise InputError unless this is a rule with its numbers."""
    if not is_rule(type(rule)):
        given = "the class: give it numbers, such as BiasedDMT(eta=0.2, lam=0.5)" if is_rule(rule) else brief(rule)
        raise InputError(f"a worst case is that of a rule with its numbers, but this is {given}.")


def choose_space(rule: Any, network: Any, spectrum: Any, exact: bool) -> Callable[[], Space]:
    """Return a function that makes the space for a network or a spectrum."""
    if (network is None) == (spectrum is None):
        if network is None and rule.needs == "nothing":
            return lambda: Eigenvalues([0.0], [0.5, 0.5])  # it never gossips: any network will do
        raise InputError("give one of a network, such as gossamer.networks.ring(5), and a spectrum = (low, high).")
    if spectrum is not None:
        if not isinstance(spectrum, (tuple, list)) or len(spectrum) != 2:
            raise InputError(f"spectrum must be (low, high), two eigenvalues of W, but is {brief(spectrum)}.")
        advice = "Eigenvalues of a doubly stochastic W lie there."
        low, high = (Range(-1, 1, True, True, advice).check("an end of spectrum", end) for end in spectrum)
        if low > high:
            raise InputError(f"spectrum = (low, high) must have low ≤ high, but is ({low:g}, {high:g}): swap them.")
        return lambda: Interval(low, high) if low < high else Eigenvalues([low])
    if not isinstance(network, Network):
        raise InputError(f"network must be made by gossamer.networks, such as networks.ring(5), not {brief(network)}.")
    if network.attack is not None or network.asynchronous:
        raise InputError(
            f"{network.name} has attackers or no common rounds, which no Gram matrix follows: judge it in the "
            "simulator."
        )
    suits(rule, network)
    return find_space(network, exact)


def _solve(
    rule: Any,
    space: Space,
    functions: Functions,
    bias: Bias,
    steps: int,
    metric: Any,
    bounds: dict[str, float],
    network: Network | None,
    seconds: float,
    dim: int = DIMENSION,
    progress: Callable[[str], None] | None = None,
) -> Worst:
    each, named = space.values_each, isinstance(metric, str)
    case = Case(space, functions, bias, dim)
    if math.isfinite(functions.L):  # solvers need numbers near 1
        case.unit = 2.0 ** round(math.log2(functions.L) / 2)
    optimum = case.add_optimum() if functions.is_convex else None
    states = run(rule, case, steps)
    x0 = case.look(space.zero())
    # before any matrix is built, which takes longer than to see that there is no point
    pairs = len(case.points) * (len(case.points) - 1) * each
    _check_budget(Size.of([space.columns] * space.blocks, pairs), 4 * seconds, seconds, rule, space, steps)
    goal, points = _goal(case, states, metric, optimum)
    means = [space.mean(s.x) for s in states]
    case.means = [p for p in case.points if p.optimum or any(p.x.equals(x) for x in means)]
    _bound(case, bounds, x0, optimum)
    case.close(goal)
    if optimum is None and "excess" in bounds:
        case.bound_below()
    gradients = case.unit**2
    unit = {"gap": 1.0, "average_gap": 1.0, "distance": 1 / gradients}.get(metric, gradients) if named else 1.0
    goal = goal * (1 / unit)
    program, cost = case.dual(goal)
    size = measure(program)
    _check_budget(size, seconds, seconds, rule, space, steps)
    if progress is not None:
        progress(str(size))
    solution, proof = solve_and_prove(program, cost, seconds)
    per: dict[str, float] = {}
    for j, condition in enumerate(case.conditions):
        if condition.label in SYMBOLS:
            factor = unit if condition.label == "excess" else unit / each  # the bound of `excess` is of a sum
            per[condition.label] = per.get(condition.label, 0.0) + float(proof.y[j]) * factor
    return Worst(
        rule, functions, bias, steps, metric if named else "the given metric", network,
        upper=math.nextafter(float(proof.value * exactly(unit) / each), math.inf),
        solved=solution.value * unit / each,
        per=per,
        size=size,
        case=case,
        goal=goal,
        states=states,
        points=points,
        solution=solution,
        proof=proof,
        bounds=bounds
        | ({"bias": bias.absolute} if bias else {})
        | ({"gradients": functions.G**2} if math.isfinite(functions.G) else {}),
    )  # fmt: skip


def solve_and_prove(program: Program, cost: dict[int, float], seconds: float) -> tuple[Solution, Proof]:
    """Return a solution whose multipliers were proved, with the least margin for which that succeeds."""
    fault, end = None, time.perf_counter() + seconds
    for margin in MARGINS:
        left = max(end - time.perf_counter(), 0.1)
        solution = program.solve(cost, margin=margin, seconds=left, tolerance=TOLERANCE)
        if not np.isfinite(solution.y).all() or "Infeasible" in solution.status:
            fault = f"the solver says {solution.status}"
            continue
        try:
            return solution, program.prove(solution.y.tolist(), cost)
        except NotProven as error:
            fault = str(error)
    raise NotProven(
        f"no bound could be proved ({fault}): the metric may be unbounded within these bounds, so give more of them, "
        "such as heterogeneity, or a smaller step size."
    )


def _bound(case: Case, bounds: dict[str, float], x0: Point, optimum: Point | None) -> None:
    """Add the conditions on the start and on heterogeneity."""
    each = case.space.values_each
    for name, bound in bounds.items():
        match name:
            case "excess":
                lowest = case.lowest if optimum is None else case.value(optimum)
                case.at_most(name, case.value(x0) - lowest, bound * each)
            case "distance":
                assert optimum is not None
                case.at_most(name, case.of_means(optimum.x, optimum.x), bound)
            case "start":
                case.at_most(name, case.spread(x0.g), bound)
            case "optimum":
                assert optimum is not None
                case.at_most(name, case.average(optimum.g, optimum.g), bound)
            case "heterogeneity":
                for p in case.means:
                    case.at_most(name, case.spread(p.g), bound)


def _goal(case: Case, states: list[Any], metric: Any, optimum: Point | None) -> tuple[Form, list[Point]]:
    """Return the metric, times the number of values that stand for a mean, and the points that it looks at."""
    if callable(metric):
        form: Any = metric(case, states)
        if not isinstance(form, Form):
            raise InputError(
                f"a metric must return a form, such as case.average(a, a), but this one returned {brief(form)}."
            )
        return form * float(case.space.values_each), []
    space, steps = case.space, len(states) - 1
    each = space.values_each

    def look(t: int) -> Point:
        return case.look(space.mean(states[t].x))

    def square(p: Point) -> Form:
        return case.of_means(p.g, p.g) * each

    match metric:
        case "mean_gradient":
            points = [look(t) for t in range(steps)]
            return sum((square(p) * (1 / steps) for p in points), Form()), points
        case "last_gradient":
            points = [look(steps)]
            return square(points[0]), points
        case "least_gradient":
            points = [look(t) for t in range(steps + 1)]
            least = Form([], {case.new_value(): 1})
            for p in points:
                case.at_most("least", least - square(p))
            return least, points
        case "distance":
            assert optimum is not None
            apart = states[steps].x - optimum.x
            return case.average(apart, apart) * each, []
        case _:
            assert optimum is not None
            of = range(steps + 1) if metric == "average_gap" else [steps]
            x = sum((space.mean(states[t].x) for t in of), space.zero()) * (1 / len(of))
            p = case.look(x)
            return case.value(p) - case.value(optimum), [p]


def measure(program: Program) -> Size:
    """Return the size of a program, with a forecast from what Clarabel took on one core."""
    orders = [len(one.used()) * (2 if one.is_complex() else 1) for one in program.inequalities]
    return Size.of(orders, len(program.free))


def _check_budget(size: Size, most: float, seconds: float, rule: Any, space: Space, steps: int) -> None:
    """Raise InputError if a program would take more than `most` seconds, or more than this machine's memory."""
    if size.seconds > most or size.memory > 0.7 * machine_memory():
        raise InputError(
            f"the worst case of {rule.name} after {steps} rounds has {size}, beyond the budget of {seconds:g} s or "
            f"this machine's memory: take {_fewer(size, seconds, steps)} rounds"
            f"{', a network whose agents are all alike, such as a ring' if isinstance(space, Given) else ''}, or "
            "gossamer.certificate, which holds for every number of rounds."
        )


def _fewer(size: Size, seconds: float, steps: int) -> int:
    """Return about how many rounds would fit: the time grows with their sixth power."""
    by_time = (seconds / size.seconds) ** (1 / 6)
    by_memory = (0.7 * machine_memory() / size.memory) ** (1 / 4)
    return max(1, math.floor(steps * min(by_time, by_memory)))


def machine_memory() -> float:
    return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))


assert set(get_args(Metric)) == set(METRICS)
