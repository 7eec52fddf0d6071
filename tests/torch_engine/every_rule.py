"""One setting for each registered rule, made from what its hyper-parameters must be, and runs of it on both sides."""

import dataclasses
from typing import ClassVar

import numpy as np

from gossamer import aggregators, compressors, networks
from gossamer.algorithms import ALGORITHMS
from gossamer.core import State, hyperparameters, kinds_of_parts, ranges
from tests.torch_engine import quadratics

STEPS = 12


def setting(kind):
    """Small numbers inside every range, two where it counts, top-k where it compresses, clipping where it combines."""
    numbers = {key: 0.05 if key in ("eta", "inner") else 0.3 for key in ranges(kind)}
    counted = {key: 2 for key in hyperparameters(kind) if key not in numbers}
    some = {"compressor": compressors.top_k(2), "aggregator": aggregators.clipped(0.1)}
    return kind(**numbers, **counted, **{key: some[part] for key, part in kinds_of_parts(kind).items()})


def network_for(kind):
    """A directed graph for those that allow it, a path for those that need a tree, else a ring on which all rules
    converge."""
    if kind.tree:
        return networks.path(4)
    if kind.needs not in ("doubly", "nothing"):
        return networks.directed(quadratics.one_way(4))
    return networks.ring(4, weights="lazy")


CASES = {name: (setting(kind), network_for(kind)) for name, kind in ALGORITHMS.items()} | {
    f"{name} from {warm} on {network.name}": (dataclasses.replace(setting(ALGORITHMS[name]), warm=warm), network)
    for name, warm, network in (
        ("biased-dmt", 0, networks.ring(4)),
        ("biased-dmt", "mean", networks.ring(4)),
        ("biased-dmt", 3, networks.random_matching(4, seed=2)),
        ("momentum-tracking", "mean", networks.ring(4)),
        ("k-gt", 0, networks.ring(4)),
        ("k-gt", "mean", networks.ring(4)),
        ("gt-nsgdm", "mean", networks.ring(4)),
        ("push-pull", 3, networks.failing(networks.directed_ring(4), links=0.3, seed=3)),
    )
}
"""Every rule, its tracker after two gossips if it has one, and other starts of a few."""


class Asked(quadratics.Stacked):
    """All agents in NumPy, and where they ask for gradients."""

    asked: ClassVar[list] = []

    def gradient(self, *points):
        self.asked.append(points[0])
        return super().gradient(*points)

    full_gradient = gradient


def looped(name):
    """Where a plain loop asks after `STEPS` answers, [agents, d]: what an optimizer then shows."""
    rule, network = CASES[name]
    Asked.asked = []
    state = rule.init(np.tile(quadratics.problem(4)[3], (4, 1)), Asked(4, network, 0))
    for t in range(STEPS + 1):
        state = rule.step(state, Asked(4, network, t))
    assert isinstance(state, State)
    return Asked.asked[STEPS]


def trained(rank, agents):
    """The parameters of this rank after `STEPS` steps of every rule: straight, through a state that is loaded, and, as
    large models are, span by span."""
    from gossamer.torch import Decentralized, flat

    def made(halves, case, span=1000):
        flat.SPAN = span
        return Decentralized(halves, *case, timeout=30)

    found = {}
    for name, case in CASES.items():
        halves, loss = quadratics.model(rank, agents)
        optimizer = made(halves, case)
        quadratics.train(optimizer, loss, 5, twice=True)
        saved = optimizer.state_dict()
        quadratics.train(optimizer, loss, STEPS - 5, twice=True)
        straight = quadratics.joined(halves)
        optimizer = made(halves, case)
        optimizer.load_state_dict(saved)
        quadratics.train(optimizer, loss, STEPS - 5, twice=True)
        again = quadratics.joined(halves)
        halves, loss = quadratics.model(rank, agents)
        optimizer = made(halves, case, span=2)
        quadratics.train(optimizer, loss, STEPS, twice=True)
        found[name] = straight, again, quadratics.joined(halves)
    return found
