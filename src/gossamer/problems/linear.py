"""Linear models: logistic regression (the paper's problem), softmax regression and least squares."""

from collections.abc import Callable
from functools import partial
from typing import Any, Unpack

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from gossamer.basics.sizes import refuse_beyond_memory
from gossamer.core import InputError, Range
from gossamer.data import Dataset
from gossamer.problems.classes import check_classes, cross_entropy, list_classes, number_classes, predict_class
from gossamer.problems.empirical import DataOptions, Empirical, Model, arrange, load_for_problem, on_data

WEIGHT = Range(0, np.inf, False, True, "0 leaves the penalty out.")

SMALL_GRAM = 500
"""The largest Gram matrix of sparse rows, or columns, that is made dense."""


@on_data
def logistic(
    data: Any = "a9a", agents: int | None = None, *, alpha: float = 0.01, **options: Unpack[DataOptions]
) -> Empirical:
    r"""Logistic regression with a nonconvex regulariser, from zero.

    $$ f_i(x) = \frac{1}{m_i} \sum_{j=1}^{m_i} \log\bigl(1 + \exp(-y_{ij}\, a_{ij}^\top x)\bigr)
       + \alpha \sum_{k=1}^d \frac{x_k^2}{1 + x_k^2} $$

    Each $f_i$ is smooth with $L_i = \lambda_{\max}(A_i^\top A_i) / (4 m_i) + 2\alpha$. `data` is the name of a data
    set, the path of a LIBSVM, CSV or Parquet file, a frame of pandas or polars, a pair of arrays or a `Dataset`, with
    two classes. There is no offset: for one, add a column of ones.

    The options are those of all problems on data: `split` ("by-label" unless given), `sizes` and `seed` share the rows
    out over agents (`gossamer.data.split`); `label` names the label's column in a table or frame; `test` is a test set
    of the same kind as `data`; `scale` brings each feature to mean 0 and standard deviation 1.
    """
    alpha = WEIGHT.check("logistic(alpha=…)", alpha)
    dataset = load_for_problem(data, options)
    check_classes("logistic regression", dataset)
    classes = dataset.classes
    if len(classes) != 2:
        raise InputError(
            f"logistic regression needs two classes, but {dataset.name} has {len(classes)} ({list_classes(dataset)}). "
            "For more use problems.softmax, problems.neural or problems.empirical; for numbers to be predicted, "
            "problems.least_squares."
        )

    def targets(labels: np.ndarray) -> np.ndarray:
        return np.where(labels == classes[1], 1, -1).astype(np.int8)

    return arrange(LOGISTIC, origin(dataset), dataset, agents, options, alpha, targets)


@on_data
def softmax(
    data: Any = "digits", agents: int | None = None, *, alpha: float = 0.01, **options: Unpack[DataOptions]
) -> Empirical:
    r"""Softmax regression for any number of classes, with the nonconvex regulariser of `logistic`, from zero.

    $$ f_i(X) = \frac{1}{m_i} \sum_{j=1}^{m_i} \Bigl( \log \sum_{c=1}^K \exp(a_{ij}^\top x_c) - a_{ij}^\top x_{y_{ij}}
       \Bigr) + \alpha \sum_{k, c} \frac{X_{kc}^2}{1 + X_{kc}^2} $$

    $X \in \mathbb R^{d \times K}$ has a column $x_c$ for each class, in the order of `Dataset.classes`; a point of the
    problem is $X$ row by row, ``X.ravel()``. Each $f_i$ is smooth with
    $L_i = \lambda_{\max}(A_i^\top A_i) / (2 m_i) + 2\alpha$, because $\operatorname{diag}(p) - p p^\top$ has no
    eigenvalue above ½; for two classes no smaller constant will do. For the other arguments see `logistic`.
    """
    alpha = WEIGHT.check("softmax(alpha=…)", alpha)
    dataset = load_for_problem(data, options)
    check_classes("softmax regression", dataset)
    classes = len(dataset.classes)
    if classes < 2:
        raise InputError(
            f"softmax regression needs two classes at least, but all labels of {dataset.name} are {dataset.classes[0]}."
        )
    start = origin(dataset, classes)
    return arrange(SOFTMAX, start, dataset, agents, options, alpha, number_classes(dataset))


@on_data
def least_squares(
    data: Any, agents: int | None = None, *, alpha: float = 0.0, **options: Unpack[DataOptions]
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
    alpha = WEIGHT.check("least_squares(alpha=…)", alpha)
    if options.get("test") is not None:
        raise InputError("least_squares has no accuracy, so a test set would not be used: leave out test.")
    dataset = load_for_problem(data, options)
    if dataset.labels.dtype.kind == "U":
        raise InputError(
            f"least squares needs numbers as targets, but the labels of {dataset.name} are text, such as "
            f"{str(dataset.labels[0])!r}. For classes use problems.logistic or problems.softmax."
        )
    start = origin(dataset)
    return arrange(LEAST_SQUARES, start, dataset, agents, options, alpha, lambda labels: labels.astype(np.float64))


def _vector(x: Array) -> Array:
    return x


def _logistic_loss(x: Array, inputs: Array, targets: Array) -> Array:
    return _softplus(-targets.astype(x.dtype) * (inputs @ x))


@jax.custom_jvp
def _softplus(z: Array) -> Array:
    r"""Return $\log(1 + e^z)$."""
    return jax.nn.softplus(z)


@_softplus.defjvp
def _softplus_slope(points: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    # JAX's own rule computes the slope from the value, and so a logarithm for every gradient
    return _softplus(*points), jax.nn.sigmoid(*points) * tangents[0]


def _predict_sign(x: Array, inputs: Array) -> Array:
    return jnp.where(inputs @ x > 0, 1, -1)


def _scores(x: Array, inputs: Array) -> Array:
    return inputs @ x.reshape(inputs.shape[-1], -1)


def _squared_loss(x: Array, inputs: Array, targets: Array) -> Array:
    return (inputs @ x - targets.astype(x.dtype)) ** 2 / 2


def _ridge(x: Array) -> Array:
    return jnp.sum(x**2) / 2


def bounded_penalty(x: Array) -> Array:
    r"""Return $\sum_k x_k^2 / (1 + x_k^2)$: nonconvex, bounded, with second derivatives in $[-\tfrac12, 2]$."""
    return jnp.sum(x**2 / (1 + x**2))


def origin(dataset: Dataset, columns: int = 1) -> Float[np.ndarray, " d"]:
    """Return zero, the start of a model with this number of columns of parameters."""
    count = dataset.dim * columns
    what = f"a model of {dataset.dim:,} features" + (f" and {columns:,} classes" if columns > 1 else "")
    refuse_beyond_memory(what, 3 * 8 * count, "use fewer")
    return np.zeros(count)


def curvatures(problem: Empirical) -> Float[np.ndarray, " agents"]:
    r"""Return $\lambda_{\max}(A_i^\top A_i) / m_i$, where $A_i$ are the inputs of agent $i$."""

    def largest(agent: int) -> float:
        rows = problem.sparse_inputs(agent).astype(np.float64)
        return _largest_eigenvalue(rows) / rows.shape[0]

    return np.array([largest(agent) for agent in range(problem.agents)])


def _largest_eigenvalue(rows: Any) -> float:
    """Return the largest eigenvalue of rowsᵀ rows, which is that of rows rowsᵀ.

    The smaller of the two matrices is computed. For large sparse rows neither is: products with rows and rowsᵀ suffice.
    """
    if isinstance(rows, np.ndarray) or min(rows.shape) <= SMALL_GRAM:
        # both have the same largest eigenvalue
        gram = rows.T @ rows if rows.shape[0] > rows.shape[1] else rows @ rows.T
        return float(np.linalg.eigvalsh(gram if isinstance(gram, np.ndarray) else gram.toarray())[-1])
    from scipy.sparse import linalg  # slow to import, so only when needed

    svds: Any = linalg.svds
    # a positive start, as the first singular vector of positive features is
    start = np.random.default_rng(0).random(min(rows.shape))
    return float(svds(rows, k=1, tol=1e-9, v0=start, return_singular_vectors=False)[0]) ** 2


def _smoothness(loss: float, penalty: float) -> Callable[[Empirical], np.ndarray]:
    """Return the function for all L_i, from the largest second derivatives of a loss by its score and of a penalty."""
    return lambda problem: curvatures(problem) * loss + penalty * float(problem.alpha)


LOGISTIC = Model(_vector, _logistic_loss, bounded_penalty, _predict_sign, _smoothness(1 / 4, 2), linear=True)
SOFTMAX = Model(
    _vector,
    partial(cross_entropy, _scores),
    bounded_penalty,
    partial(predict_class, _scores),
    _smoothness(1 / 2, 2),
    linear=True,
)
LEAST_SQUARES = Model(_vector, _squared_loss, _ridge, None, _smoothness(1, 1), linear=True)
