"""Privacy accounting: the (ε, δ) that runs of a private oracle spent, by Google's dp-accounting."""

from functools import lru_cache
from importlib.util import find_spec
from typing import Any

import polars as pl

from gossamer.basics.privacy import Privacy
from gossamer.core import InputError, Range, whole

RELEASES = "releases"
"""The column that counts the noisy gradients that an agent has let out."""

INSTALL = 'dp-accounting is not installed: `pip install "gossamer[privacy]"`'

COARSE, FINE = 2e5, 1e6
"""The most steps of the losses' distribution in the first pass and in the second."""


class MissingAccounting(InputError, ImportError):
    """The package dp-accounting is missing."""


def installed() -> bool:
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
    if not installed():
        raise MissingAccounting(f"ε is computed by Google's dp-accounting, but {INSTALL}.")
    return _composed(noise, rate, releases, delta)


def spent(table: pl.DataFrame, known: Privacy, delta: float | None = None) -> pl.DataFrame:
    """Return the ε that an agent spent at most by the last round of each algorithm's runs."""
    delta = known.delta if delta is None else delta
    last = table.group_by("algorithm", "setting", maintain_order=True).agg(pl.col(RELEASES).max())
    spent_by_run = [epsilon(known.noise, known.rate, round(count), delta) for count in last[RELEASES]]
    return last.with_columns(epsilon=pl.Series(spent_by_run, dtype=pl.Float64), delta=pl.lit(delta))


def note(known: Privacy) -> str:
    """Return the note below a summary: the meaning of its ε, or how to see one."""
    if not installed():
        return f"private, but to see ε: {INSTALL}."
    return f"ε at δ = {known.delta:g}: what an agent spent, for adding or removing one of its rows."


@lru_cache(maxsize=256)
def _composed(noise: float, rate: float, releases: int, delta: float) -> float:
    if not releases:
        return 0.0
    if not noise:
        return float("inf")
    import dp_accounting
    from dp_accounting import pld

    whole_noise = noise / releases**0.5
    plain = float(dp_accounting.get_epsilon_gaussian(whole_noise, delta))
    if rate == 1:
        return plain

    def sampled(step: float) -> float:
        event: Any = dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(noise))
        relation = dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE
        accountant = pld.PLDAccountant(relation, value_discretization_interval=step)
        return float(accountant.compose(event, releases).get_epsilon(delta))

    # The error grows as releases · step²; the second step is as small as it must be, or as ε lets it.
    coarse = max(1e-4, float(dp_accounting.get_epsilon_gaussian(whole_noise, 1e-12)) / COARSE)
    try:
        first = sampled(coarse)
        fine = max(0.01 / releases**0.5, first / FINE)
        return min(first, sampled(fine)) if fine < coarse else first
    except OverflowError:  # there is next to no noise: sampling makes ε smaller, but by how much is not computed
        return plain
