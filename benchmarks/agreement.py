"""Whether all contestants do the same mathematics: same start, same rows, same iterates."""

import numpy as np

from benchmarks.compiled import Compiled
from benchmarks.numba_kernel import NumbaKernel
from benchmarks.numpy_loop import NumpyLoop
from benchmarks.task import Task

ROUNDS = 25

TOLERANCE = {"float32": 1e-5, "float64": 1e-12}
"""The largest difference of any two iterates, relative to the largest entry."""


class DisagreementError(RuntimeError):
    """Contestants that compute different things must not be timed against each other."""


def check(task: Task) -> dict[str, float]:
    """The largest relative difference from the NumPy loop, by dtype; `DisagreementError` if it is too large."""
    draw = np.random.default_rng(0)
    shape = (ROUNDS + 1, task.problem.agents, task.batch)
    tape = (draw.random(shape) * task.problem.sizes[:, None]).astype(np.int64)
    found = {}
    for dtype, tolerance in TOLERANCE.items():
        reference = _iterates(NumpyLoop(task, dtype, tape), task)
        scale, found[dtype] = np.abs(reference).max(), 0.0
        others = {
            "Gossamer": Compiled(task, dtype, tape),
            "NumPy, float32 rows": NumpyLoop(task, dtype, tape, wide=True),
            "Numba": NumbaKernel(task, dtype, tape),
        }
        for name, other in others.items():
            apart = np.abs(_iterates(other, task) - reference).max() / scale
            if not apart <= tolerance:
                raise DisagreementError(
                    f"after {ROUNDS} rounds on the same rows in {dtype}, {name} is {apart:.2g} away from "
                    f"NumPy, above {tolerance:g}: they do not do the same work, so no timing is printed."
                )
            found[dtype] = max(found[dtype], float(apart))
    return found


def _iterates(contestant: Compiled | NumbaKernel | NumpyLoop, task: Task) -> np.ndarray:
    contestant.advance(ROUNDS)
    return contestant.x[:, : task.problem.dim].copy()
