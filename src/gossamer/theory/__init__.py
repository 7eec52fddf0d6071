"""The paper's theory as something one can compute: its conditions and bounds, repaired where they fail, and checked."""

from gossamer.theory.certificate import Certificate, Check, certify
from gossamer.theory.constants import Constants, constants_of
from gossamer.theory.moments import Affine, Moments, affine_of, propagate
from gossamer.theory.planning import Plan, Prescription, best_bound, plan, step_limit, steps_for
from gossamer.theory.proofs import Proofs, Proved, prove, question_of
from gossamer.theory.theorem import (
    Bound,
    Coefficients,
    Condition,
    Factors,
    bound,
    coefficients,
    conditions,
    corollary,
    descent,
    eta_limit,
    floor,
    kappa,
    kappa_of,
    lam_limit,
    sharp_floor,
    steps_limit,
)
from gossamer.theory.worst_cases import WorstCases, worst_cases

__all__ = [
    "Affine",
    "Bound",
    "Certificate",
    "Check",
    "Coefficients",
    "Condition",
    "Constants",
    "Factors",
    "Moments",
    "Plan",
    "Prescription",
    "Proofs",
    "Proved",
    "WorstCases",
    "affine_of",
    "best_bound",
    "bound",
    "certify",
    "coefficients",
    "conditions",
    "constants_of",
    "corollary",
    "descent",
    "eta_limit",
    "floor",
    "kappa",
    "kappa_of",
    "lam_limit",
    "plan",
    "propagate",
    "prove",
    "question_of",
    "sharp_floor",
    "step_limit",
    "steps_for",
    "steps_limit",
    "worst_cases",
]
