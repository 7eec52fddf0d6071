"""Whether all contestants do the same mathematics: same start, same rows, same iterates."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from benchmarks.task import Task

ROUNDS = 25

TOLERANCE = {"float32": 1e-5, "float64": 1e-12}
"""The largest difference of any two iterates, relative to the largest entry."""


class DisagreementError(RuntimeError):
    """Contestants that compute different things must not be timed against each other."""


def check(task: Task, makers: Mapping[str, Callable[..., Any]], reference: str = "NumPy") -> dict[str, float]:
    """The largest relative difference from the reference, by dtype; `DisagreementError` if it is too large."""
    draw = np.random.default_rng(0)
    shape = (ROUNDS + 1, task.problem.agents, task.batch)
    tape = (draw.random(shape) * np.asarray(task.problem.sizes)[:, None]).astype(np.int64)
    largest = {}
    for dtype, tolerance in TOLERANCE.items():
        iterates = {name: _iterates(maker(task, dtype, tape), task) for name, maker in makers.items()}
        wanted = iterates[reference]
        apart = {name: np.abs(x - wanted).max() / np.abs(wanted).max() for name, x in iterates.items()}
        for name, difference in apart.items():
            if not difference <= tolerance:
                raise DisagreementError(
                    f"after {ROUNDS} rounds on the same rows in {dtype}, {name} is {difference:.2g} away from "
                    f"{reference}, above {tolerance:g}: they do not do the same work, so no timing is printed."
                )
        largest[dtype] = float(max(apart.values()))
    return largest


def _iterates(contestant: Any, task: Task) -> np.ndarray:
    contestant.advance(ROUNDS)
    return np.array(contestant.x)[..., : task.problem.dim]
