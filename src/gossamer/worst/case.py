r"""A run whose vectors are unknown: what a rule asked for, and the conditions that the answers keep.

L-smooth functions of curvature at least μ (μ = −L: smooth, and no more; 0: convex; above: strongly convex) take the
values $f_i$ with the gradients $g_i$ at the points $x_i$ if and only if for all pairs

$$ f_i \ge f_j + \langle g_j, x_i - x_j \rangle + \frac{1}{2(1 - \mu/L)} \Big( \tfrac1L \|g_i - g_j\|^2
   + \mu \|x_i - x_j\|^2 - \tfrac{2\mu}{L} \langle g_i - g_j, x_i - x_j \rangle \Big) . $$

For functions that are not convex, $\inf F$ is at most the least value of the mean of the quadratics that touch each
$f_i$ from above, at each point that all agents look at: a condition that every instance keeps.

Reference: A. Taylor, J. Hendrickx and F. Glineur, "Exact worst-case performance of first-order methods for composite
convex optimization", 2017, arXiv 1512.07516, Theorem 3.10.
"""

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gossamer.compressors import Compressor
from gossamer.core import InputError, Range, State, brief, parts
from gossamer.core.rules import bind, schedules
from gossamer.worst.program import Program
from gossamer.worst.spaces import Given, NeedsMatrix, NotLinear, Space, Term, Vectors, pad

DIMENSION = 1_000
"""The dimension for which a compressor says how much of a vector it keeps, unless the caller gives another."""


@dataclass(frozen=True)
class Functions:
    """A class of losses: L-smooth with curvature at least μ; or, for infinite L, convex with subgradients up to G."""

    L: float
    mu: float
    G: float = math.inf

    @property
    def is_convex(self) -> bool:
        return self.mu >= 0

    def __str__(self) -> str:
        if math.isfinite(self.G):
            return f"convex, with subgradients of at most {self.G:g}"
        kind = {-self.L: "", 0: " and convex"}.get(self.mu, f" and {self.mu:g}-strongly convex")
        return f"{self.L:g}-smooth{kind}"


_POSITIVE = Range(0, math.inf, True, True)


def smooth(L: float = 1.0) -> Functions:
    """The L-smooth losses, convex or not: ‖∇f(x) − ∇f(y)‖ ≤ L‖x − y‖."""
    L = _POSITIVE.check("smooth(L=…)", L)
    return Functions(L, -L)


def convex(L: float = 1.0, mu: float = 0.0) -> Functions:
    """The L-smooth losses that are convex, strongly if μ is above 0."""
    L = _POSITIVE.check("convex(L=…)", L)
    advice = "It is a curvature, below that of L; losses that are not convex are smooth(L)."
    return Functions(L, Range(0, L, False, True, advice).check("convex(mu=…)", mu))


def lipschitz(G: float = 1.0) -> Functions:
    """The convex losses, smooth or not, whose subgradients are at most G."""
    return Functions(math.inf, 0.0, _POSITIVE.check("lipschitz(G=…)", G))


@dataclass(frozen=True)
class Bias:
    """A bound on an oracle: ‖E g̃ − ∇f_i‖² ≤ M_f ‖∇f_i‖² + σ_f² for every agent and query."""

    relative: float = 0.0
    """M_f."""
    absolute: float = 0.0
    """σ_f²."""

    def __bool__(self) -> bool:
        return self.relative > 0 or self.absolute > 0


def check_bias(given: Any) -> Bias:
    """Return the bias that a pair (M_f, σ_f²) stands for; None is none."""
    if isinstance(given, Bias):
        return given
    if given is not None and (not isinstance(given, (tuple, list)) or len(given) != 2):
        raise InputError(f"bias must be a pair (M_f, σ_f²), but is {brief(given)}.")
    relative, absolute = given or (0.0, 0.0)
    advice = "From M_f = 1 on a gradient may be answered by zero, and no method moves."
    return Bias(
        Range(0, 1, False, True, advice).check("M_f of bias = (M_f, σ_f²)", relative),
        Range(0, math.inf, False, True).check("σ_f² of bias = (M_f, σ_f²)", absolute),
    )


@dataclass
class Form:
    """A linear function of the Gram matrices and of the functions' values."""

    terms: list[Term] = field(default_factory=list)
    values: dict[int, Any] = field(default_factory=dict)

    def __add__(self, other: "Form") -> "Form":
        keys = {**self.values, **other.values}
        return Form(self.terms + other.terms, {k: self.values.get(k, 0) + other.values.get(k, 0) for k in keys})

    def __mul__(self, w: float) -> "Form":
        return Form([Term(k, u, v, w * x) for k, u, v, x in self.terms], {i: w * x for i, x in self.values.items()})

    def __sub__(self, other: "Form") -> "Form":
        return self + other * -1

    __rmul__ = __mul__


@dataclass(frozen=True)
class Constraint:
    """A form that is at most its bound. Conditions of one label share what the bound stands for."""

    label: str
    form: Form
    bound: float = 0.0


@dataclass(frozen=True, eq=False)
class Point:
    """Points x_i where the agents' functions were looked at, the gradients there, and the numbers of the values."""

    x: Vectors
    g: Vectors
    f: tuple[int, ...]
    common: bool
    """True if all agents look at the same point."""
    optimum: bool = False


@dataclass(frozen=True, eq=False)
class Answer:
    """The bias e of the oracle's answer g + e at a point."""

    point: Point
    e: Vectors


class Case:
    """The points, answers and conditions of a run whose vectors are unknown."""

    def __init__(self, space: Space, functions: Functions, bias: Bias | None = None, dim: int = DIMENSION):
        self.space, self.functions, self.bias, self.dim = space, functions, bias or Bias(), dim
        self.points: list[Point] = []
        self.answers: list[Answer] = []
        self.asked: list[Point] = []
        """The points that the rule asked at, in the order of its queries."""
        self.compressed: list[tuple[Vectors, Vectors, float]] = []
        self.conditions: list[Constraint] = []
        self.means: list[Point] = []
        """The mean models that were looked at, and the optimum: where heterogeneity may be bounded."""
        self.count = 0
        """How many function values there are."""
        self.unit = 1.0
        """The unit of unknown gradients, and the inverse of that of unknown points."""
        self._lowest: int | None = None

    def each(self, a: Vectors, b: Vectors) -> list[Form]:
        """Return ⟨a_i, b_i⟩ of each agent, or their mean where agents are all alike."""
        return [Form(terms) for terms in self.space.each(a, b)]

    def average(self, a: Vectors, b: Vectors) -> Form:
        """Return the mean over agents of ⟨a_i, b_i⟩."""
        return Form(self.space.average(a, b))

    def of_means(self, a: Vectors, b: Vectors) -> Form:
        """Return the inner product of the means over agents."""
        return Form(self.space.of_means(a, b))

    def spread(self, a: Vectors) -> Form:
        """Return the mean over agents of ‖a_i − ā‖²."""
        return self.average(a, a) - self.of_means(a, a)

    def value(self, p: Point) -> Form:
        """Return the mean over agents of f_i at their points, times the number of values that stand for it."""
        return Form([], dict.fromkeys(p.f, 1))

    def at_most(self, label: str, form: Form, bound: float = 0.0) -> None:
        """Add the condition form ≤ bound."""
        self.conditions.append(Constraint(label, form, bound))

    def new_value(self) -> int:
        """Return the number of a new function value."""
        self.count += 1
        return self.count - 1

    @property
    def lowest(self) -> Form:
        """inf F, of losses that are not convex, times the number of values that stand for a mean."""
        if self._lowest is None:
            self._lowest = self.new_value()
        return Form([], {self._lowest: self.space.values_each})

    def look(self, x: Vectors) -> Point:
        """Return the point x of every agent's function, the same one for equal coordinates."""
        for p in self.points:
            if p.x.equals(x):
                return p
        values = tuple(self.new_value() for _ in range(self.space.values_each))
        self.points.append(Point(x, self.space.leaf() * self.unit, values, x.equals(self.space.mean(x))))
        return self.points[-1]

    def add_optimum(self) -> Point:
        """Add x*, where the gradients' mean is zero: they simply have no coordinate in it."""
        x, g = self.space.common() * (1 / self.unit), self.space.balanced() * self.unit
        values = tuple(self.new_value() for _ in range(self.space.values_each))
        self.points.append(Point(x, g, values, True, True))
        return self.points[-1]

    def ask(self, x: Vectors) -> Vectors:
        """Return the oracle's answer at x, as biased as the bounds allow; the same one if it is asked again."""
        p = self.look(x)
        self.asked.append(p)
        if not self.bias:
            return p.g
        answer = next((a for a in self.answers if a.point is p), None)
        if answer is None:
            answer = Answer(p, self.space.leaf() * self.unit)
            self.answers.append(answer)
        return p.g + answer.e

    def close(self, goal: Form) -> None:
        """Add the conditions of all that the goal depends on, and of nothing else.

        Others would leave the program without an interior, which solvers need.
        """
        points, self.answers, self.compressed = self._find_needed(goal)
        for p in points:
            for q in points:
                if p is not q:
                    self.interpolate(p, q)
            if math.isfinite(self.functions.G):
                for form in self.each(p.g, p.g):
                    self.at_most("gradients", form, self.functions.G**2)
        self.bound_answers("bias")
        for a, q, left in self.compressed:
            for error, square in zip(self.each(q - a, q - a), self.each(a, a), strict=True):
                self.at_most("compression", error - left * square)
        self.points = points

    def bound_answers(self, label: str, unit: float = 1.0) -> None:
        """Add the bounds on the bias of every answer; with `unit`, as (bias · unit) ≤ σ_f² · unit."""
        for a in self.answers:
            for e, g in zip(self.each(a.e, a.e), self.each(a.point.g, a.point.g), strict=True):
                self.at_most(label, (e - self.bias.relative * g) * unit, self.bias.absolute)

    def interpolate(self, p: Point, q: Point) -> None:
        """Add the condition between two points that a function of the class keeps."""
        L, mu = self.functions.L, self.functions.mu
        x, g = p.x - q.x, p.g - q.g
        parts = [self.each(q.g, x)]
        if math.isfinite(L):
            share = 1 / (2 * (1 - mu / L))
            parts.append([share / L * form for form in self.each(g, g)])
            if mu:
                parts.append([share * mu * form for form in self.each(x, x)])
                parts.append([-2 * share * mu / L * form for form in self.each(g, x)])
        for k, (i, j) in enumerate(zip(p.f, q.f, strict=True)):
            self.at_most("interpolation", sum((part[k] for part in parts), Form([], {j: 1, i: -1})))

    def bound_below(self) -> None:
        """Add the conditions that inf F keeps, of losses that are not convex.

        With y = mean(x − g/L): mean f − mean⟨g, x⟩ + L/2 (mean‖x‖² − ‖y‖²) ≥ inf F at each point.
        """
        L, each = self.functions.L, self.space.values_each
        for p in self.points:
            y = p.x - p.g * (1 / L)
            above = (self.average(p.x, p.x) - self.of_means(y, y)) * (L / 2) - self.average(p.g, p.x)
            self.at_most("bounded below", self.lowest - self.value(p) - above * each)

    def _find_needed(self, goal: Form) -> tuple[list[Point], list[Answer], list[tuple[Vectors, Vectors, float]]]:
        """Return the points, answers and messages that the goal and the conditions so far can depend on."""
        forms = [goal, *(c.form for c in self.conditions)]
        columns = {int(i) for f in forms for _, u, v, _ in f.terms for i in np.flatnonzero((u != 0) | (v != 0))}
        values = {i for f in forms for i in f.values}

        def own(a: Vectors) -> set[int]:
            return set(np.flatnonzero((a.c != 0).any(0)).tolist())

        points = [p for p in self.points if p.optimum]
        for p in points:
            columns |= own(p.x) | own(p.g)
        answers: list[Answer] = []
        while True:
            before = len(columns)
            more = [p for p in self.points if p not in points and (own(p.g) & columns or values & set(p.f))]
            heard = [a for a in self.answers if a not in answers and own(a.e) & columns]
            for p in more:
                columns |= own(p.x) | own(p.g)
            for a in heard:
                columns |= own(a.point.g)
            for coordinates, column in self.space.mixed:
                if column in columns:
                    columns |= set(np.flatnonzero(coordinates != 0).tolist())
            for a, q, _ in self.compressed:
                if own(q) & columns:
                    columns |= own(a)
            points, answers = points + more, answers + heard
            if not more and not heard and len(columns) == before:
                messages = [one for one in self.compressed if own(one[1]) & columns]
                return [p for p in self.points if p in points], answers, messages

    def dual(self, goal: Form) -> tuple[Program, dict[int, float]]:
        """Return the program of multipliers that bound the goal, and their cost; those of the conditions come first.

        The least Σ y_c b_c over y ≥ 0 with Σ y_c (form_c) = goal in the values and ⪰ in the Gram matrices.
        """
        space = self.space
        program = Program(space.rounding, space.blur)
        blocks = [program.inequality(space.columns) for _ in range(space.blocks)]
        rows: dict[int, dict[int, Any]] = {i: {} for i in range(self.count)}
        cost = {}
        for condition in self.conditions:
            j = program.variable()
            cost[j] = condition.bound
            for i, w in condition.form.values.items():
                rows[i][j] = rows[i].get(j, 0) + w
            _scatter(blocks, j, condition.form.terms, 1.0)
        for i, row in rows.items():
            program.equate(row, goal.values.get(i, 0))
        _scatter(blocks, -1, goal.terms, -1.0)
        add_interval(space, program, blocks)
        return program, cost


def _scatter(blocks: list[Any], variable: int, terms: list[Term], weight: float) -> None:
    """Add each term to the matrix of its block."""
    for term in terms:
        blocks[term.block].add(variable, [term], weight)


def add_interval(space: Space, program: Program, blocks: list[Any]) -> None:
    """Add what a W with a spectrum in [low, high] keeps: ⟨x, Wz⟩ = ⟨Wx, z⟩, and (high − W)(W − low) ⪰ 0 on the span."""
    used = blocks[1].used() if space.mixed else []
    mixed = [(pad(x, space.columns), np.eye(1, space.columns, k)[0]) for x, k in space.mixed if k in used]
    if not mixed:
        return
    low, high = space.low, space.high  # pyright: ignore[reportAttributeAccessIssue]
    multiplier = program.inequality(len(mixed))
    unit = np.eye(len(mixed))
    for b, (xb, yb) in enumerate(mixed):
        for a, (xa, ya) in enumerate(mixed[: b + 1]):
            entry = program.variable(free=True)
            multiplier.add(entry, [Term(0, unit[a], unit[b], 1.0 if a == b else 2.0)])
            for (x1, y1), (x2, y2) in (((xa, ya), (xb, yb)), ((xb, yb), (xa, ya))):
                half = 0.5 if a == b else 1.0
                blocks[1].add(entry, [Term(1, high * x1 - y1, y2 - low * x2, -half)])
            if a < b:
                link = program.variable(free=True)
                blocks[1].add(link, [Term(1, xa, yb, 1.0), Term(1, xb, ya, -1.0)])


class SymbolicAgents:
    """The agents of a rule in one round, whose arrays are `Vectors`."""

    def __init__(self, case: Case, t: int):
        self.case, self.t = case, t

    def gradient(self, *points: Any) -> Any:
        return _unpack(tuple(self.case.ask(x) for x in points))

    full_gradient = gradient

    def gossip(self, *arrays: Any, over: str = "W") -> Any:
        matrices = ("R", "C") if over == "RC" else (over,) * len(arrays)
        return _unpack(tuple(self._mix(a, by) for a, by in zip(arrays, matrices, strict=True)))

    def _mix(self, a: Any, over: str = "W", t: int | None = None) -> Any:
        t = self.t if t is None else t
        if isinstance(a, Vectors):
            return self.case.space.mix(a, t, over)
        # numbers of each agent, such as push-sum's weights: a doubly stochastic W leaves equal ones as they are
        return self.case.space.matrix(t, over) @ a if isinstance(self.case.space, Given) else a

    def gossip_compressed(self, *arrays: Any, by: Any) -> Any:
        sent = tuple(self._compress(a, by) for a in arrays)
        return _unpack(tuple((q, self._mix(q)) for q in sent))

    def gossip_copies(self, copy: Any, apart: Any, a: Any, by: Any = None) -> Any:
        q = a if by is None else self._compress(a, by)
        return q, apart + q - self._mix(q)

    def _compress(self, a: Any, by: Any) -> Any:
        """Return C(a) of any compressor that loses as large a share of ‖a‖² at most."""
        left = by.contraction(self.case.dim)
        if left is None or left >= 1:
            raise InputError(
                f"{by} bounds no error below ‖a‖², so nothing bounds what becomes of a message: take a compressor that "
                "contracts, such as compressors.top_k(share=0.5)."
            )
        if left == 0:
            return a
        q = self.case.space.leaf()
        self.case.compressed.append((a, q, left))
        return q

    def gossip_sum(self, *arrays: Any) -> Any:
        space = self._need_matrix()
        links = ((space.matrix(self.t) != 0) & ~np.eye(space.rows, dtype=bool)).astype(float)
        return _unpack(tuple(space.apply(links, a) if isinstance(a, Vectors) else links @ a for a in arrays))

    def gossip_robust(self, *arrays: Any, by: Any) -> Any:
        raise NotLinear("a worst case needs a rule that is linear in its arrays, but an aggregator is not.")

    def mean(self, *arrays: Any) -> Any:
        return _unpack(tuple(self.case.space.mean(a) for a in arrays))

    def average(self, a: Any, warm: Any, over: str = "W") -> Any:
        if warm == "mean":
            return self.mean(a)
        for t in range(warm):
            a = self._mix(a, over, t)
        return a

    def ones(self) -> Any:
        return np.ones((self.case.space.rows, 1)) if isinstance(self.case.space, Given) else 1.0

    def place(self) -> Any:
        return np.eye(self._need_matrix().rows)

    def norm(self, a: Any) -> Any:
        if isinstance(a, Vectors):
            raise NotLinear("a worst case needs a rule that is linear in its arrays, but this one divides by a norm.")
        return np.linalg.norm(a, axis=1, keepdims=True)

    def repeat(self, times: int, step: Callable[..., Any], *arrays: Any) -> Any:
        for _ in range(times):
            found = step(*arrays)
            arrays = found if isinstance(found, tuple) else (found,)
        return _unpack(arrays)

    def _need_matrix(self) -> Given:
        if not isinstance(self.case.space, Given):
            raise NeedsMatrix(
                "this rule asks for an agent's place or for sums over its links, which only one given network has: "
                "give a network in place of a spectrum."
            )
        return self.case.space


def _unpack(arrays: tuple[Any, ...]) -> Any:
    return arrays[0] if len(arrays) == 1 else arrays


def run(rule: Any, case: Case, steps: int, agents: type[SymbolicAgents] = SymbolicAgents) -> list[State]:
    """Return the rule's states at rounds 0 … steps, from one start for all agents, which is put at the origin."""
    states = [at_round(rule, 0).init(case.space.zero(), agents(case, 0))]
    for t in range(steps):
        states.append(at_round(rule, t).step(states[-1], agents(case, t)))
    return states


def describe_messages(rule: Any, dim: int) -> str:
    """Return for which messages a bound of a rule holds: all that lose no more than its compressor does."""
    lost = {str(part): part.contraction(dim) for part in parts(rule).values() if isinstance(part, Compressor)}
    return "".join(
        f", for messages that lose at most {left:.4g} ‖a‖², as {by} does of d = {dim:,} numbers"
        for by, left in lost.items()
        if left
    )


def at_round(rule: Any, t: int) -> Any:
    """Return the rule with the numbers that its schedules have in round t."""
    values = {one.name: getattr(rule, one.name) for one in dataclasses.fields(rule)}
    return bind(type(rule), values | {key: float(of_round(t)) for key, of_round in schedules(rule).items()})
