r"""A network: agents and the static, doubly stochastic $W$ they gossip with, $x_i \leftarrow \sum_j w_{ij} x_j$."""

import dataclasses
import operator
from functools import cached_property

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
from jax.core import Tracer
from jaxtyping import Array, Float, Int

from gossamer.core import InputError
from gossamer.networks.mixers import DENSE_LIMIT, Mean, Mixer, Shifts
from gossamer.networks.spectrum import EXACT_AGENTS, matrix_gap, shifts_gap


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Network:
    """Agents and their mixing matrix. Make one with `ring`, `torus`, …, `from_graph` or `from_matrix`, which check it.

    It is a pytree: weights are leaves (float64 on the host), the name and the structure are static.
    """

    name: str
    agents: int
    mixer: Mixer

    def mix(self, x: Float[Array, "agents ..."]) -> Float[Array, "agents ..."]:
        """W x over the first axis, in the dtype of `x`."""
        x = jnp.asarray(x)
        if x.ndim == 0 or x.shape[0] != self.agents:
            raise InputError(
                f"{self.name} mixes arrays with one row an agent, [{self.agents}, …], but got shape {x.shape}. Stack "
                "the agents along the first axis."
            )
        if not jnp.issubdtype(x.dtype, jnp.inexact):
            raise InputError(f"{self.name} mixes floating point, but got {x.dtype}. Convert it with x.astype(float).")
        return self.mixer.mix(x)

    @property
    def kind(self) -> str:
        """How the matrix is held: shifts, mean, table, hubs or dense."""
        return self.mixer.kind

    @property
    def sparse(self) -> sp.csr_array:
        """W as a sparse matrix."""
        if isinstance(self.mixer, Mean):
            self._refuse_large("all of whose entries are 1/n: use `mix`, `gap` and `degrees`, which need no matrix")
        return self.mixer.sparse()

    @property
    def mixing(self) -> Float[np.ndarray, "agents agents"]:
        """W as a dense matrix."""
        self._refuse_large("which takes 8 n² bytes: use `sparse`, `mix` or `gap`")
        return self.sparse.toarray()

    @cached_property
    def gap(self) -> float:
        r"""The spectral gap $\rho = 1 - \lVert W - J \rVert_2$, in (0, 1]; 1 is a complete graph."""
        match self.mixer:
            case Mean():
                return 1.0
            case Shifts(shape, offsets, weights):
                return shifts_gap(shape, offsets, np.asarray(weights, np.float64))
            case _:
                return matrix_gap(self.sparse)

    @cached_property
    def degrees(self) -> Int[np.ndarray, " agents"]:
        """How many other agents each agent sends to."""
        if isinstance(self.mixer, Mean):
            return np.full(self.agents, self.agents - 1)
        return np.diff(self._sends.indptr).astype(np.int64)

    def neighbors(self, agent: int) -> Int[np.ndarray, " degree"]:
        """The other agents that this agent sends to, in order."""
        try:
            i = operator.index(agent)
        except TypeError:
            i = -1
        if not 0 <= i < self.agents:
            raise InputError(f"agent must be a whole number in 0 … {self.agents - 1}, but is {agent!r}.")
        if isinstance(self.mixer, Mean):
            return np.delete(np.arange(self.agents), i)
        first, last = self._sends.indptr[i : i + 2]
        return self._sends.indices[first:last].astype(np.int64)

    @cached_property
    def links(self) -> int:
        """How many pairs of agents exchange messages, in one direction or both."""
        if isinstance(self.mixer, Mean):
            return self.agents * (self.agents - 1) // 2
        sends = sp.csr_array(self._sends)
        return int((sends + sends.T).nnz) // 2

    @cached_property
    def _sends(self) -> sp.csc_array:
        """The off-diagonal non-zeros; column i holds whom agent i sends to."""
        entries = sp.coo_array(self.sparse)
        apart = entries.row != entries.col
        ends = entries.row[apart], entries.col[apart]
        sends = sp.csc_array(sp.coo_array((np.ones(len(ends[0])), ends), shape=entries.shape))
        sends.sort_indices()
        return sends

    def _refuse_large(self, why: str) -> None:
        if self.agents > DENSE_LIMIT:
            raise InputError(
                f"{self.name} has {self.agents:,} agents, above the limit of {DENSE_LIMIT:,} for a full matrix, {why}."
            )

    def __repr__(self) -> str:
        text = f"{self.name}: {_count(self.agents, 'agent')}"
        # JAX prints networks whose leaves are tracers or placeholders, which have no values.
        if any(isinstance(leaf, Tracer) or not hasattr(leaf, "dtype") for leaf in jax.tree_util.tree_leaves(self)):
            return text
        cheap = self.agents <= EXACT_AGENTS or isinstance(self.mixer, Mean | Shifts) or "gap" in self.__dict__
        return f"{text}, {_count(self.links, 'link')}" + (f", ρ = {self.gap:.3g}" if cheap else "")


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}" + "s" * (number != 1)


jax.tree_util.register_dataclass(Network, data_fields=["mixer"], meta_fields=["name", "agents"])
