"""Where the time goes: the parts of a round, and what a measurement and a compilation cost, in rounds."""

import time
from collections.abc import Callable
from functools import partial

import numpy as np

from benchmarks import task
from benchmarks.compiled import Compiled
from benchmarks.timing import Spread, take_turns
from gossamer import networks

PERIOD = 1_000_000
"""Rounds between two gossips of a network that never gossips within a benchmark."""


def anatomy(quick: bool) -> dict[str, Spread]:
    """Shares of a round of a9a, and other costs in rounds: each a ratio of neighbours in time."""
    work, repetitions, rounds = task.a9a(), *((7, 200) if quick else (21, 500))
    draw = np.random.default_rng(0)
    shape = (256, work.problem.agents, work.batch)  # beyond its end the last rows are taken again
    tape = (draw.random(shape) * np.asarray(work.problem.sizes)[:, None]).astype(np.int64)
    silent = work._replace(network=networks.every(work.network, PERIOD))
    whole, taped, alone = Compiled(work), Compiled(work, tape=tape), Compiled(silent)
    turns: dict[str, Callable[[], None]] = {
        "whole": partial(whole.advance, rounds),
        "taped": partial(taped.advance, rounds),
        "alone": partial(alone.advance, rounds),
        "measure": partial(_measure, Compiled(work)),
    }
    seconds = take_turns(turns, repetitions)
    each = seconds["whole"] / rounds
    return {
        "drawing the rows, of a round": Spread.of(1 - seconds["taped"] / seconds["whole"]),
        "gossip, of a round": Spread.of(1 - seconds["alone"] / seconds["whole"]),
        "a measurement, in rounds": Spread.of(seconds["measure"] / each),
        "compiling, in rounds": Spread.of(np.array([_compiling(work) / np.median(each)])),
    }


def _measure(run: Compiled) -> None:
    run.block.advance(0, [0], [True])


def _compiling(work: task.Task) -> float:
    """Seconds until a block that was never compiled has gone a round."""
    import jax

    jax.clear_caches()
    began = time.perf_counter()
    Compiled(work).advance(1)
    return time.perf_counter() - began
