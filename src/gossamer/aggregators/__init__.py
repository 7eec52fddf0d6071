"""Aggregators: robust means of an agent's own vector and its neighbours' messages."""

from collections.abc import Callable

from gossamer.aggregators.aggregator import Aggregator
from gossamer.aggregators.clipped import Clipped, clipped
from gossamer.aggregators.trimmed import Trimmed, median, trimmed_mean
from gossamer.core import Registry

AGGREGATORS: Registry[Callable[..., Aggregator]] = Registry(
    "aggregator",
    "gossamer.aggregators",
    {"clipped": clipped, "trimmed-mean": trimmed_mean, "median": median},
)
"""The aggregators by name."""

register = AGGREGATORS.register
"""Register a function that returns an aggregator under a name, so that a spec can name it."""

__all__ = [
    "AGGREGATORS",
    "Aggregator",
    "Clipped",
    "Trimmed",
    "clipped",
    "median",
    "register",
    "trimmed_mean",
]
