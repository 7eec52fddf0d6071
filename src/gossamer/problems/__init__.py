"""Problems: what the agents minimise."""

from collections.abc import Callable

from gossamer.problems.empirical import Empirical, empirical
from gossamer.problems.logistic import logistic
from gossamer.problems.neural import neural
from gossamer.problems.problem import Problem
from gossamer.problems.quadratic import Quadratic, quadratic
from gossamer.problems.settling import settling_point

PROBLEMS: dict[str, Callable[..., Problem]] = {"logistic": logistic, "neural": neural, "quadratic": quadratic}
"""The problems that a spec file can name."""


__all__ = [
    "PROBLEMS",
    "Empirical",
    "Problem",
    "Quadratic",
    "empirical",
    "logistic",
    "neural",
    "quadratic",
    "settling_point",
]
