"""Whether runs have come to where they may end."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

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


def stayed(reached: Int[Array, ""] | None, before: Any, after: Any) -> Any:
    """What a run holds after a round: one that has come to its targets holds what it held before."""
    if reached is None:
        return after
    return jax.tree.map(lambda new, old: jnp.where(reached >= 0, old, new), after, before)
