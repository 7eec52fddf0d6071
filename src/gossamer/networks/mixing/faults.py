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

from gossamer.basics.lazy_jax import Array, jax, jnp
from gossamer.core import InputError
from gossamer.networks.mixing.cycles import Cycle, Every
from gossamer.networks.mixing.directed import Directed
from gossamer.networks.mixing.drawn import Drawn, round_key
from gossamer.networks.mixing.mixer import MatrixName, Mixer, mixer
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

    def at(self, t: Any, over: MatrixName) -> Explicit:
        columns = over == "C" and not self.symmetric
        match self.base:
            case Directed():
                explicit: Any = self.base.part(over)
            case Drawn():
                explicit = self.base.at(t, over)
            case _:
                explicit = self.base
        return _mend(explicit, functools.partial(self._up, t), columns)

    def awake(self, t: Any) -> Bool[Array, " agents"] | None:
        base = self.base.awake(t)
        if not self.sleeps:
            return base
        everyone = jnp.arange(self.agents, dtype=jnp.uint32)
        mine = self._chance(t, everyone, everyone) >= jnp.asarray(self.asleep).astype(jnp.float32)
        return mine if base is None else mine & base

    def _up(self, t: Any, i: Array, j: Array) -> Bool[Array, "..."]:
        """Whether agents i and j hear each other, which both ends of a link know alike."""
        up = self._chance(t, i, j) >= jnp.asarray(self.links).astype(jnp.float32)
        awake = self.awake(t)
        up = up if awake is None else up & awake[i] & awake[j]
        return up | (i == j)

    def _chance(self, t: Any, i: Array, j: Array) -> Float[Array, "..."]:
        """A number in [0, 1) that belongs to the round and the pair; that of (i, i) is the agent's own."""
        from gossamer.basics.keys import of_faults

        # Faults of faults take another number, even where both have the same seed.
        key = of_faults(round_key(self.seed, t), self._depth)
        low, high = jnp.minimum(i, j).astype(jnp.uint32), jnp.maximum(i, j).astype(jnp.uint32)
        pairs = low * np.uint32(self.agents) + high
        hashed = jax.vmap(lambda pair: jax.random.key_data(jax.random.fold_in(key, pair))[0])(pairs.ravel())
        return (hashed.reshape(pairs.shape) >> 8).astype(jnp.float32) * np.float32(2**-24)

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


def _mend(given: Explicit, up: Any, columns: bool) -> Explicit:
    """Take away the weights of links that are down, and give them to the receiver or, by columns, to the sender."""
    match given:
        case Full(matrix):
            n = len(matrix)
            everyone = jnp.arange(n, dtype=jnp.int32)
            kept, lost = _part(matrix, up(*jnp.broadcast_arrays(everyone[:, None], everyone)))
            return Full(kept + jnp.diag(lost.sum(axis=0 if columns else 1)))
        case Neighbours():
            kept, lost = _table_losses(given, up, columns)
            return _keep(kept, lost)
        case Hubs(table, hubs, rows):
            hubs = jnp.asarray(hubs)
            kept, lost = _table_losses(table, up, columns)
            everyone = jnp.arange(len(lost), dtype=jnp.int32)
            kept_rows, lost_rows = _part(rows, up(*jnp.broadcast_arrays(hubs[:, None], everyone)))
            lost = lost + lost_rows.sum(axis=0) if columns else lost.at[hubs].set(lost_rows.sum(axis=1))
            rest = _keep(kept, lost.at[hubs].set(0))
            return Hubs(rest, hubs, kept_rows.at[jnp.arange(len(hubs)), hubs].add(lost[hubs]))


def _table_losses(table: Neighbours, up: Any, columns: bool) -> tuple[Neighbours, Float[Array, " agents"]]:
    """The table without its lost weights, and what each agent keeps of them."""
    indices = jnp.asarray(table.indices)
    receivers = jnp.broadcast_to(jnp.arange(len(indices), dtype=indices.dtype)[:, None], indices.shape)
    kept, lost = _part(table.weights, up(receivers, indices))
    own = jnp.zeros(len(indices), lost.dtype).at[indices].add(lost) if columns else lost.sum(axis=1)
    return Neighbours(indices, kept), own


def _keep(table: Neighbours, lost: Float[Array, " agents"]) -> Neighbours:
    """The table with one more entry for each agent: what it keeps for itself."""
    own = jnp.arange(len(lost), dtype=table.indices.dtype)
    return Neighbours(
        jnp.concatenate([table.indices, own[:, None]], axis=1),
        jnp.concatenate([table.weights, lost[:, None]], axis=1),
    )


def _part(weights: Any, up: Bool[Array, "..."]) -> tuple[Array, Array]:
    """The weights that remain and those that are lost."""
    weights = jnp.asarray(weights)
    nothing = jnp.zeros_like(weights)
    return jnp.where(up, weights, nothing), jnp.where(up, nothing, weights)
