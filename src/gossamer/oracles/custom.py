"""Your own oracle: a function of the gradient."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from jaxtyping import Array

from gossamer.basics.pytrees import pytree
from gossamer.core import InputError, brief
from gossamer.oracles.oracle import Oracle, Site, Stage


@pytree
@dataclass(frozen=True)
class Custom(Stage):
    """The stage of `custom`."""

    function: Callable[[Array, Array, Site], Array] = field(metadata={"static": True})
    inner: Oracle | None = None

    def query(self, site: Site, state: Any, points: tuple[Array, ...]) -> tuple[tuple[Array, ...], Any]:
        gradients, state = self.source.query(site, state, points)
        here = site._replace(key=self.own_key(site))
        changed = tuple(self.function(g, x, here) for g, x in zip(gradients, points, strict=True))
        for g, x in zip(changed, points, strict=True):
            if getattr(g, "shape", None) != x.shape:
                raise InputError(
                    f"the function of oracles.custom must return a gradient of shape {x.shape}, "
                    f"but returned {getattr(g, 'shape', type(g).__name__)}."
                )
        return tuple(g.astype(x.dtype) for g, x in zip(changed, points, strict=True)), state


def custom(function: Callable[[Array, Array, Site], Array]) -> Custom:
    """A stage of your own: ``function(gradient, x, site)`` returns what the agent takes for its gradient at ``x``.

    It sees one agent's vectors and is written in JAX. ``site.agent`` and ``site.round`` say who asks and when,
    ``site.key`` is for random draws: ``oracles.minibatch(64) | oracles.custom(lambda g, x, site: 0.9 * g)``.
    """
    if not callable(function):
        raise InputError(f"oracles.custom takes a function of (gradient, x, site), but was given {brief(function)}.")
    return Custom(function)
