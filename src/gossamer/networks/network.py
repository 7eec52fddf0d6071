r"""A network: agents and the weights they gossip with, $x_i \leftarrow \sum_j w^t_{ij} x_j$ in round $t$."""

import dataclasses
from functools import cached_property
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from jaxtyping import Bool, Float, Int

from gossamer.attacks import Attack
from gossamer.basics.arrays import array_of
from gossamer.basics.pytrees import flatten, pytree
from gossamer.basics.text import plural
from gossamer.core import InputError, brief, whole
from gossamer.networks import measures
from gossamer.networks.measures import EXACT_AGENTS
from gossamer.networks.mixers import DENSE_LIMIT, MatrixName, Mean, Mixer, Shifts
from gossamer.networks.weights import find_links, join_links

PRINTED_AGENTS = 100
"""The most agents for which `repr` computes the gap of a network that changes."""


@pytree
@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Network:
    """Agents and their weights. Make one with `ring`, `torus`, …, `from_graph` or `from_matrix`, which check it.

    Most are static and doubly stochastic: one W. A network may also change from round to round (`sequence`,
    `random_matching`, `failing`, `every`, …) or be directed (`directed`, `from_matrices`): then it has a row-stochastic
    R and a column-stochastic C on the same links. A network is a pytree: weights are leaves (float64 of NumPy), the
    name and the structure are static.
    """

    name: str = dataclasses.field(metadata={"static": True})
    agents: int = dataclasses.field(metadata={"static": True})
    mixer: Mixer
    attack: Attack | None = dataclasses.field(default=None, metadata={"static": True})
    """The false messages of some agents. An engine applies them; `mix` and `matrix` ignore them."""
    asynchronous: bool = dataclasses.field(default=False, metadata={"static": True})
    """True if there are no common rounds; then the weights only say who may meet whom."""
    clock: Any = dataclasses.field(default=None, metadata={"static": True})
    """The clock of an asynchronous network, which says who wakes when; a run puts it here."""
    names: tuple[str, ...] | None = dataclasses.field(default=None, metadata={"static": True})
    """The names of the nodes in the order of the agents, if the network came from a graph."""

    def mix(self, x: Any, t: int = 0, over: MatrixName = "W") -> Float[np.ndarray, "agents ..."]:
        """Return the product with W, R or C of round t, over the first axis of `x`, in float64.

        If W is doubly stochastic, R = C = W. In a compiled program use `gossamer.engines.mixing.mix`.
        """
        x = array_of("x", x)
        if x.ndim == 0 or x.shape[0] != self.agents:
            raise InputError(
                f"{self.name} mixes arrays with one row an agent, [{self.agents}, …], but got shape {x.shape}. Stack "
                "the agents along the first axis."
            )
        self.check_over(over)
        rows = x.astype(np.float64).reshape(self.agents, -1)  # SciPy multiplies arrays of one or two axes
        return self.mixer.mix(rows, whole("t", t, least=0), over).reshape(x.shape)

    def awake(self, t: int) -> Bool[np.ndarray, " agents"] | None:
        """Return a mask of the agents that are awake in round t; None if no agent ever sleeps."""
        if not self.mixer.sleeps:
            return None
        awake = self.mixer.awake(whole("t", t, least=0))
        return np.ones(self.agents, bool) if awake is None else awake

    def matrix(self, t: int = 0, over: MatrixName = "W") -> sp.csr_array:
        """Return W, R or C of round t as a sparse array in float64."""
        self.check_over(over)
        if isinstance(self.mixer, Mean):
            self._refuse_large("all of whose entries are 1/n: use `mix`, `gap` and `degrees`, which need no matrix")
        return self.mixer.sparse(whole("t", t, least=0), over)

    @property
    def kind(self) -> str:
        """The form of the weights: shifts, mean, table, hubs or dense; directed, cycle, every, matching, …"""
        return self.mixer.kind

    @property
    def stochastic(self) -> Literal["doubly", "row+column"]:
        """The kind of weights: a doubly stochastic W, or only a row-stochastic R and a column-stochastic C."""
        return "doubly" if self.mixer.doubly else "row+column"

    @property
    def changes(self) -> bool:
        """True if the weights differ from round to round."""
        return self.mixer.changes

    @property
    def symmetric(self) -> bool:
        """True if there is one W for all rounds and it is symmetric, to rounding."""
        return not self.changes and self.mixer.is_symmetric

    @cached_property
    def traffic(self) -> float:
        """The messages of an agent in one round: the mean over agents and rounds, expected for random ones."""
        return self.mixer.traffic

    @cached_property
    def pace(self) -> float:
        """The share of rounds with any gossip: 1/K with `every(network, K)`."""
        if not self.changes or self.agents == 1:
            return 1.0
        return self.mixer.pace

    @property
    def activity(self) -> float:
        """The share of rounds in which an agent is awake."""
        return self.mixer.activity

    @property
    def sparse(self) -> sp.csr_array:
        """The static W as a sparse matrix."""
        if self.changes:
            raise InputError(f"{self.name} has another matrix each round: use `matrix(t)`, that of round t.")
        return self.matrix()

    @property
    def mixing(self) -> Float[np.ndarray, "agents agents"]:
        """The static W as a dense matrix."""
        self._refuse_large("which takes 8 n² bytes: use `sparse`, `mix` or `gap`")
        return self.sparse.toarray()

    @cached_property
    def gap(self) -> float | None:
        r"""The spectral gap $\rho = 1 - \lVert W - J \rVert_2$, in [0, 1]; 1 is a complete graph.

        For a periodic sequence it is $1 - \lVert W^{p-1} \cdots W^0 - J \rVert_2^{1/p}$, for rounds drawn at random
        $1 - \lambda_{\max}(\mathbb E[W^\top W] - J)^{1/2}$: exactly where a closed form is known (random matchings,
        redrawn graphs, a static symmetric network that fails), else estimated from the first 256 rounds. None if W
        is not doubly stochastic: ρ says how fast agents approach their mean, which R and C alone do not keep.

        The first use computes it: by a Fourier transform for rings, tori, hypercubes and exponential graphs, from the
        whole matrix up to 1,000 agents, and beyond from sparse products, with an error below 1e-9.
        """
        return self.mixer.gap(self.agents) if self.mixer.doubly else None

    @cached_property
    def lowest(self) -> float:
        """The smallest eigenvalue of a static symmetric W."""
        if not self.symmetric:
            raise InputError(
                f"{self.name} has no lowest eigenvalue: that is defined for one symmetric matrix, but its weights "
                + ("change from round to round." if self.changes else "are not symmetric.")
            )
        match self.mixer:
            case Mean():
                return 0.0 if self.agents > 1 else 1.0
            case Shifts():
                return float(np.real(self.mixer.eigenvalues()).min())
            case _:
                return measures.matrix_lowest(self.sparse)

    def effective_neighbors(self, decay: float = 0.9) -> float | None:
        r"""Return how many agents each averages with in effect as rounds go by, from 1 (alone) to n (complete).

        In the walk $x \leftarrow W (\sqrt\gamma x + \xi)$, with noise of variance 1 in each round and γ = `decay`, an
        agent alone would have variance $1 / (1 - \gamma)$. Mixing divides it by

        $$ n_W(\gamma) = \frac{1}{1 - \gamma} \Big/ \frac1n \sum_{i=1}^n \frac{\lambda_i^2}{1 - \gamma \lambda_i^2} $$

        if W is symmetric, and otherwise by what the walk's covariance gives, in the mean over agents and rounds. None
        if W is not doubly stochastic. Exact up to 1,000 agents and for sums of translations; otherwise, and if rounds
        are drawn and agents are not all alike, an estimate from a walk of some thousand rounds.

        Reference: T. Vogels, H. Hendrikx and M. Jaggi, "Beyond spectral gap: the role of the topology in decentralized
        learning", 2022, arXiv 2206.03093.
        """
        return measures.effective_neighbors(self.mixer, self.agents, decay)

    def disagreement(
        self, rounds: int, *, until: float = 0.0, start: Any = None, seed: int = 0
    ) -> Float[np.ndarray, " marks"]:
        r"""Return $\lVert x - \bar x \rVert$ after 0, 1, 2, … rounds of gossip, relative to the start, in float64.

        Gossip begins at eight random vectors, or at `start`, and ends after `rounds` or once the disagreement is at
        most `until`. If W is not doubly stochastic, it is the disagreement of push-sum, $C^t x / C^t \mathbf 1$.
        """
        return measures.disagreement(self.mixer, self.agents, rounds, until, start, seed)

    @cached_property
    def diameter(self) -> int:
        """The most links from one agent to another, over the links of all rounds."""
        if self._sends is None:
            return int(self.agents > 1)
        return measures.diameter(sp.csr_array(self._sends.T), alike=bool(self.mixer.translations()))

    @cached_property
    def degrees(self) -> Int[np.ndarray, " agents"]:
        """The number of other agents that each agent sends to, in all rounds together."""
        if self._sends is None:
            return np.full(self.agents, self.agents - 1)
        return np.diff(self._sends.indptr).astype(np.int64)

    def neighbors(self, agent: int) -> Int[np.ndarray, " degree"]:
        """Return the other agents that this agent sends to in one round or another, in order."""
        i = whole("agent", agent, least=0, most=self.agents - 1)
        if self._sends is None:
            return np.delete(np.arange(self.agents), i)
        # column i holds whom agent i sends to
        first, last = self._sends.indptr[i : i + 2]
        return self._sends.indices[first:last].astype(np.int64)

    @cached_property
    def links(self) -> int:
        """The number of pairs of agents that exchange messages, in either direction, in one round or another."""
        if self._sends is None:
            return self.agents * (self.agents - 1) // 2
        sends = sp.csr_array(self._sends)
        return int((sends + sends.T).nnz) // 2

    @cached_property
    def _sends(self) -> sp.csc_array | None:
        """The off-diagonal non-zeros of all rounds; column i holds whom agent i sends to. None stands for all pairs."""
        union = self.mixer.union()
        if union is None:
            return None
        sends = sp.csc_array(join_links(self.agents, *find_links(union)))
        sends.sort_indices()
        return sends

    def check_over(self, over: Any) -> None:
        """Raise InputError unless this is the name of a matrix that the network has."""
        if not isinstance(over, str) or over not in ("W", "R", "C"):
            raise InputError(f'over must be "W", "R" or "C", but is {brief(over)}.')
        if over == "W" and not self.mixer.doubly:
            raise InputError(
                f"{self.name} has no doubly stochastic W, only a row-stochastic R and a column-stochastic C. Mix over "
                '"R" or "C", or use an algorithm for directed graphs.'
            )

    def _refuse_large(self, why: str) -> None:
        if self.agents > DENSE_LIMIT:
            raise InputError(
                f"{self.name} has {self.agents:,} agents, above the limit of {DENSE_LIMIT:,} for a full matrix, {why}."
            )

    def __repr__(self) -> str:
        text = f"{self.name}: {plural(self.agents, 'agent')}"
        # JAX prints networks whose leaves are tracers or placeholders, which have no values.
        if not all(isinstance(leaf, np.ndarray) for leaf in flatten(self)[0]):
            return text
        text += f", {plural(self.links, 'link')}"
        if not self.mixer.doubly:
            return f"{text}, row- and column-stochastic"
        few = self.agents <= (PRINTED_AGENTS if self.changes else EXACT_AGENTS)
        cheap = few or isinstance(self.mixer, Mean | Shifts) or "gap" in self.__dict__
        return text + (f", ρ = {self.gap:.3g}" if cheap else "")


def call_name(kind: str, *sizes: float, weights: str = "metropolis", seed: int | None = None) -> str:
    """Return the call that makes a network, without its default arguments."""
    parts = [f"{size:g}" if isinstance(size, float) else str(size) for size in sizes]
    parts += [f"seed={seed}"] if seed is not None else []
    # what is no scheme is refused later, with the name in the message
    parts += [] if isinstance(weights, str) and weights == "metropolis" else [f"weights={brief(weights)}"]
    return f"{kind}({', '.join(parts)})"


def check_network(where: str, network: Any) -> None:
    """Raise InputError if this is not a network."""
    if not isinstance(network, Network):
        raise InputError(
            f"{where}(network) must be a network, but is {type(network).__name__}. Make one first, such as "
            "networks.ring(20)."
        )


def check_plain(where: str, network: Any) -> None:
    """Raise InputError if this is not a network, or one with attackers, which must be added last."""
    check_network(where, network)
    if network.attack is not None:
        raise InputError(f"{where} is given {network.name}: let networks.attacked stand around all the others.")
