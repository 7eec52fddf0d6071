"""Rounds a second, each contest one interleaved run: a single run, a grid of settings, several seeds, dense data."""

from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np
import torch

from benchmarks import task
from benchmarks.agreement import check
from benchmarks.aims import Aim
from benchmarks.compiled import Compiled
from benchmarks.numba_kernel import NumbaKernel
from benchmarks.numpy_loop import NumpyLoop
from benchmarks.timing import Spread, take_turns
from benchmarks.torch_loop import TorchLoop, logistic, perceptron

SETTINGS, SEEDS = 32, 10

ONE_THREAD, NATIVE = "PyTorch, one thread", "Gossamer, native"


class Contest(NamedTuple):
    """Contestants that did the same work in turns."""

    title: str
    unit: str
    speed: dict[str, Spread]
    """Units a second."""
    reference: str
    against: dict[str, Spread]
    """Times as fast as the reference."""
    aims: list[Aim]
    apart: dict[str, float]
    """The largest relative difference of iterates on the same rows, by dtype; empty where there is one program only."""

    def asdict(self) -> dict[str, Any]:
        spreads = {key: {name: s._asdict() for name, s in getattr(self, key).items()} for key in ("speed", "against")}
        return {**self._asdict(), **spreads, "aims": [aim.asdict() for aim in self.aims]}


def single(quick: bool) -> Contest:
    """One run of a9a: rounds a second."""
    work, repetitions, rounds = task.a9a(), *((9, 300) if quick else (40, 600))
    loss = logistic(float(work.problem.alpha))
    makers = {
        "Gossamer": partial(_plain, Compiled),
        NATIVE: Compiled,
        "NumPy": NumpyLoop,
        "NumPy, float32 rows": partial(NumpyLoop, wide=True),
        ONE_THREAD: partial(_torch, loss=loss),
        "Numba, by hand": NumbaKernel,
    }
    apart = check(work, makers)
    runs = {name: maker(work) for name, maker in makers.items()}
    turns = {name: partial(run.advance, rounds) for name, run in runs.items()}
    turns[ONE_THREAD] = partial(_in_one_thread, runs[ONE_THREAD], rounds)  # two wait for each other, and are slower
    seconds = take_turns(turns, repetitions)
    against = {name: Spread.of(seconds["NumPy"] / seconds[name]) for name in ("Gossamer", NATIVE)}
    kernel = Spread.of(seconds[NATIVE] / seconds["Numba, by hand"])
    aims = [
        Aim("a single run, times as fast as tuned NumPy", against["Gossamer"], 2.2),
        Aim("the same with the extra native", against[NATIVE], 3),
        Aim("the same, its time over that of the kernel by hand", kernel, 1.25, least=False),
    ]
    return _contest("a single run", "rounds", seconds, rounds, "NumPy", aims, apart)


def grid(quick: bool) -> Contest:
    """Many settings in one block: rounds of a setting a second, against a single run in NumPy."""
    work, repetitions, rounds = task.a9a(), *((5, 40) if quick else (21, 100))
    etas = list(np.geomspace(0.01, 0.3, SETTINGS))
    runs = {
        f"Gossamer, {SETTINGS} settings": _plain(Compiled, work, etas=etas),
        f"{NATIVE}, {SETTINGS} settings": Compiled(work, etas=etas),
        "Gossamer, one": _plain(Compiled, work),
        "NumPy, one": NumpyLoop(work),
    }
    seconds = take_turns({name: partial(run.advance, rounds) for name, run in runs.items()}, repetitions)
    grids = [name for name in runs if name.endswith("settings")]
    seconds |= {name: seconds[name] / SETTINGS for name in grids}
    text = f"each setting of {SETTINGS}, times as fast as tuned NumPy's single run"
    each = [Spread.of(seconds["NumPy, one"] / seconds[name]) for name in grids]
    aims = [Aim(text, each[0], 10), Aim("the same with the extra native", each[1], 10)]
    return _contest(f"a grid of {SETTINGS} settings", "rounds of a setting", seconds, rounds, "NumPy, one", aims, {})


def seeds(quick: bool) -> Contest:
    """Seeds in blocks on one device and shared out over two."""
    work, repetitions, rounds = task.a9a(), *((5, 60) if quick else (21, 200))
    runs = {"one core": Compiled(work, seeds=SEEDS)}
    if len(jax.devices()) > 1:
        runs["two cores"] = Compiled(work, seeds=SEEDS, devices=2)
    seconds = take_turns({name: partial(run.advance, rounds) for name, run in runs.items()}, repetitions)
    aims = []
    if "two cores" in seconds:
        gain = Spread.of(seconds["one core"] / seconds["two cores"])
        aims = [Aim(f"{SEEDS} seeds on two cores, times as fast as on one", gain, 1.7)]
    return _contest(f"{SEEDS} seeds", "rounds of all", seconds, rounds, "one core", aims, {})


def dense(quick: bool) -> Contest:
    """A perceptron on the digits: rounds a second against a batched loop in PyTorch."""
    work, repetitions, rounds = task.digits(), *((7, 60) if quick else (21, 200))
    inputs, classes = work.problem.inputs.shape[1], int(np.max(work.problem.targets)) + 1
    loss = perceptron(inputs, task.HIDDEN, classes)
    makers = {"Gossamer": Compiled, "PyTorch": partial(_torch, loss=loss)}
    apart = check(work, makers, reference="PyTorch")
    runs = {name: maker(work) for name, maker in makers.items()}
    turns = {name: partial(run.advance, rounds) for name, run in runs.items()}
    turns[ONE_THREAD] = partial(_in_one_thread, _torch(work, loss=loss), rounds)
    seconds = take_turns(turns, repetitions)
    best = np.minimum(seconds["PyTorch"], seconds[ONE_THREAD])
    aims = [Aim("a perceptron, times as fast as the faster PyTorch", Spread.of(best / seconds["Gossamer"]), 1)]
    return _contest("a perceptron on the digits", "rounds", seconds, rounds, "PyTorch", aims, apart)


def _contest(
    title: str,
    unit: str,
    seconds: dict[str, np.ndarray],
    rounds: int,
    reference: str,
    aims: list[Aim],
    apart: dict[str, float],
) -> Contest:
    speed = {name: Spread.of(rounds / taken) for name, taken in seconds.items()}
    against = {name: Spread.of(seconds[reference] / taken) for name, taken in seconds.items()}
    return Contest(title, unit, speed, reference, against, aims, apart)


def _plain(maker: Any, work: task.Task, *given: Any, **named: Any) -> Any:
    return maker(task.without_kernels(work), *given, **named)


def _torch(work: task.Task, dtype: str = "float32", tape: np.ndarray | None = None, *, loss: Any) -> TorchLoop:
    return TorchLoop(work, loss, dtype, tape)


def _in_one_thread(run: TorchLoop, rounds: int) -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    run.advance(rounds)
    torch.set_num_threads(threads)
