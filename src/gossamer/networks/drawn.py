r"""Networks whose matrix $W^t$ is drawn anew each round.

A new law is one file: a subclass of `Drawn` whose `at` draws a round, and a function that returns its network. `at` is
written once, for NumPy on the host and for JAX in a compiled program. A draw depends on the network's own seed and on
the round alone, so that all gossip of a round, all runs of a block and the host see the same matrix. Random bits have a
fixed width: float64 changes no draw.
"""

import abc
import functools
import math
from collections.abc import Iterable
from typing import Any, ClassVar, NamedTuple

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, UInt

from gossamer.basics.cipher import NETWORK, encrypt
from gossamer.core import InputError, Range, whole
from gossamer.networks.mixers import DENSE_LIMIT, Changing, Explicit, Full, MatrixName, Neighbours, mixer
from gossamer.networks.network import Network, call_name

ZERO = np.zeros(1, np.uint32)


class Draws(NamedTuple):
    """The random numbers below one key, from the cipher that JAX's own functions use, and with the same bits."""

    xp: Any
    """`numpy` or `jax.numpy`."""
    high: Any
    low: Any
    """The key: two words, each in an array of length 1, since NumPy warns where a scalar overflows."""

    @classmethod
    def of_round(cls, xp: Any, seed: Any, t: Any) -> "Draws":
        """Return the draws of round t of a network with this seed."""
        return cls(xp, xp.full(1, NETWORK, np.uint32), xp.asarray(seed).astype(np.uint32).reshape(1)).fold(t)

    def fold(self, number: Any) -> "Draws":
        """Return the draws below the key of this number."""
        return Draws(self.xp, *self._encrypt(self.xp.asarray(number).astype(np.uint32).reshape(1)))

    def split(self) -> "tuple[Draws, Draws]":
        """Return the draws below two new keys."""
        # the counters 0 and 1, as `jax.random.split` takes them
        a, b = self._encrypt(np.arange(2, dtype=np.uint32))
        return Draws(self.xp, a[:1], b[:1]), Draws(self.xp, a[1:], b[1:])

    def words(self, numbers: Any) -> Any:
        """Return a word of 32 bits for each of these numbers."""
        return self._encrypt(numbers.ravel())[0].reshape(numbers.shape)

    def words_below(self, keys: Any, numbers: Any) -> Any:
        """Return a word for each of these numbers below the key of each of these: `keys` is a new first axis."""
        high, low = self._encrypt(keys)
        below = Draws(self.xp, high[:, None], low[:, None])
        return below._encrypt(numbers.ravel())[0].reshape(keys.shape + numbers.shape)

    def bits(self, shape: tuple[int, ...]) -> Any:
        """Return random words of 32 bits."""
        a, b = self._encrypt(self.xp.arange(math.prod(shape), dtype=np.uint32))
        return (a ^ b).reshape(shape)

    def uniform(self, shape: tuple[int, ...]) -> Any:
        """Return numbers in [0, 1), in float32."""
        mantissas = self.bits(shape) >> np.uint32(9)  # of numbers in [1, 2), as JAX makes them
        return (mantissas | np.float32(1).view(np.uint32)).view(np.float32) - np.float32(1)

    def between(self, low: int, high: int) -> Any:
        """Return a whole number from `low` to `high` − 1."""
        # 64 random bits modulo the span, in words of 32 bits that overflow
        above, below = (part.bits((1,)) for part in self.split())
        span = max(high - low, 1)
        factor = np.uint32((2**16 % span) ** 2 % 2**32 % span)
        rest = (above % np.uint32(span) * factor + below % np.uint32(span)) % np.uint32(span)
        return (low + rest.astype(np.int32))[0]

    def permutation(self, a: Any) -> Any:
        """Return a row in random order."""
        draws = self
        # sorted by random words, and so often that hardly two of a large row ever share all of theirs
        for _ in range(math.ceil(3 * np.log(max(1, a.size)) / np.log(2**32 - 1))):
            draws, words = draws.split()
            a = a[self.xp.argsort(words.bits(a.shape), stable=True)]
        return a

    def _encrypt(self, counters: Any) -> tuple[Any, Any]:
        return encrypt((self.high, self.low), ZERO, counters)


def put(a: Any, places: Any, values: Any) -> Any:
    """Return a copy of the array with these values at these places."""
    if hasattr(a, "at"):  # JAX's
        return a.at[places].set(values)
    copy = a.copy()
    copy[places] = values
    return copy


def add(a: Any, places: Any, values: Any) -> Any:
    """Return a copy of the array with these values added at these places, of which some may be the same."""
    if hasattr(a, "at"):
        return a.at[places].add(values)
    copy = a.copy()
    np.add.at(copy, places, values)
    return copy


class Drawn(Changing):
    """A mixer whose rounds are drawn. Subclasses have `at` and `sends`, and `contraction` if it has a closed form."""

    @abc.abstractmethod
    def at(self, t: Any, over: MatrixName, xp: Any = np) -> Explicit:
        """Draw the mixer of round t, on the host or, with `xp=jax.numpy`, in a compiled program."""

    def sparse(self, t: int = 0, over: MatrixName = "W") -> sp.csr_array:
        return self.at(t, "W" if self.doubly else over).sparse()

    @property
    def random(self) -> bool:
        return True

    def union(self, rounds: Iterable[int] | None = None) -> sp.csr_array | None:
        return None

    @functools.cached_property
    def is_symmetric(self) -> bool:
        return True


def seed_leaf(where: str, seed: Any) -> UInt[np.ndarray, ""]:
    """Return a seed as the leaf of a mixer."""
    return np.asarray(whole(where, seed, least=0, most=2**32 - 1), np.uint32)


# --- random matchings ---


@mixer("seed")
class Matching(Drawn):
    """Pairs drawn uniformly at random, who average; if the number of agents is odd, one rests."""

    kind: ClassVar[str] = "matching"
    alike: ClassVar[bool] = True
    agents: int
    seed: UInt[Any, ""]

    def at(self, t: Any, over: MatrixName, xp: Any = np) -> Neighbours:
        everyone = xp.arange(self.agents, dtype=np.int32)
        order = Draws.of_round(xp, self.seed, t).permutation(everyone)
        # Places 0–1, 2–3, … are pairs; a last place without a partner is its own.
        partner = put(everyone, order, order[xp.minimum(everyone ^ 1, self.agents - 1)])
        return Neighbours(xp.stack([everyone, partner], axis=1), xp.full((self.agents, 2), 0.5))

    def sends(self, t: int) -> float:
        return (self.agents - self.agents % 2) / self.agents

    def contraction(self, agents: int) -> float:
        # W² = W, and any two agents are matched equally often
        return 0.5 if agents % 2 else (agents - 2) / (2 * (agents - 1))


def random_matching(agents: int, seed: int = 0) -> Network:
    r"""Pair the agents at random in each round; pairs average. If the number of agents is odd, one rests.

    $\rho = 1 - \sqrt{\tfrac{n - 2}{2 (n - 1)}}$ for even $n$, and $1 - \sqrt{\tfrac12}$ for odd $n \ge 3$.

    Reference: S. Boyd, A. Ghosh, B. Prabhakar and D. Shah, "Randomized gossip algorithms", 2006.
    """
    n, key = whole("random_matching(agents)", agents), seed_leaf("random_matching(seed)", seed)
    return Network(call_name("random_matching", n, seed=int(key)), n, Matching(n, key))


# --- redrawn Erdős–Rényi graphs ---


@mixer("probability", "seed")
class Redrawn(Drawn):
    """An Erdős–Rényi graph with Metropolis weights, drawn anew each round."""

    kind: ClassVar[str] = "redrawn"
    alike: ClassVar[bool] = True
    agents: int
    probability: Float[Any, ""]
    seed: UInt[Any, ""]

    def at(self, t: Any, over: MatrixName, xp: Any = np) -> Full:
        n = self.agents
        drawn = Draws.of_round(xp, self.seed, t).uniform((n, n))
        # one draw a pair, for both directions
        above = xp.triu(drawn < xp.asarray(self.probability).astype(np.float32), 1)
        linked = above | above.T
        degrees = linked.sum(axis=1)
        matrix = linked / (1.0 + xp.maximum(degrees[:, None], degrees))
        return Full(matrix + xp.diag(1 - matrix.sum(axis=1)))

    def sends(self, t: int) -> float:
        return float(self.probability) * (self.agents - 1)

    def contraction(self, agents: int) -> float:
        r"""Return $(\mathbb E \lVert W \rVert_F^2 - 1) / (n - 1)$, because all agents are alike.

        $w_{ij} = 1 / (1 + \max(d_i, d_j))$ on a link, and degrees are binomial. Two links $ij$ and $ik$ depend on each
        other through $d_i$ and, as $jk$ counts in both degrees, on whether $j$ and $k$ are linked.
        """
        n, p = agents, float(self.probability)
        if n == 2:
            return 1 - p
        from scipy.stats import binom  # a second to import, so only when needed

        counts = np.arange(n)
        degrees = binom.pmf(counts - 1, n - 2, p)  # of an agent that has one link for certain
        weight = p * (degrees * _expect(degrees, 1)).sum()
        square = p * (degrees * _expect(degrees, 2)).sum()
        centre, unlinked, linked = (binom.pmf(counts - k, n - 3, p) for k in (2, 1, 2))
        both = p**2 * ((1 - p) * (centre * _expect(unlinked, 1) ** 2) + p * (centre * _expect(linked, 1) ** 2)).sum()
        own = 1 - 2 * (n - 1) * weight + (n - 1) * square + (n - 1) * (n - 2) * both
        return float((n * own + n * (n - 1) * square - 1) / (n - 1))


def _expect(chances: np.ndarray, power: int) -> np.ndarray:
    """Return E[(1 + max(d, D))^−power] for d = 0, 1, …, where D has these chances."""
    values = (1.0 + np.arange(len(chances))) ** -power
    above = np.append(np.cumsum((chances * values)[::-1])[::-1][1:], 0.0)
    return np.cumsum(chances) * values + above


def redrawn(agents: int, probability: float, seed: int = 0) -> Network:
    """Draw a new Erdős–Rényi graph each round, with Metropolis weights. A single round need not be connected."""
    n, key = whole("redrawn(agents)", agents), seed_leaf("redrawn(seed)", seed)
    allowed = Range(0, 1, True, False, "It is the chance that a pair is linked in a round.")
    p = allowed.check("redrawn(probability)", probability)
    if n > DENSE_LIMIT:
        raise InputError(
            f"redrawn({n}, {p:g}) would draw {n * (n - 1) // 2:,} pairs each round; up to {DENSE_LIMIT:,} agents can. "
            "Use networks.random_matching, which takes any number."
        )
    return Network(call_name("redrawn", n, p, seed=int(key)), n, Redrawn(n, np.asarray(p), key))
