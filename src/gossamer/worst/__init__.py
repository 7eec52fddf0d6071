"""Proof by machine: exact worst cases of rules, and the best bounds that can be proved for them."""

from gossamer.worst.case import Bias, Functions, convex, lipschitz, smooth
from gossamer.worst.certificate import LyapunovBound, best_step, certificate, largest_step
from gossamer.worst.divergence import Divergence, diverging
from gossamer.worst.exact import METRICS, Worst, worst_case
from gossamer.worst.program import NotProven, OutOfTime
from gossamer.worst.spaces import NotLinear

__all__ = [
    "METRICS",
    "Bias",
    "Divergence",
    "Functions",
    "LyapunovBound",
    "NotLinear",
    "NotProven",
    "OutOfTime",
    "Worst",
    "best_step",
    "certificate",
    "convex",
    "diverging",
    "largest_step",
    "lipschitz",
    "smooth",
    "worst_case",
]
