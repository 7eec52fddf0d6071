"""Privacy accounting: the (ε, δ) that runs of a private oracle spent, by Google's dp-accounting."""

from collections.abc import Mapping
from functools import lru_cache
from importlib.util import find_spec
from typing import Any

import polars as pl

from gossamer.core import InputError, Range, whole

RELEASES = "releases"
"""The column that counts the noisy gradients that an agent has let out."""

INSTALL = "dp-accounting is not installed: `pip install -e '.[privacy]'` in the clone"


class MissingAccounting(InputError, ImportError):
    """The error of ε without the package dp-accounting."""


def is_installed() -> bool:
    """Return whether ε can be computed."""
    return find_spec("dp_accounting") is not None


def epsilon(noise: float, rate: float, releases: int, delta: float = 1e-5) -> float:
    """Return the ε of a number of releases of Poisson-sampled Gaussian noise, for adding or removing one row.

    It is an upper bound, above the exact value by less than 0.001 or a millionth of it in all usual settings: the
    distribution of privacy losses is composed numerically. Without sampling it is exact.

    Args:
        noise: the noise multiplier σ; 0 protects nothing, and gives infinity.
        rate: the probability q with which each row is taken, each time.
        releases: how many noisy gradients were let out.
        delta: δ.
    """
    noise = Range(0, float("inf"), False, True).check("noise", noise)
    rate = Range(0, 1, True, False).check("rate", rate)
    delta = Range(0, 1, True, True).check("delta", delta)
    releases = whole("releases", releases, least=0)
    if not is_installed():
        raise MissingAccounting(f"ε is computed by Google's dp-accounting, but {INSTALL}.")
    return _compose(noise, rate, releases, delta)


def spend(table: pl.DataFrame, private: Mapping[str, float], delta: float | None = None) -> pl.DataFrame:
    """Return the ε that an agent spent at most by the last round of each algorithm's runs."""
    delta = private["delta"] if delta is None else delta
    last = table.group_by("algorithm", "setting", maintain_order=True).agg(pl.col(RELEASES).max())
    spent = [epsilon(private["noise"], private["rate"], round(count), delta) for count in last[RELEASES]]
    return last.with_columns(epsilon=pl.Series(spent, dtype=pl.Float64), delta=pl.lit(delta))


def describe(private: Mapping[str, float]) -> str:
    """Return the note below a summary: the meaning of its ε, or how to see one."""
    if not is_installed():
        return f"private, but to see ε: {INSTALL}."
    return f"ε at δ = {private['delta']:g}: what an agent spent, for adding or removing one of its rows."


@lru_cache(maxsize=256)
def _compose(noise: float, rate: float, releases: int, delta: float) -> float:
    if not releases:
        return 0.0
    if not noise:  # nothing hides a row
        return float("inf")
    import dp_accounting
    from dp_accounting import pld

    whole_noise = noise / releases**0.5
    unsampled = float(dp_accounting.get_epsilon_gaussian(whole_noise, delta))
    if rate == 1:
        return unsampled

    def compose_on_grid(step: float) -> float:
        event: Any = dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(noise))
        relation = dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE
        accountant = pld.PLDAccountant(relation, value_discretization_interval=step)
        return float(accountant.compose(event, releases).get_epsilon(delta))

    # The error grows as releases · step². The first pass finds the size of ε with at most 200,000 steps; the second has
    # a step as small as the error asks for, or as a million steps allow.
    coarse = max(1e-4, float(dp_accounting.get_epsilon_gaussian(whole_noise, 1e-12)) / 2e5)
    try:
        first = compose_on_grid(coarse)
        fine = max(0.01 / releases**0.5, first / 1e6)
        return min(first, compose_on_grid(fine)) if fine < coarse else first
    except OverflowError:  # there is next to no noise: sampling makes ε smaller, but by how much is not computed
        return unsampled
