r"""Messages clipped around one's own.

$$ x_i \leftarrow x_i + \sum_j w_{ij}\, \mathrm{clip}(x_j - x_i, \tau), \qquad
   \mathrm{clip}(a, \tau) = \min\Big(1, \frac{\tau}{\|a\|}\Big)\, a $$

Reference: L. He, S. P. Karimireddy and M. Jaggi, "Byzantine-robust decentralized learning via ClippedGossip", 2022,
arXiv 2202.01545.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from gossamer.aggregators.aggregator import Aggregator
from gossamer.basics.lazy import Array, jnp
from gossamer.basics.pytrees import pytree
from gossamer.core import Range


@pytree
@dataclass(frozen=True)
class Clipped(Aggregator):
    """The aggregator of `clipped`."""

    name: ClassVar[str] = "clipped"
    radius: Any

    def combine(self, own: Array, messages: Array, weights: Array) -> Array:
        away = messages - own
        distances = jnp.linalg.norm(away, axis=1)
        heard = (weights != 0) & jnp.isfinite(distances)  # a message with NaN or inf does not count
        radius = second_largest(distances, heard) if self.radius is None else self.radius
        scale = jnp.where(distances > radius, radius / jnp.where(distances > 0, distances, 1), 1)
        clipped = jnp.where(heard[:, None], scale[:, None] * away, 0)
        return own + (weights[:, None] * clipped).sum(0)


def second_largest(distances: Array, heard: Array) -> Array:
    """Return the second-largest distance among the messages that count; the largest if there is only one."""
    largest_last = jnp.sort(jnp.where(heard, distances, -1))
    return jnp.where(heard.sum() > 1, largest_last[-2:][0], largest_last[-1])


def clipped(radius: float | None = None) -> Clipped:
    r"""ClippedGossip: no message moves an agent further than by its weight times `radius`.

    $$ x_i \leftarrow x_i + \sum_j w_{ij} \min\Big(1, \frac{\tau}{\|x_j - x_i\|}\Big) (x_j - x_i) $$

    With $\tau = \infty$ it is gossip. Without a `radius` each agent takes the second-largest distance of its
    neighbours' messages in each round, as the authors' code does; that holds off one attacker among the neighbours of
    an agent. A message with inf or NaN is not heard.
    """
    if radius is None:
        return Clipped(None)
    if isinstance(radius, float) and radius == float("inf"):
        return Clipped(np.asarray(radius))
    allowed = Range(0, float("inf"), True, True, "It is the distance beyond which a message is clipped.")
    return Clipped(np.asarray(allowed.check("clipped(radius=…)", radius)))
