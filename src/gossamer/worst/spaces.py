r"""Symbolic vectors: the arrays of a rule as coordinates in a basis of unknown vectors.

A rule makes linear combinations of its start, of gradients and of what neighbours sent. So each of its arrays is known
by coordinates in the basis of all gradients and biases that were asked for, and gossip acts on the coordinates. The
Gram matrices of the basis are what a semidefinite program chooses. A space says what a row of coordinates stands for:

| space | rows | Gram matrices |
| --- | --- | --- |
| `Given` | one an agent | one, over the vectors of all agents |
| `Eigenvalues` | one a distinct eigenvalue of W, the first that of the mean | one a row |
| `Interval` | the mean, and all that is orthogonal to it | two |

Why `Eigenvalues` loses nothing on a network whose agents are all alike. Let W be normal, $W = \sum_k w_k P_k$ with
orthogonal projectors $P_k$. Constraints and metrics that treat agents alike see arrays A, B only by their means and by
$\frac1n \sum_i \langle a_i, b_i \rangle = \sum_k \mathrm{Re}\, \langle P_k A, P_k B \rangle / n$, and each array is
$\sum_j p_j(W) B_j$ for polynomials $p_j$. So only the blocks $S_k$ with the entries
$\langle P_k B_i, P_k B_j \rangle / n$ matter. Conversely, given any $S_k \succeq 0$, the
vectors $\sum_k \sqrt{n / \mathrm{tr} P_k}\, P_k \otimes S_k^{1/2}$
have these blocks, for every single agent if the diagonal of each $P_k$ is constant: rings, tori, hypercubes,
exponential and complete graphs. A pair of complex eigenvalues is one block, whose matrix is Hermitian.
"""

import abc
import numbers
from collections.abc import Callable
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple

import numpy as np

from gossamer.core import InputError
from gossamer.networks import Network

SAME = 1e-10
"""Eigenvalues of W that differ by less are one: eigenvalue solvers are exact to about 1e-14."""

NEAR_ONE = 1e-6
"""Eigenvalues near the unit circle are one if they differ by less than this share of their distance to it."""

NORMAL = 1e-10
"""The largest residual, of a diagonal W in orthonormal eigenvectors, for which W counts as normal."""

UNIT = 2.0**-53
"""The largest relative error of an operation in float64."""

NOISE = 2.0**-36
"""The share of its row from which on rounding counts as absolute."""


def is_same(values: Any, w: Any) -> Any:
    """Return True for eigenvalues that count as w: what a rule loses grows with the inverse of 1 − |w|."""
    return np.abs(values - w) <= np.minimum(SAME, NEAR_ONE * np.abs(1 - np.abs(w)))


class NotLinear(InputError):
    """A rule does what no Gram matrix can follow."""


class NeedsMatrix(InputError):
    """A rule asks for what only a given W has, such as an agent's place."""


class Term(NamedTuple):
    """The form weight · Re(uᴴ S v) of the Gram matrix S of a block."""

    block: int
    u: np.ndarray
    v: np.ndarray
    weight: float


class Vectors:
    """An unknown vector for each row of a space, as coordinates ``[rows, columns]``, with linear arithmetic only.

    A bound `r` on the rounding of each coordinate so far goes along, so that proofs need not trust the arithmetic. The
    numbers of a rule, such as 1 − λ, count as the floats that its code computes.
    """

    __slots__ = ("c", "r", "space")
    __array_ufunc__ = None  # NumPy's scalars and arrays leave the arithmetic to this class

    def __init__(self, space: "Space", c: np.ndarray, r: np.ndarray | None = None):
        self.space, self.c = space, c
        self.r: np.ndarray = np.zeros(c.shape) if r is None else r

    @property
    def wide(self) -> np.ndarray:
        """The coordinates, padded to the width that the basis has by now."""
        return pad(self.c, self.space.columns)

    def __add__(self, other: Any) -> "Vectors":
        if isinstance(other, Vectors):
            c, columns = self.wide + other.wide, self.space.columns
            return Vectors(self.space, c, pad(self.r, columns) + pad(other.r, columns) + UNIT * np.abs(c))
        if isinstance(other, numbers.Number) and other == 0:
            return self
        raise NotLinear("a worst case needs a rule that is linear in its arrays, but this one adds a number to one.")

    def __mul__(self, number: Any) -> Any:
        if isinstance(number, numbers.Number) or (isinstance(number, np.ndarray) and self.space.has_numbers(number)):
            factor = np.asarray(number)
            c = self.c * factor  # two units, as the number may be a quotient
            return Vectors(self.space, c, self.r * np.abs(factor) + 2 * UNIT * np.abs(c))
        return self._refuse()

    def __truediv__(self, number: Any) -> "Vectors":
        return self * (1 / number) if isinstance(number, (float, int, np.number, np.ndarray)) else self._refuse()

    def __neg__(self) -> "Vectors":
        return Vectors(self.space, -self.c, self.r)

    def __sub__(self, other: Any) -> "Vectors":
        return self + (-other)

    def __rsub__(self, other: Any) -> "Vectors":
        return -self + other

    __radd__, __rmul__ = __add__, __mul__

    def _refuse(self, *_: Any) -> Any:
        raise NotLinear(
            "a worst case needs a rule that is linear in its arrays, but this one takes a product, a power, an "
            "absolute value or a comparison of them: such rules are judged in the simulator only."
        )

    __pow__ = __abs__ = __lt__ = __gt__ = __le__ = __ge__ = __rtruediv__ = __getitem__ = _refuse

    def equals(self, other: "Vectors") -> bool:
        """Return True if all coordinates are equal."""
        return bool((self.wide == other.wide).all())


def pad(c: np.ndarray, columns: int) -> np.ndarray:
    """Return coordinates with zeros for the columns that the basis got later."""
    missing = columns - c.shape[-1]
    return np.pad(c, [(0, 0)] * (c.ndim - 1) + [(0, missing)]) if missing else c


class Space(abc.ABC):
    """A basis that grows, and how gossip and inner products act on coordinates."""

    rows: int
    blocks: int
    values_each: int
    """The function values that stand for those of all agents at a point."""
    holds: ClassVar[str]
    """What a worst case in this space is true of."""
    dtype: type = float

    def __init__(self) -> None:
        self.columns = 0
        self.mixed: list[tuple[np.ndarray, int]] = []
        """Of `Interval`: coordinates that were gossiped, and the column of the result."""
        self.rounding, self.blur = UNIT, 0.0
        """Each coordinate of a form is right to `rounding` times the largest of its row, plus `blur`.

        In a column in which all are computed as 0, all count as 0.
        """

    def grow(self, rows: np.ndarray) -> Vectors:
        """Add columns to the basis, and return the vectors with these coordinates in them."""
        c = np.zeros((self.rows, self.columns + rows.shape[1]), self.dtype)
        c[:, self.columns :] = rows
        self.columns += rows.shape[1]
        return Vectors(self, c)

    def zero(self) -> Vectors:
        """Return the origin, for every agent."""
        return Vectors(self, np.zeros((self.rows, self.columns), self.dtype))

    def has_numbers(self, given: np.ndarray) -> bool:
        """Return True if an array holds a number for each agent, and rows are agents."""
        return False

    def average(self, a: Vectors, b: Vectors) -> list[Term]:
        """Return the mean over agents of ⟨a_i, b_i⟩."""
        each = self.each(a, b)
        return [Term(k, u, v, w / len(each)) for terms in each for k, u, v, w in terms]

    def rows_of(self, a: Vectors) -> np.ndarray:
        """Return the coordinates for a form, and note how far rounding may have moved them."""
        for c, r in zip(np.abs(a.c).max(1, initial=0), a.r.max(1, initial=0), strict=True):
            if r > NOISE * c:  # what is left of vectors that cancel
                self.blur = max(self.blur, float(r))
            elif c:
                self.rounding = max(self.rounding, float(r / c))
        return a.wide

    @abc.abstractmethod
    def leaf(self) -> Vectors:
        """Return a new unknown vector for every agent."""

    @abc.abstractmethod
    def balanced(self) -> Vectors:
        """Return new unknown vectors of which the mean over agents is zero."""

    @abc.abstractmethod
    def common(self) -> Vectors:
        """Return a new unknown vector that all agents share."""

    @abc.abstractmethod
    def mix(self, a: Vectors, t: int, over: str = "W") -> Vectors:
        """Return what gossip of round t makes of the vectors."""

    @abc.abstractmethod
    def mean(self, a: Vectors) -> Vectors:
        """Return the mean over agents, for every agent."""

    @abc.abstractmethod
    def each(self, a: Vectors, b: Vectors) -> list[list[Term]]:
        """Return ⟨a_i, b_i⟩ of each agent; where agents are all alike, their mean alone."""

    @abc.abstractmethod
    def of_means(self, a: Vectors, b: Vectors) -> list[Term]:
        """Return the inner product of the means."""


class Given(Space):
    """A given network, which may be directed or change from round to round: its matrices are used as they are."""

    blocks = 1
    holds = "exact for this network"

    def __init__(self, network: Network):
        super().__init__()
        self.network, self.rows = network, network.agents
        self.values_each = network.agents
        self._matrices: dict[tuple[int, str], np.ndarray] = {}

    def matrix(self, t: int, over: str = "W") -> np.ndarray:
        """Return W, R or C of round t."""
        t = t if self.network.changes else 0
        if (t, over) not in self._matrices:
            self._matrices[t, over] = self.network.matrix(t, over).toarray()  # pyright: ignore[reportArgumentType]
        return self._matrices[t, over]

    def leaf(self) -> Vectors:
        return self.grow(np.eye(self.rows))

    def balanced(self) -> Vectors:
        return self.grow(np.vstack([np.eye(self.rows - 1), -np.ones(self.rows - 1)]))

    def common(self) -> Vectors:
        return self.grow(np.ones((self.rows, 1)))

    def mix(self, a: Vectors, t: int, over: str = "W") -> Vectors:
        return self.apply(self.matrix(t, over), a)

    def mean(self, a: Vectors) -> Vectors:
        return self.apply(np.full((self.rows, self.rows), 1 / self.rows), a)

    def apply(self, M: np.ndarray, a: Vectors) -> Vectors:
        """Return the product of a matrix of agents and the vectors."""
        size = np.abs(M)
        return Vectors(self, M @ a.c, size @ (a.r + (self.rows + 2) * UNIT * np.abs(a.c)))

    def has_numbers(self, given: np.ndarray) -> bool:
        return given.shape == (self.rows, 1)

    def each(self, a: Vectors, b: Vectors) -> list[list[Term]]:
        return [[Term(0, u, v, 1.0)] for u, v in zip(self.rows_of(a), self.rows_of(b), strict=True)]

    def of_means(self, a: Vectors, b: Vectors) -> list[Term]:
        return [Term(0, self.rows_of(self.mean(a))[0], self.rows_of(self.mean(b))[0], 1.0)]


class Eigenvalues(Space):
    """A normal doubly stochastic W by its distinct eigenvalues besides that of the mean; one of each complex pair."""

    values_each = 1

    def __init__(self, values: Any, shares: Any = None, *, exact: bool = True, error: float = 0.0):
        super().__init__()
        self.error = error
        """A bound on the error of the eigenvalues."""
        values = np.asarray(values)
        self.dtype = complex if np.iscomplexobj(values) and np.abs(values.imag).max(initial=0) > SAME else float
        rest = values if self.dtype is complex else values.real
        self.values = np.concatenate([[1.0], rest]).astype(self.dtype)[:, None]
        self.rows = self.blocks = len(self.values)
        self.shares = None if shares is None else np.asarray(shares, float)
        """The dimension of each block over n; the first is that of the mean, 1/n."""
        self.exact = exact
        self.holds = (  # pyright: ignore[reportIncompatibleVariableOverride, reportAttributeAccessIssue]
            "exact for every network with these eigenvalues whose agents are all alike"
            if exact
            else "an upper bound: this network's agents are not all alike"
        )

    def leaf(self) -> Vectors:
        return self.grow(np.ones((self.rows, 1)))

    def balanced(self) -> Vectors:
        return self.grow(np.eye(self.rows, 1) * -1 + 1)

    def common(self) -> Vectors:
        return self.grow(np.eye(self.rows, 1))

    def mix(self, a: Vectors, t: int, over: str = "W") -> Vectors:
        c, size = a.c * self.values, np.abs(a.c)
        error = np.full((self.rows, 1), self.error)
        error[0] = 0  # the mean's eigenvalue is 1
        return Vectors(self, c, a.r * np.abs(self.values) + error * (size + a.r) + 4 * UNIT * size)

    def mean(self, a: Vectors) -> Vectors:
        c, r = np.zeros_like(a.c), np.zeros_like(a.r)
        c[0], r[0] = a.c[0], a.r[0]
        return Vectors(self, c, r)

    def each(self, a: Vectors, b: Vectors) -> list[list[Term]]:
        rows = zip(self.rows_of(a), self.rows_of(b), strict=True)
        return [[Term(k, u, v, 1.0) for k, (u, v) in enumerate(rows)]]

    def of_means(self, a: Vectors, b: Vectors) -> list[Term]:
        return [Term(0, self.rows_of(a)[0], self.rows_of(b)[0], 1.0)]


class Interval(Eigenvalues):
    """All symmetric W, of any size, whose eigenvalues besides that of the mean lie in [low, high]."""

    def __init__(self, low: float, high: float):
        super().__init__([0.0])
        self.low, self.high = low, high
        self.holds = f"exact for all symmetric networks with a spectrum in [{low:g}, {high:g}] together"  # pyright: ignore[reportAttributeAccessIssue]

    def mix(self, a: Vectors, t: int, over: str = "W") -> Vectors:
        rest = self.rows_of(a)[1]
        if not rest.any():
            return a
        # W is one matrix: of equal vectors it makes equal ones
        column = next((k for old, k in self.mixed if (pad(old, self.columns) == rest).all()), None)
        if column is None:
            column = self.columns
            self.grow(np.array([[0.0], [1.0]]))
            self.mixed.append((rest, column))
        c = np.zeros((2, self.columns))
        c[0, : a.c.shape[1]] = a.c[0]
        c[1, column] = 1
        r = np.zeros_like(c)
        r[0, : a.r.shape[1]] = a.r[0]
        return Vectors(self, c, r)


class Spectrum(NamedTuple):
    """The distinct eigenvalues of a normal W besides that of the mean; of a complex pair, the upper one."""

    values: np.ndarray
    shares: np.ndarray
    """The dimension of each eigenspace over n, that of the mean first."""
    alike: bool
    """True if all agents are alike."""
    error: float
    """A bound on the error of the values."""


def spectrum_of(network: Network) -> Spectrum | None:
    """Return the spectrum of a network; None where W changes, is not doubly stochastic or not normal."""
    if network.changes or network.stochastic != "doubly":
        return None
    W = network.mixing
    n = len(W)
    rest = W - 1 / n  # the mean's eigenvalue is 0 here, once
    if network.symmetric:
        w, U = np.linalg.eigh(rest)
    else:  # a normal matrix's Schur form is diagonal
        from scipy.linalg import schur

        T, U = schur(rest, output="complex")[:2]
        w = np.diag(T)
    # a normal matrix has an eigenvalue as near as the residual over the length of the vector
    left = np.linalg.norm(rest @ U - U * w, axis=0) + 4 * n**1.5 * UNIT
    if left.max() > NORMAL:
        return None
    values, shares, alike, error, seen = [], [1 / n], True, 0.0, np.zeros(n, bool)
    for k in range(n):
        if seen[k] or w[k].imag < -SAME:
            continue
        own = is_same(w, w[k])
        seen |= own
        diagonal = (np.abs(U[:, own]) ** 2).sum(1)
        many = int(own.sum()) - (abs(w[k]) < SAME)  # without the mean, whose projector has a constant diagonal
        if many:
            error = max(error, float((left + np.abs(w - w[k]))[own].max()))
            values.append(w[k])
            shares.append(many * (2 if abs(w[k].imag) > SAME else 1) / n)
            alike &= bool(np.ptp(diagonal) < 1e-9)
    return Spectrum(np.array(values), np.array(shares), alike, 2 * error)


def find_space(network: Network, exact: bool = True) -> Callable[[], Space]:
    """Return a function that makes the smallest space for a network; with `exact`, one that loses nothing."""
    found = spectrum_of(network)
    if found is None or (exact and not found.alike):
        return lambda: Given(network)
    return lambda: Eigenvalues(found.values, found.shares, exact=found.alike, error=found.error)


def exactly(x: Any) -> Fraction:
    """Return a float as the fraction that it is."""
    return Fraction(x.item() if isinstance(x, np.generic) else x)
