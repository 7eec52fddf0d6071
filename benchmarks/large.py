"""Measure a run of very many agents: how long its network takes to build, how fast its rounds are, and its memory.

    python -m benchmarks.large [--agents 100000] [--rounds 1000] [--dim 123] [--graphs ring torus …]

Biased-DMT, mini-batches of 16, logistic loss on random rows of the shape of a9a: features that are 0 or 1, and 16 rows
an agent. Each network runs in a process of its own, so that its peak of memory is its own. How the time of a round
grows with the agents is in `benchmarks.scaling`.
"""

import argparse
import math
import resource
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import jax
import numpy as np

import gossamer as gs
from gossamer import networks, oracles, problems
from gossamer.networks import Network
from gossamer.problems import Empirical

ROWS = BATCH = 16
RULE = gs.BiasedDMT(eta=0.1, lam=0.05)


def build_torus(agents: int) -> Network:
    """Return the torus of this many agents that is nearest to a square."""
    rows = next(side for side in range(math.isqrt(agents), 0, -1) if agents % side == 0)
    return networks.torus(rows, agents // rows)


GRAPHS: dict[str, Callable[[int], Network]] = {
    "ring": networks.ring,
    "torus": build_torus,
    "random-regular": lambda agents: networks.random_regular(agents, 4),
    "exponential": networks.exponential,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.large", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--agents", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=1_000)
    parser.add_argument("--dim", type=int, default=123)
    parser.add_argument("--graphs", nargs="+", choices=GRAPHS, default=list(GRAPHS), help="which networks")
    given = parser.parse_args()
    print(f"{given.agents:,} agents, {given.rounds:,} rounds, d = {given.dim}, through gs.simulate", flush=True)
    for graph in given.graphs:
        # spawn: a fork would copy the peak of this process
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            print(pool.submit(measure, graph, given.agents, given.rounds, given.dim).result(), flush=True)


def measure(graph: str, agents: int, rounds: int, dim: int) -> str:
    """Run through `gossamer.simulate`, and return what it took."""
    run(random_problem(20, dim), networks.ring(20), 1)  # imports and compiles, for a peak without the agents
    compiled, began = peak(), time.perf_counter()
    problem = random_problem(agents, dim)
    data_seconds, began = time.perf_counter() - began, time.perf_counter()
    network = GRAPHS[graph](agents)
    network_seconds = time.perf_counter() - began
    reached: list[float] = []

    def report(name: str, done: int, of: int, loss: float | None) -> None:
        reached.append(time.perf_counter())

    began = time.perf_counter()
    loss = run(problem, network, rounds, report).frame()["loss"]
    seconds, each = time.perf_counter() - began, (reached[-1] - reached[0]) / rounds
    state, data = 3 * agents * dim * 4, sum(np.asarray(leaf).nbytes for leaf in jax.tree.leaves((problem, network)))
    beyond = peak() - compiled
    return "\n".join(
        (
            f"\n{network.name}",
            f"  built in         {network_seconds:.2f} s; the problem in {data_seconds:.1f} s",
            f"  rounds a second  {1 / each:.2f}, {agents / each / 1e6:.2f} million agent-rounds a second; simulate "
            f"took {seconds:.1f} s",
            f"  memory           {(compiled + beyond) / 1e6:,.0f} MB at the peak, {beyond / 1e6:,.0f} MB beyond a run "
            f"of 20 agents: {beyond / (state + data):.2f} times state ({state / 1e6:,.0f} MB) and data",
            f"  loss             {loss[0]:.4f} → {loss[-1]:.4f}",
        )
    )


def run(problem: Empirical, network: Network, rounds: int, report: Any = False) -> gs.Result:
    return gs.simulate(RULE, problem, network, oracles.minibatch(BATCH), steps=rounds, every=rounds, progress=report)


def random_problem(agents: int, dim: int) -> Empirical:
    """Draw rows of zeros and ones, a ninth of them ones as in a9a, and labels that a random model gives with noise."""
    draw = np.random.default_rng(agents)
    rows = ROWS * agents
    features = np.empty((rows, dim), np.int8)
    for first in range(0, rows, 100_000):  # a part at a time: random numbers take more room than what is made of them
        features[first : first + 100_000] = draw.random((min(100_000, rows - first), dim), np.float32) < 1 / 9
    labels = np.where(features[:, : dim // 2].sum(1) + draw.normal(0, 1, rows) > dim / 18, 1, -1)
    return problems.logistic((features, labels), agents, split="iid")


def peak() -> int:
    """Return the most bytes that this process has had so far."""
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


if __name__ == "__main__":
    main()
