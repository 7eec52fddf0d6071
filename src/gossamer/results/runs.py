"""The runs of one method, read from the table of a result for one metric."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import polars as pl

from gossamer.metrics import AXES
from gossamer.results.result import Key
from gossamer.results.statistics import by_replicate


class SeedRun(NamedTuple):
    """The costs and the metric of a run at the rounds at which the metric was measured."""

    costs: dict[str, np.ndarray]
    """By axis of figures, such as rounds and bytes."""
    values: np.ndarray
    status: str


class MethodRuns(NamedTuple):
    """The runs of one method for one metric."""

    by_seed: dict[int, SeedRun]
    replicates: dict[int, int]
    """The replicate of each seed."""
    last: int
    """The last round."""

    @staticmethod
    def of(rows: pl.DataFrame, key: Key, metric: str, axes: Sequence[str] = ()) -> "MethodRuns":
        """Return the runs of a method among rows of a result's table, with their costs on some axes."""
        own = rows.filter((pl.col("algorithm") == key[0]) & (pl.col("setting") == key[1]))
        runs = {}
        for (seed,), each in own.group_by("seed", maintain_order=True):
            known = each.filter(pl.col(metric).is_finite())
            costs = {axis: known[AXES[axis].name].cast(pl.Float64).to_numpy() for axis in axes}
            runs[int(str(seed))] = SeedRun(costs, known[metric].to_numpy(), str(each["status"][-1]))
        return MethodRuns(runs, dict(own.select("seed", "replicate").iter_rows()), int(own["round"].to_numpy().max()))

    @property
    def lost(self) -> int:
        """The number of runs that diverged or have no value."""
        return sum(run.status == "diverged" or not len(run.values) for run in self.by_seed.values())

    @property
    def ends(self) -> dict[int, float]:
        """The last value of each replicate, the mean over its seeds without those that diverged."""
        alive = {seed: run for seed, run in self.by_seed.items() if run.status != "diverged" and len(run.values)}
        # the seeds of one tuning are not independent: they are averaged before anything is compared
        return by_replicate({seed: float(run.values[-1]) for seed, run in alive.items()}, self.replicates)
