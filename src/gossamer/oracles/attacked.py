"""Attackers that send wrong gradients on purpose."""

from dataclasses import dataclass, field
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from gossamer.attacks import KINDS, SIGN, Attack, alie_scale, chosen, named, scale_of
from gossamer.basics.pytrees import pytree
from gossamer.core import InputError
from gossamer.oracles.biases import stretch_bounds
from gossamer.oracles.constants import ErrorBounds, square_error
from gossamer.oracles.oracle import Oracle, Site, Stage
from gossamer.problems import Problem


@pytree
@dataclass(frozen=True)
class AttackedGradients(Stage):
    """The stage of `attack`."""

    kind: str = field(metadata={"static": True})
    agents: tuple[int, ...] | None = field(metadata={"static": True})
    share: float | None = field(metadata={"static": True})
    scale: Any
    """s, or z of ALIE; None lets ALIE compute its own z."""
    inner: Oracle | None = None

    def check(self, problem: Problem) -> None:
        self.source.check(problem)
        self.attackers(problem.agents)
        self.together(problem.agents)

    def attackers(self, agents: int) -> frozenset[int]:
        return self.source.attackers(agents) | {*self._chosen(agents)}

    def together(self, agents: int) -> Attack | None:
        attackers = self._chosen(agents)
        if self.kind != "alie" or not attackers:
            return None
        return Attack("alie", alie_scale("attack", agents, len(attackers), self.scale), attackers)

    def __or__(self, stage: Any) -> Oracle:
        if self.kind == "alie":
            raise InputError(
                'attack(how="alie") is made of all agents\' gradients as the oracle gives them, so that no stage can '
                "stand around it: put it last."
            )
        return super().__or__(stage)

    def change(self, site: Site, g: Array, x: Array) -> Array:
        if self.kind == "alie":
            return g  # the engine computes ALIE once it has all gradients: see `together`
        count = site.problem.agents
        attacks = jnp.asarray(np.isin(np.arange(count), self._chosen(count)))[site.agent]
        wrong = jnp.full_like(g, self.scale) if self.kind == "constant" else SIGN[self.kind] * self.scale * g
        return jnp.where(attacks, wrong, g)

    def _chosen(self, agents: int) -> tuple[int, ...]:
        return chosen("attack", agents, self.agents, self.share)

    def constants(self, problem: Problem) -> ErrorBounds:
        inner = self.source.constants(problem)
        if not self._chosen(problem.agents):
            return inner
        if self.kind == "alie":
            return ErrorBounds(None, None, None, "The gradients of ALIE depend on those of the honest agents alone.")
        scale = float(self.scale)
        if self.kind != "constant":
            factor = SIGN[self.kind] * scale
            return stretch_bounds(inner, abs(factor - 1), max(1.0, abs(factor)))
        # an attacker is off by s1 − ∇f_i, without noise, and an honest agent by what it was
        wrong = square_error(1.0, abs(scale) * problem.dim**0.5)
        own = inner.relative, inner.absolute
        relative, absolute = (None if a is None or b is None else max(a, b) for a, b in zip(own, wrong, strict=True))
        return ErrorBounds(relative, absolute, inner.variance, inner.note)


def attack(
    how: str = "flip", *, agents: list[int] | None = None, share: float | None = None, scale: float | None = None
) -> AttackedGradients:
    r"""Make some agents' gradients wrong on purpose: flipped, scaled, constant or ALIE.

    $$ \tilde g_i(x) = -s\, g_i(x), \qquad s\, g_i(x), \qquad s \mathbf 1 \qquad \text{or} \qquad \mu - z\, \sigma $$

    for ``"flip"``, ``"scale"``, ``"constant"`` and ``"alie"``, with `scale` $s$, which is 1 for a flip unless given, or
    $z$. For ALIE $\mu$ and $\sigma$ are the mean and the deviation of the honest agents' gradients in that query, by
    coordinates, and $z$ is worked out from the number of attackers unless given; it stands behind all other stages. The
    attackers are `agents`, a list of numbers, or a `share` of all, at equal distances from agent 0 on. They send what
    the algorithm makes of such gradients; in `networks.attacked` the messages themselves are wrong. What is measured
    is measured on the honest agents alone: their mean model, and the mean of their losses. For a flip
    $M_f = (1 + s)^2$ on the full gradient, far beyond what the theory covers.
    """
    number = scale_of("attack", how, scale, KINDS)
    return AttackedGradients(how, *named("attack", agents, share), None if number is None else np.asarray(number))
