"""Long runs in float32: what rules add up has no rounding that adds up, or that is said."""

import threading
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import gossamer as gs
from gossamer.core import State
from gossamer.experiments.running import run
from gossamer.specs.spec import Spec
from gossamer.torch.agent import ProcessAgent
from tests import plain

N, D = 8, 5
DRAWS = np.random.default_rng(0)
A, B = DRAWS.uniform(0.5, 2.0, (N, D)), 3 * DRAWS.normal(size=(N, D))
PROBLEM = gs.problems.quadratic(np.stack([np.diag(row) for row in A]), B)
TOP_3 = gs.compressors.top_k(k=3)
NETWORKS = {
    "shifts": gs.networks.ring(N, weights="lazy"),
    "table": plain.irregular(),
    "hubs": gs.networks.star(N),
    "mean": gs.networks.complete(N),
}


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("kind", [gs.LEAD, gs.CEDAS])
def test_duals_of_compressed_methods_do_not_drift(kind, network):
    """In float64 ‖∇F‖² goes to 1e-20; in float32 the rounding of one gradient is about 1e-12, and it stays there."""
    rule = kind(eta=0.1, gamma=0.5, compressor=TOP_3)
    result = gs.simulate(rule, PROBLEM, NETWORKS[network], steps=50_000, every=1_000, dtype="float32")
    table = result.table
    found = dict(zip(table["round"], table["grad_norm_sq"], strict=True))
    assert max(found[t] for t in (1_000, 5_000, 50_000)) < 1e-9


class Line:
    """A ring of threads in place of one of processes: a message arrives when all have sent theirs."""

    def __init__(self, rank, sent, barrier):
        self.world, self.sent, self.barrier = SimpleNamespace(rank=rank, size=len(sent)), sent, barrier

    def swap(self, message, t):
        self.sent[self.world.rank] = message
        self.barrier.wait()
        here, size = self.world.rank, self.world.size
        others = {rank: self.sent[rank].clone() for rank in ((here - 1) % size, (here + 1) % size)}
        self.barrier.wait()
        return others, {here: 0.5, **dict.fromkeys(others, 0.25)}


def test_processes_add_up_differences_too():
    """LEAD with the messages of PyTorch in float32, on a ring of 4 with weights ½, ¼, ¼, for 4,000 rounds."""
    size, rounds = 4, 4_000
    rule = gs.LEAD(eta=0.1, gamma=0.5, compressor=TOP_3)
    sent, barrier, models = [None] * size, threading.Barrier(size), np.zeros((size, D))

    def work(rank):
        agent: Any = ProcessAgent(Line(rank, sent, barrier))
        slopes, targets = (torch.tensor(a[rank], dtype=torch.float32) for a in (A, B))
        agent.gradient = lambda x: slopes * (x - targets)
        state: State = rule.init(torch.zeros(D), agent)
        for _ in range(rounds):
            state = rule.step(state, agent)
        models[rank] = state.x.double().numpy()

    threads = [threading.Thread(target=work, args=(rank,)) for rank in range(size)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    gradient = (A[:size] * (np.mean(models, axis=0) - B[:size])).mean(0)
    assert (gradient**2).sum() < 1e-7


DRIFTING = [gs.D2(eta=0.05), gs.EXTRA(eta=0.05)]


def test_long_runs_in_float32_of_rules_that_add_up_rounding_are_noted_once():
    network = gs.networks.ring(N, weights="lazy")
    with pytest.warns(
        UserWarning, match=r"rounding adds up in d2, extra, .* 5,000 rounds are many: .* \"float64\""
    ) as told:
        gs.simulate([*DRIFTING, gs.GNSD(eta=0.05)], PROBLEM, network, steps=5_000)
    assert len(told) == 1
    gs.simulate(DRIFTING, PROBLEM, network, steps=4_999)  # warnings are errors here
    gs.simulate(DRIFTING, PROBLEM, network, steps=5_000, dtype="float64")


def test_a_spec_notes_them_too():
    spec = {
        "problem": {"name": "quadratic", "A": np.eye(2).tolist(), "b": np.ones((4, 2)).tolist()},
        "network": {"name": "ring", "weights": "lazy"},
        "run": {"steps": 5_000},
        "algorithm": [{"name": "d2", "eta": 0.1}],
    }
    with pytest.warns(UserWarning, match="rounding adds up in d2") as told:
        run(Spec.of(spec), progress=False)
    assert len(told) == 1
