r"""Links that are down and agents that sleep, in rounds drawn at random, and weights that are mended for them.

A link that is down in a round takes its weight out of the matrix. In $R$ (and in a symmetric $W$, at both ends alike)
the receiver keeps it, $r_{ii} \mathrel{+}= r_{ij}$, so that rows still sum to 1; in $C$ the sender does,
$c_{jj} \mathrel{+}= c_{ij}$, so that columns do. An agent that sleeps has all its links down.
"""

import dataclasses
import functools
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from jaxtyping import Bool, Float, UInt

from gossamer.basics.cipher import FAULTS
from gossamer.basics.lazy_jax import Array
from gossamer.core import InputError
from gossamer.networks.mixing.cycles import Cycle, Every
from gossamer.networks.mixing.directed import Directed
from gossamer.networks.mixing.drawn import Drawn
from gossamer.networks.mixing.mixer import MatrixName, Mixer, mixer
from gossamer.networks.mixing.sources import PROGRAM, Source, source_for
from gossamer.networks.mixing.static import DENSE_LIMIT, Explicit, Full, Hubs, Mean, Neighbours, Shifts


@mixer("base", "links", "asleep", "seed")
@dataclasses.dataclass(frozen=True, eq=False)
class Faults(Drawn):
    """The rounds of another mixer, each with faults of its own; make it with `fail`."""

    kind: ClassVar[str] = "faults"
    agents: int
    base: Explicit | Directed | Drawn
    links: Float[np.ndarray, ""]
    """How often a link is down."""
    asleep: Float[np.ndarray, ""]
    """How often an agent sleeps."""
    seed: UInt[np.ndarray, ""]
    sleeps: bool
    """Whether `asleep` is above 0."""
    symmetric: bool
    """Whether all rounds of the base are symmetric, and so stay doubly stochastic."""

    def at(self, t: Any, over: MatrixName, by: Source = PROGRAM) -> Explicit:
        columns = over == "C" and not self.symmetric
        match self.base:
            case Directed():
                explicit: Any = self.base.part(over)
            case Drawn():
                explicit = self.base.at(t, over, by)
            case _:
                explicit = self.base
        return _mend(explicit, functools.partial(self._up, t, by), columns, by)

    def awake(self, t: Any) -> Bool[Array | np.ndarray, " agents"] | None:
        base, by = self.base.awake(t), source_for(t, self.seed)
        if not self.sleeps:
            return base
        everyone = by.np.arange(self.agents, dtype=np.uint32)
        mine = self._chance(t, by, everyone, everyone) >= by.np.asarray(self.asleep).astype(np.float32)
        return mine if base is None else mine & base

    def _up(self, t: Any, by: Source, i: Any, j: Any) -> Bool[Array | np.ndarray, "..."]:
        """Whether agents i and j hear each other, which both ends of a link know alike."""
        up = self._chance(t, by, i, j) >= by.np.asarray(self.links).astype(np.float32)
        awake = self.awake(t)
        up = up if awake is None else up & awake[i] & awake[j]
        return up | (i == j)

    def _chance(self, t: Any, by: Source, i: Any, j: Any) -> Float[Array | np.ndarray, "..."]:
        """A number in [0, 1) that belongs to the round and the pair; that of (i, i) is the agent's own."""
        # Faults of faults take another number, even where both have the same seed.
        key = by.folded(by.key(self.seed, t), FAULTS + self._depth)
        low, high = by.np.minimum(i, j).astype(np.uint32), by.np.maximum(i, j).astype(np.uint32)
        words = by.words(key, low * np.uint32(self.agents) + high)
        return (words >> np.uint32(8)).astype(np.float32) * np.float32(2**-24)

    @property
    def _depth(self) -> int:
        return 1 + (self.base._depth if isinstance(self.base, Faults) else 0)

    def union(self) -> sp.csr_array | None:
        return self.base.union()

    def sends(self, t: int) -> float:
        return self.chance_up * self.base.sends(t)

    @property
    def chance_up(self) -> float:
        """How often a link is up and both its ends are awake."""
        return (1 - float(self.links)) * (1 - float(self.asleep)) ** 2

    @property
    def doubly(self) -> bool:
        return self.symmetric

    @property
    def activity(self) -> float:
        return (1 - float(self.asleep)) * self.base.activity

    @functools.cached_property
    def balanced(self) -> bool:
        return self.symmetric


def fail(base: Any, agents: int, links: float, asleep: float, seed: int) -> Mixer:
    """This mixer with faults. They go inside cycles and local steps, where they draw the same."""
    again = functools.partial(fail, agents=agents, links=links, asleep=asleep, seed=seed)
    match base:
        case Cycle(rounds, stride):
            return Cycle(tuple(again(mixer) for mixer in rounds), stride)
        case Every(_, inner, rounds, stride):
            return Every(agents, again(inner), rounds, stride)
        case Directed(row, column):
            held: Any = Directed(_explicit(row), _explicit(column))
        case Drawn():
            held = base
        case _:
            held = _explicit(base)
    rates = np.asarray(links, np.float64), np.asarray(asleep, np.float64)
    return Faults(agents, held, *rates, np.asarray(seed, np.uint32), asleep > 0, base.balanced)


def _explicit(base: Any) -> Explicit:
    """The same matrix with every weight held."""
    match base:
        case Shifts():
            return Neighbours.of(base.sparse())
        case Mean(agents):
            if agents > DENSE_LIMIT:
                raise InputError(
                    f"failing(complete({agents})) would draw {agents * (agents - 1) // 2:,} links each round; up to "
                    f"{DENSE_LIMIT:,} agents can. Use a sparse network, such as networks.exponential."
                )
            return Full(np.full((agents, agents), 1 / agents))
        case _:
            return base


def _mend(given: Explicit, up: Any, columns: bool, by: Source) -> Explicit:
    """Take away the weights of links that are down, and give them to the receiver or, by columns, to the sender."""
    match given:
        case Full(matrix):
            n = len(matrix)
            everyone = by.np.arange(n, dtype=np.int32)
            kept, lost = _part(matrix, up(*by.np.broadcast_arrays(everyone[:, None], everyone)), by)
            return Full(kept + by.np.diag(lost.sum(axis=0 if columns else 1)))
        case Neighbours():
            kept, lost = _table_losses(given, up, columns, by)
            return _keep(kept, lost, by)
        case Hubs(table, hubs, rows):
            hubs = by.np.asarray(hubs)
            kept, lost = _table_losses(table, up, columns, by)
            everyone = by.np.arange(len(lost), dtype=np.int32)
            kept_rows, lost_rows = _part(rows, up(*by.np.broadcast_arrays(hubs[:, None], everyone)), by)
            lost = lost + lost_rows.sum(axis=0) if columns else by.put(lost, hubs, lost_rows.sum(axis=1))
            rest = _keep(kept, by.put(lost, hubs, 0), by)
            return Hubs(rest, hubs, by.add(kept_rows, (by.np.arange(len(hubs)), hubs), lost[hubs]))


def _table_losses(table: Neighbours, up: Any, columns: bool, by: Source) -> tuple[Neighbours, Any]:
    """The table without its lost weights, and what each agent keeps of them."""
    indices = by.np.asarray(table.indices)
    receivers = by.np.broadcast_to(by.np.arange(len(indices), dtype=indices.dtype)[:, None], indices.shape)
    kept, lost = _part(table.weights, up(receivers, indices), by)
    own = by.add(by.np.zeros(len(indices), lost.dtype), indices, lost) if columns else lost.sum(axis=1)
    return Neighbours(indices, kept), own


def _keep(table: Neighbours, lost: Any, by: Source) -> Neighbours:
    """The table with one more entry for each agent: what it keeps for itself."""
    own = by.np.arange(len(lost), dtype=table.indices.dtype)
    return Neighbours(
        by.np.concatenate([table.indices, own[:, None]], axis=1),
        by.np.concatenate([table.weights, lost[:, None]], axis=1),
    )


def _part(weights: Any, up: Any, by: Source) -> tuple[Any, Any]:
    """The weights that remain and those that are lost."""
    weights = by.np.asarray(weights)
    nothing = by.np.zeros_like(weights)
    return by.np.where(up, weights, nothing), by.np.where(up, nothing, weights)
