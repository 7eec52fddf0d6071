"""The claims of the paper on topologies; margins were set before the first run."""

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse.linalg import LinearOperator, eigs

from gossamer.networks import Network, make
from gossamer.papers.verdicts import Claim, Insufficient, Question
from gossamer.papers.vocabulary import (
    Cost,
    Reading,
    average,
    chosen,
    describe,
    pair,
    rank_correlation,
    read_arrived,
    split_method,
)
from gossamer.results.study import Study

ZETA, AGENTS = 50, 32
GRAPHS = (
    *("ring", "torus", "hypercube", "exponential", "complete", "random-regular 3", "random-regular 8"),
    "one-peer-exponential",
)
METHODS = [f"d-psgd-atc @ {graph}" for graph in GRAPHS]


@functools.cache
def network_of(graph: str) -> Network:
    name, _, degree = graph.partition(" ")
    options: dict[str, Any] = {"degree": int(degree)} if degree else {}
    return make(name, AGENTS, **options)


def predict(graph: str, eta: float) -> tuple[float, float]:
    """Return the rate r, E‖x‖² ← (1 − r) E‖x‖², and the neighbours of the authors' fixed point; 0 and 1 without one."""
    rate, neighbours = 0.0, 1.0
    for _ in range(60):
        decay = (1 - eta) ** 2 / (1 - rate)
        if not 0 < decay < 1 - 1e-9:
            break
        neighbours = network_of(graph).effective_neighbors(decay) or math.nan
        rate, before = 1 - (1 - eta) ** 2 - (ZETA - 1) * eta**2 / neighbours, rate
        if not 0 <= rate < 1 or abs(rate - before) < 1e-8:
            break
    return (rate, neighbours) if 0 <= rate < 1 and neighbours else (0.0, 1.0)


@functools.cache
def best_step(graph: str) -> float:
    """Return the step size of the best rate that is predicted."""
    return max(np.geomspace(0.005, 1.0, 60).tolist(), key=lambda eta: predict(graph, eta)[0])


def effective(graph: str) -> float:
    """Return the effective neighbours at the step size whose predicted rate is best."""
    return predict(graph, best_step(graph))[1]


def exact_rate(graph: str, eta: float) -> float:
    """Return the rate exactly: the largest eigenvalue of the map from all E⟨x_i, x_j⟩ to those a round later.

    A local step multiplies them by (1 − η)², but E‖x_i‖² by 1 − 2η + ζη²; then W mixes both sides.
    """
    network = network_of(graph)
    rounds = [network.matrix(t).toarray() for t in range(getattr(network.mixer, "period", 1))]

    def advance(vector: np.ndarray) -> np.ndarray:
        C = vector.reshape(AGENTS, AGENTS)
        for W in rounds:
            D = (1 - eta) ** 2 * C
            np.fill_diagonal(D, (1 - 2 * eta + ZETA * eta**2) * np.diag(C))
            C = W @ D @ W.T
        return C.ravel()

    shape, start = (AGENTS**2, AGENTS**2), np.eye(AGENTS).ravel()
    step: Any = LinearOperator(shape, matvec=advance, dtype=np.float64)  # pyright: ignore[reportCallIssue]
    largest = np.asarray(eigs(step, k=1, v0=start, return_eigenvectors=False))
    return 1 - float(abs(largest[0])) ** (1 / len(rounds))


def predicted(study: Study) -> Question:
    """Ask if the predicted rate is the exact one within 5 %, at step sizes up to the best."""
    errors = {}
    for graph in GRAPHS:
        etas = np.geomspace(0.1, 1, 6) * best_step(graph)
        errors[graph] = max(abs(predict(graph, eta)[0] / exact_rate(graph, eta) - 1) for eta in etas.tolist())
    parts = {graph: np.array([error]) for graph, error in errors.items()}
    return Question("largest relative error of the predicted rate", parts, below=0.05, exact=True)


def by_graph(study: Study) -> Mapping[str, tuple[float, float]]:
    """Return the effective neighbours and ρ of each graph."""
    gaps = {graph: study.facts.get(graph, {}).get("gap") for graph in GRAPHS}
    if missing := [graph for graph, gap in gaps.items() if gap is None]:
        raise Insufficient(f"the gap of {', '.join(missing)} is not known")
    return {graph: (effective(graph), float(gap or 0)) for graph, gap in gaps.items()}


@dataclass(frozen=True)
class ChosenStep:
    """The step size that tuning chose."""

    title = "chosen η"

    def __call__(self, study: Study, method: str) -> Reading:
        values = dict(enumerate(chosen(study, *split_method(method)[:1], "eta", split_method(method)[1])))
        return Reading(values, f"{average(values):.3g}")


def correlations(measure: Cost | ChosenStep, study: Study) -> tuple[np.ndarray, np.ndarray, str]:
    """Return the Spearman correlations with effective neighbours and with ρ, by replicate, and what was read."""
    read = read_arrived(measure, study, METHODS)
    neighbours, gaps = zip(*by_graph(study).values(), strict=True)
    values = pair(*(one.values for one in read.values())).T
    found = [np.array([rank_correlation(x, row) for row in values]) for x in (neighbours, gaps)]
    note = f"{describe(measure, study, read)}; effective neighbours {', '.join(f'{n:.3g}' for n in neighbours)}; "
    return found[0], found[1], note + f"ρ {', '.join(f'{gap:.3g}' for gap in gaps)}"


def ordered(study: Study) -> Question:
    by_neighbours, _, note = correlations(Cost(), study)
    return Question(
        "Spearman correlation of rounds with effective neighbours", {"": by_neighbours}, below=-0.9, note=note
    )


def better_than_gap(study: Study) -> Question:
    by_neighbours, by_gap, note = correlations(Cost(), study)
    quantity = "size of the correlation with effective neighbours minus that with ρ"
    return Question(quantity, {"": abs(by_neighbours) - abs(by_gap)}, above=0.0, note=note)


def larger_steps(study: Study) -> Question:
    by_neighbours, _, note = correlations(ChosenStep(), study)
    return Question("Spearman correlation of η with effective neighbours", {"": by_neighbours}, above=0.9, note=note)


CLAIMS = [
    Claim(
        "graphs",
        "The rate that they predict is the exact one within 5 %, at six step sizes from a tenth of the best to the "
        "best",
        "Section 3",
        "A fixed point with the effective neighbours in it predicts the rate on random quadratics.",
        "It takes agents for equally correlated, which they are not.",
        predicted,
        "Their predicted rate is right within 5 %",
    ),
    Claim(
        "graphs",
        "Rounds follow the effective neighbours: their Spearman correlation over eight graphs is below −0.9",
        "Section 3",
        "The effective number of neighbours orders graphs by how fast they are.",
        "The equation for the rate is an approximation, and graphs of about as many neighbours may change places.",
        ordered,
    ),
    Claim(
        "graphs",
        "They order graphs better than ρ does: the size of the correlation is larger",
        "Introduction",
        "The spectral gap does not predict performance.",
        "Graphs with a larger gap often have more effective neighbours, too.",
        better_than_gap,
    ),
    Claim(
        "graphs",
        "Collaboration allows larger steps: the Spearman correlation of the tuned η with effective neighbours is above "
        "0.9",
        "Section 3",
        "The more agents share gradients, the larger the step size that is best.",
        "A grid of step sizes may not tell graphs apart.",
        larger_steps,
    ),
]
