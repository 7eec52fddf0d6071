"""Quadratics on which a rule diverges: where no bound can be proved, the reason may be that none holds."""

import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from gossamer.core import InputError, State, brief
from gossamer.networks import Network
from gossamer.worst.case import Bias, Case, Functions, SymbolicAgents, at_round, smooth
from gossamer.worst.certificate import find_relations
from gossamer.worst.exact import check_rule
from gossamer.worst.spaces import Given, NotLinear, Vectors, pad

MOST_AGENTS = 64
"""The most agents among whom diverging quadratics are looked for."""

MEANS = (0.003, 0.01, 0.1, 0.3, 0.6, 1.0)
"""The curvatures of F, as shares of L, that are tried."""

GROWS = 1e-7
"""A spectral radius above 1 by less may be rounding: a double root of 1 moves by the square root of that."""


@dataclass(frozen=True)
class Divergence:
    r"""Quadratics $f_i(x) = \frac12 a_i x^2$, whose mean has a minimum, on which a rule diverges."""

    curvatures: np.ndarray
    """a_i, each in [−L, L]."""
    radius: float
    """The spectral radius of a round: errors grow by this factor."""

    def __str__(self) -> str:
        shown = ", ".join(f"{a:.4g}" for a in self.curvatures[:8]) + ", …" * (len(self.curvatures) > 8)
        return f"it diverges on quadratics with the curvatures {shown}: errors grow by {self.radius:.6g} a round"


class _Quadratics(SymbolicAgents):
    """Agents whose losses are quadratics of these curvatures, with the minimum at 0."""

    def __init__(self, case: Case, curvatures: np.ndarray):
        super().__init__(case, 0)
        self.curvatures = curvatures[:, None]

    def gradient(self, *points: Any) -> Any:
        first, *others = (Vectors(x.space, x.c * self.curvatures) for x in points)
        return (first, *others) if others else first

    full_gradient = gradient

    def _compress(self, a: Any, by: Any) -> Any:
        raise NotLinear("a compressed message has no one linear iteration, whose spectral radius would be known.")


class _Growth:
    """The growth of errors in a round of a rule, on quadratics, among the states that keep the rule's relations."""

    def __init__(self, rule: Any, network: Network):
        relations = find_relations(rule, smooth())
        self.rule, self.case, n = at_round(rule, 0), Case(Given(network), smooth(), Bias()), network.agents
        self.names = relations.names
        self.state = State(**{name: self.case.space.leaf() for name in self.names}, **relations.numbers)
        mean = np.full((n, n), 1 / n)
        free = sum(np.kron(w, part) for w, part in zip(relations.weights, (mean, np.eye(n) - mean), strict=True))
        # the mean model may be at any place
        place = np.kron([relations.moves[name] for name in self.names], np.ones(n))
        U, size, _ = np.linalg.svd(np.column_stack([free, place]))
        self.U = U[:, : int((size > 1e-9 * size[0]).sum())]

    def radius(self, curvatures: np.ndarray) -> float:
        """Return the spectral radius of a round."""
        after = self.rule.step(self.state, _Quadratics(self.case, curvatures))
        P = np.concatenate([pad(after[name].c, self.case.space.columns) for name in self.names])
        return float(np.abs(np.linalg.eigvals(self.U.T @ P @ self.U)).max())


def diverging(
    rule: Any, network: Network, functions: Functions | None = None, *, alike: bool = False
) -> Divergence | None:
    """Look for quadratics of a class on which a rule diverges; None if none was found, which proves nothing.

    Where curvatures differ ζ² has no bound, so that a bound which counts ζ² may hold all the same: with `alike` all
    agents have one curvature, of which a hundred are tried. Otherwise agents have the largest or the least curvature of
    the class, in the patterns of W's eigenvectors, with as many at the largest as give F a chosen curvature; then two
    agents change places as long as errors grow faster.
    """
    functions = functions or smooth()
    check_rule(rule)
    if not isinstance(functions, Functions) or not math.isfinite(functions.L):
        raise InputError(f"functions must be made by gossamer.smooth or gossamer.convex, but is {brief(functions)}.")
    if not isinstance(network, Network) or network.changes or network.stochastic != "doubly":
        raise InputError("quadratics are looked for on a network with one doubly stochastic W for all rounds.")
    if network.agents > MOST_AGENTS:
        raise InputError(
            f"quadratics are looked for among at most {MOST_AGENTS} agents, but there are {network.agents}."
        )
    n, L, low = network.agents, functions.L, functions.mu
    growth = _Growth(rule, network)
    if alike:
        tried = [np.full(n, a) for a in np.linspace(max(low, 0.01 * L), L, 100)]
    else:
        patterns = np.linalg.eigh((network.mixing + network.mixing.T) / 2)[1].T
        tried = []
        for mean in MEANS:
            wanted = max(mean * L, low)
            share = np.clip((wanted - low) * n / (L - low) - np.arange(n), 0, 1)
            for pattern in patterns:
                a = np.empty(n)
                a[np.argsort(-pattern)] = low + (L - low) * share
                tried.append(a)
            tried.append(np.full(n, wanted))
    radii = [growth.radius(a) for a in tried]
    best, largest = tried[int(np.argmax(radii))], max(radii)
    improved = not alike
    while improved and largest <= 1 + GROWS:
        improved = False
        for i, j in itertools.combinations(range(n), 2):
            swapped = best.copy()
            swapped[[i, j]] = best[[j, i]]
            radius = growth.radius(swapped)
            if radius > largest + GROWS:
                best, largest, improved = swapped, radius, True
    return Divergence(best, largest) if largest > 1 + GROWS else None
