"""What is run: Biased-DMT on logistic regression over a ring, and on a small network."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from gossamer import networks, problems
from gossamer.networks import Network
from gossamer.problems import Empirical
from gossamer.problems.inputs import Bits

ETA, LAM = 0.1, 0.05

HIDDEN = 32
"""The width of the network's hidden layer."""


class Task(NamedTuple):
    """A problem, a network, and how many rows an agent draws for a gradient, with replacement."""

    problem: Empirical
    network: Network
    batch: int


def a9a() -> Task:
    """The contest: a9a sorted by label, 20 agents."""
    return Task(problems.logistic("a9a", 20, split="by-label", alpha=0.01), networks.ring(20), 64)


def without_kernels(task: Task) -> Task:
    """The same with features as they are held where there are no native kernels."""
    bits = Bits.of(np.asarray(task.problem.inputs))
    return task._replace(problem=replace(task.problem, inputs=bits))


def digits() -> Task:
    """Dense features and more parameters: a perceptron on the digits sorted by label, 16 agents."""
    return Task(problems.neural("digits", 16, split="by-label", hidden=(HIDDEN,)), networks.ring(16), 32)


def synthetic(agents: int, d: int = 100, neighbours: int = 2) -> Task:
    """Random signs, 50 rows an agent, on a ring, or on a random graph where each has so many neighbours."""
    draw = np.random.default_rng(agents)
    features = draw.integers(0, 2, (50 * agents, d), np.int8) * np.int8(2) - np.int8(1)
    labels = draw.integers(0, 2, 50 * agents) * 2 - 1
    network = networks.ring(agents) if neighbours == 2 else networks.random_regular(agents, neighbours)
    return Task(problems.logistic((features, labels), agents, split="iid"), network, 16)
