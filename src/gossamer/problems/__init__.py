"""Problems: what the agents minimise."""

from collections.abc import Callable

from gossamer.core import Registry
from gossamer.problems.cnn import cnn
from gossamer.problems.empirical import Empirical, empirical
from gossamer.problems.least_squares import least_squares
from gossamer.problems.logistic import logistic
from gossamer.problems.neural import neural
from gossamer.problems.problem import Problem
from gossamer.problems.quadratic import Quadratic, quadratic
from gossamer.problems.settling import dpsgd_fixed_point, settling_point
from gossamer.problems.softmax import softmax

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
    },
)
"""The problems that a spec file can name."""

register = PROBLEMS.register
"""Make a function that returns a problem of one's own known by a name, so that a spec can name it."""


__all__ = [
    "PROBLEMS",
    "Empirical",
    "Problem",
    "Quadratic",
    "cnn",
    "dpsgd_fixed_point",
    "empirical",
    "least_squares",
    "logistic",
    "neural",
    "quadratic",
    "register",
    "settling_point",
    "softmax",
]
