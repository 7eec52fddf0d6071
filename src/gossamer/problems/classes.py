"""Labels as classes, for problems that predict one of them."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from gossamer.core import InputError
from gossamer.data import Dataset


def check_classes(what: str, data: Dataset) -> None:
    """Refuse labels that no classifier can use: targets of a regression, and those that only the test part has."""
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
            f"the test part of {data.name} has the label {unseen[0]}, but the training part only {listed(data)}. "
            "Write labels alike in both parts, or drop such rows."
        )


def listed(data: Dataset) -> str:
    """The first few classes, for a message."""
    return ", ".join(str(label) for label in data.classes[:5]) + (", …" if len(data.classes) > 5 else "")


def numbering(data: Dataset) -> Callable[[np.ndarray], np.ndarray]:
    """What makes of labels the numbers 0, 1, … of their classes."""
    return lambda labels: np.searchsorted(data.classes, labels).astype(np.int32)


def cross_entropy(scores: Float[Array, "rows classes"], targets: Int[Array, " rows"]) -> Float[Array, " rows"]:
    r"""$\log \sum_k e^{s_{jk}} - s_{j y_j}$ for each row $j$."""
    return -jnp.take_along_axis(jax.nn.log_softmax(scores), targets[:, None], axis=1)[:, 0]
