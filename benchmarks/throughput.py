"""Rounds a second, each contest one interleaved run: a single run, a grid of settings, several seeds, dense data."""

from collections.abc import Iterable
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np

from benchmarks import task
from benchmarks.agreement import check
from benchmarks.compiled import Compiled
from benchmarks.numba_kernel import NumbaKernel
from benchmarks.numpy_loop import NumpyLoop, ScipyLoop
from benchmarks.timing import Aim, Spread, take_turns

SETTINGS, SEEDS = 32, 10

ONE_THREAD, NATIVE, KERNEL = "PyTorch, one thread", "Gossamer, native", "Numba, by hand"


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


LOOPS = {"NumPy": NumpyLoop, "SciPy": ScipyLoop}
"""The loops by hand that do any number of settings at once."""


def single(quick: bool) -> Contest:
    """One run of a9a: rounds a second, against the fastest loop in NumPy or SciPy."""
    work, repetitions, rounds = task.a9a(), *((9, 300) if quick else (40, 600))
    from benchmarks.torch_loop import logistic  # `make lowest` checks the others without PyTorch

    loss = logistic(float(work.problem.alpha))
    makers = {
        "Gossamer": partial(_plain, Compiled),
        NATIVE: Compiled,
        **LOOPS,
        "NumPy, float32 rows": partial(NumpyLoop, wide=True),
        ONE_THREAD: partial(_torch, loss=loss),
        KERNEL: NumbaKernel,
    }
    apart = check(work, makers)
    runs = {name: maker(work) for name, maker in makers.items()}
    turns = {name: partial(run.advance, rounds) for name, run in runs.items()}
    turns[ONE_THREAD] = partial(_in_one_thread, runs[ONE_THREAD], rounds)  # two wait for each other, and are slower
    seconds = take_turns(turns, repetitions)
    fastest = _fastest(seconds, LOOPS)
    aims = [
        *_against(fastest, seconds, "a single run, times as fast as NumPy's or SciPy's fastest loop", 1.5, 2),
        Aim("the same, its time over that of the kernel by hand", _ratio(seconds, NATIVE, KERNEL), 1.25, least=False),
    ]
    return _contest("a single run", "rounds", seconds, rounds, fastest, aims, apart)


def grid(quick: bool) -> Contest:
    """Many settings at once: rounds of a setting a second, against the fastest loop that does as many at once."""
    work, repetitions, rounds = task.a9a(), *((5, 40) if quick else (21, 100))
    etas = list(np.geomspace(0.01, 0.3, SETTINGS))
    makers = {
        name: partial(maker, etas=etas)
        for name, maker in {"Gossamer": partial(_plain, Compiled), NATIVE: Compiled, **LOOPS}.items()
    }
    apart = check(work, makers)
    turns = {name: partial(maker(work).advance, rounds) for name, maker in makers.items()}
    seconds = take_turns(turns, repetitions)
    fastest = _fastest(seconds, LOOPS)
    text = f"{SETTINGS} settings at once, times as fast as the fastest loop by hand that does as many"
    aims = _against(fastest, seconds, text, 1, 1.5)
    each = rounds * SETTINGS
    return _contest(f"{SETTINGS} settings at once", "rounds of a setting", seconds, each, fastest, aims, apart)


def _fastest(seconds: dict[str, np.ndarray], names: Iterable[str]) -> str:
    return min(names, key=lambda name: float(np.median(seconds[name])))


def _against(fastest: str, seconds: dict[str, np.ndarray], text: str, plain: float, native: float) -> list[Aim]:
    """The aims against the fastest loop by hand, without and with native kernels."""
    return [
        Aim(text, _ratio(seconds, fastest, "Gossamer"), plain),
        Aim("the same with native kernels", _ratio(seconds, fastest, NATIVE), native),
    ]


def _ratio(seconds: dict[str, np.ndarray], above: str, below: str) -> Spread:
    return Spread.of(seconds[above] / seconds[below])


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
    from benchmarks.torch_loop import perceptron

    loss = perceptron(inputs, task.HIDDEN, classes)
    makers = {"Gossamer": Compiled, "PyTorch": partial(_torch, loss=loss)}
    apart = check(work, makers, reference="PyTorch")
    runs = {name: maker(work) for name, maker in makers.items()}
    turns = {name: partial(run.advance, rounds) for name, run in runs.items()}
    turns[ONE_THREAD] = partial(_in_one_thread, _torch(work, loss=loss), rounds)
    seconds = take_turns(turns, repetitions)
    fastest = _fastest(seconds, ("PyTorch", ONE_THREAD))
    aims = [Aim("a perceptron, times as fast as the faster PyTorch", _ratio(seconds, fastest, "Gossamer"), 1)]
    return _contest("a perceptron on the digits", "rounds", seconds, rounds, fastest, aims, apart)


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


def _torch(work: task.Task, dtype: str = "float32", tape: np.ndarray | None = None, *, loss: Any) -> Any:
    from benchmarks.torch_loop import TorchLoop

    return TorchLoop(work, loss, dtype, tape)


def _in_one_thread(run: Any, rounds: int) -> None:
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    run.advance(rounds)
    torch.set_num_threads(threads)
