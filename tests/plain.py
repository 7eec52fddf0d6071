"""A rule's `Agent` in plain NumPy, and small problems with answers in closed form."""

import networkx as nx
import numpy as np

import gossamer as gs
from tests import further_reference as reference


class NumpyAgents:
    """All agents stacked, with any matrix and any gradient function: what a rule needs, in a few lines."""

    def __init__(self, W, gradient, R=None, C=None, rounds=None):
        self.matrices = {"W": W, "R": W if R is None else R, "C": W if C is None else C}
        self._gradient, self._rounds = gradient, rounds

    def gradient(self, *points):
        return _like(points, tuple(self._gradient(x) for x in points))

    full_gradient = gradient

    def gossip(self, *arrays, over="W"):
        letters = over if over == "RC" else over * len(arrays)
        return _like(arrays, tuple(self.matrices[by] @ a for by, a in zip(letters, arrays, strict=True)))

    def gossip_compressed(self, *arrays, by):
        sent = tuple(by.compress(None, a) for a in arrays)
        return _like(arrays, tuple((q, self.matrices["W"] @ q) for q in sent))

    def gossip_copies(self, copy, apart, a, by=None):
        q = a if by is None else by.compress(None, a)
        return q, copy + q - self.matrices["W"] @ (copy + q)

    def gossip_robust(self, *arrays, by):
        return _like(arrays, tuple(reference.combined(a, self.matrices["W"], by) for a in arrays))

    def gossip_sum(self, *arrays):
        linked = (self.matrices["W"] != 0) & ~np.eye(len(self.matrices["W"]), dtype=bool)
        return _like(arrays, tuple(linked @ a for a in arrays))

    def mean(self, *arrays):
        return _like(arrays, tuple(np.broadcast_to(a.mean(0), a.shape) for a in arrays))

    def average(self, a, warm, over="W"):
        if warm == "mean":
            return self.mean(a)
        for t in range(warm):
            a = (self.matrices[over] if self._rounds is None else self._rounds[t]) @ a
        return a

    def ones(self):
        return np.ones((len(self.matrices["C"]), 1))

    def place(self):
        return np.eye(len(self.matrices["R"]))

    def norm(self, a):
        return np.linalg.norm(a, axis=1, keepdims=True)

    def repeat(self, times, step, *arrays):
        for _ in range(times):
            made = step(*arrays)
            arrays = made if isinstance(made, tuple) else (made,)
        return _like(arrays, arrays)


def _like(given, made):
    return made if len(given) > 1 else made[0]


class Nothing:
    """A compressor that changes nothing, in NumPy."""

    def compress(self, key, a):
        return a

    def bits(self, size, itemsize):
        return 8 * size * itemsize


def states(rule, X, W, gradient, steps):
    """The states of a rule at rounds 0 … steps; `W` may be one matrix or one for each round, or a pair (R, C)."""
    pair = {"R": W[0], "C": W[1]} if isinstance(W, tuple) else {}
    matrices = W if isinstance(W, list) else [None if pair else W] * max(steps, 1)
    found = [rule.init(X, NumpyAgents(matrices[0], gradient, **pair, rounds=None if pair else matrices))]
    for t in range(steps):
        found.append(rule.step(found[-1], NumpyAgents(matrices[t], gradient, **pair)))
    return found


def irregular(weights="metropolis"):
    """Eight agents on a graph with degrees 1 to 4."""
    return gs.networks.from_graph(graph(), weights)


def tree():
    """Eight agents on a tree with degrees 1 to 4, five links wide."""
    return gs.networks.from_graph(nx.Graph([(0, 1), (0, 2), (0, 3), (3, 5), (0, 4), (5, 6), (6, 7)]))


def graph():
    links = [(0, 1), (0, 2), (0, 3), (0, 4), (1, 2), (3, 5), (5, 6), (6, 4), (6, 7)]
    return nx.Graph(links)


def directed():
    """Eight agents on a directed graph with unequal degrees."""
    links = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 6), (6, 7), (7, 0), (0, 4), (2, 6), (6, 1), (3, 0)]
    made = nx.DiGraph()
    made.add_nodes_from(range(8))
    made.add_edges_from(links)
    return gs.networks.directed(made)


def heterogeneous(agents=8, d=5, seed=0):
    """Quadratics with different Hessians and centres, and one constant bias for each agent."""
    rng = np.random.default_rng(seed)
    roots = rng.normal(size=(agents, d, d))
    A = roots @ roots.transpose(0, 2, 1) / d + 0.2 * np.eye(d)
    b, E = rng.normal(size=(agents, d)), 0.3 * rng.normal(size=(agents, d))
    return gs.problems.quadratic(A, b), E


def gradient_of(problem, E=0.0):
    """The biased gradients of a quadratic, in NumPy."""
    return lambda X: np.einsum("nde,ne->nd", problem.A, X - problem.b) + E
