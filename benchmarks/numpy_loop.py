"""Biased-DMT in NumPy, as fast as we could make it: no large array is made inside a round.

The rows are gathered as int8 and then widened, because 16 MB of float32 miss the cache; that obvious loop is kept as
`wide`. Tried and no faster here: rows padded to 128 columns, packed bits, agents in groups that fit the cache, W by
shifted slices, `Generator.integers` with a bound for each agent, and the non-zeros only (`take` and `bincount`).
"""

import numpy as np

from benchmarks.task import ETA, LAM, Task


class NumpyLoop:
    """A run; `advance` takes it some rounds on.

    A tape ``[queries, agents, batch]`` replaces the random rows; `wide` keeps the features in the dtype of the run.
    """

    def __init__(self, task: Task, dtype: str = "float32", tape: np.ndarray | None = None, *, wide: bool = False):
        problem, b = task.problem, task.batch
        n, d = problem.agents, problem.dim
        self.tape, self.queries = tape, 0
        self.alpha = float(problem.alpha)
        # y a: all that the gradient of log(1 + exp(−y a·x)) needs of a row.
        self.rows = (np.asarray(problem.inputs) * problem.targets[:, None]).astype(dtype if wide else np.int8)
        self.first = problem.offsets.astype(np.int64)[:, None]
        self.sizes = problem.sizes.astype(np.float32)[:, None]
        self.W = np.ascontiguousarray(task.network.mixing, dtype)
        self.random = np.random.Generator(np.random.SFC64(0))  # faster than the default PCG64

        self.uniform, self.index = np.empty((n, b), np.float32), np.empty((n, b), np.int64)
        self.sample = np.empty((n, b, d), dtype)
        self.narrow = self.sample if wide else np.empty((n, b, d), np.int8)
        self.margins, self.g = np.empty((n, b, 1), dtype), np.empty((n, 1, d), dtype)
        self.scratch = np.empty((n, d), dtype)

        # x and v side by side, so that one product mixes both.
        self.xv, self.mixed = np.empty((n, 2 * d), dtype), np.empty((n, 2 * d), dtype)
        self.xv[:, :d] = problem.start
        self.m = self._gradient(self.xv[:, :d]).copy()
        self.xv[:, d:] = self.m

    @property
    def x(self) -> np.ndarray:
        return self.xv[:, : self.m.shape[1]]

    def advance(self, rounds: int) -> None:
        m, d, scratch = self.m, self.m.shape[1], self.scratch
        for _ in range(rounds):
            np.matmul(self.W, self.xv, out=self.mixed)
            x, v = self.mixed[:, :d], self.mixed[:, d:]
            np.multiply(self.xv[:, d:], ETA, out=scratch)
            np.subtract(x, scratch, out=x)
            # m' − m = λ (g − m), and both m and v gain it.
            gain = self._gradient(x)
            np.subtract(gain, m, out=gain)
            np.multiply(gain, LAM, out=gain)
            np.add(m, gain, out=m)
            np.add(v, gain, out=v)
            self.xv, self.mixed = self.mixed, self.xv

    def _gradient(self, x: np.ndarray) -> np.ndarray:
        z, scratch = self.margins, self.scratch
        self._draw()
        np.take(self.rows, self.index, axis=0, out=self.narrow, mode="clip")
        if self.narrow is not self.sample:
            np.copyto(self.sample, self.narrow)
        np.matmul(self.sample, x[:, :, None], out=z)
        np.exp(z, out=z)
        np.add(z, 1, out=z)
        np.divide(-1 / z.shape[1], z, out=z)
        np.matmul(z.transpose(0, 2, 1), self.sample, out=self.g)
        np.multiply(x, x, out=scratch)
        np.add(scratch, 1, out=scratch)
        np.multiply(scratch, scratch, out=scratch)
        np.divide(x, scratch, out=scratch)
        np.multiply(scratch, 2 * self.alpha, out=scratch)
        g = self.g[:, 0]
        np.add(g, scratch, out=g)
        return g

    def _draw(self) -> None:
        if self.tape is None:
            # 24 random bits times the size, cut off; the product stays below the size after rounding.
            self.random.random(out=self.uniform, dtype=np.float32)
            np.multiply(self.uniform, self.sizes, out=self.uniform)
            np.copyto(self.index, self.uniform, casting="unsafe")
            np.add(self.index, self.first, out=self.index)
        else:
            np.add(self.tape[self.queries], self.first, out=self.index)
            self.queries += 1
