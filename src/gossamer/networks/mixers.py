r"""Mixers: the weights of all rounds of a network, in forms whose product $W^t x$ costs what the edges cost.

Each mixer is a pytree: weights and indices are leaves, the rest is static. Products are JAX's, in the dtype of `x`;
all else is NumPy, in float64. `Shifts`, `Mean`, `Neighbours`, `Full`, `Hubs` and `Directed` never change. `Cycle` and
`Every` follow a timetable. Rounds that are drawn at random are in `drawn` and in the files that import it.
"""

import abc
import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any, ClassVar, Literal, TypeVar, dataclass_transform

import numpy as np
import scipy.sparse as sp
from jaxtyping import Bool, Complex, Float, Int

from gossamer.basics.lazy_jax import Array, is_array, jax, jnp
from gossamer.basics.pytrees import pytree
from gossamer.basics.sizes import refuse_beyond_memory
from gossamer.networks import spectrum
from gossamer.networks.spectrum import size

MatrixName = Literal["W", "R", "C"]
"""A matrix of a round: W doubly stochastic, R row-stochastic (agents pull), C column-stochastic (agents push)."""

DENSE_LIMIT = 5_000
"""The most agents for a dense matrix: 200 MB. At 10,000 it would take 800 MB."""

GATHER = 6
"""The cost of an entry of a table, relative to one in a matrix product (measured on 2 cores, 20 to 1,000 agents)."""

UNROLL = 32
"""The most columns of a table that is unrolled, which fuses into one pass; a wider one is a loop and compiles fast."""

DRAWN_ROUNDS = 256
"""The number of rounds drawn to estimate a gap that has no closed form."""

M = TypeVar("M", bound=type)


@dataclass_transform(frozen_default=True, eq_default=False)
def mixer(*leaves: str) -> Callable[[M], M]:
    """Return a decorator that makes a class a frozen dataclass and a pytree, with these fields as leaves."""
    return lambda cls: pytree(dataclasses.dataclass(frozen=True, eq=False)(cls), leaves)


class Mixer(abc.ABC):
    """The weights of all rounds. The defaults are those of one doubly stochastic W, the same in every round."""

    kind: ClassVar[str]
    changes: ClassVar[bool] = False
    alike: ClassVar[bool] = False
    """True if rounds are drawn so that all agents are alike: E[WᵀW] − J is then a multiple of I − J."""

    @abc.abstractmethod
    def mix(self, x: Float[Array, "agents ..."], t: Any = 0, over: MatrixName = "W") -> Float[Array, "agents ..."]:
        """Return the product of the matrix of round t with x, in the dtype of x."""

    @abc.abstractmethod
    def sparse(self, t: int = 0, over: MatrixName = "W") -> sp.csr_array:
        """Return the matrix of round t, on the host in float64."""

    def awake(self, t: Any) -> Bool[Array | np.ndarray, " agents"] | None:
        """Return a mask of the agents that are awake in round t; None if no agent ever sleeps."""
        return None

    def union(self) -> sp.csr_array | None:
        """Return a matrix with the links of all rounds; None stands for all pairs."""
        return self.sparse()

    def sends(self, t: int) -> float:
        """Return how many others an agent sends to in round t: the mean over agents, expected if rounds are drawn."""
        matrix = self.sparse()
        return (matrix.nnz - np.count_nonzero(matrix.diagonal())) / size(matrix)

    def slower(self, k: int) -> "Mixer":
        """Return a mixer whose timetable, if it has one, takes a step only in every k-th round."""
        return self

    def gap(self, agents: int) -> float:
        """Return the spectral gap ρ of a mixer all of whose rounds are doubly stochastic."""
        return spectrum.matrix_gap(self.sparse())

    def contraction(self, agents: int) -> float:
        r"""Return $\lambda_{\max}(\mathbb E[P^\top P] - J)$, the largest share of squared disagreement after a period.

        $P = W^{p-1} \cdots W^0$ is the product of the $p$ rounds of one period.
        """
        return (1 - self.gap(agents)) ** 2

    @property
    def traffic(self) -> float:
        """The mean of `sends` over all rounds."""
        return self.sends(0)

    @property
    def pace(self) -> float:
        """The share of rounds with any gossip."""
        return float(self.sends(0) > 0)

    @property
    def doubly(self) -> bool:
        """True if every round is doubly stochastic."""
        return True

    @property
    def random(self) -> bool:
        """True if rounds are drawn at random."""
        return False

    @property
    def period(self) -> int:
        """The number of rounds after which the matrices repeat, or their distributions if they are drawn."""
        return 1

    @property
    def activity(self) -> float:
        """The share of rounds in which an agent is awake."""
        return 1.0

    @functools.cached_property
    def balanced(self) -> bool:
        """True if the W of every round is symmetric, to rounding."""
        matrix = self.sparse()
        return bool(abs(matrix - matrix.T).max() <= 1e-12)


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
        return estimate_contraction(self, agents)


# --- one matrix ---


@mixer("weights")
class Shifts(Mixer):
    r"""A sum of translations on the group $\mathbb Z_{s_1} \times \dots \times \mathbb Z_{s_k}$.

    $$ (W x)_i = \sum_k w_k\, x_{i - o_k} $$
    """

    kind: ClassVar[str] = "shifts"
    shape: tuple[int, ...]
    offsets: tuple[tuple[int, ...], ...]
    weights: Float[np.ndarray, " offsets"]

    def mix(self, x: Float[Array, "agents ..."], t: Any = 0, over: MatrixName = "W") -> Float[Array, "agents ..."]:
        weights = jnp.asarray(self.weights).astype(x.dtype)
        return sum((w * self._move(x, o) for w, o in zip(weights, self.offsets, strict=True)), jnp.zeros_like(x))

    def _move(self, x: Array, offset: tuple[int, ...]) -> Array:
        # One axis at a time, so that a hypercube of many agents never becomes an array of many dimensions.
        for axis, step in enumerate(offset):
            if step:
                block = (math.prod(self.shape[:axis]), self.shape[axis], math.prod(self.shape[axis + 1 :]))
                x = jnp.roll(x.reshape(block + x.shape[1:]), step, axis=1).reshape(x.shape)
        return x

    def sparse(self, t: int = 0, over: MatrixName = "W") -> sp.csr_array:
        n = math.prod(self.shape)
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

    def gap(self, agents: int) -> float:
        return spectrum.clip(1 - np.abs(self.eigenvalues())[1:].max(initial=0.0))


@mixer()
class Mean(Mixer):
    r"""The mean of all agents, $W = J = \mathbf 1 \mathbf 1^\top / n$. No matrix is held."""

    kind: ClassVar[str] = "mean"
    agents: int

    def mix(self, x: Float[Array, "agents ..."], t: Any = 0, over: MatrixName = "W") -> Float[Array, "agents ..."]:
        return jnp.broadcast_to(x.mean(axis=0, keepdims=True), x.shape)

    def sparse(self, t: int = 0, over: MatrixName = "W") -> sp.csr_array:
        return sp.csr_array(np.full((self.agents, self.agents), 1 / self.agents))

    def union(self) -> sp.csr_array | None:
        return None

    def sends(self, t: int) -> float:
        return self.agents - 1.0

    def gap(self, agents: int) -> float:
        return 1.0

    @functools.cached_property
    def balanced(self) -> bool:
        return True


@mixer("indices", "weights")
class Neighbours(Mixer):
    """A table of the neighbours of each agent, padded with the agent itself at weight 0: for degrees that are alike."""

    kind: ClassVar[str] = "table"
    indices: Int[Array | np.ndarray, "agents width"]
    weights: Float[Array | np.ndarray, "agents width"]

    @classmethod
    def of(cls, matrix: sp.csr_array) -> "Neighbours":
        n, counts = size(matrix), np.diff(matrix.indptr)
        rows = np.arange(n).repeat(counts)
        place = np.arange(matrix.nnz) - matrix.indptr[:-1].repeat(counts)
        indices = np.tile(np.arange(n, dtype=np.int32)[:, None], (1, counts.max()))
        weights = np.zeros(indices.shape)
        indices[rows, place], weights[rows, place] = matrix.indices, matrix.data
        return cls(indices, weights)

    def mix(self, x: Float[Array, "agents ..."], t: Any = 0, over: MatrixName = "W") -> Float[Array, "agents ..."]:
        indices, weights = jnp.asarray(self.indices), jnp.asarray(self.weights)

        def add(k: int, y: Array) -> Array:
            column = weights[:, k].astype(x.dtype).reshape((-1,) + (1,) * (x.ndim - 1))
            return y + column * x[indices[:, k]]

        width = indices.shape[1]
        if width <= UNROLL:
            return functools.reduce(lambda y, k: add(k, y), range(width), jnp.zeros_like(x))
        return jax.lax.fori_loop(0, width, add, jnp.zeros_like(x))

    def sparse(self, t: int = 0, over: MatrixName = "W") -> sp.csr_array:
        n, width = self.indices.shape
        return assemble(n, np.arange(n).repeat(width), np.ravel(self.indices), np.ravel(self.weights))


@mixer("matrix")
class Full(Mixer):
    """A dense matrix: for few agents and for dense graphs."""

    kind: ClassVar[str] = "dense"
    matrix: Float[Array | np.ndarray, "agents agents"]

    def mix(self, x: Float[Array, "agents ..."], t: Any = 0, over: MatrixName = "W") -> Float[Array, "agents ..."]:
        return _product(self.matrix, x)

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
    hubs: Int[Array | np.ndarray, " hubs"]
    rows: Float[Array | np.ndarray, "hubs agents"]

    @classmethod
    def of(cls, matrix: sp.csr_array, width: int) -> "Hubs":
        """Return the form in which rows with more than `width` entries are hubs."""
        long = np.diff(matrix.indptr) > width
        table = sp.csr_array(sp.diags_array(1.0 - long) @ matrix)
        table.eliminate_zeros()
        hubs = np.flatnonzero(long)
        return cls(Neighbours.of(table), hubs.astype(np.int32), matrix[hubs].toarray())

    def mix(self, x: Float[Array, "agents ..."], t: Any = 0, over: MatrixName = "W") -> Float[Array, "agents ..."]:
        return self.table.mix(x).at[jnp.asarray(self.hubs)].set(_product(self.rows, x))

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

    def mix(self, x: Float[Array, "agents ..."], t: Any = 0, over: MatrixName = "R") -> Float[Array, "agents ..."]:
        return self.part(over).mix(x)

    def sparse(self, t: int = 0, over: MatrixName = "R") -> sp.csr_array:
        return self.part(over).sparse()

    def part(self, over: MatrixName) -> Mixer:
        """Return the mixer of R or C."""
        return self.column if over == "C" else self.row

    @property
    def doubly(self) -> bool:
        return False

    @functools.cached_property
    def balanced(self) -> bool:
        return False


def _product(matrix: Array | np.ndarray, x: Array) -> Array:
    # Accelerators multiply in less than float32 unless told; that would break the mean.
    return jnp.tensordot(jnp.asarray(matrix).astype(x.dtype), x, axes=1, precision="highest")


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
        return Mean(n)
    widths = np.append(0, np.unique(counts))
    hubs = n - np.searchsorted(counts, widths, side="right")
    costs = np.where(hubs * n <= DENSE_LIMIT**2, GATHER * widths + hubs, np.inf)
    best = int(costs.argmin())
    if best == 0:
        return Full(matrix.toarray())
    return Hubs.of(matrix, int(widths[best])) if hubs[best] else Neighbours.of(matrix)


# --- a timetable of other mixers ---


class Timetable(Changing):
    """A mixer whose rounds are those of other mixers, in turn."""

    stride: int
    """The number of rounds that each turn lasts."""

    @property
    @abc.abstractmethod
    def parts(self) -> tuple[Mixer, ...]:
        """The mixers of the turns with gossip."""

    @property
    @abc.abstractmethod
    def turns(self) -> int:
        """The number of turns until the timetable repeats."""

    def union(self) -> sp.csr_array | None:
        unions = [mixer.union() for mixer in self.parts]
        known = [union for union in unions if union is not None]
        return functools.reduce(lambda a, b: sp.csr_array(a + b), known) if len(known) == len(unions) else None

    @property
    def doubly(self) -> bool:
        return all(mixer.doubly for mixer in self.parts)

    @property
    def random(self) -> bool:
        return any(mixer.random for mixer in self.parts)

    @property
    def period(self) -> int:
        return math.lcm(self.stride * self.turns, *(mixer.period for mixer in self.parts))

    @property
    def activity(self) -> float:
        return sum(mixer.activity for mixer in self.parts) / len(self.parts)

    @property
    def traffic(self) -> float:
        return sum(mixer.traffic for mixer in self.parts) / self.turns

    @property
    def pace(self) -> float:
        return sum(mixer.pace for mixer in self.parts) / self.turns

    @functools.cached_property
    def balanced(self) -> bool:
        return all(mixer.balanced for mixer in self.parts)


@mixer("rounds")
class Cycle(Timetable):
    """A sequence of mixers that begins again after the last; each stays for `stride` rounds."""

    kind: ClassVar[str] = "cycle"
    rounds: tuple[Mixer, ...]
    stride: int = 1

    @property
    def parts(self) -> tuple[Mixer, ...]:
        return self.rounds

    @property
    def turns(self) -> int:
        return len(self.rounds)

    def mix(self, x: Float[Array, "agents ..."], t: Any = 0, over: MatrixName = "W") -> Float[Array, "agents ..."]:
        return self._switch(t, [lambda t, x, mixer=mixer: mixer.mix(x, t, over) for mixer in self.rounds], x)

    def sparse(self, t: int = 0, over: MatrixName = "W") -> sp.csr_array:
        return self.turn(t).sparse(t, over)

    def awake(self, t: Any) -> Bool[Array | np.ndarray, " agents"] | None:
        asked = next((awake for mixer in self.rounds if (awake := mixer.awake(0)) is not None), None)
        if asked is None:
            return None
        if not is_array(t) and not is_array(asked):  # on the host
            return np.ones_like(asked) if (awake := self.turn(t).awake(t)) is None else awake
        everyone = jnp.ones_like(asked)

        def awake_with(mixer: Mixer) -> Any:
            return lambda t: everyone if (awake := mixer.awake(t)) is None else awake

        return self._switch(t, [awake_with(mixer) for mixer in self.rounds])

    def _switch(self, t: Any, branches: list[Any], *arguments: Array) -> Array:
        return jax.lax.switch((t // self.stride) % len(self.rounds), branches, t, *arguments)

    def slower(self, k: int) -> Mixer:
        return Cycle(tuple(mixer.slower(k) for mixer in self.rounds), self.stride * k)

    def turn(self, t: int) -> Mixer:
        """Return the mixer of round t."""
        return self.rounds[t // self.stride % len(self.rounds)]

    def sends(self, t: int) -> float:
        return self.turn(t).sends(t)

    def contraction(self, agents: int) -> float:
        rounds = translations(self)
        if not rounds or self.stride > 1:
            return estimate_contraction(self, agents)
        # Translations of one group share their eigenvectors, so the eigenvalues of the product are products.
        squares = [np.abs(turn.eigenvalues()) ** 2 for turn in rounds]
        return float(functools.reduce(np.multiply, squares)[1:].max(initial=0.0))


@mixer("base")
class Every(Timetable):
    r"""Local steps: $W^t = I$ unless `rounds` divides $t$, or the number of strides before $t$."""

    kind: ClassVar[str] = "every"
    agents: int
    base: Mixer
    rounds: int
    stride: int = 1

    @property
    def parts(self) -> tuple[Mixer, ...]:
        return (self.base,)

    @property
    def turns(self) -> int:
        return self.rounds

    def mix(self, x: Float[Array, "agents ..."], t: Any = 0, over: MatrixName = "W") -> Float[Array, "agents ..."]:
        return jax.lax.cond(self._gossips(t), lambda x: self.base.mix(x, t, over), lambda x: x, x)

    def sparse(self, t: int = 0, over: MatrixName = "W") -> sp.csr_array:
        return self.base.sparse(t, over) if self._gossips(t) else sp.csr_array(sp.eye_array(self.agents, format="csr"))

    def slower(self, k: int) -> Mixer:
        return Every(self.agents, self.base.slower(k), self.rounds, self.stride * k)

    def _gossips(self, t: Any) -> Any:
        return (t // self.stride) % self.rounds == 0

    def awake(self, t: Any) -> Bool[Array | np.ndarray, " agents"] | None:
        return self.base.awake(t)

    def sends(self, t: int) -> float:
        return self.base.sends(t) if self._gossips(t) else 0.0

    def contraction(self, agents: int) -> float:
        once = self.stride == 1 and self.base.period == 1
        return self.base.contraction(agents) if once else estimate_contraction(self, agents)


def translations(mixer: Mixer) -> list[Shifts]:
    """Return the rounds of a mixer if all are sums of translations of one group, so that agents are alike; else []."""
    several = mixer.rounds if isinstance(mixer, Cycle) else (mixer.row,) if isinstance(mixer, Directed) else (mixer,)
    rounds = [turn for turn in several if isinstance(turn, Shifts)]
    return rounds if len(rounds) == len(several) and len({turn.shape for turn in rounds}) == 1 else []


def estimate_contraction(mixer: Mixer, n: int) -> float:
    """Return the mean of PᵀP's λ_max over `DRAWN_ROUNDS` drawn rounds, or the exact one if nothing is drawn."""
    p = mixer.period
    periods = -(-DRAWN_ROUNDS // p) if mixer.random else 1
    step = mixer.rounds if isinstance(mixer, Every) and mixer.stride == 1 else 1  # between them W is I
    rounds = [[mixer.sparse(s * p + t) for t in range(0, p, step)] for s in range(periods)]
    if not mixer.random and _averages_exactly(rounds[0], n):
        return 0.0
    if n <= spectrum.EXACT_AGENTS:
        if p == 1:
            mean: Any = sum((W.T @ W for (W,) in rounds), sp.csr_array((n, n))) / periods
        else:
            mean = np.zeros((n, n))
            for period in rounds:
                P = functools.reduce(lambda P, W: W @ P, period, np.eye(n))
                mean += P.T @ P / periods
        return spectrum.largest(n, lambda x: mean @ x)

    def product(x: np.ndarray) -> np.ndarray:
        total = np.zeros(n)
        for period in rounds:
            y = functools.reduce(lambda y, W: W @ y, period, x)
            total += functools.reduce(lambda y, W: W.T @ y, reversed(period), y) / periods
        return total

    return spectrum.largest(n, product)


def _averages_exactly(period: list[sp.csr_array], n: int) -> bool:
    """Return True if the product of these rounds is J. PᵀP would hide that behind its rounding."""
    x = np.random.default_rng(0).standard_normal((n, 4))
    x = start = x - x.mean(axis=0)
    for W in period:
        x = W @ x
    return bool(np.abs(x).max() < 1e-13 * np.abs(start).max())
