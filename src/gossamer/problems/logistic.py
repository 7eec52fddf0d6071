"""Logistic regression with a nonconvex regulariser: the paper's problem."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from gossamer.core import InputError, Range
from gossamer.problems.classes import check_classes, listed
from gossamer.problems.empirical import Empirical, Model, arrange
from gossamer.problems.linear import bounded_penalty, curvatures, flat, origin
from gossamer.problems.loading import loaded


def logistic(
    data: Any = "a9a",
    agents: int | None = None,
    *,
    split: str = "by-label",
    alpha: float = 0.01,
    sizes: str = "equal",
    seed: int = 0,
    label: str = "label",
    test: Any = None,
    scale: bool = False,
) -> Empirical:
    r"""Logistic regression with a nonconvex regulariser, from zero.

    $$ f_i(x) = \frac{1}{m_i} \sum_{j=1}^{m_i} \log\bigl(1 + \exp(-y_{ij}\, a_{ij}^\top x)\bigr)
       + \alpha \sum_{k=1}^d \frac{x_k^2}{1 + x_k^2} $$

    Each $f_i$ is smooth with $L_i = \lambda_{\max}(A_i^\top A_i) / (4 m_i) + 2\alpha$. `data` is the name of a dataset,
    the path of a LIBSVM, CSV or Parquet file, a frame of pandas or polars, a pair of arrays or a `Dataset`, with two
    classes; `split` says who holds what (`gossamer.data.split`); `label` names the label's column in a table or frame,
    and `test` is a test set of the same kind as `data`; `scale` brings each feature to mean 0 and standard deviation 1.
    There is no offset: for one, add a column of ones.
    """
    alpha = Range(0, np.inf, False, True, "0 leaves the regulariser out.").check("logistic(alpha=…)", alpha)
    dataset = loaded(data, split, label, test, scale)
    check_classes("logistic regression", dataset)
    classes = dataset.classes
    if len(classes) != 2:
        raise InputError(
            f"logistic regression needs two classes, but {dataset.name} has {len(classes)} ({listed(dataset)}). "
            "For more use problems.softmax, problems.neural or problems.empirical; for numbers to be predicted, "
            "problems.least_squares."
        )
    upper = classes[1]
    return arrange(
        Model(flat, _loss, bounded_penalty, _predict, _smoothness, linear=True),
        origin(dataset),
        dataset,
        agents,
        split,
        sizes,
        seed,
        alpha,
        targets=lambda labels: np.where(labels == upper, 1, -1).astype(np.int8),
    )


def _loss(x: Array, inputs: Array, targets: Array) -> Array:
    return _softplus(-targets.astype(x.dtype) * (inputs @ x))


@jax.custom_jvp
def _softplus(z: Array) -> Array:
    r"""$\log(1 + e^z)$."""
    return jax.nn.softplus(z)


@_softplus.defjvp
def _softplus_slope(points: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    # JAX's own takes the value for the slope, and so a logarithm for every gradient
    return _softplus(*points), jax.nn.sigmoid(*points) * tangents[0]


def _predict(x: Array, inputs: Array) -> Array:
    return jnp.where(inputs @ x > 0, 1, -1)


def _smoothness(problem: Empirical) -> np.ndarray:
    return curvatures(problem) / 4 + 2 * float(problem.alpha)
