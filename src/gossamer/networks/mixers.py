r"""Mixers: the weights of all rounds of a network, in forms whose product $W^t x$ costs what the edges cost.

Each mixer is a pytree: weights and indices are leaves, the rest is static. All is NumPy, in float64; the simulator has
a compiled product for each form (`gossamer.engines.mixing`). The forms here never change. Rounds that follow a
timetable are in `sequences`; rounds that are drawn at random are in `drawn` and in the files that import it.
"""

import abc
import dataclasses
import functools
import math
import statistics
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Literal, TypeVar, dataclass_transform

import numpy as np
import scipy.sparse as sp
from jaxtyping import Bool, Complex, Float, Int

from gossamer.basics.pytrees import pytree
from gossamer.basics.sizes import refuse_beyond_memory
from gossamer.networks import measures
from gossamer.networks.weights import size

MatrixName = Literal["W", "R", "C"]
"""A matrix of a round: W doubly stochastic, R row-stochastic (agents pull), C column-stochastic (agents push)."""

DENSE_LIMIT = 5_000
"""The most agents for a dense matrix: 200 MB. At 10,000 it would take 800 MB."""

GATHER = 6
"""The cost of an entry of a table, relative to one in a matrix product (measured on 2 cores, 20 to 1,000 agents)."""

M = TypeVar("M", bound=type)


@dataclass_transform(frozen_default=True, eq_default=False)
def mixer(*leaves: str) -> Callable[[M], M]:
    """Return a decorator that makes a class a frozen dataclass and a pytree, with these fields as leaves."""
    return lambda cls: pytree(dataclasses.dataclass(frozen=True, eq=False)(cls), leaves)


class Mixer(abc.ABC):
    """The weights of all rounds. The defaults are those of one doubly stochastic W, the same in every round.

    Sequences and faults stand around other mixers, the `inner` ones: their rounds are random, follow a timetable or
    have agents that sleep where those of an inner mixer do.
    """

    kind: ClassVar[str]
    changes: ClassVar[bool] = False
    alike: ClassVar[bool] = False
    """True if E[WᵀW] − J is a multiple of I − J, as where rounds are drawn so that all agents are alike."""

    @abc.abstractmethod
    def sparse(self, t: int = 0, over: MatrixName = "W") -> sp.csr_array:
        """Return the matrix of round t."""

    def mix(self, x: np.ndarray, t: int = 0, over: MatrixName = "W") -> np.ndarray:
        """Return the product of the matrix of round t with x."""
        return self.sparse(t, over) @ x

    def awake(self, t: Any, xp: Any = np) -> Bool[Any, " agents"] | None:
        """Return a mask of the agents that are awake in round t; None if nobody sleeps in any round of this mixer."""
        return None

    def union(self, rounds: Iterable[int] | None = None) -> sp.csr_array | None:
        """Return a matrix with the links of all rounds, or, of a timetable, of those given; None is all pairs."""
        return self.sparse()

    def sends(self, t: int) -> float:
        """Return how many others an agent sends to in round t: the mean over agents, expected if rounds are drawn."""
        matrix = self.sparse()
        return (matrix.nnz - np.count_nonzero(matrix.diagonal())) / size(matrix)

    def slower(self, k: int) -> "Mixer":
        """Return a mixer whose timetable, if it has one, takes a step only in every k-th round."""
        return self

    @property
    def inner(self) -> "tuple[Mixer, ...]":
        """The mixers that this one stands around."""
        return ()

    @property
    def timetabled(self) -> bool:
        """True if agents come and go by a timetable, so that the rounds of a period differ in what is sent."""
        return any(one.timetabled for one in self.inner)

    @property
    def closes(self) -> float | None:
        """The seconds after which every round closes; None if rounds wait for all messages."""
        return next((one.closes for one in self.inner if one.closes is not None), None)

    def translations(self) -> "list[Shifts]":
        """Return the rounds if all are sums of translations of one group, so that agents are alike; else []."""
        return []

    def gap(self, agents: int) -> float:
        """Return the spectral gap ρ of a mixer all of whose rounds are doubly stochastic."""
        return measures.matrix_gap(self.sparse())

    def contraction(self, agents: int) -> float:
        r"""Return $\lambda_{\max}(\mathbb E[P^\top P] - J)$, the largest share of squared disagreement after a period.

        $P = W^{p-1} \cdots W^0$ is the product of the $p$ rounds of one period.
        """
        return (1 - self.gap(agents)) ** 2

    @property
    def traffic(self) -> float:
        """The mean of `sends` over all rounds."""
        return sum(map(self.sends, range(self.period))) / self.period

    @property
    def pace(self) -> float:
        """The share of rounds with any gossip."""
        return sum(self.sends(t) > 0 for t in range(self.period)) / self.period

    @property
    def doubly(self) -> bool:
        """True if every round is doubly stochastic."""
        return all(one.doubly for one in self.inner)

    @property
    def random(self) -> bool:
        """True if rounds are drawn at random."""
        return any(one.random for one in self.inner)

    @property
    def period(self) -> int:
        """The number of rounds after which the matrices repeat, or their distributions if they are drawn."""
        return math.lcm(*(one.period for one in self.inner))

    @property
    def sleeps(self) -> bool:
        """True if agents may sleep."""
        return any(one.sleeps for one in self.inner)

    def active(self, t: int) -> float:
        """Return the share of agents that are awake in round t, expected if they are drawn."""
        del t  # most never sleep
        return 1.0

    @functools.cached_property
    def activity(self) -> float:
        """The share of rounds in which an agent is awake."""
        return statistics.fmean(map(self.active, range(self.period))) if self.sleeps else 1.0

    @functools.cached_property
    def is_symmetric(self) -> bool:
        """True if the W of every round is symmetric, to rounding."""
        matrix = self.sparse()
        return bool(abs(matrix - matrix.T).max() <= 1e-12)  # weights of a file are seldom symmetric to the bit


class Changing(Mixer):
    r"""A mixer whose matrix changes from round to round.

    $$ \rho = 1 - \lambda_{\max}(\mathbb E[P^\top P] - J)^{1/(2p)}, $$

    so that $p$ rounds shrink the expected squared disagreement by $(1 - \rho)^{2p}$ at least. For a periodic sequence
    it is $1 - \lVert P - J \rVert_2^{1/p}$, for rounds drawn alike
    $1 - \lambda_{\max}(\mathbb E[W^\top W] - J)^{1/2}$.

    Reference: S. Boyd, A. Ghosh, B. Prabhakar and D. Shah, "Randomized gossip algorithms", 2006.
    """

    changes: ClassVar[bool] = True

    def gap(self, agents: int) -> float:
        left = 0.0 if agents == 1 else self.contraction(agents)
        # A value below rounding is zero: its p-th root would not be.
        return 1.0 if left < 1e-26 else float(1 - min(left, 1.0) ** (1 / (2 * self.period)))

    def contraction(self, agents: int) -> float:
        return measures.estimate_contraction(self, agents)


@mixer("weights")
class Shifts(Mixer):
    r"""A sum of translations on the group $\mathbb Z_{s_1} \times \dots \times \mathbb Z_{s_k}$.

    $$ (W x)_i = \sum_k w_k\, x_{i - o_k} $$
    """

    kind: ClassVar[str] = "shifts"
    shape: tuple[int, ...]
    offsets: tuple[tuple[int, ...], ...]
    weights: Float[Any, " offsets"]

    def sparse(self, t: int = 0, over: MatrixName = "W") -> sp.csr_array:
        n = math.prod(self.shape)
        # a ring of a billion agents can be made, as no matrix is held, but not written out
        refuse_beyond_memory(f"the matrix of {n:,} agents", 60 * n * len(self.offsets), "use fewer agents")
        sources = np.arange(n).reshape(self.shape)
        axes = tuple(range(len(self.shape)))
        columns = np.stack([np.roll(sources, o, axes).ravel() for o in self.offsets], axis=1)
        weights = np.broadcast_to(np.asarray(self.weights, np.float64), columns.shape)
        return assemble(n, np.arange(n).repeat(len(self.offsets)), columns.ravel(), weights.ravel())

    def eigenvalues(self) -> Complex[np.ndarray, " agents"]:
        """Return all eigenvalues, that of the constants first: the Fourier transform diagonalises translations."""
        n = math.prod(self.shape)
        refuse_beyond_memory(f"the spectrum of {n:,} agents", 40 * n, "use fewer agents")
        kernel = np.zeros(self.shape)
        np.add.at(kernel, tuple(np.transpose(self.offsets)), np.asarray(self.weights, np.float64))
        return np.fft.fftn(kernel).ravel()

    def translations(self) -> "list[Shifts]":
        return [self]

    def gap(self, agents: int) -> float:
        return measures.clip(1 - np.abs(self.eigenvalues())[1:].max(initial=0.0))


@mixer()
class Mean(Mixer):
    r"""The mean of all agents, $W = J = \mathbf 1 \mathbf 1^\top / n$. No matrix is held."""

    kind: ClassVar[str] = "mean"
    alike: ClassVar[bool] = True
    agents: int

    def sparse(self, t: int = 0, over: MatrixName = "W") -> sp.csr_array:
        return sp.csr_array(np.full((self.agents, self.agents), 1 / self.agents))

    def mix(self, x: np.ndarray, t: int = 0, over: MatrixName = "W") -> np.ndarray:
        return np.broadcast_to(x.mean(axis=0), x.shape)

    def union(self, rounds: Iterable[int] | None = None) -> sp.csr_array | None:
        return None

    def sends(self, t: int) -> float:
        return self.agents - 1.0

    def gap(self, agents: int) -> float:
        return 1.0

    @functools.cached_property
    def is_symmetric(self) -> bool:
        return True


@mixer("indices", "weights")
class Neighbours(Mixer):
    """A table of the neighbours of each agent, padded with the agent itself at weight 0: for degrees that are alike."""

    kind: ClassVar[str] = "table"
    indices: Int[Any, "agents width"]
    weights: Float[Any, "agents width"]

    @classmethod
    def of(cls, matrix: sp.csr_array) -> "Neighbours":
        n, counts = size(matrix), np.diff(matrix.indptr)
        rows = np.arange(n).repeat(counts)
        place = np.arange(matrix.nnz) - matrix.indptr[:-1].repeat(counts)
        # padded with the agent itself, so that a gather stays inside
        indices = np.tile(np.arange(n, dtype=np.int32)[:, None], (1, counts.max()))
        weights = np.zeros(indices.shape)
        indices[rows, place], weights[rows, place] = matrix.indices, matrix.data
        return cls(indices, weights)

    def sparse(self, t: int = 0, over: MatrixName = "W") -> sp.csr_array:
        n, width = self.indices.shape
        return assemble(n, np.arange(n).repeat(width), np.ravel(self.indices), np.ravel(self.weights))


@mixer("matrix")
class Full(Mixer):
    """A dense matrix: for few agents and for dense graphs."""

    kind: ClassVar[str] = "dense"
    matrix: Float[Any, "agents agents"]

    def sparse(self, t: int = 0, over: MatrixName = "W") -> sp.csr_array:
        return sp.csr_array(np.asarray(self.matrix, np.float64))


@mixer("table", "hubs", "rows")
class Hubs(Mixer):
    """A table, and dense rows for the few agents with many neighbours: for degrees that differ much, as in a star.

    Against an edge list with `segment_sum` this needs no scattered sum, which is slow under `vmap` and, on a GPU, not
    the same twice.
    """

    kind: ClassVar[str] = "hubs"
    table: Neighbours
    hubs: Int[Any, " hubs"]
    rows: Float[Any, "hubs agents"]

    @classmethod
    def of(cls, matrix: sp.csr_array, width: int) -> "Hubs":
        """Return the form in which rows with more than `width` entries are hubs."""
        long = np.diff(matrix.indptr) > width
        table = sp.csr_array(sp.diags_array(1.0 - long) @ matrix)
        table.eliminate_zeros()
        hubs = np.flatnonzero(long)
        return cls(Neighbours.of(table), hubs.astype(np.int32), matrix[hubs].toarray())

    def sparse(self, t: int = 0, over: MatrixName = "W") -> sp.csr_array:
        short = sp.coo_array(self.table.sparse())
        place, columns = np.nonzero(self.rows)
        rows = np.append(short.row, np.asarray(self.hubs)[place])
        weights = np.append(short.data, np.asarray(self.rows)[place, columns])
        return assemble(len(self.table.indices), rows, np.append(short.col, columns), weights)


Explicit = Neighbours | Full | Hubs
"""The mixers that hold every weight, which a fault can take away."""


@mixer("row", "column")
class Directed(Mixer):
    """Two matrices on the same links: R with rows that sum to 1, and C with columns that do."""

    kind: ClassVar[str] = "directed"
    row: Mixer
    column: Mixer

    def sparse(self, t: int = 0, over: MatrixName = "R") -> sp.csr_array:
        return self.part(over).sparse()

    def part(self, over: MatrixName) -> Mixer:
        """Return the mixer of R or C."""
        return self.column if over == "C" else self.row

    def translations(self) -> list[Shifts]:
        return self.row.translations()

    @property
    def doubly(self) -> bool:
        return False

    @functools.cached_property
    def is_symmetric(self) -> bool:
        return False


def assemble(n: int, rows: Any, columns: Any, weights: Any) -> sp.csr_array:
    """Return the matrix with these entries; those at the same place are added up."""
    entries = (np.asarray(weights, np.float64), (np.asarray(rows), np.asarray(columns)))
    matrix = sp.csr_array(sp.coo_array(entries, shape=(n, n)))
    matrix.eliminate_zeros()
    return matrix


def choose(matrix: sp.csr_array) -> Mixer:
    """Return the mixer that gossips fastest with this matrix, which must hold no explicit zeros.

    Rows of up to some width go into a table, which pays that width for each agent; longer ones are multiplied whole,
    which pays n for each. Width 0 is a dense matrix, the largest width is a table alone.
    """
    n, counts = size(matrix), np.sort(np.diff(matrix.indptr))
    if matrix.nnz == n * n and np.abs(matrix.data * n - 1).max() < 1e-12:
        return Mean(n)  # costs n, where a matrix would cost n²
    widths = np.append(0, np.unique(counts))  # only here does the number of hubs change
    # the rows that are longer than each width
    hubs = n - np.searchsorted(counts, widths, side="right")
    costs = np.where(hubs * n <= DENSE_LIMIT**2, GATHER * widths + hubs, np.inf)
    best = int(costs.argmin())
    if best == 0:
        return Full(matrix.toarray())
    return Hubs.of(matrix, int(widths[best])) if hubs[best] else Neighbours.of(matrix)
