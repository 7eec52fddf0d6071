"""Samplers: the settings that tuning tries, as many for every algorithm whatever the number of its hyper-parameters.

Hyper-parameters are tuned on scales from 0 to 1, which are logarithmic in the distance from the end of the range that
matters: η itself, λ, 1 − β. The *design* spends a third of the budget, or six settings if that is more, on points that
fill the box of all numbers evenly, the step sizes at equal ratios. Four equal stages follow. Each fits a Gaussian
process to the logarithm of the criterion and takes the points of the largest expected improvement, one after the other:
a point that was taken is believed to have the value that the process predicts ("kriging believer"). Where the best lies
at an end of the step sizes, the next stage moves on beyond it by half the width of the box.

Reference: D. Ginsbourger, R. Le Riche, L. Carraro, "Kriging is well-suited to parallelize optimization", 2010.
"""

import importlib
import itertools
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from gossamer.core import InputError, Range, Whole
from gossamer.specs.schema import STEP_SIZES, TuningSection
from gossamer.specs.setup import Candidate, Values

Points = Float[np.ndarray, "points numbers"]
Column = Float[np.ndarray, " points"]

REACH = 0.5
"""The distance beyond the tried values that a stage may move, as a share of the box."""

NEAR = 0.05
"""The distance from the end of what was tried at which the best one lies on the end, as a share of the box."""

SPREADS = (0.3, 0.1, 0.03)
"""Standard deviations of the candidate points around the best one, as shares of the box."""

CANDIDATES = 512
"""Candidate points for each spread, and as many that fill the box."""

DIGITS = 6
"""Significant digits of a setting: chosen numbers do not depend on the last bits of a machine."""


def scale_of(allowed: Range | Whole, values: Sequence[float]) -> Column:
    """Return values on the scale of their hyper-parameter, which is linear if one of them lies on the end itself."""
    if isinstance(allowed, Whole):
        return np.log(np.maximum(values, 0.5))
    distances = np.array([allowed.distance(value) for value in values])
    return np.log(distances) if (distances > 0).all() else np.asarray(values, float)


@dataclass(frozen=True)
class Axis:
    """A hyper-parameter on a scale from 0 to 1, the ends of its box."""

    name: str
    allowed: Range | Whole
    values: tuple[Any, ...]
    """The ends of the box, or all values of a whole number."""

    def value(self, place: float) -> Any:
        """Return the value at a place of the scale."""
        if isinstance(self.allowed, Whole):
            return self.values[min(int(place * len(self.values)), len(self.values) - 1)]
        low, high = scale_of(self.allowed, self.values)
        known = low + place * (high - low)
        if self._is_linear:
            return float(f"{known:.{DIGITS}g}")
        return self.allowed.at_distance(float(f"{np.exp(known):.{DIGITS}g}"))

    def place(self, value: float) -> float:
        """Return the place of a value on the scale."""
        if isinstance(self.allowed, Whole):
            return (self.values.index(value) + 0.5) / len(self.values)
        if self._is_linear:
            return (value - self.values[0]) / (self.values[1] - self.values[0])
        low, high, known = (np.log(self.allowed.distance(one)) for one in (*self.values, value))
        return float((known - low) / (high - low))

    @property
    def _is_linear(self) -> bool:
        return isinstance(self.allowed, Range) and min(map(self.allowed.distance, self.values)) <= 0

    @property
    def ends(self) -> tuple[float, float]:
        """The ends of what may be tried: a step size, and a number towards its `beyond`, may leave the box."""
        low, high = 0.0, 1.0
        if isinstance(self.allowed, Whole) or self._is_linear:
            return low, high
        if self.allowed.step:
            low = self.place(max(STEP_SIZES[0], self.allowed.low))
            if not self.allowed.high_open or self.allowed.high == np.inf:  # the end of an open range is not allowed
                high = self.place(min(STEP_SIZES[1], self.allowed.high))
        return (-np.inf if self.allowed.beyond == "low" else low), (np.inf if self.allowed.beyond == "high" else high)


def next_settings(
    candidate: Candidate, section: TuningSection, tried: Sequence[Values], costs: Sequence[float], count: int
) -> list[Values]:
    """Return `count` more settings, none of which was tried; the cost of a setting that failed is infinite."""
    values = candidate.values(section)
    axes = [Axis(name, candidate.open[name], tuple(sorted(values[name]))) for name in values]
    # the step size first, whole numbers last
    axes.sort(key=lambda axis: (axis.name != candidate.step, isinstance(axis.allowed, Whole)))
    known = np.array([[axis.place(values[axis.name]) for axis in axes] for values in tried]).reshape(-1, len(axes))
    if section.sampler == "optuna":
        points = ask_optuna(axes, known, np.array(costs), count)
    elif not tried:
        points = design(len(axes), count)
    else:
        points = improve(axes, known, np.array(costs), count)
    return [{axis.name: axis.value(place) for axis, place in zip(axes, point, strict=True)} for point in points]


def design(numbers: int, count: int) -> Points:
    """Return points that fill the unit cube evenly: a Kronecker sequence, after equal steps along the first axis.

    On each axis the points stand at equal distances, its ends included, in the order of the sequence.
    """
    k, ratio = np.arange(count), 2.0
    for _ in range(50):  # the generalised golden ratio, whose powers fill a cube of any dimension evenly
        ratio = (1 + ratio) ** (1 / numbers)
    sequences = [k, *((0.5 + k / ratio**j) % 1 for j in range(1, numbers))]
    if count == 1:
        return np.full((1, numbers), 0.5)
    return np.stack([np.argsort(np.argsort(one)) / (count - 1) for one in sequences], axis=1)


def improve(axes: Sequence[Axis], tried: Points, costs: Column, count: int) -> Points:
    """Return the points of the largest expected improvement over what was tried."""
    # imported here, because they take a second, which a run without tuning does not need
    from scipy.optimize import minimize
    from scipy.stats import norm, qmc
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import ConstantKernel, Matern

    judged = np.isfinite(costs)
    low, high = tried.min(0), tried.max(0)
    ends = np.array([axis.ends for axis in axes]).T
    if not judged.any():  # all step sizes were too large, as far as one knows
        points = design(len(axes), count)
        points[:, 0] = np.linspace(max(low[0] - REACH, ends[0, 0]), low[0], count, endpoint=False)
        return points
    best = tried[np.argmin(costs)]
    # beyond what was tried only where the best lies there
    low = np.minimum(0, np.where(best < low + NEAR, np.maximum(low - REACH, ends[0]), low))
    high = np.maximum(1, np.where(best > high - NEAR, np.minimum(high + REACH, ends[1]), high))
    logs = np.log(costs[judged]) if (costs[judged] > 0).all() else costs[judged]
    values = np.full(len(costs), logs.max() + 1)  # what failed is worse than all that did not
    values[judged] = logs
    # the worse half counts as equally bad: cliffs, where runs diverge, would bend the fit where it matters
    worst = max(np.sort(values)[len(values) // 2], np.sort(logs)[min(len(logs) - 1, len(axes) + 1)])
    values = np.minimum(values, worst)
    values = (values - values.mean()) / (values.std() or 1.0)
    lengths: Any = [0.5] * len(axes)
    fixed: Any = None  # the type that scikit-learn's stubs deny
    kernel = ConstantKernel(1.0, (0.1, 30.0)) * Matern(lengths, [(0.05, 5.0)] * len(axes), nu=2.5)
    process = GaussianProcessRegressor(kernel, alpha=1e-5, optimizer=fixed).fit(tried, values)

    def unlikelihood(theta: Any) -> tuple[Any, Any]:
        found: Any = process.log_marginal_likelihood(theta, eval_gradient=True)
        value, gradient = found
        return -value, -gradient

    # not by `fit`, which warns of a length on its bound; threads cannot silence warnings one by one
    likeliest = minimize(unlikelihood, kernel.theta, jac=True, method="L-BFGS-B", bounds=kernel.bounds)
    kernel = kernel.clone_with_theta(likeliest.x)
    rng, candidates = np.random.default_rng(len(tried)), []  # the same draws in every tuning, so that it is repeatable
    for spread in SPREADS:
        moved = rng.random((CANDIDATES, len(axes))) < 0.6  # some numbers stay, as the best often lies along one axis
        candidates.append(best + spread * rng.normal(size=moved.shape) * moved)
    candidates.append(low + (high - low) * qmc.Halton(len(axes), rng=rng).random(CANDIDATES))
    places = np.clip(np.concatenate(candidates), low, high)
    for k, axis in enumerate(axes):
        if isinstance(axis.allowed, Whole):
            places[:, k] = [axis.place(axis.value(max(0.0, place))) for place in places[:, k]]
    for _ in range(count):
        process = GaussianProcessRegressor(kernel, alpha=1e-5, optimizer=fixed).fit(tried, values)
        mean, deviation = process.predict(places, return_std=True)
        gain = (values.min() - mean) / np.maximum(deviation, 1e-9)
        gain = deviation * (gain * norm.cdf(gain) + norm.pdf(gain))
        apart = np.abs(places[:, None] - tried).max(2).min(1)
        # points as good as tried teach nothing: only where there are no others, the furthest of them is taken
        chosen = np.argmax(np.where(apart > 1e-3, gain, apart - 1))
        # believed to be no better than the best, so that the next point lies elsewhere
        tried, values = np.vstack([tried, places[chosen]]), np.append(values, max(mean[chosen], values.min()))
    return tried[-count:]


def ask_optuna(axes: Sequence[Axis], tried: Points, costs: Column, count: int) -> Points:
    """Return points that Optuna's tree-structured Parzen estimator asks for, with a fixed seed."""
    try:
        optuna = importlib.import_module("optuna")
    except ImportError:
        raise InputError(
            'sampler = "optuna" needs Optuna: in the clone, `pip install -e \'.[optuna]\'`, or take "design".'
        ) from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    scales = {axis.name: optuna.distributions.FloatDistribution(0.0, 1.0) for axis in axes}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # options that Optuna calls experimental
        study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=len(tried), constant_liar=True))
        for point, cost in zip(tried, costs, strict=True):
            params = {axis.name: float(np.clip(place, 0, 1)) for axis, place in zip(axes, point, strict=True)}
            failed = not np.isfinite(cost)
            state = optuna.trial.TrialState.FAIL if failed else optuna.trial.TrialState.COMPLETE
            value = None if failed else float(cost)
            study.add_trial(optuna.trial.create_trial(params=params, distributions=scales, value=value, state=state))
        asked = [study.ask(scales) for _ in range(count)]
    return np.array([[trial.params[axis.name] for axis in axes] for trial in asked])


def grid_settings(candidate: Candidate, section: TuningSection, count: int) -> list[Values]:
    """Return all combinations of the values that a grid lists, with step sizes at equal ratios."""
    lists = candidate.values(section)
    low, high = lists.pop(candidate.step)
    others = [dict(zip(lists, values, strict=True)) for values in itertools.product(*lists.values())]
    etas = np.geomspace(low, high, count // len(others)).tolist()
    return [{candidate.step: eta} | other for other in others for eta in etas]


def refined_settings(candidate: Candidate, tried: Sequence[Values], top: Values, count: int) -> list[Values]:
    """Return `count` settings between the best one of a grid and its neighbours.

    Another number than the step size takes its best value, and the middles between that and the two beside it, in
    logarithms of the distance from its end; a whole number keeps its best value.
    """
    step, columns = candidate.step, [top]
    for name, allowed in candidate.open.items():
        if name != step and isinstance(allowed, Range):
            values = sorted({one[name] for one in tried})
            place = values.index(top[name])
            for beside in (*values[max(0, place - 1) : place], *values[place + 1 : place + 2]):
                ends = [allowed.distance(value) for value in (top[name], beside)]
                if min(ends) > 0:
                    columns.append(top | {name: allowed.at_distance(float(np.sqrt(ends[0] * ends[1])))})
    # the neighbours in step size of those settings that share all other numbers with the best
    etas = sorted({one[step] for one in tried if one | {step: None} == top | {step: None}})
    place = etas.index(top[step])
    low, high = etas[max(0, place - 1)], etas[min(place + 1, len(etas) - 1)]
    shares = [count // len(columns) + (k < count % len(columns)) for k in range(len(columns))]
    return [
        column | {step: eta}
        for share, column in zip(shares, columns, strict=True)
        for eta in np.geomspace(low, high, share + 2)[1:-1].tolist()
    ]
