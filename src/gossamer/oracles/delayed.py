"""Stale gradients."""

from dataclasses import dataclass, field
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array

from gossamer.basics.pytrees import pytree
from gossamer.core import InputError, whole
from gossamer.oracles.constants import ErrorBounds
from gossamer.oracles.oracle import Oracle, Site, Stage
from gossamer.problems import Problem


@pytree
@dataclass(frozen=True)
class Delay(Stage):
    """The stage of `delay`."""

    rounds: int = field(metadata={"static": True})
    inner: Oracle | None = None

    def init(self, site: Site) -> Any:
        start = site.problem.start
        points = jnp.zeros((self.rounds, *start.shape), start.dtype)
        return {"inner": self.source.init(site), "points": points, "asked": jnp.int32(0)}

    def query(self, site: Site, state: Any, points: tuple[Array, ...]) -> tuple[tuple[Array, ...], Any]:
        if len(points) != 1:
            raise InputError(
                f"delay({self.rounds}) keeps one point for each query, but this rule asks at {len(points)} points in "
                "one call. Use a rule that asks at one point, or leave out the delay."
            )
        if self.rounds == 0:
            gradients, inner = self.source.query(site, state["inner"], points)
            return gradients, state | {"inner": inner}
        # the first query fills the ring with its own point, as there is no older one
        ring = jnp.where(state["asked"] == 0, points[0], state["points"])
        place = state["asked"] % self.rounds
        gradients, inner = self.source.query(site, state["inner"], (ring[place],))
        return gradients, {"inner": inner, "points": ring.at[place].set(points[0]), "asked": state["asked"] + 1}

    def bias(self, site: Site, state: Any) -> Any:
        return None if self.rounds else self.source.bias(site, state["inner"])

    def constants(self, problem: Problem) -> ErrorBounds:
        inner = self.source.constants(problem)
        if self.rounds == 0:
            return inner
        relative, absolute = inner.shift_bias(None)
        note = (
            "delay's σ_f² is L²‖x − x'‖², with x' the point of that many queries ago: it has a bound along a path only."
        )
        return ErrorBounds(relative, absolute, inner.variance, inner.add_notes(note))


def delay(rounds: int) -> Delay:
    r"""The gradient at the point of `rounds` queries ago, on a fresh sample.

    $$ \tilde g_i(x^t) = g_i(x^{t - \tau}; \xi^t) $$

    In the first queries it is the gradient at the oldest point so far. The error is at most $L \|x^t - x^{t-\tau}\|$,
    which goes to zero where the iterates come to rest. Each agent keeps `rounds` points.
    """
    return Delay(whole("delay(rounds=…)", rounds, least=0))
