"""Whether runs have come to where they may end."""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Bool

from gossamer.core import InputError
from gossamer.metrics import Metric


def at_targets(
    kind: Any, metrics: tuple[Metric, ...], targets: dict[str, Array], values: dict[str, Array]
) -> Bool[Array, "settings seeds"]:
    """Whether all metrics with a target are there, or better."""
    known, reached = {metric.name: metric.label for metric in metrics}, []
    for name, target in targets.items():
        if name not in values:
            raise InputError(
                f"until names {name}, which is not measured in this run of {kind.name}: {known[name].about}."
            )
        good = values[name] >= target if known[name].better == "higher" else values[name] <= target
        reached.append(good & jnp.isfinite(values[name]))
    return jnp.stack(reached).all(0)
