"""Very many agents: how long networks take to build, how fast rounds are, and how much memory that needs.

Biased-DMT, mini-batches of 16, logistic loss on random rows of the shape of a9a: 123 features that are 0 or 1 and 16
rows an agent. Each network runs in a process of its own, so that its peak of memory is its own.
"""

import argparse
import json
import math
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

import gossamer as gs
from gossamer import networks, oracles, problems
from gossamer.engines.block import Block
from gossamer.networks import Network
from gossamer.problems import Empirical

ROWS = BATCH = 16
RULE = gs.BiasedDMT(eta=0.1, lam=0.05)
SIZES = (1_000, 3_162, 10_000, 31_623, 100_000)


def torus(agents: int) -> Network:
    """The torus of this many agents that is nearest to a square."""
    rows = next(side for side in range(math.isqrt(agents), 0, -1) if agents % side == 0)
    return networks.torus(rows, agents // rows)


GRAPHS: dict[str, Callable[[int], Network]] = {
    "ring": networks.ring,
    "torus": torus,
    "random-regular": lambda agents: networks.random_regular(agents, 4),
    "exponential": networks.exponential,
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.large", description=__doc__)
    parser.add_argument("--agents", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=1_000)
    parser.add_argument("--graphs", nargs="+", choices=GRAPHS, default=list(GRAPHS), help="which networks")
    parser.add_argument("--json", action="store_true", help="print what was measured as JSON, one line for each part")
    parser.add_argument(
        "--quick", action="store_true", help="a ring of 3,200 agents, 50 rounds and two sizes: half a minute"
    )
    parser.add_argument("--million", action="store_true", help="only a ring of a million agents, d = 20, 20 rounds")
    parser.add_argument("--only", metavar="GRAPH", choices=GRAPHS, help=argparse.SUPPRESS)
    parser.add_argument("--dim", type=int, default=123, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.only:
        print(json.dumps(whole_run(given.only, given.agents, given.rounds, given.dim)))
        return 0
    if given.million:
        given.agents, given.rounds, given.dim, given.graphs = 1_000_000, 20, 20, ["ring"]
    if given.quick:
        given.agents, given.rounds, given.graphs = 3_200, 50, ["ring"]
    print(f"{given.agents:,} agents, {given.rounds:,} rounds, d = {given.dim}, through gs.simulate", flush=True)
    for graph in given.graphs:
        measured = in_own_process(graph, given.agents, given.rounds, given.dim)
        print(json.dumps(measured) if given.json else shown(measured), flush=True)
    if not given.million:
        growth = cost_by_agents([size for size in SIZES if size <= given.agents])
        print(json.dumps(growth) if given.json else shown_growth(growth))
    return 0


def in_own_process(graph: str, agents: int, rounds: int, dim: int) -> dict[str, Any]:
    """`whole_run` in a new process."""
    sizes = [f"--{name}={value}" for name, value in (("agents", agents), ("rounds", rounds), ("dim", dim))]
    command = [sys.executable, "-m", "benchmarks.large", "--only", graph, *sizes]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)


def whole_run(graph: str, agents: int, rounds: int, dim: int) -> dict[str, Any]:
    """One run through `gossamer.simulate`, and what it took."""
    imported = peak()
    simulated(random_problem(20, dim), networks.ring(20), 1)
    compiled = peak()
    began = time.perf_counter()
    problem = random_problem(agents, dim)
    data_seconds = time.perf_counter() - began
    data_peak = peak()
    began = time.perf_counter()
    network = GRAPHS[graph](agents)
    network_seconds = time.perf_counter() - began
    reached: list[tuple[int, float]] = []

    def report(name: str, done: int, of: int, loss: float | None) -> None:
        reached.append((done, time.perf_counter()))

    began, used = time.perf_counter(), time.process_time()
    result = simulated(problem, network, rounds, report)
    simulate_seconds, simulate_cpu = time.perf_counter() - began, time.process_time() - used
    ends = result.frame().row(-1, named=True)
    simulate_peak = peak()  # before ρ, which the run did not ask for
    began = time.perf_counter()
    gap = network.gap
    gap_seconds = time.perf_counter() - began
    per_round = (reached[-1][1] - reached[0][1]) / rounds
    return {
        "graph": network.name,
        "agents": agents,
        "rounds": rounds,
        "data_seconds": data_seconds,
        "network_seconds": network_seconds,
        "gap_seconds": gap_seconds,
        "gap": gap,
        "simulate_seconds": simulate_seconds,
        "simulate_cpu_seconds": simulate_cpu,
        "round_seconds": per_round,
        "agent_rounds_a_second": agents / per_round,
        "state_bytes": 3 * agents * dim * 4,
        "data_bytes": bytes_of((problem, network)),
        "data_peak_bytes": data_peak - imported,
        "peak_bytes": simulate_peak - imported,
        "imported_bytes": imported,
        "compiler_bytes": compiled - imported,
        "loss": [result.frame()["loss"][0], ends["loss"]],
        "worst_loss": ends["worst_loss"],
        "worst_loss_is": result.metrics["worst_loss"].about,
    }


def simulated(problem: Empirical, network: Network, rounds: int, report: Any = False) -> gs.Result:
    return gs.simulate(RULE, problem, network, oracles.minibatch(BATCH), steps=rounds, progress=report)


def random_problem(agents: int, dim: int) -> Empirical:
    """Rows of zeros and ones, a ninth of them ones as in a9a, and labels that a random model gives with noise."""
    draw = np.random.default_rng(agents)
    rows = ROWS * agents
    features = np.empty((rows, dim), np.int8)
    for first in range(0, rows, 100_000):  # a part at a time: random numbers take more room than what is made of them
        features[first : first + 100_000] = draw.random((min(100_000, rows - first), dim), np.float32) < 1 / 9
    labels = np.where(features[:, : dim // 2].sum(1) + draw.normal(0, 1, rows) > dim / 18, 1, -1)
    return problems.logistic((features, labels), agents, split="iid")


def cost_by_agents(sizes: list[int]) -> dict[str, Any]:
    """The time of a round on rings of these sizes, in turns, and how steeply it grows: 1 is linear."""
    blocks, at = {}, dict.fromkeys(sizes, 0)
    for agents in sizes:
        problem, network = random_problem(agents, 123), networks.ring(agents)
        blocks[agents] = Block(
            [RULE], problem, network, [oracles.minibatch(BATCH)], seeds=[0], steps=10_000, dtype="float32"
        )
        blocks[agents].advance(0, [0], [False])  # compiles
    wall, cpu = ({agents: math.inf for agents in sizes} for _ in range(2))
    for _ in range(5):
        for agents, block in blocks.items():
            rounds = max(2, 200_000 // agents)
            began, used = time.perf_counter(), time.process_time()
            block.advance(at[agents], [at[agents] + rounds], [False])
            jax.block_until_ready(block.run.state.x)
            wall[agents] = min(wall[agents], (time.perf_counter() - began) / rounds)
            cpu[agents] = min(cpu[agents], (time.process_time() - used) / rounds)
            at[agents] += rounds
    return {
        "sizes": sizes,
        **{
            f"{name}_{what}": value
            for name, seconds in (("wall", wall), ("cpu", cpu))
            for what, value in (
                ("round_seconds", [seconds[agents] for agents in sizes]),
                ("slope", float(np.polyfit(np.log(sizes), np.log([seconds[agents] for agents in sizes]), 1)[0])),
            )
        },
    }


def bytes_of(tree: Any) -> int:
    """The bytes of all arrays, as they are held."""
    return sum(np.asarray(leaf).nbytes for leaf in jax.tree.leaves(tree))


def peak() -> int:
    """The most bytes that this process has had so far."""
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def shown(measured: dict[str, Any]) -> str:
    needed = measured["state_bytes"] + measured["data_bytes"]
    return "\n".join(
        (
            f"\n{measured['graph']}",
            f"  built in         {measured['network_seconds']:.2f} s; the problem in {measured['data_seconds']:.1f} s; "
            f"its ρ = {measured['gap']:.4g} in {measured['gap_seconds']:.2f} s",
            f"  rounds a second  {1 / measured['round_seconds']:.2f}, {measured['agent_rounds_a_second'] / 1e6:.2f} "
            f"million agent-rounds a second; simulate took {measured['simulate_seconds']:.1f} s "
            f"({measured['simulate_cpu_seconds']:.1f} CPU s)",
            f"  memory           {measured['peak_bytes'] / 1e6:,.0f} MB at the peak (the problem's making "
            f"{measured['data_peak_bytes'] / 1e6:,.0f} MB), {measured['peak_bytes'] / needed:.2f} times the "
            f"{needed / 1e6:,.0f} MB of state ({measured['state_bytes'] / 1e6:,.0f}) and data; of these "
            f"{measured['compiler_bytes'] / 1e6:,.0f} MB a run of 20 agents takes too, without which it is "
            f"{(measured['peak_bytes'] - measured['compiler_bytes']) / needed:.2f} times; "
            f"{measured['imported_bytes'] / 1e6:,.0f} MB after the imports",
            f"  loss             {measured['loss'][0]:.4f} → {measured['loss'][1]:.4f}; {measured['worst_loss']:.4f} "
            f"is {measured['worst_loss_is']}",
        )
    )


def shown_growth(growth: dict[str, Any]) -> str:
    lines = ["\nA round on rings, the best of five turns; slopes of log time against log agents"]
    for k, agents in enumerate(growth["sizes"]):
        wall, cpu = growth["wall_round_seconds"][k], growth["cpu_round_seconds"][k]
        lines.append(
            f"  {agents:>9,} agents  {1e3 * wall:9.2f} ms  {1e6 * wall / agents:.3f} µs an agent  (CPU "
            f"{1e6 * cpu / agents:.3f})"
        )
    return "\n".join([*lines, f"  slope {growth['wall_slope']:.3f} (CPU {growth['cpu_slope']:.3f})"])


if __name__ == "__main__":
    sys.exit(main())
