r"""The mean of the middle values, coordinate by coordinate.

$$ [x_i]_l \leftarrow \frac{1}{m - 2k} \sum_{r = k+1}^{m - k} [x]_{(r)l} $$

where $[x]_{(1)l} \le \dots \le [x]_{(m)l}$ are the $l$-th coordinates of the agent's own vector and of its neighbours'.

Reference: D. Yin, Y. Chen, K. Ramchandran and P. Bartlett, "Byzantine-robust distributed learning: towards optimal
statistical rates", ICML 2018, arXiv 1803.01498.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

from jaxtyping import Float

from gossamer.aggregators.aggregator import Aggregator
from gossamer.basics.lazy import Array, jnp
from gossamer.basics.pytrees import pytree
from gossamer.core import whole

COMPARED = 32
"""The most rows that are sorted by comparing pairs of them, which fuses; XLA's own sort is slow on a CPU."""


@pytree
@dataclass(frozen=True)
class Trimmed(Aggregator):
    """The aggregator of `trimmed_mean` and `median`."""

    name: ClassVar[str] = "trimmed_mean"
    trim: int | None = field(metadata={"static": True})
    """The number of values left out at each end; None leaves out all but the middle one, or two."""

    @property
    def fewest(self) -> int:
        return 1 if self.trim is None else 2 * self.trim + 1

    def combine(self, own: Array, messages: Array, weights: Array) -> Array:
        heard = jnp.append(weights != 0, True)
        values = jnp.where(heard[:, None], jnp.concatenate([messages, own[None]]), jnp.inf)
        ordered = ascending(jnp.where(jnp.isnan(values), jnp.inf, values))
        count = heard.sum()
        out = (count - 1) // 2 if self.trim is None else self.trim
        rank = jnp.arange(len(ordered))
        kept = (rank >= out) & (rank < count - out)
        return jnp.where(kept[:, None], ordered, 0).sum(0) / (count - 2 * out).astype(own.dtype)

    def __str__(self) -> str:
        return "median()" if self.trim is None else super().__str__()


def ascending(values: Float[Array, "rows d"]) -> Float[Array, "rows d"]:
    """Return the values of each column in ascending order."""
    if len(values) > COMPARED:
        return jnp.sort(values, axis=0)
    rows = list(values)
    for i, j in comparisons(len(rows)):
        rows[i], rows[j] = jnp.minimum(rows[i], rows[j]), jnp.maximum(rows[i], rows[j])
    return jnp.stack(rows)


def comparisons(count: int) -> Iterator[tuple[int, int]]:
    """Yield the pairs to compare, one after the other, that sort so many numbers.

    This is K. Batcher's merge exchange, 1968: D. Knuth, "The art of computer programming", volume 3, algorithm 5.2.2M.
    """
    top = 1 << max(count - 1, 0).bit_length() >> 1
    p = top
    while p:
        q, r, distance = top, 0, p
        while True:
            yield from ((i, i + distance) for i in range(count - distance) if i & p == r)
            if q == p:
                break
            distance, q, r = q - p, q >> 1, p
        p >>= 1


def trimmed_mean(trim: int) -> Trimmed:
    r"""The mean without the `trim` smallest and largest values, coordinate by coordinate.

    $$ [x_i]_l \leftarrow \frac{1}{m - 2k} \sum_{r = k+1}^{m - k} [x]_{(r)l} $$

    over the $m$ values of an agent and its neighbours, which all weigh the same. With up to $k$ attackers among an
    agent's neighbours, each coordinate stays within those of the honest ones. With $k = 0$ it is their plain mean.
    """
    return Trimmed(whole("trimmed_mean(trim=…)", trim, least=0))


def median() -> Trimmed:
    """The median of an agent's own value and its neighbours', coordinate by coordinate.

    It is the middle value, or the mean of the two in the middle. It withstands attackers that are fewer than half of
    those values.
    """
    return Trimmed(None)
