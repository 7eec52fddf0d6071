r"""Links that are down and agents that sleep, in rounds drawn at random, and weights that are mended for them.

A link that is down in a round takes its weight out of the matrix. In $R$ (and in a symmetric $W$, at both ends alike)
the receiver keeps it, $r_{ii} \mathrel{+}= r_{ij}$, so that rows still sum to 1; in $C$ the sender does,
$c_{jj} \mathrel{+}= c_{ij}$, so that columns do. An agent that sleeps has all its links down.
"""

import abc
import dataclasses
import functools
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from jaxtyping import Bool, Float, UInt

from gossamer.basics.cipher import FAULTS
from gossamer.core import InputError, Range
from gossamer.networks import measures
from gossamer.networks.drawn import Drawn, Draws, Matching, add, put, seed_leaf
from gossamer.networks.mixers import (
    DENSE_LIMIT,
    Directed,
    Explicit,
    Full,
    Hubs,
    MatrixName,
    Mean,
    Mixer,
    Neighbours,
    Shifts,
    mixer,
)
from gossamer.networks.network import Network, check_plain
from gossamer.networks.sequences import Cycle

RATE = Range(0, 1, False, True, "It is the chance of a failure in one round; at 1 nobody would ever meet.")


def failing(network: Network, links: float = 0.0, agents: float = 0.0, seed: int = 0) -> Network:
    r"""Add faults, drawn anew each round: a link is down with chance `links`, an agent sleeps with chance `agents`.

    A link fails in both directions at once, and both ends know. An agent that sleeps has all its links down and does
    nothing in that round. On a symmetric W both ends add the lost weight to their own, so that every $W^t$ is doubly
    stochastic. On a directed network the sender keeps what it could not push (C) and the receiver relies on itself for
    what it could not pull (R). A W that is doubly stochastic but not symmetric (`exponential`, `one_peer_exponential`)
    cannot be mended both ways: it is then directed, with an R and a C, and needs an algorithm for directed graphs.
    """
    check_plain("failing", network)
    down, asleep = RATE.check("failing(links)", links), RATE.check("failing(agents)", agents)
    key = seed_leaf("failing(seed)", seed)
    if not down and not asleep:
        return network
    rates = "".join(f", {what}={rate:g}" for what, rate in (("links", down), ("agents", asleep)) if rate)
    name, n = f"failing({network.name}{rates}, seed={key})", network.agents

    def faults(explicit: Any) -> Mixer:
        return Faults(n, explicit, np.asarray(down), np.asarray(asleep), key, asleep > 0, explicit.is_symmetric)

    return Network(name, n, each_round(network.mixer, faults), names=network.names)


def each_round(base: Any, mended: Callable[[Any], Mixer]) -> Mixer:
    """Return the mixer with failures that `mended` makes of a mixer that holds every weight.

    They go inside cycles and local steps, where they are the same.
    """
    match base:
        case Cycle(rounds=rounds):
            return dataclasses.replace(base, rounds=tuple(each_round(one, mended) for one in rounds))
        case Directed(row, column):
            return mended(Directed(_explicit(row), _explicit(column)))
        case Drawn():
            return mended(base)
        case _:
            return mended(_explicit(base))


def _explicit(base: Any) -> Explicit:
    """Return the same matrix in a form that holds every weight."""
    match base:
        case Shifts():
            return Neighbours.of(base.sparse())
        case Mean(agents):
            if agents > DENSE_LIMIT:
                raise InputError(
                    f"failures on complete({agents}) would draw {agents * (agents - 1) // 2:,} links each round; up to "
                    f"{DENSE_LIMIT:,} agents can. Use a sparse network, such as networks.exponential."
                )
            return Full(np.full((agents, agents), 1 / agents))
        case _:
            return base


class Mended(Drawn):
    """The rounds of another mixer without the links that are down; those who lose weight keep it.

    A subclass says which links are up, and who is awake.
    """

    agents: int
    base: Explicit | Directed | Drawn
    symmetric: bool
    """True if all rounds of the base are symmetric, and so stay doubly stochastic."""

    @abc.abstractmethod
    def up(self, t: Any, xp: Any, i: Any, j: Any) -> Bool[Any, "..."]:
        """Return True where agents i and j hear each other, which both ends of a link know alike."""

    def at(self, t: Any, over: MatrixName, xp: Any = np) -> Explicit:
        columns = over == "C" and not self.symmetric
        match self.base:
            case Directed():
                explicit: Any = self.base.part(over)
            case Drawn():
                explicit = self.base.at(t, over, xp)
            case _:
                explicit = self.base
        return _mend(explicit, lambda i, j: self.up(t, xp, i, j) | (i == j), columns, xp)

    @property
    def inner(self) -> tuple[Mixer, ...]:
        return (self.base,)

    def awake(self, t: Any, xp: Any = np) -> Bool[Any, " agents"] | None:
        return self.base.awake(t, xp)

    @property
    def depth(self) -> int:
        """The number of failures on top of each other, these included."""
        return 1 + (self.base.depth if isinstance(self.base, Mended) else 0)

    def union(self, rounds: Iterable[int] | None = None) -> sp.csr_array | None:
        return self.base.union(rounds)

    @property
    def doubly(self) -> bool:
        return self.symmetric

    @functools.cached_property
    def is_symmetric(self) -> bool:
        return self.symmetric


class Chances(Mended):
    """Links that are down with a chance, and agents that sleep with a chance, the same for all in every round."""

    seed: UInt[Any, ""]

    @property
    @abc.abstractmethod
    def rates(self) -> tuple[float, float]:
        """The chance that a link is down, and the chance that an agent sleeps."""

    def chance(self, t: Any, xp: Any, i: Any, j: Any) -> Float[Any, "..."]:
        """Draw a number in [0, 1) that belongs to the round and the pair; that of (i, i) is the agent's own."""
        # Faults of faults take another number, even where both have the same seed.
        draws = Draws.of_round(xp, self.seed, t).fold(FAULTS + self.depth)
        return unit(draws.words(self.number(xp, i, j)))

    def number(self, xp: Any, i: Any, j: Any) -> UInt[Any, "..."]:
        """Return the number of a pair, which wraps beyond 65,536 agents; then a few pairs share their draws."""
        low, high = xp.minimum(i, j).astype(np.uint32), xp.maximum(i, j).astype(np.uint32)
        return low * np.uint32(self.agents) + high

    def sends(self, t: int) -> float:
        return self.chance_up * self.base.sends(t)

    @property
    def spacing(self) -> int:
        """The number of rounds after which the links that fail are drawn independently."""
        return self.base.spacing if isinstance(self.base, Chances) else 1

    @property
    def chance_up(self) -> float:
        """The chance that a link is up and both its ends are awake."""
        links, asleep = self.rates
        return (1 - links) * (1 - asleep) ** 2

    def active(self, t: int) -> float:
        return (1 - self.rates[1]) * self.base.active(t)

    def contraction(self, agents: int) -> float:
        if isinstance(self.base, Matching):
            # Pairs that average twice are as after once, so E[WᵀW] = E[W], which is linear in the links.
            return 1 - self.chance_up * (1 - self.base.contraction(agents))
        if isinstance(self.base, Explicit):
            return self._exact_contraction(agents)
        inner: Any = self.base
        while isinstance(inner, Chances):
            inner = inner.base
        if inner.alike:  # the trace of E[WᵀW] says all
            rounds = range(0, measures.DRAWN_ROUNDS * self.spacing, self.spacing)
            squares = [(self.sparse(t).data ** 2).sum() for t in rounds]
            return float((np.mean(squares) - 1) / (agents - 1))
        return measures.estimate_contraction(self, agents)

    def _exact_contraction(self, n: int) -> float:
        r"""Return the contraction of one symmetric W with faults, which has a closed form.

        With $L = I - W = \sum_e w_e L_e$ over the links, a link up with chance $m$ and two that share an agent with
        covariance $c$,

        $$ \mathbb E[(W^t)^2] = (I - mL)^2 + cL^2 + (m - m^2 - c)\, 2 \sum_e w_e^2 L_e. $$
        """
        matrix = self.base.sparse()
        laplacian = sp.csr_array(sp.eye_array(n) - matrix)
        apart = sp.csr_array(matrix - sp.diags_array(matrix.diagonal()))
        squares = sp.csr_array(apart.multiply(apart))
        shared = sp.csr_array(2 * (sp.diags_array(np.asarray(squares.sum(axis=1)).ravel()) - squares))
        links, asleep = self.rates
        m, awake = self.chance_up, 1 - asleep
        c = (1 - links) ** 2 * awake**3 * (1 - awake)

        def whole() -> sp.csr_array:
            square = sp.csr_array(laplacian @ laplacian)
            return sp.csr_array(sp.eye_array(n) - 2 * m * laplacian + (m**2 + c) * square + (m - m**2 - c) * shared)

        def product(x: np.ndarray) -> np.ndarray:
            once = laplacian @ x
            return x - 2 * m * once + (m**2 + c) * (laplacian @ once) + (m - m**2 - c) * (shared @ x)

        return measures.largest(n, product, whole)


@mixer("base", "links", "asleep", "seed")
class Faults(Chances):
    """Links that are down and agents that sleep, each by itself and anew in each round; make it with `failing`."""

    kind: ClassVar[str] = "faults"
    agents: int
    base: Explicit | Directed | Drawn
    links: Float[Any, ""]
    """The chance that a link is down."""
    asleep: Float[Any, ""]
    """The chance that an agent sleeps."""
    seed: UInt[Any, ""]
    sleeping: bool
    """True if `asleep` is above 0."""
    symmetric: bool

    @property
    def rates(self) -> tuple[float, float]:
        return float(self.links), float(self.asleep)

    def awake(self, t: Any, xp: Any = np) -> Bool[Any, " agents"] | None:
        base = self.base.awake(t, xp)
        if not self.sleeping:
            return base
        everyone = xp.arange(self.agents, dtype=np.uint32)
        mine = self.chance(t, xp, everyone, everyone) >= xp.asarray(self.asleep).astype(np.float32)
        return mine if base is None else mine & base

    def up(self, t: Any, xp: Any, i: Any, j: Any) -> Bool[Any, "..."]:
        up = self.chance(t, xp, i, j) >= xp.asarray(self.links).astype(np.float32)
        awake = self.awake(t, xp)
        return up if awake is None else up & awake[i] & awake[j]

    @property
    def sleeps(self) -> bool:
        return self.sleeping or super().sleeps


def unit(words: Any) -> Float[Any, "..."]:
    """Return words as numbers in [0, 1)."""
    # 24 bits are all that float32 holds exactly, so that no number is rounded up to 1.
    return (words >> np.uint32(8)).astype(np.float32) * np.float32(2**-24)


def _mend(given: Explicit, up: Any, columns: bool, xp: Any) -> Explicit:
    """Take away the weights of links that are down, and give them to the receiver or, by columns, to the sender."""
    match given:
        case Full(matrix):
            everyone = xp.arange(len(matrix), dtype=np.int32)
            kept, lost = _divide(matrix, up(*xp.broadcast_arrays(everyone[:, None], everyone)), xp)
            return Full(kept + xp.diag(lost.sum(axis=0 if columns else 1)))
        case Neighbours():
            return _with_own(*_divide_table(given, up, columns, xp), xp)
        case Hubs(table, hubs, rows):
            hubs = xp.asarray(hubs)
            kept, lost = _divide_table(table, up, columns, xp)
            everyone = xp.arange(len(lost), dtype=np.int32)
            kept_rows, lost_rows = _divide(rows, up(*xp.broadcast_arrays(hubs[:, None], everyone)), xp)
            lost = lost + lost_rows.sum(axis=0) if columns else put(lost, hubs, lost_rows.sum(axis=1))
            # what a hub keeps stands on the diagonal of its dense row, not in the table
            rest = _with_own(kept, put(lost, hubs, 0), xp)
            return Hubs(rest, hubs, add(kept_rows, (xp.arange(len(hubs)), hubs), lost[hubs]))


def _divide(weights: Any, up: Any, xp: Any) -> tuple[Any, Any]:
    """Return the weights that remain and those that are lost."""
    weights = xp.asarray(weights)
    nothing = xp.zeros_like(weights)
    return xp.where(up, weights, nothing), xp.where(up, nothing, weights)


def _divide_table(table: Neighbours, up: Any, columns: bool, xp: Any) -> tuple[Neighbours, Any]:
    """Return the table without its lost weights, and the sum that each agent keeps of them."""
    indices = xp.asarray(table.indices)
    receivers = xp.broadcast_to(xp.arange(len(indices), dtype=indices.dtype)[:, None], indices.shape)
    kept, lost = _divide(table.weights, up(receivers, indices), xp)
    own = add(xp.zeros(len(indices), lost.dtype), indices, lost) if columns else lost.sum(axis=1)
    return Neighbours(indices, kept), own


def _with_own(table: Neighbours, own: Any, xp: Any) -> Neighbours:
    """Return the table with one more entry for each agent: the weight that it keeps for itself."""
    agents = xp.arange(len(own), dtype=table.indices.dtype)
    return Neighbours(
        xp.concatenate([table.indices, agents[:, None]], axis=1),
        xp.concatenate([table.weights, own[:, None]], axis=1),
    )
