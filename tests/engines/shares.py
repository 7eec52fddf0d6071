"""Runs that tests/engines/test_devices.py starts in processes of their own: the models of every case, in one file.

python -m tests.engines.shares FILE DEVICES [COORDINATOR PROCESSES PROCESS]
"""

import sys

import networkx as nx
import numpy as np

import gossamer as gs
from gossamer.engines.devices import places, processes

N, ROUNDS = 16, 6
IRREGULAR = nx.barbell_graph(6, 4)

GOSSIP = {
    "ring": lambda: gs.networks.ring(N),
    "irregular": lambda: gs.networks.from_graph(IRREGULAR),
    "changing": lambda: gs.networks.sequence([gs.networks.torus(4, 4), gs.networks.star(N), gs.networks.complete(N)]),
    "failing": lambda: gs.networks.failing(gs.networks.ring(N), links=0.3, agents=0.2, seed=1),
    "drawn": lambda: gs.networks.every(gs.networks.random_matching(N, seed=2), 2),
}
PUSH_SUM = {
    "directed": lambda: gs.networks.directed_erdos_renyi(N, 0.2, seed=3),
    "directed failing": lambda: gs.networks.failing(gs.networks.directed_ring(N), links=0.3, seed=4),
}


def problem() -> gs.problems.Problem:
    """Samples, unequally many for each agent."""
    rng = np.random.default_rng(0)
    features = rng.normal(size=(100, 3))
    return gs.problems.least_squares((features, features @ [1.0, -2.0, 0.5] + rng.normal(size=100)), N, split="iid")


def models(devices: int | None, cases: list[str]) -> dict[str, np.ndarray]:
    """What every agent has after some rounds, by case."""
    made = {}
    for name in cases:
        rule = gs.BiasedDMT(eta=0.05, lam=0.3) if name in GOSSIP else gs.SGP(eta=0.05, beta=0.5)
        network = (GOSSIP | PUSH_SUM)[name]()
        split = None if devices is None else "agents"
        how = {"steps": ROUNDS, "seeds": 2, "dtype": "float64", "devices": devices, "split": split, "progress": False}
        result = gs.simulate(rule, problem(), network, gs.oracles.minibatch(2), **how)
        made[name] = next(iter(result.states.values()))
    return made


if __name__ == "__main__":
    file, count, *meeting = sys.argv[1:]
    several = int(meeting[1]) if meeting else 1
    places.devices(int(count) // several)
    if meeting:
        processes.join(meeting[0], several, int(meeting[2]))
    cases = ["irregular", "directed failing"] if meeting else [*GOSSIP, *PUSH_SUM]
    made = models(int(count), cases)
    if processes.first():
        np.savez(file, **made)
