"""Biased-DMT by hand in NumPy and SciPy, for one step size or for many at once, as fast as we could make it.

Settings see the same rows, so that a mini-batch is gathered once for all of them, and the products are of matrices. No
large array is made inside a round.
"""

from typing import Any

import numpy as np
from scipy.sparse import _sparsetools, csr_array

from benchmarks.task import ETA, LAM, Task


class Rows:
    """Rows drawn for all agents, ``[agents, batch]``; a tape ``[queries, agents, batch]`` replaces the random ones."""

    def __init__(self, task: Task, tape: np.ndarray | None):
        self.tape, self.queries = tape, 0
        self.first = task.problem.offsets.astype(np.int64)[:, None]
        self.sizes = task.problem.sizes.astype(np.float32)[:, None]
        self.random = np.random.Generator(np.random.SFC64(0))  # faster than the default PCG64
        shape = (task.problem.agents, task.batch)
        self.uniform, self.index = np.empty(shape, np.float32), np.empty(shape, np.int64)

    def draw(self) -> np.ndarray:
        if self.tape is None:
            # 24 random bits times the size, cut off; the product stays below the size after rounding.
            self.random.random(out=self.uniform, dtype=np.float32)
            np.multiply(self.uniform, self.sizes, out=self.uniform)
            np.copyto(self.index, self.uniform, casting="unsafe")
            np.add(self.index, self.first, out=self.index)
        else:
            np.add(self.tape[self.queries], self.first, out=self.index)
            self.queries += 1
        return self.index


class NumpyLoop:
    """A run, or one for each step size, by dense products; `advance` takes it some rounds on.

    The rows are gathered as int8 and then widened, because 16 MB of float32 miss the cache; `wide` is the obvious loop,
    with features in the dtype of the run. Tried and no faster here: rows padded to 128 columns, packed bits, agents in
    groups that fit the cache, W by shifted slices, `Generator.integers` with a bound for each agent, and the non-zeros
    only (`take` and `bincount`).
    """

    def __init__(
        self,
        task: Task,
        dtype: str = "float32",
        tape: np.ndarray | None = None,
        etas: list[float] | None = None,
        *,
        wide: bool = False,
    ):
        problem, b = task.problem, task.batch
        n, d, etas = problem.agents, problem.dim, etas or [ETA]
        self.rows, self.etas = Rows(task, tape), np.array(etas, dtype)
        self.alpha = float(problem.alpha)
        # y a: all that the gradient of log(1 + exp(−y a·x)) needs of a row.
        self.features = (np.asarray(problem.inputs) * problem.targets[:, None]).astype(dtype if wide else np.int8)
        self.W = np.ascontiguousarray(task.network.mixing, dtype)

        self.sample = np.empty((n, b, d), dtype)
        self.narrow = self.sample if wide else np.empty((n, b, d), np.int8)
        self.margins, self.g = np.empty((n, b, len(etas)), dtype), np.empty((n, d, len(etas)), dtype)
        self.scratch = np.empty_like(self.g)

        # x and v side by side, so that one product mixes both.
        self.xv = np.empty((n, 2 * d, len(etas)), dtype)
        self.mixed = np.empty_like(self.xv)
        self.xv[:, :d] = np.asarray(problem.start)[:, None]
        self.m = self._gradient(self.xv[:, :d]).copy()
        self.xv[:, d:] = self.m

    @property
    def x(self) -> np.ndarray:
        """``[settings, agents, d]``."""
        return self.xv[:, : self.m.shape[1]].transpose(2, 0, 1)

    def advance(self, rounds: int) -> None:
        m, scratch, (n, d, _) = self.m, self.scratch, self.m.shape
        for _ in range(rounds):
            np.matmul(self.W, self.xv.reshape(n, -1), out=self.mixed.reshape(n, -1))
            x, v = self.mixed[:, :d], self.mixed[:, d:]
            np.multiply(self.xv[:, d:], self.etas, out=scratch)
            np.subtract(x, scratch, out=x)
            # m' − m = λ (g − m), and both m and v gain it.
            gain = self._gradient(x)
            np.subtract(gain, m, out=gain)
            np.multiply(gain, LAM, out=gain)
            np.add(m, gain, out=m)
            np.add(v, gain, out=v)
            self.xv, self.mixed = self.mixed, self.xv

    def _gradient(self, x: np.ndarray) -> np.ndarray:
        z, g, scratch = self.margins, self.g, self.scratch
        np.take(self.features, self.rows.draw(), axis=0, out=self.narrow, mode="clip")
        if self.narrow is not self.sample:
            np.copyto(self.sample, self.narrow)
        np.matmul(self.sample, x, out=z)
        np.exp(z, out=z)
        np.add(z, 1, out=z)
        np.divide(-1 / z.shape[1], z, out=z)
        np.matmul(self.sample.transpose(0, 2, 1), z, out=g)
        _add_regulariser(x, 2 * self.alpha, g, scratch)
        return g


class ScipyLoop:
    """A run, or one for each step size, by SciPy's products of CSR matrices; `advance` takes it some rounds on.

    The mini-batches of all agents are one matrix of ones, whose columns are those of all agents' models. Rows have as
    many entries as the longest; what is left over points to a column of the model that stays 0. So only column numbers
    are gathered. The kernels inside SciPy add to their result, which saves passes over memory that ``@`` would need.
    """

    def __init__(
        self, task: Task, dtype: str = "float32", tape: np.ndarray | None = None, etas: list[float] | None = None
    ):
        problem, b = task.problem, task.batch
        n, d, etas = problem.agents, problem.dim, etas or [ETA]
        self.rows, self.etas, self.dim = Rows(task, tape), np.array(etas, dtype), d
        self.alpha, self.width = float(problem.alpha), d + 1
        ones = ones_of(np.asarray(problem.inputs)).astype(np.int32)
        owners = np.searchsorted(problem.offsets, np.arange(len(ones)), side="right") - 1
        self.columns = ones + self.width * owners.astype(np.int32)[:, None]
        self.labels = problem.targets.astype(dtype)
        self.W: Any = csr_array(task.network.mixing.astype(dtype))

        entries = ones.shape[1]
        self.indices, self.data = np.empty((n, b, entries), np.int32), np.ones(n * b * entries, dtype)
        self.indptr = np.arange(0, n * b * entries + 1, entries, dtype=np.int32)
        self.y, self.margins = np.empty((n, b, 1), dtype), np.empty((n, b, len(etas)), dtype)

        self.x_now = np.zeros((n, d + 1, len(etas)), dtype)
        self.x_now[:, :d] = np.asarray(problem.start)[:, None]
        self.x_next, self.v_next = np.empty_like(self.x_now), np.empty_like(self.x_now)
        self.m, self.gain, self.scratch = (np.zeros_like(self.x_now) for _ in range(3))
        self._gain(self.x_now, 1.0)
        self.m += self.gain
        self.v_now = self.m.copy()

    @property
    def x(self) -> np.ndarray:
        """``[settings, agents, d]``."""
        return self.x_now[:, : self.dim].transpose(2, 0, 1)

    def advance(self, rounds: int) -> None:
        for _ in range(rounds):
            np.multiply(self.v_now, -self.etas, out=self.x_next)
            self._mix(self.x_now, self.x_next)
            self._gain(self.x_next, LAM)
            np.add(self.m, self.gain, out=self.m)
            np.copyto(self.v_next, self.gain)
            self._mix(self.v_now, self.v_next)
            self.x_now, self.x_next = self.x_next, self.x_now
            self.v_now, self.v_next = self.v_next, self.v_now

    def _mix(self, a: np.ndarray, onto: np.ndarray) -> None:
        n, size = len(a), a[0].size
        _sparsetools.csr_matvecs(n, n, size, self.W.indptr, self.W.indices, self.W.data, a.ravel(), onto.ravel())

    def _gain(self, x: np.ndarray, lam: float) -> None:
        """Put λ (g − m) into `gain`."""
        z, gain, drawn = self.margins, self.gain, self.rows.draw()
        np.take(self.columns, drawn, axis=0, out=self.indices, mode="clip")
        np.take(self.labels, drawn, out=self.y[..., 0], mode="clip")
        z.fill(0)
        self._product(_sparsetools.csr_matvecs, _sparsetools.csr_matvec, x, z)
        np.multiply(z, self.y, out=z)
        np.exp(z, out=z)
        np.add(z, 1, out=z)
        np.multiply(self.y, -lam / z.shape[1], out=self.y)
        np.divide(self.y, z, out=z)
        np.multiply(self.m, -lam, out=gain)
        _add_regulariser(x, 2 * self.alpha * lam, gain, self.scratch)
        self._product(_sparsetools.csc_matvecs, _sparsetools.csc_matvec, z, gain)
        gain[:, -1] = 0  # where entries that are left over were added

    def _product(self, several: Any, one: Any, a: np.ndarray, onto: np.ndarray) -> None:
        """Add the matrix times `a` by the kernels of csr; those of csc read the same arrays as its transpose."""
        parts = self.indptr, self.indices.ravel(), self.data, a.ravel(), onto.ravel()
        out, into = onto[..., 0].size, a[..., 0].size
        if a.shape[-1] == 1:
            one(out, into, *parts)
        else:
            several(out, into, a.shape[-1], *parts)


def ones_of(inputs: np.ndarray) -> np.ndarray:
    """The columns of the ones in each row, padded with the number of columns."""
    rows, columns = np.nonzero(inputs)
    if not (inputs[rows, columns] == 1).all():
        raise ValueError("this loop is for features that are 0 or 1.")
    counts = np.bincount(rows, minlength=len(inputs))
    ones = np.full((len(inputs), counts.max()), inputs.shape[1], np.int64)
    ones[rows, np.arange(rows.size) - np.repeat(np.cumsum(counts) - counts, counts)] = columns
    return ones


def _add_regulariser(x: np.ndarray, factor: float, onto: np.ndarray, scratch: np.ndarray) -> None:
    """Add factor · x / (1 + x²)²."""
    np.multiply(x, x, out=scratch)
    np.add(scratch, 1, out=scratch)
    np.multiply(scratch, scratch, out=scratch)
    np.divide(x, scratch, out=scratch)
    np.multiply(scratch, factor, out=scratch)
    np.add(onto, scratch, out=onto)
