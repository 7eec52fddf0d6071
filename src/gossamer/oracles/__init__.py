"""Oracles: where an agent's gradients come from, and what is wrong with them."""

from collections.abc import Callable

from gossamer.oracles.additive import AdditiveBias, GivenBias, additive_bias
from gossamer.oracles.custom import Custom, custom
from gossamer.oracles.oracle import Oracle, Site, Stage
from gossamer.oracles.relative import RelativeBias, relative_bias
from gossamer.oracles.sampling import Exact, MiniBatch, exact, minibatch

STAGES: dict[str, Callable[..., Stage]] = {"additive-bias": additive_bias, "relative-bias": relative_bias}
"""The stages that a spec file can name."""


def completed(oracle: Oracle) -> Oracle:
    """The oracle itself, or, for a stage that stands around nothing, the exact gradient inside it."""
    return oracle if oracle.rooted else exact() | oracle


__all__ = [
    "STAGES",
    "AdditiveBias",
    "Custom",
    "Exact",
    "GivenBias",
    "MiniBatch",
    "Oracle",
    "RelativeBias",
    "Site",
    "Stage",
    "additive_bias",
    "completed",
    "custom",
    "exact",
    "minibatch",
    "relative_bias",
]
