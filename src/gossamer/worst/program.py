r"""Semidefinite programs over multipliers, solved by Clarabel and then checked without it.

$$ \min_y \; c^\top y \quad \text{such that} \quad E y = e, \qquad y_j \ge 0 \text{ unless } j \text{ is free}, \qquad
   C_k + \sum_j y_j M_{kj} \succeq 0 $$

Worst cases are solved in this dual form: few multipliers in place of large Gram matrices, which come back as the dual
variables of the matrix inequalities. Any y that keeps the constraints proves its bound, wherever it came from. `prove`
checks one so that no solver has to be believed:

- the multipliers become fractions, and the equations are solved exactly for a few of them;
- each matrix is computed with a bound on all of its rounding, that of the coordinates included, and is shown to be
  positive semidefinite by a Cholesky factorisation with a verified margin.

Reference: S. M. Rump, "Verification of positive definiteness", BIT 46, 2006, doi 10.1007/s10543-006-0056-1.
"""

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float

from gossamer.core import InputError, MissingPackage
from gossamer.worst.spaces import Term, exactly, pad

FUZZ = 2.0**-45
"""The error that `check` grants each coordinate, over the largest of its row, where it is not told a bound."""

CHUNK = 2_000_000
"""The most entries of matrices that are computed at once."""


class NotProven(InputError):
    """Multipliers do not keep the constraints."""


class OutOfTime(InputError):
    """A program was not solved within its budget of seconds."""


@dataclass
class Inequality:
    """A matrix that must be positive semidefinite: a sum of terms, each with its variable, or -1 for a constant."""

    size: int
    entries: list[tuple[int, np.ndarray, np.ndarray, float]] = field(default_factory=list)
    exponents: list[int] | None = None
    """The matrix is solved and verified as DMD with the diagonal D of these powers of two, which changes nothing but
    the conditioning, and is exact."""

    def add(self, variable: int, terms: Iterable[Term], weight: float = 1.0) -> None:
        """Add variable · weight · Σ terms."""
        for _, u, v, w in terms:
            if not (u.any() and v.any()):
                continue  # of columns that nothing else uses it would make rows of zeros, which have no margin
            self.entries.append((variable, pad(u, self.size), pad(v, self.size), weight * w))

    def used(self) -> np.ndarray:
        """Return the columns in which any coordinate is not zero: the matrix is 0 elsewhere."""
        seen = np.zeros(self.size, bool)
        for _, u, v, w in self.entries:
            if w:
                seen |= (u != 0) | (v != 0)
        return np.flatnonzero(seen)

    def is_complex(self) -> bool:
        return any(bool(np.imag(u).any() or np.imag(v).any()) for _, u, v, _ in self.entries)


@dataclass
class Solution:
    """A solver's answer: no more than its word."""

    status: str
    value: float
    y: Float[np.ndarray, " variables"]
    values: Float[np.ndarray, " equations"]
    """The dual variables of the equations."""
    grams: list[np.ndarray]
    """The dual matrix of each inequality, in all of its columns."""
    seconds: float
    iterations: int
    residual: float
    """The larger of the solver's primal and dual residuals."""


class Program:
    """A semidefinite program in the making."""

    def __init__(self, rounding: float = FUZZ, blur: float = 0.0) -> None:
        self.rounding, self.blur = rounding, blur
        """Each coordinate of a term is right to `rounding` times the largest of its row, plus `blur`."""
        self.free: list[bool] = []
        self.equations: list[tuple[dict[int, Fraction], Fraction]] = []
        self.inequalities: list[Inequality] = []

    def variable(self, free: bool = False) -> int:
        """Add a variable, which must not be negative unless it is free, and return its number."""
        self.free.append(free)
        return len(self.free) - 1

    def equate(self, row: Mapping[int, Any], right: Any = 0) -> None:
        """Demand that Σ row[j] · y_j is `right`."""
        self.equations.append(({j: exactly(w) for j, w in row.items() if w}, exactly(right)))

    def inequality(self, size: int) -> Inequality:
        """Add a matrix that must be positive semidefinite."""
        self.inequalities.append(Inequality(size))
        return self.inequalities[-1]

    def solve(
        self, cost: Mapping[int, float], *, margin: float = 0.0, seconds: float | None = None, tolerance: float = 1e-9
    ) -> Solution:
        """Minimise the cost, with every eigenvalue of the matrices at least `margin`."""
        clarabel = load_solver()
        began = time.perf_counter()
        m = len(self.free)
        E, e = self._equations()
        signed = [j for j, free in enumerate(self.free) if not free]
        rows, right = [E, -sp.csr_array(sp.eye_array(m))[signed]], [e, np.zeros(len(signed))]
        cones = [clarabel.ZeroConeT(len(e)), clarabel.NonnegativeConeT(len(signed))]
        blocks = [GramBlock(one, m) for one in self.inequalities]
        for block in blocks:
            if block.order:
                G, C = block.triangles()
                scale = np.where(block.rows == block.columns, 1.0, math.sqrt(2))  # as Clarabel stores a matrix
                rows.append(-sp.diags(scale) @ G)
                right.append(scale * (C - margin * (block.rows == block.columns)))
                cones.append(clarabel.PSDTriangleConeT(block.order))
        A, b = sp.vstack(rows, format="csc"), np.concatenate(right)
        q = np.zeros(m)
        for j, w in cost.items():
            q[j] += w
        options = clarabel.DefaultSettings()
        options.verbose, options.direct_solve_method = False, "faer"
        options.tol_gap_abs = options.tol_gap_rel = options.tol_feas = tolerance
        if seconds is not None:
            options.time_limit = max(seconds - (time.perf_counter() - began), 1e-3)
        found = clarabel.DefaultSolver(sp.csc_matrix((m, m)), q, A, b, cones, options).solve()
        if str(found.status) == "MaxTime":
            raise OutOfTime(
                f"the program of {m:,} multipliers was not solved in {seconds:g} seconds: take fewer steps, a network "
                "with fewer distinct eigenvalues, or a larger budget."
            )
        z, at, grams = np.array(found.z), len(e) + len(signed), []
        for block in blocks:
            size = block.order * (block.order + 1) // 2
            grams.append(block.gram(z[at : at + size]))
            at += size
        return Solution(
            status=str(found.status),
            value=float(found.obj_val),
            y=np.array(found.x),
            values=-z[: len(e)],  # the solver's sign for equations
            grams=grams,
            seconds=time.perf_counter() - began,
            iterations=int(found.iterations),
            residual=float(max(found.r_prim, found.r_dual)),
        )

    def prove(self, y: Sequence[float], cost: Mapping[int, float]) -> "Proof":
        """Return multipliers near y that keep every constraint, with their exact cost, or raise NotProven."""
        exact = self._balance(np.asarray(y, float))
        negative = [float(v) for v, free in zip(exact, self.free, strict=True) if v < 0 and not free]
        if negative:
            raise NotProven(f"the equations cannot be kept: a multiplier would be {min(negative):.2g}.")
        self.check(exact)
        value = sum((exactly(w) * exact[j] for j, w in cost.items()), Fraction(0))
        return Proof(value, exact)

    def check(self, y: Sequence[Fraction]) -> None:
        """Raise NotProven unless these multipliers keep every constraint, whatever was rounded."""
        for row, right in self.equations:
            if sum((w * y[j] for j, w in row.items()), Fraction(0)) != right:
                raise NotProven("an equation between multipliers does not hold.")
        for v, free in zip(y, self.free, strict=True):
            if v < 0 and not free:
                raise NotProven(f"a multiplier is {float(v):.2g}, which must not be negative.")
        rounded = np.array([float(v) for v in y])
        for k, one in enumerate(self.inequalities):
            block = GramBlock(one, len(self.free))
            least = block.verify(rounded, self.rounding, self.blur)
            if least is not None:
                raise NotProven(f"matrix {k} is not shown to be positive: its least eigenvalue is about {least:.2g}.")

    def _equations(self) -> tuple[sp.csr_matrix, np.ndarray]:
        E = sp.lil_matrix((len(self.equations), len(self.free)))
        for i, (row, _) in enumerate(self.equations):
            for j, w in row.items():
                E[i, j] = float(w)
        return sp.csr_matrix(E), np.array([float(right) for _, right in self.equations])

    def _balance(self, y: np.ndarray) -> list[Fraction]:
        """Return fractions near y for which all equations hold: a few large multipliers take up what rounding left."""
        from scipy.linalg import qr

        # what is tiny is dropped, so that equations hold among the multipliers that matter
        exact = [
            Fraction(0) if v < 1e-13 and not free else Fraction(round(v * 2**56), 2**56)
            for v, free in zip(y.tolist(), self.free, strict=True)
        ]
        if not self.equations:
            return exact
        E, _ = self._equations()
        size = np.where(self.free, np.abs(y) + 1e-6, np.maximum(y, 0))
        found: Any = qr(E.toarray() * np.sqrt(size), pivoting=True, mode="economic")
        R, order = found[1:]
        diagonal = np.abs(np.diag(R))
        rank = int((diagonal > 1e-9 * diagonal[0]).sum())
        chosen = {int(j): at for at, j in enumerate(order[:rank])}
        table: list[tuple[dict[int, Fraction], Fraction]] = []
        for row, right in self.equations:
            left = right - sum((w * exact[j] for j, w in row.items() if j not in chosen), Fraction(0))
            table.append(({j: w for j, w in row.items() if j in chosen}, left))
        solved: dict[int, tuple[dict[int, Fraction], Fraction]] = {}
        for given, left in table:  # Gauss, with rows as dictionaries: the equations are sparse
            row = dict(given)
            for j in [j for j in row if j in solved]:
                factor = row.pop(j)
                other, known = solved[j]
                left -= factor * known
                for i, w in other.items():
                    row[i] = row.get(i, Fraction(0)) - factor * w
            row = {j: w for j, w in row.items() if w}
            if not row:
                if left:
                    raise NotProven("the equations between multipliers contradict each other.")
                continue
            pivot = next(iter(row))
            factor = row.pop(pivot)
            fresh = {j: w / factor for j, w in row.items()}, left / factor
            for j, (other, known) in list(solved.items()):
                if pivot in other:
                    w = other.pop(pivot)
                    for i, v in fresh[0].items():
                        other[i] = other.get(i, Fraction(0)) - w * v
                    solved[j] = {i: v for i, v in other.items() if v}, known - w * fresh[1]
            solved[pivot] = fresh
        for j, (row, known) in solved.items():
            exact[j] = known - sum((w * exact[i] for i, w in row.items()), Fraction(0))
        return exact


@dataclass(frozen=True)
class Proof:
    """Multipliers, as fractions, that keep every constraint of a program, and what they prove."""

    value: Fraction
    y: list[Fraction]


class GramBlock:
    """The matrix of an inequality as upper triangles, a Hermitian one as a real symmetric one of twice its order."""

    def __init__(self, inequality: Inequality, variables: int):
        self.inequality, self.variables = inequality, variables
        self.kept = inequality.used()
        self.complex = inequality.is_complex()
        self.width = len(self.kept)
        self.order = self.width * (2 if self.complex else 1)
        self.columns, self.rows = np.tril_indices(self.order)  # the upper triangle by columns, Clarabel's order
        kept = np.zeros(self.width, int) if inequality.exponents is None else np.array(inequality.exponents)[self.kept]
        self.scale = np.tile(np.ldexp(1.0, kept), self.order // max(self.width, 1))

    def triangles(self) -> tuple[sp.csr_matrix, np.ndarray]:
        """Return G and C with C + G y the upper triangle of the matrix."""
        whole = self._sum(lambda u, v: u[:, self.rows] * v[:, self.columns] + v[:, self.rows] * u[:, self.columns])
        return whole[:, :-1], np.asarray(whole[:, -1:].todense()).ravel()

    def gram(self, z: np.ndarray) -> np.ndarray:
        """Return the matrix S of which z is the triangle, in all columns: ⟨M, S⟩ is Re tr(M S)."""
        Z = np.zeros((self.order, self.order))
        Z[self.rows, self.columns] = z / np.where(self.rows == self.columns, 1.0, math.sqrt(2))
        Z += np.triu(Z, 1).T
        Z *= np.outer(self.scale, self.scale)
        if self.complex:
            p = self.width
            Z = Z[:p, :p] + Z[p:, p:] + 1j * (Z[p:, :p] - Z[:p, p:])
        whole = np.zeros((self.inequality.size,) * 2, Z.dtype)
        whole[np.ix_(self.kept, self.kept)] = Z
        return whole

    def matrix(self, y: np.ndarray) -> np.ndarray:
        """Return the matrix at y, in floats."""
        G, C = self.triangles()
        return self._symmetric(C + G @ y)

    def verify(self, y: np.ndarray, rounding: float, blur: float) -> float | None:
        """Return None if the matrix is positive semidefinite for certain, otherwise its least eigenvalue, about."""
        if not self.order:
            return None
        M = self.matrix(y)
        n, unit = self.order, 2.0**-53
        # each coordinate is off by `rounding` times what its majorant adds, each sum by its own rounding
        count = len(self.inequality.entries) + 10
        relative = 4 * rounding + 2 * count * unit

        def of_size(u: np.ndarray, v: np.ndarray) -> np.ndarray:
            u, v = (_majorant(one, self.complex) + blur / rounding for one in (u, v))
            return u[:, self.rows] * v[:, self.columns] + v[:, self.rows] * u[:, self.columns]

        sizes = abs(self._sum(of_size, absolute=True)) @ np.append(np.abs(y), 1.0)
        # by Gershgorin, errors of up to R_ij change no eigenvalue by more than the diagonal of R's row sums does
        radius = np.abs(self._symmetric(sizes)).sum(1) * relative
        # Cholesky in floats of a matrix below M by this much succeeds only if M is positive semidefinite
        shift = 1.01 * radius + 4 * (n + 3) * unit * float(np.trace(np.abs(M))) + 1e-300
        if not np.isfinite(M).all() or not np.isfinite(shift).all():
            return -math.inf
        try:
            np.linalg.cholesky(M - np.diag(shift))
        except np.linalg.LinAlgError:
            return float(np.linalg.eigvalsh(M)[0])
        return None

    def _sum(self, product: Any, absolute: bool = False) -> sp.csr_matrix:
        """Return the triangle of each variable's matrix, and last the constant's, as columns."""
        entries = self.inequality.entries
        triangle = len(self.rows)
        total = sp.csr_matrix((triangle, self.variables + 1))
        step = max(1, CHUNK // max(triangle, 1))
        for first in range(0, len(entries), step):
            part = entries[first : first + step]
            u, v = (self._real(np.array([one[i] for one in part])[:, self.kept]) for i in (1, 2))
            weights = np.array([one[3] for one in part], float) / 2
            weights = np.abs(weights) if absolute else weights
            where = np.array([one[0] if one[0] >= 0 else self.variables for one in part])
            pick = sp.csr_matrix((weights, (where, np.arange(len(part)))), (self.variables + 1, len(part)))
            if self.complex and not absolute:  # Re(uᴴ S v) twice over: as (Re, Im) and as (−Im, Re)
                p = self.width
                turned = [np.concatenate([-one[:, p:], one[:, :p]], 1) for one in (u, v)]
                values = product(u, v) + product(*turned)
            else:
                values = product(u, v)
            total = total + (pick @ sp.csr_matrix(values)).T
        return sp.csr_matrix(sp.diags(self.scale[self.rows] * self.scale[self.columns]) @ total)

    def _real(self, u: np.ndarray) -> np.ndarray:
        return np.concatenate([np.real(u), np.imag(u)], 1) if self.complex else np.real(u)

    def _symmetric(self, triangle: np.ndarray) -> np.ndarray:
        M = np.zeros((self.order, self.order))
        M[self.rows, self.columns] = triangle
        return M + np.triu(M, 1).T


def _majorant(u: np.ndarray, is_complex: bool) -> np.ndarray:
    """Return |u| and the largest of it on top, so that a product of two bounds what rounding does to one of u's."""
    size = np.abs(u)
    if is_complex:  # real and imaginary parts stand side by side, and both turns of a block have both
        p = size.shape[1] // 2
        size = np.tile(size[:, :p] + size[:, p:], 2)
    return size + size.max(1, keepdims=True)


def load_solver() -> Any:
    """Return Clarabel, or say how to install it."""
    try:
        import clarabel
    except ImportError:
        raise MissingPackage.of(
            "a worst case", "clarabel", "or in a clone of Gossamer: pip install -e '.[proofs]'"
        ) from None
    return clarabel
