r"""The ways to hold a mixing matrix so that $W x$ costs what the edges cost, and the choice among them.

Each mixer is a pytree: its weights and indices are leaves, the rest is static. All compute in the dtype of `x`. Those
of this file never change; `cycles`, `drawn` and `faults` have those that do.
"""

import dataclasses
import functools
import math
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int

from gossamer.basics.lazy_jax import Array, jax, jnp
from gossamer.basics.sizes import refuse_beyond_memory
from gossamer.networks.mixing.mixer import MatrixName, Mixer, mixer
from gossamer.networks.spectrum import size

DENSE_LIMIT = 5_000
"""The most agents whose full matrix is held: 200 MB. At 10,000 it would take 800 MB."""

GATHER = 6
"""What one entry costs in a table, relative to one in a matrix product (measured on 2 cores, 20 to 1,000 agents)."""

UNROLL = 32
"""The most columns of a table that is unrolled, which fuses into one pass; a wider one is a loop and compiles fast."""


def _column(weights: Array, x: Array) -> Array:
    """Weights, one to a row, in the dtype of `x` and shaped to multiply its rows."""
    return jnp.asarray(weights).astype(x.dtype).reshape((-1,) + (1,) * (x.ndim - 1))


@mixer("weights")
@dataclasses.dataclass(frozen=True, eq=False)
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


@mixer()
@dataclasses.dataclass(frozen=True, eq=False)
class Mean(Mixer):
    r"""All agents average at once: $W = J = \mathbf 1 \mathbf 1^\top / n$. No matrix is held."""

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

    @functools.cached_property
    def balanced(self) -> bool:
        return True


@mixer("indices", "weights")
@dataclasses.dataclass(frozen=True, eq=False)
class Neighbours(Mixer):
    """The neighbours of each agent, padded with the agent itself at weight 0: for degrees that are alike."""

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
            return y + _column(weights[:, k], x) * x[indices[:, k]]

        width = indices.shape[1]
        if width <= UNROLL:
            return functools.reduce(lambda y, k: add(k, y), range(width), jnp.zeros_like(x))
        return jax.lax.fori_loop(0, width, add, jnp.zeros_like(x))

    def sparse(self, t: int = 0, over: MatrixName = "W") -> sp.csr_array:
        n, width = self.indices.shape
        return assemble(n, np.arange(n).repeat(width), np.ravel(self.indices), np.ravel(self.weights))


@mixer("matrix")
@dataclasses.dataclass(frozen=True, eq=False)
class Full(Mixer):
    """The whole matrix: for few agents and for dense graphs."""

    kind: ClassVar[str] = "dense"
    matrix: Float[Array | np.ndarray, "agents agents"]

    def mix(self, x: Float[Array, "agents ..."], t: Any = 0, over: MatrixName = "W") -> Float[Array, "agents ..."]:
        return _product(self.matrix, x)

    def sparse(self, t: int = 0, over: MatrixName = "W") -> sp.csr_array:
        return sp.csr_array(np.asarray(self.matrix, np.float64))


@mixer("table", "hubs", "rows")
@dataclasses.dataclass(frozen=True, eq=False)
class Hubs(Mixer):
    """A table, and whole rows for the few agents with many neighbours: for degrees that differ much, as in a star.

    Against an edge list with `segment_sum` this needs no scattered sum, which is slow under `vmap` and, on a GPU, not
    the same twice.
    """

    kind: ClassVar[str] = "hubs"
    table: Neighbours
    hubs: Int[Array | np.ndarray, " hubs"]
    rows: Float[Array | np.ndarray, "hubs agents"]

    @classmethod
    def of(cls, matrix: sp.csr_array, width: int) -> "Hubs":
        """Rows with more than `width` entries are hubs."""
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


def _product(matrix: Array | np.ndarray, x: Array) -> Array:
    # Accelerators multiply in less than float32 unless told; that would break the mean.
    return jnp.tensordot(jnp.asarray(matrix).astype(x.dtype), x, axes=1, precision="highest")


def assemble(n: int, rows: Any, columns: Any, weights: Any) -> sp.csr_array:
    """The matrix with these entries; those at the same place are added up."""
    entries = (np.asarray(weights, np.float64), (np.asarray(rows), np.asarray(columns)))
    matrix = sp.csr_array(sp.coo_array(entries, shape=(n, n)))
    matrix.eliminate_zeros()
    return matrix


def choose(matrix: sp.csr_array) -> Mixer:
    """The mixer that gossips fastest with this matrix, which must hold no explicit zeros.

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
