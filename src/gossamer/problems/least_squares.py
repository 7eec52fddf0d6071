"""Least squares: regression on real targets, with an optimum in closed form."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from gossamer.core import InputError, Range
from gossamer.problems.empirical import Empirical, Model, arrange
from gossamer.problems.linear import curvatures, flat, origin
from gossamer.problems.loading import loaded


def least_squares(
    data: Any,
    agents: int | None = None,
    *,
    split: str = "by-label",
    alpha: float = 0.0,
    sizes: str = "equal",
    seed: int = 0,
    label: str = "label",
    scale: bool = False,
) -> Empirical:
    r"""Linear regression by least squares, with a ridge of weight `alpha`, from zero.

    $$ f_i(x) = \frac{1}{2 m_i} \sum_{j=1}^{m_i} \bigl(a_{ij}^\top x - y_{ij}\bigr)^2 + \frac{\alpha}{2} \lVert x
       \rVert^2 $$

    Each $f_i$ is smooth with $L_i = \lambda_{\max}(A_i^\top A_i) / m_i + \alpha$, exactly. With
    $H = \frac1n \sum_i A_i^\top A_i / m_i + \alpha I$ the optimum is $H^{-1} \frac1n \sum_i A_i^\top y_i / m_i$.

    The labels of `data` are the targets. The split ``by-label`` sorts by target, so that each agent holds a range of
    them. There is no offset: centre the targets, or add a column of ones. A test part is not used, as there is no
    accuracy. For the other arguments see `logistic`.
    """
    alpha = Range(0, np.inf, False, True, "0 leaves the ridge out.").check("least_squares(alpha=…)", alpha)
    dataset = loaded(data, split, label, scale=scale)
    if dataset.labels.dtype.kind == "U":
        raise InputError(
            f"least squares needs numbers as targets, but the labels of {dataset.name} are text, such as "
            f"{str(dataset.labels[0])!r}. For classes use problems.logistic or problems.softmax."
        )
    return arrange(
        Model(flat, _loss, _ridge, smoothness=_smoothness, linear=True),
        origin(dataset),
        dataset,
        agents,
        split,
        sizes,
        seed,
        alpha,
        targets=lambda labels: labels.astype(np.float64),
    )


def _loss(x: Array, inputs: Array, targets: Array) -> Array:
    return (inputs @ x - targets.astype(x.dtype)) ** 2 / 2


def _ridge(x: Array) -> Array:
    return jnp.sum(x**2) / 2


def _smoothness(problem: Empirical) -> np.ndarray:
    return curvatures(problem) + float(problem.alpha)
