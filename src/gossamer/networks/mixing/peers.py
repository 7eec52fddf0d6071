r"""Mixers in which everyone meets one other at a distance that is drawn anew each round, the same for all."""

import dataclasses
import functools
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float, Int, UInt

from gossamer.basics.lazy_jax import Array
from gossamer.networks.mixing.drawn import Drawn
from gossamer.networks.mixing.mixer import MatrixName, mixer
from gossamer.networks.mixing.sources import PROGRAM, Source
from gossamer.networks.mixing.static import Neighbours


@mixer("share", "seed")
@dataclasses.dataclass(frozen=True, eq=False)
class Ahead(Drawn):
    r"""$x_i \leftarrow (1 - s) x_i + s\, x_{i - a}$ with $a$ uniform on $1, \dots, n - 1$."""

    kind: ClassVar[str] = "ahead"
    agents: int
    share: Float[np.ndarray, ""]
    seed: UInt[np.ndarray, ""]

    def at(self, t: Any, over: MatrixName, by: Source = PROGRAM) -> Neighbours:
        everyone = by.np.arange(self.agents, dtype=np.int32)
        step = by.between(by.key(self.seed, t), 1, self.agents)
        return _halves(everyone, (everyone - step) % self.agents, self.share, by)

    def sends(self, t: int) -> float:
        return 1.0

    @functools.cached_property
    def balanced(self) -> bool:
        return self.agents == 2

    def left(self) -> float:
        r"""$\lambda_{\max}(\mathbb E[W^\top W] - J)$: the same for all frequencies, because the cosines sum to −1."""
        s = float(self.share)
        return 1 - 2 * s * (1 - s) * self.agents / (self.agents - 1)


@mixer("share", "seed")
@dataclasses.dataclass(frozen=True, eq=False)
class Paired(Drawn):
    r"""$x_i \leftarrow (1 - s) x_i + s\, x_j$ for pairs at distance $a$, uniform on $1, \dots, n - 1$.

    From an agent that is drawn too, everyone in turn is paired with the one at distance $a$ if both are still free.
    """

    kind: ClassVar[str] = "paired"
    agents: int
    share: Float[np.ndarray, ""]
    seed: UInt[np.ndarray, ""]

    def at(self, t: Any, over: MatrixName, by: Source = PROGRAM) -> Neighbours:
        far, near = by.split(by.key(self.seed, t))
        step = by.between(far, 1, self.agents)
        first = by.between(near, 0, self.agents)
        everyone = by.np.arange(self.agents, dtype=np.int32)
        partner = (first + partners(self.agents, step, (everyone - first) % self.agents, by)) % self.agents
        return _halves(everyone, partner, self.share, by)

    def sends(self, t: int) -> float:
        return float(2 * pairs(self.agents).mean() / self.agents)

    def left(self) -> float:
        r"""$\lambda_{\max}(\mathbb E[W^2] - J)$: a matching squared is $I$, and the mean one a sum of translations."""
        n, s, often = self.agents, float(self.share), pairs(self.agents) / self.agents
        chance = np.zeros(n)  # of meeting the agent at this distance
        chance[1:] = (often + often[::-1]) / (n - 1)
        chance[0] = 1 - chance.sum()
        seen = np.fft.fft(chance).real[1:].max()
        return float((1 - s) ** 2 + s**2 + 2 * s * (1 - s) * seen)


def partners(
    n: int, step: Any, place: Int[Array | np.ndarray, " agents"], by: Source
) -> Int[Array | np.ndarray, " agents"]:
    """Whom each agent is paired with at this distance, or itself; places count from the first agent on."""
    back, where = n - step, by.np.where
    beyond = _in_row(n - 2 * back, back, place - back, by) + back
    wrapped = where(place < back, place + step, where(place >= step, place - step, beyond))
    return where(2 * step <= n, _in_row(n, step, place, by), wrapped)


def pairs(n: int) -> Int[np.ndarray, " distances"]:
    """How many pairs there are at distance 1, 2, …, n − 1."""
    step = np.arange(1, n)
    back = n - step
    return np.where(2 * step <= n, _pairs_in_row(n, step), back + _pairs_in_row(np.maximum(n - 2 * back, 0), back))


def _in_row(length: Any, step: Any, place: Any, by: Source) -> Any:
    """Places in a row, paired with those `step` ahead: blocks of that length, the first with the second and so on."""
    ahead, even = place + step, place // step % 2 == 0
    return by.np.where(even, by.np.where(ahead < length, ahead, place), place - step)


def _pairs_in_row(length: Any, step: Any) -> Any:
    return length // (2 * step) * step + np.maximum(length % (2 * step) - step, 0)


def _halves(everyone: Any, other: Any, share: Any, by: Source) -> Neighbours:
    s, stack = by.np.asarray(share), by.np.stack
    return Neighbours(stack([everyone, other], axis=1), stack([1 - s, s])[None].repeat(len(everyone), axis=0))
