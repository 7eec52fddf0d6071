"""Labels as classes, for problems that predict a class."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from gossamer.core import InputError
from gossamer.data import Dataset


def check_classes(what: str, data: Dataset) -> None:
    """Raise InputError if labels are the targets of a regression, or if only the test part has one of them."""
    if data.continuous:
        raise InputError(
            f"{what} needs classes, but the labels of {data.name} are {len(data.classes):,} different numbers in "
            f"{data.rows:,} rows, such as {data.classes[0]:g}, as the targets of a regression are. For these use "
            "problems.least_squares; for classes write whole numbers or text."
        )
    if data.test_labels is None:
        return
    unseen = np.setdiff1d(data.test_labels, data.classes)
    if unseen.size:
        raise InputError(
            f"the test part of {data.name} has the label {unseen[0]}, but the training part only {list_classes(data)}. "
            "Write labels alike in both parts, or drop such rows."
        )


def list_classes(data: Dataset) -> str:
    """Return the first few classes, for a message."""
    return ", ".join(str(label) for label in data.classes[:5]) + (", …" if len(data.classes) > 5 else "")


def number_classes(data: Dataset) -> Callable[[np.ndarray], np.ndarray]:
    """Return the function that turns labels into the numbers 0, 1, … of their classes."""
    return lambda labels: np.searchsorted(data.classes, labels).astype(np.int32)


Scores = Callable[[Any, Array], Float[Array, "rows classes"]]
"""A score for each row and class from parameters and inputs."""


def cross_entropy(scores: Scores, params: Any, inputs: Array, targets: Int[Array, " rows"]) -> Float[Array, " rows"]:
    r"""Return $\log \sum_k e^{s_{jk}} - s_{j y_j}$ for each row $j$."""
    logs = jax.nn.log_softmax(scores(params, inputs))
    return -jnp.take_along_axis(logs, targets[:, None], axis=1)[:, 0]


def predict_class(scores: Scores, params: Any, inputs: Array) -> Int[Array, " rows"]:
    """Return the class of the largest score for each row."""
    return jnp.argmax(scores(params, inputs), axis=1)
