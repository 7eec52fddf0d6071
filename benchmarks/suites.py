"""The three questions: how fast a round is, what a grid of settings costs, and how the cost grows with agents."""

from functools import partial
from typing import Any

import numpy as np

from benchmarks import task
from benchmarks.agreement import check
from benchmarks.compiled import Compiled
from benchmarks.numba_kernel import NumbaKernel
from benchmarks.numpy_loop import NumpyLoop
from benchmarks.timing import Spread, take_turns

AIM = 1.3
"""How many times as fast as NumPy the simulator should be."""

SETTINGS = 32


def contest(repetitions: int = 40, rounds: int = 600) -> dict[str, Any]:
    """Rounds a second of Gossamer, NumPy and Numba, after a check that they compute the same."""
    work = task.a9a()
    apart = check(work)
    runs = {
        "Gossamer": Compiled(work, horizon=(repetitions + 1) * rounds),
        "NumPy": NumpyLoop(work),
        "NumPy, float32 rows": NumpyLoop(work, wide=True),
        "Numba": NumbaKernel(work),
    }
    seconds = take_turns({name: partial(run.advance, rounds) for name, run in runs.items()}, repetitions)
    against = {name: Spread.of(seconds["NumPy"] / taken) for name, taken in seconds.items()}
    return {
        "largest_difference": apart,
        "rounds_per_second": {name: Spread.of(rounds / taken) for name, taken in seconds.items()},
        "times_numpy": against,
        "numba_times_gossamer": Spread.of(seconds["Gossamer"] / seconds["Numba"]),
        "aim": AIM,
        "aim_met": against["Gossamer"].median >= AIM,
    }


def grid(repetitions: int = 21, rounds: int = 100) -> dict[str, Any]:
    """The time of many settings in one block, in times of one."""
    work = task.a9a()
    etas = [list(np.geomspace(0.01, 0.3, count)) for count in (SETTINGS, 1)]
    many, one = (Compiled(work, etas=some, horizon=(repetitions + 1) * rounds) for some in etas)
    seconds = take_turns({"many": partial(many.advance, rounds), "one": partial(one.advance, rounds)}, repetitions)
    return {"settings": SETTINGS, "times_one": Spread.of(seconds["many"] / seconds["one"])}


def growth(agents: tuple[int, ...] = (20, 200, 2_000, 20_000), repetitions: int = 11) -> list[dict[str, Any]]:
    """Microseconds for each agent and round as agents grow, and how many times those of the fewest."""
    rounds = {n: max(1, 40_000 // n) for n in agents}
    runs = {str(n): Compiled(task.synthetic(n)) for n in agents}
    seconds = take_turns({name: partial(run.advance, rounds[int(name)]) for name, run in runs.items()}, repetitions)
    each = {n: 1e6 * seconds[str(n)] / (n * rounds[n]) for n in agents}
    return [
        {"agents": n, "microseconds": Spread.of(each[n]), "times_fewest": Spread.of(each[n] / each[agents[0]])}
        for n in agents
    ]
