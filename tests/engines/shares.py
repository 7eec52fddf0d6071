"""Runs that test_devices.py starts in processes of their own, which have more devices: what they give, in one file.

python -m tests.engines.shares FILE DEVICES CASE,… [COORDINATOR PROCESSES PROCESS]
"""

import sys
from typing import Any

import networkx as nx
import numpy as np

import gossamer as gs
from gossamer.engines import devices as places
from gossamer.engines import processes

N, ROUNDS = 16, 6
IRREGULAR = gs.networks.from_graph(nx.barbell_graph(6, 4))
DMT, SGP = gs.BiasedDMT(eta=0.05, lam=0.3), gs.SGP(eta=0.05, beta=0.5)

CASES: dict[str, tuple[Any, gs.networks.Network]] = {
    "ring": (DMT, gs.networks.ring(N)),
    "irregular": (DMT, IRREGULAR),
    "changing": (
        DMT,
        gs.networks.sequence([gs.networks.torus(4, 4), gs.networks.star(N), gs.networks.complete(N)]),
    ),
    "failing": (DMT, gs.networks.failing(IRREGULAR, links=0.3, agents=0.2, seed=1)),
    "warm": (gs.BiasedDMT(eta=0.05, lam=0.3, warm=3), gs.networks.failing(IRREGULAR, links=0.3, seed=1)),
    "drawn": (DMT, gs.networks.every(gs.networks.random_matching(N, seed=2), 2)),
    "directed": (SGP, gs.networks.directed_erdos_renyi(N, 0.2, seed=3)),
    "directed failing": (SGP, gs.networks.failing(gs.networks.directed_ring(N), links=0.3, seed=4)),
    "a number for each agent": (gs.FROST(eta=0.003), gs.networks.directed_erdos_renyi(N, 0.2, seed=3)),
    "full gradients in a loop": (gs.GTSARAH(eta=0.05, recursions=3), gs.networks.ring(N)),
    "a tree": (gs.RelaySGD(eta=0.05), gs.networks.tree(N, 3)),
    "attacked": (
        gs.RobustDSGD(eta=0.05, lam=0.3, aggregator=gs.aggregators.clipped()),
        gs.networks.attacked(IRREGULAR, "alie", share=0.25),
    ),
    "told apart": (
        gs.RobustDSGD(eta=0.05, lam=0.3, aggregator=gs.aggregators.median()),
        gs.networks.sequence([gs.networks.torus(4, 4), gs.networks.complete(N)]),
    ),
    "lied to": (DMT, gs.networks.attacked(gs.networks.ring(N), "constant", agents=[3], scale=0.5)),
    "all-reduce": (gs.CentralizedSGD(eta=0.05), gs.networks.ring(N)),
    "private": (DMT, gs.networks.ring(N)),
}
ORACLES = {
    "private": gs.oracles.private(1.0, 0.5, 0.4)
    | gs.oracles.local_training(2, 0.05)
    | gs.oracles.error_feedback(gs.compressors.top_k(1))
}
"""Of cases whose gradients are not those of mini-batches."""
FEW = ("irregular", "warm", "failing", "directed", "full gradients in a loop", "attacked", "private")
"""Those that every run of the tests goes through."""
TOGETHER = ("failing",)
"""The cases of several processes."""


def problem(agents: int = N) -> gs.problems.Problem:
    """Samples, not equally many for each agent."""
    rng = np.random.default_rng(0)
    features = rng.normal(size=(100, 3))
    targets = features @ [1.0, -2.0, 0.5] + rng.normal(size=100)
    return gs.problems.least_squares((features, targets), agents, split="iid")


def simulated(case: str, seeds: Any = 2, **how: Any) -> np.ndarray:
    """What every agent has after some rounds, for each seed."""
    rule, network = CASES[case]
    given = {"steps": ROUNDS, "every": 3, "dtype": "float64", "progress": False}
    oracle = ORACLES.get(case, gs.oracles.minibatch(2))
    result = gs.simulate(rule, problem(), network, oracle, seeds=seeds, **given, **how)
    return next(iter(result.states.values()))


def choices() -> list[str]:
    """What is said of how runs are shared out over eight devices."""
    told: list[str] = []

    def say(text: str, *, aside: bool = False) -> None:
        told.append(text)

    for agents, seeds, devices, split in (
        (N, 1, "all", None),
        (12, 1, "all", "agents"),
        (N, 3, "all", None),
        (N, 20, 4, None),
        (N, 1, 2, None),
    ):
        with places.use_devices(devices, split):
            width = places.Width(1, seeds)
            places.choose_layout(1, seeds, width, problem(agents), gs.networks.ring(agents), gs.oracles.exact(), say)
    return told


if __name__ == "__main__":
    file, count, cases, *meeting = sys.argv[1:]
    several = int(meeting[1]) if meeting else 1
    gs.devices(int(count) // several)
    if meeting:
        processes.join(meeting[0], several, int(meeting[2]))
    saved = {case: simulated(case, devices=int(count), split="agents") for case in cases.split(",")}
    if not meeting:
        rounds: list[int] = []
        saved["runs"] = simulated("ring", 4, devices=4, callback=lambda t, rows: rounds.append(t))
        saved["apart"] = np.concatenate([simulated("ring", [seed]) for seed in range(4)])
        saved["rounds"] = np.array(rounds)
        saved["choices"] = np.array(choices())
    if processes.is_first():
        np.savez(file, **saved)
