"""What a claim reads from a study: one number for each seed, or the reason why there is none."""

import math
from dataclasses import dataclass

import numpy as np
import polars as pl

from gossamer.claims.verdict import Insufficient
from gossamer.study import Study

DMT = "biased-dmt"

Readings = dict[int, float]
"""A number for each seed."""


@dataclass(frozen=True)
class Runs:
    """The runs of one algorithm in one variant, all of which came to their end."""

    name: str
    seeds: list[int]
    rounds: np.ndarray
    """The measured rounds, the same for every seed."""
    table: pl.DataFrame
    """Sorted by seed, then by round."""

    @staticmethod
    def of(study: Study, algorithm: str = DMT, variant: str = "") -> "Runs":
        if variant not in study.results:
            raise Insufficient(f'the study has no variant "{variant}"')
        name = f'{algorithm} in "{variant}"' if variant else algorithm
        table = study.results[variant].table.filter(pl.col("algorithm") == algorithm).sort("seed", "round")
        seeds = table["seed"].unique().sort().to_list()
        if not seeds:
            raise Insufficient(f"there is no run of {name}")
        if (settings := table["setting"].n_unique()) > 1:
            raise Insufficient(f"{name} ran with {settings} settings, and none is singled out")
        if lost := table.filter(pl.col("status") != "ok")["seed"].n_unique():
            raise Insufficient(f"{name} diverged on {lost} of {len(seeds)} seeds")
        if len(seeds) < 2:
            raise Insufficient(f"{name} ran on one seed only, and an interval needs two")
        if len(table) % len(seeds) or len(np.unique(rounds := _by_seed(table["round"], len(seeds)), axis=0)) > 1:
            raise Insufficient(f"the seeds of {name} were measured in different rounds")
        return Runs(name, seeds, rounds[0], table)

    def values(self, metric: str) -> np.ndarray:
        """The metric, [seeds, rounds]."""
        if metric not in self.table.columns or self.table[metric].null_count():
            raise Insufficient(f"{self.name} has no {metric}")
        values = _by_seed(self.table[metric], len(self.seeds)).astype(float)
        if not np.isfinite(values).all():
            raise Insufficient(f"{metric} of {self.name} is not finite")
        return values

    def floor(self, metric: str = "grad_norm_sq") -> Readings:
        """The mean over the last third of the measured rounds."""
        return self._readings(self.values(metric)[:, -max(1, len(self.rounds) // 3) :].mean(1))

    def mean(self, metric: str = "grad_norm_sq") -> Readings:
        """The mean over all measured rounds."""
        return self._readings(self.values(metric).mean(1))

    def final(self, metric: str = "loss") -> Readings:
        return self._readings(self.values(metric)[:, -1])

    def at(self, round: int, metric: str = "loss") -> Readings:
        if round not in self.rounds:
            raise Insufficient(f"{self.name} was not measured in round {round}")
        return self._readings(self.values(metric)[:, self.rounds == round][:, 0])

    def arrivals(self, target: float) -> Readings:
        """The round in which the loss first falls to the target, on a straight line between measured rounds.

        A run that never gets there counts as its number of rounds + 1.
        """
        found = []
        for losses in self.values("loss"):
            below = np.flatnonzero(losses <= target)
            if not len(below):
                found.append(self.last + 1)
            elif (k := below[0]) == 0:
                found.append(self.rounds[0])
            else:
                share = (losses[k - 1] - target) / (losses[k - 1] - losses[k])
                found.append(self.rounds[k - 1] + share * (self.rounds[k] - self.rounds[k - 1]))
        return self._readings(np.array(found, float))

    @property
    def last(self) -> int:
        return int(self.rounds[-1])

    def _readings(self, values: np.ndarray) -> Readings:
        return dict(zip(self.seeds, values.tolist(), strict=True))


def _by_seed(column: pl.Series, seeds: int) -> np.ndarray:
    return column.to_numpy().reshape(seeds, -1)


def target(runs: list[Runs]) -> float:
    """The loss after 95 % of the way from the start to the lowest mean loss at the end."""
    start = float(np.mean([run.values("loss")[:, 0].mean() for run in runs]))
    end = min(average(run.final()) for run in runs)
    if not end < start:
        raise Insufficient(f"no run lowers the loss: it starts at {start:.4g} and ends at {end:.4g} at best")
    return end + 0.05 * (start - end)


def bias_sq(study: Study, variant: str = "") -> Readings:
    """‖ē‖², the square of the agents' mean bias as drawn."""
    result = study.results[variant]
    if (bias := result.mean_bias) is None or len(bias) != len(result.seeds):
        raise Insufficient(f'the mean bias of "{variant}" is not known' if variant else "the mean bias is not known")
    return dict(zip(result.seeds, (np.asarray(bias, float) ** 2).sum(1).tolist(), strict=True))


def fact(study: Study, variant: str, name: str) -> float:
    """A positive number that the study knows of a variant."""
    value = study.facts.get(variant, {}).get(name)
    if not isinstance(value, int | float | np.number) or not math.isfinite(value) or value <= 0:
        raise Insufficient(f'the {name} of "{variant}" is {value}, and its logarithm is needed')
    return float(value)


def average(readings: Readings) -> float:
    """The mean over seeds."""
    return float(np.mean(list(readings.values())))


def paired(*readings: Readings) -> np.ndarray:
    """The readings on the seeds that all share, [readings, seeds]."""
    shared = sorted(set.intersection(*(set(each) for each in readings)))
    if len(shared) < 2:
        raise Insufficient(f"the runs share {len(shared)} seeds, and an interval needs two")
    return np.array([[each[seed] for seed in shared] for each in readings], float)
