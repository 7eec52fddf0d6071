"""Softmax regression: logistic regression for any number of classes."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from gossamer.core import InputError, Range
from gossamer.problems.classes import check_classes, cross_entropy, numbering
from gossamer.problems.empirical import Empirical, Model, arrange
from gossamer.problems.linear import bounded_penalty, curvatures, flat, origin
from gossamer.problems.loading import loaded


def softmax(
    data: Any = "digits",
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
    r"""Softmax regression for any number of classes, with the nonconvex regulariser of `logistic`, from zero.

    $$ f_i(X) = \frac{1}{m_i} \sum_{j=1}^{m_i} \Bigl( \log \sum_{c=1}^K \exp(a_{ij}^\top x_c) - a_{ij}^\top x_{y_{ij}}
       \Bigr) + \alpha \sum_{k, c} \frac{X_{kc}^2}{1 + X_{kc}^2} $$

    $X \in \mathbb R^{d \times K}$ has a column $x_c$ for each class, in the order of `Dataset.classes`; a point of the
    problem is $X$ row by row, ``X.ravel()``. Each $f_i$ is smooth with
    $L_i = \lambda_{\max}(A_i^\top A_i) / (2 m_i) + 2\alpha$, because $\operatorname{diag}(p) - p p^\top$ has no
    eigenvalue above ½; for two classes no smaller constant will do. For the other arguments see `logistic`.
    """
    alpha = Range(0, np.inf, False, True, "0 leaves the regulariser out.").check("softmax(alpha=…)", alpha)
    dataset = loaded(data, split, label, test, scale)
    check_classes("softmax regression", dataset)
    classes = len(dataset.classes)
    if classes < 2:
        raise InputError(
            f"softmax regression needs two classes at least, but all labels of {dataset.name} are {dataset.classes[0]}."
        )
    model = Model(flat, _loss, bounded_penalty, _predict, _smoothness, linear=True)
    return arrange(
        model, origin(dataset, classes), dataset, agents, split, sizes, seed, alpha, targets=numbering(dataset)
    )


def _scores(x: Array, inputs: Array) -> Array:
    return inputs @ x.reshape(inputs.shape[-1], -1)


def _loss(x: Array, inputs: Array, targets: Array) -> Array:
    return cross_entropy(_scores(x, inputs), targets)


def _predict(x: Array, inputs: Array) -> Array:
    return jnp.argmax(_scores(x, inputs), axis=1)


def _smoothness(problem: Empirical) -> np.ndarray:
    return curvatures(problem) / 2 + 2 * float(problem.alpha)
