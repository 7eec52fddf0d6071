"""Problems: the functions that agents minimise."""

from collections.abc import Callable

from gossamer.core import Registry
from gossamer.problems.averaging import Averaging, averaging
from gossamer.problems.empirical import Empirical, empirical
from gossamer.problems.fixed_points import dpsgd_fixed_point, settling_point
from gossamer.problems.linear import least_squares, logistic, softmax
from gossamer.problems.modules import module
from gossamer.problems.neural import cnn, neural
from gossamer.problems.problem import Problem
from gossamer.problems.quadratic import Quadratic, quadratic, random_quadratic

PROBLEMS: Registry[Callable[..., Problem]] = Registry(
    "problem",
    "gossamer.problems",
    {
        "logistic": logistic,
        "softmax": softmax,
        "least-squares": least_squares,
        "neural": neural,
        "cnn": cnn,
        "quadratic": quadratic,
        "random-quadratic": random_quadratic,
        "averaging": averaging,
    },
)
"""The problems that a spec file can name."""

register = PROBLEMS.register
"""Register a function that returns a problem under a name, so that a spec can name it."""


__all__ = [
    "PROBLEMS",
    "Averaging",
    "Empirical",
    "Problem",
    "Quadratic",
    "averaging",
    "cnn",
    "dpsgd_fixed_point",
    "empirical",
    "least_squares",
    "logistic",
    "module",
    "neural",
    "quadratic",
    "random_quadratic",
    "register",
    "settling_point",
    "softmax",
]
