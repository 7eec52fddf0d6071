"""A rule's `Agent` in plain NumPy, and small problems with answers in closed form."""

import networkx as nx
import numpy as np

import gossamer as gs


class NumpyAgents:
    """All agents stacked, with any matrix and any gradient function: what a rule needs, in six lines."""

    def __init__(self, W, gradient):
        self.W, self.gradient = W, gradient

    def gossip(self, *arrays):
        mixed = tuple(self.W @ a for a in arrays)
        return mixed if len(arrays) > 1 else mixed[0]

    def mean(self, *arrays):
        means = tuple(np.broadcast_to(a.mean(0), a.shape) for a in arrays)
        return means if len(arrays) > 1 else means[0]


def states(rule, X, W, gradient, steps):
    """The states of a rule at rounds 0 … steps; `W` may be one matrix or one for each round."""
    matrices = [W] * max(steps, 1) if isinstance(W, np.ndarray) else W
    found = [rule.init(X, NumpyAgents(matrices[0], gradient))]
    for t in range(steps):
        found.append(rule.step(found[-1], NumpyAgents(matrices[t], gradient)))
    return found


def irregular():
    """Eight agents on a graph with degrees 1 to 4."""
    graph = nx.Graph([(0, 1), (0, 2), (0, 3), (0, 4), (1, 2), (3, 5), (5, 6), (6, 4), (6, 7)])
    return gs.networks.from_graph(nx.relabel_nodes(graph, int))


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
