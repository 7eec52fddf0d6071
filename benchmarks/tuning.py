"""Tuning against optima that are known: how much worse is what `budget` settings find?

    python -m benchmarks.tuning

Gradient descent with quasi-hyperbolic momentum, m ← β m + (1 − β) g and x ← x − η ((1 − ν) g + ν m), on quadratics
with noise and without. One number is open (η; β = 0), two (η and β; ν = 1) or all three. The expected loss after T
rounds is in closed form, so that the optimum is found by a dense search. The excess is
(log f − log f*) / (log f₀ − log f*), the share of the way from the loss at the start that a choice falls short of;
f / f* is shown for the quadratics with noise.

Reference: J. Ma, D. Yarats, "Quasi-hyperbolic momentum and Adam for deep learning", 2019, arXiv 1810.06801.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize

import gossamer as gs
from gossamer.experiments.tuning import Trial, best, choose_settings
from gossamer.specs.schema import TuningSection
from gossamer.specs.setup import Candidate

NUMBERS = {1: {"beta": 0.0, "nu": 1.0}, 2: {"nu": 1.0}, 3: {}}
"""By the number of hyper-parameters that are open, the others."""

BUDGETS = (12, 24, 48)

DENSE = {1: (400,), 2: (60, 20), 3: (30, 10, 8)}
"""Points of the dense search along each number."""


@gs.rule("quasi-hyperbolic")
class QuasiHyperbolic:
    """Quasi-hyperbolic momentum."""

    eta: gs.StepSize
    beta: gs.Decay
    nu: gs.Weight

    def init(self, x, agent):
        return gs.State(x=x, m=0 * x)

    def step(self, s, agent):
        g = agent.gradient(s.x)
        m = self.beta * s.m + (1 - self.beta) * g
        return gs.State(x=s.x - self.eta * ((1 - self.nu) * g + self.nu * m), m=m)


@dataclass(frozen=True)
class Quadratic:
    """½ Σ λ_k x_k² from x = 1, with gradients of noise σ² in each coordinate, for so many rounds."""

    condition: float
    rounds: int
    noise: float
    eta: tuple[float, float]

    @property
    def curvatures(self) -> np.ndarray:
        return np.geomspace(1 / self.condition, 1, 20)

    @property
    def start(self) -> float:
        return float(self.curvatures.sum() / 2)

    def loss(self, eta: float, beta: float = 0.0, nu: float = 1.0) -> float:
        """Return the expected loss at the end, from the second moments of (x_k, m_k); infinite where it diverges."""
        curved = self.curvatures
        newest = eta * ((1 - nu) + nu * (1 - beta))  # what a gradient weighs in the step that it is drawn in
        rows = [[1 - newest * curved, np.full_like(curved, -eta * nu * beta)], [(1 - beta) * curved, 0 * curved + beta]]
        power = np.array(rows).transpose(2, 0, 1)
        drawn = np.array([-newest, 1 - beta])
        added = np.broadcast_to(self.noise * np.outer(drawn, drawn), power.shape)
        moments, left = np.zeros_like(power), self.rounds
        moments[:, 0, 0] = 1.0
        with np.errstate(all="ignore"):
            while left:  # by repeated squaring of one round's map
                if left & 1:
                    moments = power @ moments @ power.transpose(0, 2, 1) + added
                added = power @ added @ power.transpose(0, 2, 1) + added
                power, left = power @ power, left >> 1
            found = float((curved * moments[:, 0, 0]).sum() / 2)
        return found if found < 1e3 * self.start else float("inf")

    def least(self, numbers: int) -> float:
        """Return the least loss by a dense search, polished by Nelder and Mead; η and β may leave their boxes."""
        low, high = np.log(self.eta)
        axes = [np.linspace(low - 3, high + 3, DENSE[numbers][0])]
        axes += [np.linspace(np.log(1e-3), 0, count) for count in DENSE[numbers][1:]]

        def log_loss(point: Any) -> float:
            eta, kept, nu = (*point, *(0.0, 0.0)[numbers - 1 :])
            found = self.loss(float(np.exp(eta)), 1 - float(np.exp(min(kept, 0))), float(np.exp(min(nu, 0))))
            return float(np.log(found)) if 0 < found < np.inf else 1e3

        points = sorted(itertools.product(*axes), key=log_loss)[:3]
        found = [minimize(log_loss, one, method="Nelder-Mead", options={"maxiter": 400}).fun for one in points]
        return float(np.exp(min(found)))


def problems(ranges: tuple[tuple[float, float], ...] = ((1e-3, 10), (0.01, 1.0), (0.03, 30))) -> Iterator[Quadratic]:
    for condition, rounds, noise, eta in itertools.product((3, 30, 300), (30, 200), (0, 1e-2), ranges):
        yield Quadratic(condition, rounds, noise, eta)


def tuned_loss(problem: Quadratic, numbers: int, budget: int, **section: Any) -> float:
    """Return the loss of the setting that tuning chooses; no worse than that at the start."""
    candidate = Candidate(QuasiHyperbolic, NUMBERS[numbers])
    given = TuningSection(eta=list(problem.eta), budget=budget, **section)
    trials: list[Trial] = []
    for stage, count in enumerate(given.stages):
        for values in choose_settings(candidate, given, trials, count):
            found = problem.loss(**NUMBERS[numbers] | values)
            trials.append(Trial(values, found if np.isfinite(found) else None, int(not np.isfinite(found)), stage))
    assert len(trials) == budget
    return min(best(candidate, trials).value or np.inf, problem.start)


def excess(problem: Quadratic, found: float, least: float) -> float:
    """Return the share of the way, in logarithms, that a loss falls short of the least."""
    return float((np.log(found) - np.log(least)) / (np.log(problem.start) - np.log(least)))


def main() -> None:
    print("| budget | numbers | excess: median | 9 of 10 below | f / f* under noise: median | 9 of 10 below |")
    print("| --: | --: | --: | --: | --: | --: |")
    known = {(one, numbers): one.least(numbers) for one in problems() for numbers in NUMBERS}
    for budget, numbers in itertools.product(BUDGETS, NUMBERS):
        found = {one: tuned_loss(one, numbers, budget) for one in problems()}
        short = [excess(one, value, known[one, numbers]) for one, value in found.items()]
        ratios = [value / known[one, numbers] for one, value in found.items() if one.noise]
        cells = [f"{f(values):.3f}" for values in (short, ratios) for f in (np.median, lambda v: np.quantile(v, 0.9))]
        print(f"| {budget} | {numbers} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
