"""Biased-DMT in Numba, over the non-zeros only: what a kernel written by hand for a9a and a ring reaches.

It uses what a general library cannot assume: every feature is 0 or 1, no row has more than 14 ones, W is a ring. One
thread, no fastmath: a parallel loop over agents pays a fork and a join every round, which was many times slower here.
Unsigned indices spare a check for negative ones.
"""

import math

import numpy as np
from numba import njit

from benchmarks.numpy_loop import ones_of
from benchmarks.task import ETA, LAM, Task


class NumbaKernel:
    """A run; `advance` takes it some rounds on. A tape ``[queries, agents, batch]`` replaces the random rows."""

    def __init__(self, task: Task, dtype: str = "float32", tape: np.ndarray | None = None):
        problem = task.problem
        n, d = problem.agents, problem.dim
        self.data = (
            ones_of(np.asarray(problem.inputs)).astype(np.uint8),  # in one byte each, they fit the cache
            problem.targets.astype(dtype),
            problem.offsets.astype(np.uint64),
            problem.sizes.astype(np.uint64),
        )
        W = task.network.mixing.astype(dtype)
        self.numbers = np.array([W[0, 0], W[0, 1], ETA, LAM, 2 * problem.alpha], dtype)
        self.taped = tape is not None
        self.tape = np.zeros((1, n, task.batch), np.uint64) if tape is None else tape.astype(np.uint64)
        # One more column, always zero in x: where rows with fewer ones point to.
        self.x, self.m, self.v = (np.zeros((n, d + 1), dtype) for _ in range(3))
        self.x[:, :d] = problem.start
        self.seed = np.uint64(1)
        for agent in range(n):
            x, m = self.x[agent], self.m[agent]
            seed = _gradient(agent, x, m, self.numbers[4], *self.data, self.tape, 0, self.taped, self.seed)
            self.seed = np.uint64(seed)  # Numba hands back a Python int, which it then takes for a signed one
        self.v[:] = self.m
        self.next_x, self.next_v, self.g = np.zeros_like(self.x), np.zeros_like(self.x), np.zeros_like(self.x)
        self.query = 1

    def advance(self, rounds: int) -> None:
        arrays = self.x, self.m, self.v, self.next_x, self.next_v, self.g
        given = self.tape, self.query, self.taped, self.seed
        self.seed = np.uint64(_advance(rounds, *arrays, self.numbers, *self.data, *given))
        self.query += rounds
        if rounds % 2:
            self.x, self.next_x, self.v, self.next_v = self.next_x, self.x, self.next_v, self.v


@njit(inline="always")
def _splitmix(seed):
    z = seed
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@njit
def _gradient(agent, x, g, twice_alpha, ones, labels, offsets, sizes, tape, query, taped, seed):
    batch, width, d = tape.shape[2], np.uint64(ones.shape[1]), x.shape[0] - 1
    one, rows, weights = x.dtype.type(1), np.empty(batch, np.uint64), np.empty(batch, x.dtype)
    for j in range(batch):
        if taped:
            rows[j] = offsets[agent] + tape[query, agent, j]
        else:
            seed += np.uint64(0x9E3779B97F4A7C15)
            rows[j] = offsets[agent] + (((_splitmix(seed) >> np.uint64(32)) * sizes[agent]) >> np.uint64(32))
    for j in range(batch):
        row, z = rows[j], x.dtype.type(0)
        for k in range(width):
            z += x[ones[row, k]]
        weights[j] = labels[row] * z
    for j in range(batch):
        weights[j] = -one / (batch * (one + math.exp(weights[j])))
    g[:] = 0
    for j in range(batch):
        row = rows[j]
        weight = labels[row] * weights[j]
        for k in range(width):
            g[ones[row, k]] += weight
    for k in range(d):
        bend = one + x[k] * x[k]
        g[k] += twice_alpha * x[k] / (bend * bend)
    g[d] = 0
    return seed


@njit
def _advance(rounds, x, m, v, next_x, next_v, g, numbers, ones, labels, offsets, sizes, tape, query, taped, seed):
    (n, d), (own, side, eta, lam, twice_alpha) = x.shape, numbers
    for t in range(rounds):
        for i in range(n):
            left, right = (i if i else n) - 1, i + 1 if i + 1 < n else 0
            for k in range(d):
                next_x[i, k] = own * x[i, k] + side * (x[left, k] + x[right, k]) - eta * v[i, k]
                next_v[i, k] = own * v[i, k] + side * (v[left, k] + v[right, k])
        for i in range(n):
            seed = _gradient(
                i, next_x[i], g[i], twice_alpha, ones, labels, offsets, sizes, tape, query + t, taped, seed
            )
            for k in range(d):
                gain = lam * (g[i, k] - m[i, k])
                m[i, k] += gain
                next_v[i, k] += gain
        x, next_x = next_x, x
        v, next_v = next_v, v
    return seed
