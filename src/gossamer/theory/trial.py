"""A practical setting, found by trying stable steps on a short run: a heuristic, not a theorem."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from gossamer.algorithms.biased_dmt import BiasedDMT
from gossamer.engines.block import Block
from gossamer.engines.runs import RunPlan, Setting, Width, fits
from gossamer.networks import Network
from gossamer.oracles import Oracle
from gossamer.problems import Problem
from gossamer.specs.schema import FIRST_SEED
from gossamer.theory.stability import step_limit

LAMBDAS = (1.0, 0.3, 0.1, 0.03)
SHARES = (1 / 2, 1 / 8)
"""The shares of the largest stable step that are tried."""

TRIAL_STEPS = 300


@dataclass(frozen=True)
class Tried:
    """A setting and how it did: the mean of ‖∇F(x̄)‖² over the last third of the run, None where it diverged."""

    eta: float
    lam: float
    limit: float
    """The largest stable η for this λ, at curvature L for all agents."""
    loss: float | None
    gradient: float | None


@dataclass(frozen=True)
class Practical:
    """The settings that were tried, and the one with the least ‖∇F(x̄)‖² among those that lowered the loss."""

    steps: int
    best: Tried | None
    tried: tuple[Tried, ...]

    def asdict(self) -> dict[str, Any]:
        return asdict(self) | {"heuristic": True}


def practical(
    problem: Problem,
    network: Network,
    oracle: Oracle,
    smoothness: float,
    steps: int = TRIAL_STEPS,
    seed: int = FIRST_SEED,
    warm: Any = 0,
) -> Practical:
    """Try λ = 1, 0.3, 0.1 and 0.03, each with a half and an eighth of its largest stable step, all in one program."""
    limits = {lam: step_limit(network, lam, smoothness) for lam in LAMBDAS}
    grid = [(share * limit, lam, limit) for lam, limit in limits.items() for share in SHARES]
    rules = [BiasedDMT(eta=eta, lam=lam, warm=warm) for eta, lam, _ in grid]
    whole = [Setting(rule, oracle) for rule in rules]
    fits(whole, problem, network, [seed], RunPlan(steps, max(1, steps // 30), "float32"), Width(len(rules), 1))
    block = Block(rules, problem, network, [oracle] * len(rules), seeds=[seed], steps=steps, dtype="float32")
    every = max(1, steps // 30)
    run = block.drive([*range(0, steps, every), steps], lambda done, loss: None)
    late = np.array(run.rounds) > 2 * steps / 3
    loss, gradient = (run.metrics[name][..., 0] for name in ("loss", "grad_norm_sq"))
    tried = []
    for k, setting in enumerate(grid):
        fine = run.diverged[k, 0] < 0 and late.any() and np.isfinite(loss[-1, k])
        ends = (float(loss[late, k].mean()), float(gradient[late, k].mean())) if fine else (None, None)
        tried.append(Tried(*setting, *ends))
    # far out the loss can be flat, so that a small gradient alone is no success
    before = float(loss[0, 0])
    good = [trial for trial in tried if trial.loss is not None and trial.loss < before]
    best = min(good, key=lambda trial: float(trial.gradient or 0.0)) if good else None
    return Practical(steps, best, tuple(tried))
