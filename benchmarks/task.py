"""What is run: Biased-DMT on logistic regression over a ring."""

from typing import NamedTuple

import numpy as np

from gossamer import networks, problems
from gossamer.networks import Network
from gossamer.problems import Empirical

ETA, LAM = 0.1, 0.05


class Task(NamedTuple):
    """A problem, a network, and how many rows an agent draws for a gradient, with replacement."""

    problem: Empirical
    network: Network
    batch: int


def a9a() -> Task:
    """The contest: a9a sorted by label, 20 agents."""
    return Task(problems.logistic("a9a", 20, split="by-label", alpha=0.01), networks.ring(20), 64)


def synthetic(agents: int) -> Task:
    """Random signs, 100 columns, 50 rows an agent: only the number of agents differs."""
    draw = np.random.default_rng(agents)
    features = draw.integers(0, 2, (50 * agents, 100), np.int8) * np.int8(2) - np.int8(1)
    labels = draw.integers(0, 2, 50 * agents) * 2 - 1
    return Task(problems.logistic((features, labels), agents, split="iid"), networks.ring(agents), 16)
