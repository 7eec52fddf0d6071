r"""Bounds for every number of rounds: the best quadratic Lyapunov function of a rule, found by a solver and proved.

$$ \Phi = a (F(\bar x) - F^*) + \sum_k \mathrm{tr}\, Q_k S_k \ge 0 , \qquad
   \mathbb{E}\,\Phi^+ \le \Phi - \|\nabla F(\bar x)\|^2 + \gamma_\zeta \zeta^2 + \gamma_b \sigma_f^2
   + \gamma_n \sigma^2 $$

for every state, function, bias and noise within their bounds. Summed over T rounds that is a bound of Theorem 1's kind,

$$ \frac1T \sum_{t<T} \mathbb{E}\|\nabla F(\bar x^t)\|^2 \le \frac{\Phi^0}{T} + \gamma_\zeta \zeta^2
   + \gamma_b \sigma_f^2 + \gamma_n \sigma^2 , $$

with weights that a solver chose. $S_k$ are the Gram matrices of the state's arrays relative to the mean model, of the
agents' gradients where they stand and of those at the mean model, in the k-th eigenspace of W (see `spaces`). Three
semidefinite inequalities share a and Q: that of a round from any state, that of Φ ≥ 0, and that of the start. All three
are verified without the solver: see `gossamer.worst.program`.

A noisy answer is $\nabla f_i + e_i + \xi_i$; given the past, $\xi_i$ has mean zero and is independent over agents.
Where the noise of a round moves the mean model, from y to $\bar x^+$, Φ weighs no gradients, and
$\mathbb{E} F(\bar x^+) \le F(y) + \frac L2 \mathbb{E}\|\bar x^+ - y\|^2$.
"""

import dataclasses
import itertools
import json
import math
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from gossamer.algorithms import ALGORITHMS
from gossamer.basics.files import atomic
from gossamer.core import InputError, Range, State, brief, hyperparameters, schedules, setting, whole
from gossamer.networks import Network
from gossamer.worst.case import (
    DIMENSION,
    Bias,
    Case,
    Form,
    Functions,
    Point,
    SymbolicAgents,
    add_interval,
    at_round,
    check_bias,
    describe_messages,
    smooth,
)
from gossamer.worst.exact import BUDGET, SECONDS, Size, check_rule, choose_space, machine_memory
from gossamer.worst.exact import SYMBOLS as BOUNDS
from gossamer.worst.program import GramBlock, NotProven, OutOfTime, Program, load_solver
from gossamer.worst.spaces import SAME, UNIT, Eigenvalues, Interval, Space, Term, Vectors, pad, spectrum_of

CONSTANTS = ("excess", "start", "bias0", "noise0", "heterogeneity", "bias", "noise")
"""The constants of a bound: of Δ, ζ₀², σ_f² and σ² over T, and of ζ², σ_f² and σ² for ever."""

OVER_T = CONSTANTS[:4]

FURTHEST = 200
"""The largest exponent that is read from a file: floats end near 1,000, and products of four are taken."""

LARGEST = 5
"""The largest change of an exponent when a program is scaled anew."""

PASSES = 3
"""How often a program is scaled anew by its solution."""

MARGINS = (1e-8, 1e-6, 1e-5, 1e-4)
"""The least eigenvalues that are asked of the matrices, one after the other, until a proof goes through."""

TINY = 1e-6
"""The least weight of a number, as a share of the largest."""

LEAST = 4.0**-15
"""The least share of the step size where a search begins that it goes down to."""

FLOOR_ROUNDS = 1e4
"""ηLT in the search for a floor: the start's share of the bound is small, but must not be free."""

GIVEN = ("excess", "start", "heterogeneity", "absolute", "noise")

SYMBOLS = {label: {**BOUNDS, "noise": "σ²"}[label.rstrip("0")] for label in CONSTANTS}

_ROUNDS = Range(1, math.inf, False, True, "It is a number of rounds.")
_AT_LEAST_0 = Range(0, math.inf, False, True)
_ABOVE_0 = Range(0, math.inf, True, True)

TRIALS = 5
"""Rounds in which the relations between a rule's arrays are found."""


@dataclass(frozen=True)
class Scope:
    """All that a Lyapunov function must hold for."""

    rule: Any
    space: Callable[[], Space]
    functions: Functions
    bias: Bias
    noisy: bool
    dim: int = DIMENSION
    """The dimension for which a compressor says how much of a message it keeps."""


class _AnyCase(Case):
    """A case in which gradients are written as differences to those nearby, so that all coordinates are of size 1."""

    def __init__(self, scope: Scope, space: Space, step: float):
        super().__init__(space, scope.functions, scope.bias, scope.dim)
        self.near = math.sqrt(step)
        self.noise: list[Vectors] = []

    def look(self, x: Vectors) -> Point:
        for p in self.points:
            if p.x.equals(x):
                return p
        mean = self.space.mean(x)
        is_common = x.equals(mean)
        base = self.points[0] if is_common and self.points else None if is_common else self.look(mean)
        p = super().look(x)
        if base is None:
            return p
        near = self.near if is_common else 1.0
        self.points[-1] = dataclasses.replace(p, g=base.g + p.g * near)
        return self.points[-1]

    def noise_columns(self) -> list[int]:
        """Return the columns of the noise."""
        return [int(np.argmax(xi.c.any(0))) for xi in self.noise]

    def without_noise(self, a: Vectors) -> Vectors:
        """Return the mean of vectors over noise."""
        c = a.wide.copy()
        c[:, self.noise_columns()] = 0
        return Vectors(self.space, c, pad(a.r, c.shape[1]))

    def is_noisy(self, a: Vectors) -> bool:
        """Return True if noise took part in the vectors."""
        return bool(a.wide[:, self.noise_columns()].any())


class _Agents(SymbolicAgents):
    """Agents whose answers have noise of their own, if any has."""

    def __init__(self, case: _AnyCase, noisy: bool):
        super().__init__(case, 0)
        self.noisy = noisy

    def gradient(self, *points: Any) -> Any:
        if not self.noisy:
            return super().gradient(*points)
        case = self.case
        assert isinstance(case, _AnyCase)
        x, *others = points
        if others:
            raise InputError(
                "the rule asks for gradients at several points with one sample, whose noise may differ from point to "
                "point: bound it without noise."
            )
        if case.is_noisy(x):
            raise InputError(
                "the rule asks for a gradient where the noise of the same round took it, which no quadratic form "
                "follows: bound it without noise."
            )
        case.noise.append(xi := case.space.leaf())
        return case.ask(x) + xi

    full_gradient = gradient

    def _compress(self, a: Any, by: Any) -> Any:
        if self.noisy and isinstance(self.case, _AnyCase) and self.case.is_noisy(a):
            raise InputError(
                "the rule compresses a message that the noise of the same round moved, and the compressor's error may "
                "depend on that noise: bound it without noise."
            )
        return super()._compress(a, by)


@dataclass(eq=False)
class _Group:
    """An inequality for all Gram matrices and values: its case, its matrices and the multipliers of its conditions."""

    case: _AnyCase
    multipliers: list[int] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    scales: list[float] = field(default_factory=list)
    blocks: list[Any] = field(default_factory=list)


class LyapunovProgram:
    """The program of all quadratic Lyapunov functions of a scope.

    Function values are in units of a power of two near the step size, and so is the mean model's move in a round. Each
    row of a matrix and each array in Φ has a power of two of its own, which changes nothing but the conditioning.
    """

    def __init__(self, scope: Scope, rows: Any = None, sizes: Any = None):
        self.scope, self.program = scope, Program()
        rule, functions = scope.rule, scope.functions
        check_rule(rule)
        if schedules(rule):
            raise InputError(f"{rule!r} has schedules, but a Lyapunov function is of a rule with constant numbers.")
        relations = find_relations(rule, functions, scope.dim)
        self.names, self.moves = relations.names, relations.moves
        self.unit = 2.0 ** round(math.log2(relations.step / functions.L))
        self.a = self.program.variable()
        case = self._case()
        space = case.space
        self.eigenvalues = space.values[:, 0] if isinstance(space, Eigenvalues) else np.ones(space.rows)
        state = relations.free_state(case)
        here = case.look(space.mean(state.x))
        case.look(state.x)
        after = at_round(rule, 0).step(state, _Agents(case, scope.noisy))
        relations.check(after)
        self.weighs_gradients = not case.is_noisy(after.x)
        there = case.look(case.without_noise(space.mean(after.x)))
        now, then = self._basis(case, relations, state), self._basis(case, relations, after)
        low = self._case(space)
        # without weights on gradients nothing holds those of agents within bounds
        of = (here, case.look(state.x)) if self.weighs_gradients else (here,)
        low.points, low.count = [p for p in case.points if p in of], case.count
        self._pick(now)
        self.sizes = [[0] * len(pick) for pick in self.picks] if sizes is None else sizes
        self.Q = [
            {(i, j): self.program.variable(free=True) for i in range(len(pick)) for j in range(i + 1)}
            for pick in self.picks
        ]

        # a round from any state
        self._close(case)
        # where noise moved the mean model, the point without it is none that the run visits
        for p in (here, there) if self.weighs_gradients else (here,):
            case.at_most("heterogeneity", case.spread(p.g), 1)
        interest = {here.f[0]: -1.0, there.f[0]: 1.0}
        if here is there:
            interest = {}
        self.groups = [self._group(case, interest, [(then, 1), (now, -1)], case.of_means(here.g, here.g))]

        # Φ ≥ 0 for any state
        self._close(low)
        low.bound_below()
        lowest = low.lowest.values
        self.groups.append(self._group(low, {here.f[0]: -1.0, next(iter(lowest)): 1.0}, [(now, -1)]))

        # Φ at the start
        start = self._case()
        first = at_round(rule, 0).init(start.space.zero(), _Agents(start, scope.noisy))
        relations.check(first)
        x0 = start.look(start.space.zero())
        basis = self._basis(start, relations, first)
        self._close(start, "bias0")
        start.bound_below()
        start.at_most("excess", start.value(x0) - start.lowest, 1)
        start.at_most("start", start.spread(x0.g), 1)
        lowest = next(iter(start.lowest.values))
        self.groups.append(self._group(start, {x0.f[0]: 1.0, lowest: -1.0}, [(basis, 1)]))

        spaces = (space, low.space, start.space)
        self.program.rounding = max(one.rounding for one in spaces)
        largest = max((e for sizes in self.sizes for e in sizes), default=0)
        self.program.blur = max(one.blur for one in spaces) * 2.0 ** max(largest, 0)
        self.noise: dict[str, list[_NoiseTerms]] = {
            "noise": self._noise_of(case, then, space.mean(after.x)),
            "noise0": self._noise_of(start, basis, None),
        }
        self.rows = rows or [[[0] * one.size for one in group.blocks] for group in self.groups]
        for group, exponents in zip(self.groups, self.rows, strict=True):
            for block, of_row in zip(group.blocks, exponents, strict=True):
                block.exponents = of_row

    def _case(self, space: Space | None = None) -> _AnyCase:
        scope = self.scope
        return _AnyCase(scope, space or scope.space(), scope.functions.L * self.unit)

    def _close(self, case: _AnyCase, label: str = "bias") -> None:
        """Add the conditions of a case: all that is known of functions, biases and compressors."""
        for p in case.points:
            for q in case.points:
                if p is not q:
                    case.interpolate(p, q)
                    if p.common and q.common:
                        case.conditions[-1] = dataclasses.replace(case.conditions[-1], label="near")
        case.bound_answers(label)
        for a, q, left in case.compressed:
            case.at_most("compression", case.average(q - a, q - a) - left * case.average(a, a))

    def _basis(self, case: _AnyCase, relations: "Relations", s: State) -> list[Vectors]:
        """Return the vectors that Φ weighs: arrays relative to the mean model, and gradients."""
        mean = case.space.mean(s.x)
        arrays = [s[name] - mean * relations.moves[name] for name in self.names]
        return arrays + ([case.look(s.x).g, case.look(mean).g] if self.weighs_gradients else [])

    def _pick(self, basis: list[Vectors]) -> None:
        """Choose, in each block, vectors of the basis that are independent."""
        self.picks: list[list[int]] = []
        for k in range(basis[0].space.rows):
            kept: list[int] = []
            for i in range(len(basis)):
                if np.linalg.matrix_rank(np.array([basis[j].wide[k] for j in [*kept, i]]), tol=1e-9) > len(kept):
                    kept.append(i)
            self.picks.append(kept)

    def _group(
        self,
        case: _AnyCase,
        interest: dict[int, float],
        parts: Sequence[tuple[list[Vectors], int]],
        goal: Form | None = None,
    ) -> _Group:
        """Add: a · interest + Σ sign · Φ's quadratic part + goal ≤ Σ multipliers · conditions."""
        program, space = self.program, case.space
        group = _Group(case, blocks=[program.inequality(space.columns) for _ in range(space.blocks)])
        values: list[dict[int, float]] = [{} for _ in range(case.count)]
        for i, w in interest.items():
            values[i][self.a] = -w
        for c in case.conditions:
            j = program.variable()
            scale = 1 / self.unit if c.label in ("near", "excess") else 1.0
            group.labels.append(c.label)
            group.multipliers.append(j)
            group.scales.append(scale)
            for i, w in c.form.values.items():
                values[i][j] = float(w) * self.unit * scale
            for term in c.form.terms:
                group.blocks[term.block].add(j, [term], scale)
        for row in values:
            if row:
                program.equate(row)
        for term in goal.terms if goal else ():
            group.blocks[term.block].add(-1, [term], -1.0)
        for basis, sign in parts:
            for k, Q in enumerate(self.Q):
                # the mean over noise: its products with all else vanish, and its square is `_noise_of`
                rows = [space.rows_of(case.without_noise(basis[i]))[k] for i in self.picks[k]]
                vectors = [row * 2.0**e for row, e in zip(rows, self.sizes[k], strict=True)]
                for (i, j), q in Q.items():
                    group.blocks[k].add(q, [Term(k, vectors[i], vectors[j], 1.0 if i == j else 2.0)], -sign)
        add_interval(space, program, group.blocks)
        return group

    def _noise_of(self, case: _AnyCase, basis: list[Vectors], moved: Vectors | None) -> list["_NoiseTerms"]:
        """Return what noise of variance 1 adds to Φ in each block, as the factors of variables and their errors."""
        shares, found = case.space.shares, []  # pyright: ignore[reportAttributeAccessIssue]
        for k, Q in enumerate(self.Q):
            terms: _NoiseTerms = []
            for column in case.noise_columns():
                vectors = [basis[i].wide[k] * 2.0**e for i, e in zip(self.picks[k], self.sizes[k], strict=True)]
                for (i, j), q in Q.items():
                    weight = shares[k] * (1 if i == j else 2)
                    terms.append((q, *self._multiply(vectors[i], vectors[j], column, weight)))
                if k == 0 and moved is not None:
                    weight = shares[0] * self.scope.functions.L / 2 / self.unit
                    terms.append((self.a, *self._multiply(moved.wide[0], moved.wide[0], column, weight)))
            found.append(terms)
        return found

    def _multiply(self, u: np.ndarray, v: np.ndarray, column: int, weight: float) -> tuple[float, float]:
        """Return weight · Re(ū v) of a column, and a bound on its error."""
        rounding, blur = self.program.rounding, self.program.blur
        value = weight * float((u[column].conjugate() * v[column]).real)
        size = [abs(one[column]) + np.abs(one).max() + blur / rounding for one in (u, v)]
        return value, 4 * rounding * abs(weight) * float(size[0] * size[1])

    @property
    def size(self) -> Size:
        """The size of the program, with a forecast of one solution: blocks share few variables, so each counts once."""
        orders = [len(one.used()) * (2 if one.is_complex() else 1) for one in self.program.inequalities]
        triangles = [n * (n + 1) // 2 for n in orders]
        seconds = 0.02 + 5e-8 * sum(t**3 for t in triangles)
        return Size(tuple(orders), len(self.program.free), seconds, 3 * 8.0 * sum(t**2 for t in triangles))

    def cost(self, weights: dict[str, float]) -> dict[int, float]:
        """Return the cost of every variable, for the weights of the constants."""
        cost: dict[int, float] = {}
        for group in self.groups:
            for j, label, scale in zip(group.multipliers, group.labels, group.scales, strict=True):
                if label in weights:
                    cost[j] = weights[label] * scale
        for label, rows in self.noise.items():
            for terms in rows:
                for j, w, _ in terms:
                    cost[j] = cost.get(j, 0.0) + weights[label] * w
        return cost

    def constants(self, y: Sequence[Any]) -> dict[str, float]:
        """Return the constants for these multipliers, rounded upwards."""
        found: dict[str, Fraction] = {label: Fraction(0) for label in CONSTANTS}
        for group in self.groups:
            for j, label, scale in zip(group.multipliers, group.labels, group.scales, strict=True):
                if label in found:
                    found[label] += Fraction(y[j]) * Fraction(scale)
        for label, rows in self.noise.items():
            for terms in rows:
                most = (Fraction(y[j]) * Fraction(w) + abs(Fraction(y[j])) * Fraction(error) for j, w, error in terms)
                found[label] += max(sum(most, Fraction(0)), Fraction(0))
        return {label: math.nextafter(float(v), math.inf) if v else 0.0 for label, v in found.items()}

    def rescaled(self, y: np.ndarray) -> "LyapunovProgram":
        """Return the same program with the diagonals of all matrices, and of Q, near 1 at this solution."""
        rows: list[list[list[int]]] = []
        for group, exponents in zip(self.groups, self.rows, strict=True):
            rows.append([])
            for one, of_row in zip(group.blocks, exponents, strict=True):
                block, of_row = GramBlock(one, len(self.program.free)), list(of_row)
                if block.order:
                    diagonal = np.abs(np.diag(block.matrix(y)))[: block.width]
                    for column, d in zip(block.kept, diagonal, strict=True):
                        of_row[column] -= _exponent(d)
                rows[-1].append(of_row)
        sizes = [
            [e + _exponent(abs(y[Q[i, i]])) for i, e in enumerate(of)] for Q, of in zip(self.Q, self.sizes, strict=True)
        ]
        return LyapunovProgram(self.scope, rows, sizes)


_NoiseTerms = list[tuple[int, float, float]]
"""Variables, the factor of each, and a bound on the factor's error."""


def _exponent(of_square: float) -> int:
    """Return the exponent of the power of two near a square root; at most LARGEST, as what is near 0 has no size."""
    return round(min(max(math.log2(max(of_square, 1e-300)) / 2, -LARGEST), LARGEST))


@dataclass(frozen=True)
class Relations:
    """The linear relations between a rule's arrays that every round keeps, such as equal means of v and m."""

    names: list[str]
    numbers: dict[str, float]
    """The arrays that are one number for all agents for ever, such as push-sum's weights."""
    moves: dict[str, float]
    """1 for an array that moves with the origin, such as a model, and 0 for a direction."""
    weights: tuple[np.ndarray, np.ndarray]
    """Of the means and of the rest: each array as a sum of those that are independent, [array, array]."""
    step: float
    """The largest move of the mean model in a round, for gradients of size 1."""

    def free_state(self, case: Case) -> State:
        """Return any state whose mean model is at the origin."""
        leaves = [case.space.leaf() for _ in self.names]
        parts = [(case.space.mean(leaf), leaf - case.space.mean(leaf)) for leaf in leaves]
        arrays = {}
        for i, name in enumerate(self.names):
            arrays[name] = case.space.zero()
            for part, weights in enumerate(self.weights):
                for j, w in enumerate(weights[i]):
                    if w:
                        arrays[name] = arrays[name] + parts[j][part] * float(w)
        return State(**arrays, **self.numbers)

    def check(self, s: State) -> None:
        """Raise InputError unless a state keeps the relations, but for the rounding of its coordinates."""
        if set(s) != {*self.names, *self.numbers} or any(not np.array_equal(s[n], w) for n, w in self.numbers.items()):
            raise InputError("the rule's state has other arrays, or other numbers of agents, from round to round.")
        mean = s["x"].space.mean(s["x"])
        arrays = [s[n] - self.moves[n] * mean for n in self.names]
        rows, rounding = np.stack([a.wide for a in arrays]), np.stack([pad(a.r, a.space.columns) for a in arrays])
        rounding += 4 * UNIT * np.abs(rows)
        for part, weights in ((slice(0, 1), self.weights[0]), (slice(1, None), self.weights[1])):
            seen, error = rows[:, part], rounding[:, part]
            apart = np.abs(seen - np.einsum("ij,jrc->irc", weights, seen))
            if (apart > error + np.einsum("ij,jrc->irc", np.abs(weights), error)).any():
                raise InputError(
                    f"the rule does not keep a relation between its arrays: they are {apart.max():.2g} apart."
                )


def find_relations(rule: Any, functions: Functions, dim: int = DIMENSION) -> Relations:
    """Find the relations that a rule keeps, in a few rounds on unknown vectors."""
    trial = Case(Eigenvalues([0.37, -0.21]), functions, Bias(0, 1), dim)
    origin = trial.space.common()
    fixed = at_round(rule, 0)
    states = [fixed.init(origin, SymbolicAgents(trial, 0))]
    for _ in range(TRIALS):
        states.append(fixed.step(states[-1], SymbolicAgents(trial, 0)))
    names = [n for n, a in states[0].items() if isinstance(a, Vectors)]
    numbers = {n: a for n, a in states[0].items() if n not in names}
    (column,) = np.flatnonzero(origin.c[0])
    moves = {n: float(states[0][n].wide[0, column].real) for n in names}
    for s in states:
        for n in names:
            if abs(s[n].wide[0, column] - moves[n]) > pad(s[n].r, trial.space.columns)[0, column]:
                raise InputError(
                    f"{rule.name} moves its array {n} otherwise than its start: no quadratic form of differences to "
                    "the mean model follows that."
                )
    if moves.get("x") != 1:
        raise InputError(f"{rule.name} does not start where it is told to.")
    mean = trial.space.mean
    met = np.stack([[pad((s[n] - moves[n] * mean(s.x)).wide, trial.space.columns) for n in names] for s in states])
    weights = tuple(_depend(part) for part in (met[:, :, 0], met[:, :, 1:]))
    steps = [np.abs((mean(b.x) - mean(a.x)).wide[0]).max() for a, b in itertools.pairwise(states)]
    if not max(steps):
        raise InputError(f"the mean model of {rule.name} does not move.")
    return Relations(names, numbers, moves, weights, float(max(steps)))  # pyright: ignore[reportArgumentType]


def _depend(seen: np.ndarray) -> np.ndarray:
    """Return each array as a sum of those that are independent over all rounds, from [round, array, ...]."""
    R = np.moveaxis(seen, 1, 0).reshape(seen.shape[1], -1)
    size = np.abs(R).max(1)
    R = R / np.where(size > 0, size, 1)[:, None]
    base: list[int] = []
    weights = np.zeros((len(R), len(R)))
    for i in range(len(R)):
        of = np.zeros(len(R))
        if np.linalg.matrix_rank(R[[*base, i]], tol=1e-9) > len(base):
            base.append(i)
            of[i] = 1
        elif base and size[i]:
            of[base] = np.linalg.lstsq(R[base].T, R[i], rcond=None)[0] * size[i] / size[base]
            if np.abs(of - np.round(of)).max() > 1e-9:  # known to rounding only: as if it were independent
                of = np.eye(len(R))[i]
        weights[i] = np.round(of)
    return weights


@dataclass(eq=False)
class LyapunovBound:
    """A bound for every number of rounds, and the Lyapunov function that proves it."""

    scope: Scope
    network: str
    """The name of the network that it was made for, or its spectrum's."""
    constants: dict[str, float]
    given: dict[str, float]
    """Δ, ζ₀², ζ², σ_f² and σ² for which the constants were chosen. The bound holds for all others, too."""
    steps: float
    """The rounds for which the constants were chosen."""
    multipliers: list[Fraction] = field(repr=False)
    scales: tuple[Any, Any] = field(repr=False)
    seconds: float = 0.0

    @property
    def rule(self) -> Any:
        return self.scope.rule

    def bound(self, steps: float | None = None, **given: float) -> float:
        """Return the proved bound on the mean of ‖∇F(x̄)‖² over so many rounds, with other Δ, ζ₀², … where given.

        A certificate without bias, or without noise, has no bound for any σ_f², or σ², above 0.
        """
        unknown = set(given) - set(self.given)
        if unknown:
            raise InputError(f"a bound knows {', '.join(self.given)}, but not {', '.join(sorted(unknown))}.")
        steps = self.steps if steps is None else steps if steps == math.inf else _ROUNDS.check("steps", steps)
        given = self.given | {k: _AT_LEAST_0.check(k, v) for k, v in given.items()}
        for name, symbol, known in (
            ("absolute", "σ_f²", bool(self.scope.bias)),
            ("noise", "σ²", self.scope.noisy),
        ):
            if given[name] and not known:
                raise InputError(
                    f"this bound was proved for {symbol} = 0 and says nothing of {symbol} = {given[name]:g}: ask for a "
                    f"certificate with {'bias = (M_f, σ_f²)' if name == 'absolute' else 'noise'} above 0."
                )
        weights = _weigh(given, steps)
        return sum(weights[label] * v for label, v in self.constants.items())

    @property
    def floor(self) -> float:
        """The bound for infinitely many rounds."""
        return self.bound(math.inf)

    @property
    def holds_for(self) -> str:
        """The networks that this is true of."""
        space, messages = self.scope.space(), describe_messages(self.rule, self.scope.dim)
        if isinstance(space, Interval):
            return f"all symmetric networks with a spectrum in [{space.low:g}, {space.high:g}]{messages}"
        assert isinstance(space, Eigenvalues)
        n = f" and {round(1 / space.shares[0])} agents" if self.scope.noisy and space.shares is not None else ""
        return f"{self.network}, and all normal networks with its {len(space.values)} distinct eigenvalues{n}{messages}"

    def covers(self, network: Network) -> bool:
        """Return True if it holds for a network."""
        space, found = self.scope.space(), spectrum_of(network)
        if found is None:
            return False
        values, own = found.values, found.error / 2
        if isinstance(space, Interval):
            inside = (np.real(values) - own >= space.low) & (np.real(values) + own <= space.high)
            return bool((inside & (np.abs(np.imag(values)) < SAME)).all())
        assert isinstance(space, Eigenvalues)
        known = space.values[1:, 0]
        if not self.scope.noisy:
            return bool((np.abs(values[:, None] - known).min(1, initial=math.inf) + own <= space.error).all())
        if space.shares is None or len(found.shares) != len(space.shares):
            return False
        near = (np.abs(values - known) + own <= space.error).all()
        return bool(near and np.allclose(found.shares, space.shares, rtol=0, atol=1e-12))

    @property
    def phi(self) -> str:
        """Φ as text, with the names of the rule's arrays; w is the eigenvalue of a block, and the mean has w = 1."""
        search, space = self._program(), self.scope.space()
        names = [f"{n} − x̄" if search.moves[n] else n for n in search.names]
        names += ["∇f(x)", "∇f(x̄)"] if search.weighs_gradients else []
        lines = [f"Φ = {float(self.multipliers[search.a]) / search.unit:.5g} (F(x̄) − F*)"]
        for k, (Q, sizes, pick) in enumerate(zip(search.Q, search.sizes, search.picks, strict=True)):
            parts = []
            found = {
                (i, j): float(self.multipliers[q]) * 2.0 ** (sizes[i] + sizes[j]) * (1 if i == j else 2)
                for (i, j), q in Q.items()
            }
            largest = max(map(abs, found.values()), default=0.0)
            for (i, j), q in found.items():
                if abs(q) > 1e-9 * largest:
                    a, b = names[pick[i]], names[pick[j]]
                    parts.append(f"{q:+.4g} " + (f"‖{a}‖²" if i == j else f"⟨{a}, {b}⟩"))
            w = complex(search.eigenvalues[k])
            block = f"w = {w.real:.4g}{f' ± {w.imag:.4g}i' if w.imag else ''}"
            if k and isinstance(space, Interval):
                block = f"all w in [{space.low:g}, {space.high:g}]"
            lines.append(f"  {block}: {' '.join(parts) or '0'}")
        return "\n".join(lines)

    def check(self) -> None:
        """Verify everything from scratch, without a solver, or raise NotProven."""
        search = self._program()
        if len(self.multipliers) != len(search.program.free):
            raise NotProven(
                f"it has {len(self.multipliers)} multipliers, but its program has {len(search.program.free)}."
            )
        search.program.check(self.multipliers)
        least = search.constants(self.multipliers)
        absent = ([] if self.scope.bias else ["bias0", "bias"]) + ([] if self.scope.noisy else ["noise0", "noise"])
        for label in absent:
            if self.constants[label]:
                raise NotProven(f"it has a constant of {SYMBOLS[label]}, which its scope does not have.")
        for label in CONSTANTS:
            if not self.constants[label] >= least[label]:
                raise NotProven(
                    f"it says that its constant of {SYMBOLS[label]} is {self.constants[label]:.6g}, but its "
                    f"multipliers prove {least[label]:.6g} only."
                )

    def _program(self) -> LyapunovProgram:
        return LyapunovProgram(self.scope, *self.scales)

    def asdict(self) -> dict[str, Any]:
        """Return all that `check` needs, as JSON can hold it."""
        rule, space, functions = self.rule, self.scope.space(), self.scope.functions
        if isinstance(space, Interval):
            spectrum: dict[str, Any] = {"low": space.low, "high": space.high}
        else:
            assert isinstance(space, Eigenvalues)
            pairs = [[float(w.real), float(w.imag)] for w in space.values[1:, 0]]
            spectrum = {"eigenvalues": pairs, "shares": None if space.shares is None else space.shares.tolist()}
            spectrum["error"] = space.error
        return {
            "method": rule.name,
            "rule": repr(rule),
            "numbers": {name: getattr(rule, name) for name in hyperparameters(type(rule))},
            "network": self.network,
            **spectrum,
            "functions": {"L": functions.L, "mu": functions.mu},
            "bias": {"relative": self.scope.bias.relative, "absolute": self.scope.bias.absolute},
            "noisy": self.scope.noisy,
            "dim": self.scope.dim,
            "given": self.given,
            "steps": self.steps,
            "bound": self.bound(),
            "floor": self.floor,
            "constants": self.constants,
            "phi": self.phi,
            "rows": self.scales[0],
            "sizes": self.scales[1],
            "multipliers": [str(y) for y in self.multipliers],
        }

    def write(self, path: Path | str) -> None:
        """Write the certificate as JSON."""
        with atomic(Path(path)) as part:
            part.write_text(json.dumps(self.asdict(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")

    @classmethod
    def read(cls, path: Path | str, rule: Any = None, network: Network | None = None) -> "LyapunovBound":
        """Read a certificate and verify it from scratch: NotProven if it was changed.

        A rule is needed only where it has parts besides its numbers, such as a compressor. With a network, the
        certificate must hold for it; without, the name of the network in the file is a label that nothing verifies.
        """
        try:
            raw = json.loads(Path(path).read_text(encoding="utf-8"))
            numbers, functions, bias = raw["numbers"], raw["functions"], raw["bias"]
            rule = ALGORITHMS[raw["method"]](**numbers) if rule is None else rule
            if repr(rule) != raw["rule"]:
                raise InputError(f"{path} is about {raw['rule']}, and not about {rule!r}: give read(path, rule=…).")
            make: Callable[[], Space]
            if "low" in raw:
                low, high = (float(raw[end]) for end in ("low", "high"))
                if not -1 <= low < high <= 1:
                    raise NotProven(f"eigenvalues of a doubly stochastic W cannot lie in [{low:g}, {high:g}].")
                make = _interval(low, high)
            else:
                make = _spectrum([complex(*pair) for pair in raw["eigenvalues"]], raw["shares"], raw["error"])
            if not isinstance(raw["network"], str) or not isinstance(raw["noisy"], bool):
                raise InputError(f"{path} has a network that is no text, or a noisy that is neither true nor false.")
            if raw["noisy"] and raw.get("shares") is None:
                raise NotProven("noise is averaged over a number of agents, which the file does not have.")
            exponents = itertools.chain(*itertools.chain(*raw["rows"]), *raw["sizes"])
            if any(type(e) is not int or abs(e) > FURTHEST for e in exponents):
                raise InputError(f"{path} has exponents that are not whole numbers of at most {FURTHEST}.")
            found = cls(
                Scope(
                    rule,
                    make,
                    _read_functions(functions),
                    check_bias((bias["relative"], bias["absolute"])),
                    raw["noisy"],
                    whole("dim", raw["dim"]),
                ),
                raw["network"],
                {label: _AT_LEAST_0.check(label, raw["constants"][label]) for label in CONSTANTS},
                {k: _AT_LEAST_0.check(k, raw["given"][k]) for k in GIVEN} | {"absolute": float(bias["absolute"])},
                _ROUNDS.check("steps", raw["steps"]),
                [_read_fraction(y) for y in raw["multipliers"]],
                (raw["rows"], raw["sizes"]),
            )
            found.check()
            again = json.loads(json.dumps(found.asdict()))
            if wrong := [
                key for key in {**raw, **again} if key not in raw or key not in again or raw[key] != again[key]
            ]:
                raise NotProven(f"{path} has a {wrong[0]} that is not that of its proof.")
        except (OSError, ValueError, LookupError, TypeError, ArithmeticError, RecursionError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(f"{path} is no certificate that can be read: {error}.") from None
        if network is not None and not found.covers(network):
            raise NotProven(f"{path} is about {found.network}, whose eigenvalues are not those of {network.name}.")
        return found

    def __repr__(self) -> str:
        return f"LyapunovBound({self.rule!r} on {self.network}: {self._sum()})"

    def __str__(self) -> str:
        return "\n".join(
            [
                f"{self.rule.name} ({setting(self.rule)}) on {self.network}, losses that are {self.scope.functions}:",
                f"  the mean of ‖∇F(x̄)‖² over T rounds is at most {self._sum()},",
                f"  which is {self.bound():.6g} at T = {self.steps:,.0f}, and {self.floor:.6g} for T → ∞.",
                f"  Proved, in exact and interval arithmetic, for {self.holds_for}.",
                self.phi,
            ]
        )

    def _sum(self) -> str:
        over, ever = (
            " + ".join(f"{self.constants[k]:.5g} {SYMBOLS[k]}" for k in part if self.constants[k])
            for part in (OVER_T, CONSTANTS[4:])
        )
        return f"({over})/T" + f" + {ever}" * bool(ever)


@dataclass(frozen=True)
class BoundRequest:
    """A request for a bound: the networks, the class of functions, biases and noise, and the numbers to weigh."""

    space: Callable[[], Space]
    network: str
    functions: Functions
    bias: Bias
    steps: float
    given: dict[str, float]
    dim: int

    def build(self, rule: Any) -> LyapunovProgram:
        """Return the program of a rule."""
        return LyapunovProgram(Scope(rule, self.space, self.functions, self.bias, self.given["noise"] > 0, self.dim))

    def attempt(self, rule: Any, deadline: float, thorough: bool = False) -> LyapunovBound:
        """Return the best proved bound, or raise NotProven.

        Programs are scaled by the solution of the one before, which the solver needs where step sizes are tiny.
        """
        began = time.monotonic()
        largest = max(self.given.values())
        if not largest > 0:
            raise InputError("give at least one of Δ, ζ₀², ζ², σ_f² and σ² above 0: the bound is 0 otherwise.")
        # what costs nothing would grow without bounds
        weights = _weigh({k: max(v, TINY * largest) for k, v in self.given.items()}, self.steps)
        program = self.build(rule)
        size, left = program.size, deadline - time.monotonic()
        if 0 < left < size.seconds or size.memory > 0.7 * machine_memory():
            raise OutOfTime(
                f"the program of {rule.name} on {self.network} has {size}, beyond the {left:.3g} s that are left or "
                "this machine's memory: take a network with fewer distinct eigenvalues, or in its place a "
                "spectrum = (low, high), whose program is as small for any number of agents."
            )
        best: LyapunovBound | None = None
        fault = ""
        for _ in range(PASSES):
            solution = None
            for margin in MARGINS:
                left = deadline - time.monotonic()
                if left <= 0:
                    if best is None:
                        raise OutOfTime(f"no bound of {rule.name} was proved within the budget of seconds.")
                    return best
                cost = program.cost(weights)
                largest = max(map(abs, cost.values()))
                scaled = {j: w / largest for j, w in cost.items()}
                try:
                    solution = program.program.solve(
                        scaled, margin=margin, seconds=left, tolerance=min(margin, 1e-9) / 4
                    )
                except OutOfTime:
                    if best is None:
                        raise
                    return best
                if "Infeasible" in solution.status or not np.isfinite(solution.y).all():
                    fault = f"the solver says {solution.status}"
                    continue
                try:
                    y = program.program.prove(solution.y.tolist(), scaled).y
                except NotProven as error:
                    fault = str(error)
                    continue
                constants = program.constants(y)
                found = LyapunovBound(
                    program.scope, self.network, constants, self.given, self.steps, y, (program.rows, program.sizes),
                    time.monotonic() - began,
                )  # fmt: skip
                if best is None or found.bound() < best.bound():
                    best = found
                break
            if best is not None and not thorough:
                break
            if solution is None or not np.isfinite(solution.y).all() or not solution.y.any():
                break
            program = program.rescaled(solution.y)
        if best is None:
            raise NotProven(
                f"no quadratic Lyapunov function of {rule!r} on {self.network} could be proved ({fault}): the step "
                "size may be too large; gossamer.diverging(rule, network) looks for quadratics on which it diverges."
            )
        return dataclasses.replace(best, seconds=time.monotonic() - began)


def ask(
    rule: Any,
    network: Any = None,
    *,
    spectrum: tuple[float, float] | None = None,
    functions: Functions | None = None,
    bias: Any = None,
    noise: float | None = None,
    steps: float = 1000,
    excess: float = 1.0,
    start: float = 1.0,
    heterogeneity: float = 1.0,
    dim: int = DIMENSION,
) -> BoundRequest:
    """Return the question that these numbers ask, checked."""
    load_solver()
    check_rule(rule)
    functions, bias = functions or smooth(), check_bias(bias)
    if not isinstance(functions, Functions) or not math.isfinite(functions.L):
        raise InputError(f"functions must be made by gossamer.smooth or gossamer.convex, but is {brief(functions)}.")
    numbers = {"excess": excess, "start": start, "heterogeneity": heterogeneity, "noise": noise or 0.0}
    given = {k: _AT_LEAST_0.check(k, v) for k, v in numbers.items()} | {"absolute": bias.absolute}
    steps = _ROUNDS.check("steps", steps)
    make = choose_space(rule, network, spectrum, exact=False)
    space = make()
    if not isinstance(space, Eigenvalues):
        raise InputError(
            f"a Lyapunov function needs one W that is symmetric, or normal and doubly stochastic, which {network.name} "
            "has not: take gossamer.worst_case for a given number of rounds, or a static undirected network."
        )
    if isinstance(space, Interval) and given["noise"]:
        raise InputError("noise is averaged over a number of agents: give a network in place of a spectrum.")
    name = network.name if network is not None else "any network" if spectrum is None else f"spectrum {spectrum}"
    return BoundRequest(make, name, functions, bias, steps, given, whole("dim", dim))


def certificate(rule: Any, network: Any = None, *, seconds: float = BUDGET, **about: Any) -> LyapunovBound:
    r"""Return the best bound for every number of rounds that a quadratic Lyapunov function proves, verified.

    The solver chooses the constants that make the bound least for the numbers given here; it holds for all others.

    Args:
        rule: any rule that is linear in its arrays, with constant numbers.
        network: a static network with a symmetric W, or another normal one; one of a network and a spectrum.
        seconds: the budget.
        about: the question, see `gossamer.worst.certificate.ask`:
            spectrum: in place of a network: all symmetric W whose eigenvalues besides the mean's lie in (low, high);
            functions: the class of every agent's loss, `smooth` (the default, L = 1) or `convex`;
            bias: (M_f, σ_f²): every answer has ‖E g̃ − ∇f_i‖² ≤ M_f ‖∇f_i‖² + σ_f²;
            noise: σ², the variance of an answer, independent over agents;
            steps: T, 1,000 unless given;
            excess, start, heterogeneity: Δ, ζ₀² and ζ², 1 unless given;
            dim: the dimension for which a compressor says how much of a message it keeps, 1,000 unless given.
    """
    return ask(rule, network, **about).attempt(rule, _deadline(seconds), thorough=True)


def largest_step(
    rule: Any,
    network: Any = None,
    *,
    floor: float = math.inf,
    seconds: float = BUDGET,
    progress: Callable[[str], None] | None = None,
    **about: Any,
) -> LyapunovBound:
    """Return the certificate of the largest η, within a hundredth, for which a floor of at most `floor` is proved.

    The floor is the bound for T → ∞, for the numbers in `about`, which are those of `certificate`. The η of the rule is
    where the search begins.
    """
    asked, deadline = ask(rule, network, **about), _deadline(seconds)
    floor = floor if floor == math.inf else _AT_LEAST_0.check("floor", floor)
    check_eta(rule)
    begin = float(rule.eta)

    def attempt(eta: float) -> LyapunovBound | None:
        one = dataclasses.replace(rule, eta=eta)
        question = dataclasses.replace(asked, steps=FLOOR_ROUNDS / (eta * asked.functions.L))
        try:
            found = question.attempt(one, deadline)
        except NotProven:
            found = None
        good = found is not None and found.floor <= floor
        if progress:
            progress(f"η = {eta:.4g}: {'no proof' if found is None else f'floor {found.floor:.5g}'}")
        return found if good else None

    best, low, high = None, begin, begin
    asked.build(rule)
    try:
        while best is None:  # downwards until one is proved
            best = attempt(low)
            if best is None:
                high, low = low, low / 4
                if low < begin * LEAST:
                    raise NotProven(f"no step size of {rule.name} down to {low:.2g} has a proved floor of {floor:.4g}.")
        while high == low:
            found = attempt(4 * low)
            best, low, high = (found, 4 * low, 4 * low) if found else (best, low, 4 * low)
        while high > 1.01 * low:
            middle = math.sqrt(low * high)
            found = attempt(middle)
            best, low, high = (found, middle, high) if found else (best, low, middle)
    except OutOfTime:
        if best is None:
            raise
    return best


def best_step(
    rule: Any,
    network: Any = None,
    *,
    over: Sequence[str] | None = None,
    seconds: float = BUDGET,
    progress: Callable[[str], None] | None = None,
    **about: Any,
) -> LyapunovBound:
    """Return the certificate of the η, and λ where the rule has one, whose proved bound at T = `steps` is least.

    A pattern search over their logarithms, from those of the rule down to strides of a thirtieth. `over` names the
    numbers to search in place of these; `about` are the numbers of `certificate`.
    """
    asked, deadline = ask(rule, network, **about), _deadline(seconds)
    if over is not None and (isinstance(over, str) or not isinstance(over, Sequence)):
        raise InputError(f"over must be a list of numbers' names, such as ['eta', 'lam'], but is {brief(over)}.")
    names = [n for n in dict.fromkeys(over or ("eta", "lam")) if over or hasattr(rule, n)]
    ranges = hyperparameters(type(rule))
    if wrong := [n for n in names if not isinstance(ranges.get(n), Range)]:
        raise InputError(f"{rule.name} has no number {wrong[0]} to search; it has {', '.join(ranges)}.")
    tried: dict[tuple[float, ...], LyapunovBound | None] = {}

    def attempt(at: tuple[float, ...]) -> float:
        if at not in tried:
            try:
                one = dataclasses.replace(rule, **dict(zip(names, at, strict=True)))
                tried[at] = asked.attempt(one, deadline)
            except OutOfTime:
                raise
            except InputError:  # not proved, or beyond the range of a number
                tried[at] = None
            found = tried[at]
            if progress:
                told = ", ".join(f"{n} = {v:.4g}" for n, v in zip(names, at, strict=True))
                progress(f"{told}: {'no proof' if found is None else f'{found.bound():.5g}'}")
        found = tried[at]
        return math.inf if found is None else found.bound()

    def inside(name: str, v: float) -> float:
        allowed = ranges[name]
        return min(v, float(allowed.high)) if isinstance(allowed, Range) else v

    best = tuple(float(getattr(rule, n)) for n in names)
    asked.build(rule)
    while not math.isfinite(attempt(best)):  # downwards until one is proved
        best = (best[0] / 4, *best[1:])
        if best[0] < float(getattr(rule, names[0])) * LEAST:
            raise NotProven(f"no bound of {rule.name} was proved with {names[0]} down to {best[0]:.2g}.")
    stride = 4.0
    while stride > 1.03:
        around = [
            tuple(inside(n, v * stride**e) if n == name else v for n, v in zip(names, best, strict=True))
            for name in names
            for e in (1, -1)
        ]
        around += [tuple(inside(n, v * stride**e) for n, v in zip(names, best, strict=True)) for e in (1, -1)]
        try:
            lowest = min(around, key=attempt)
        except OutOfTime:
            break
        if attempt(lowest) < attempt(best):
            best = lowest
        else:
            stride = math.sqrt(stride)
    one = tried[best]
    assert one is not None
    try:
        return asked.attempt(one.rule, deadline, thorough=True)
    except (NotProven, OutOfTime):
        return one


def _deadline(seconds: float) -> float:
    """Return the time at which a budget of seconds is over."""
    return time.monotonic() + SECONDS.check("seconds", seconds)


def check_eta(rule: Any) -> None:
    """Raise InputError unless a rule has a step size eta."""
    if not isinstance(getattr(rule, "eta", None), (int, float)):
        raise InputError(f"{rule.name} has no number eta, whose largest value could be looked for.")


def _weigh(given: dict[str, float], steps: float) -> dict[str, float]:
    """Return the weight of each constant in the bound after so many rounds."""
    of = {"excess": "excess", "start": "start", "heterogeneity": "heterogeneity"}
    of |= {"bias0": "absolute", "noise0": "noise", "bias": "absolute", "noise": "noise"}
    return {label: given[of[label]] / (steps if label in OVER_T else 1.0) for label in CONSTANTS}


def _spectrum(values: Sequence[complex], shares: Sequence[float] | None, error: float) -> Callable[[], Space]:
    """Return a function that makes the space of these eigenvalues, read from a file."""
    possible = all(abs(w) <= 1 + SAME for w in values)
    if shares is not None:
        possible &= len(shares) == len(values) + 1 and min(shares) > 0 and abs(sum(shares) - 1) <= 1e-9
        counts = [share / shares[0] for share in shares] if possible else []  # the mean's eigenspace is one vector
        possible &= all(abs(count - round(count)) <= 1e-6 for count in counts)
    if not possible:
        raise NotProven("no doubly stochastic W has these eigenvalues, with these shares of them.")
    error = Range(0, 1).check("error", error)
    return lambda: Eigenvalues(values, shares, exact=False, error=error)


def _read_fraction(text: Any) -> Fraction:
    """Return a multiplier; of powers such as 1e999999999 the digits would not end."""
    if not isinstance(text, str) or not re.fullmatch(r"-?[0-9]+(/[0-9]+)?", text):
        raise InputError(f"a multiplier must be a fraction such as '-3/4', but is {brief(text)}.")
    return Fraction(text)


def _read_functions(raw: dict[str, Any]) -> Functions:
    L = _ABOVE_0.check("L", raw["L"])
    return Functions(L, Range(-L, L, False, True).check("mu", raw["mu"]))


def _interval(low: float, high: float) -> Callable[[], Space]:
    return lambda: Interval(low, high)
