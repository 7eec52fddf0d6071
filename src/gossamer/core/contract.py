"""The contract: the state of an algorithm between two rounds, and all that it may touch."""

from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal, Protocol

Array = Any
"""An array of the engine that runs the rule: all agents stacked, ``[agents, d]``, or one agent's ``[d]``."""

Value = Any
"""A hyper-parameter. A user gives a number, or a schedule that maps the round ``t = 0, 1, …`` to a number; a rule
reads the number of its round (or an array of them, where the engine runs many settings at once)."""

Needs = Literal["doubly", "row", "column", "row+column", "nothing"]
"""The demands of a rule on the mixing matrix: doubly stochastic; row-stochastic; column-stochastic, for push-sum; a
row- and a column-stochastic one; or nothing because it never gossips. Doubly stochastic weights serve all of them."""

Over = Literal["W", "R", "C", "RC"]
"""The matrix that mixes: the doubly stochastic W, the row-stochastic R, the column-stochastic C; RC mixes the first
array by R and the second by C."""


Compressor = Annotated[Any, "compressor"]
"""An operator that shrinks messages, made by `gossamer.compressors`; a rule only hands it to `Agent.gossip_compressed`
and `Agent.gossip_copies`."""

Aggregator = Annotated[Any, "aggregator"]
"""A function of an agent's own and its neighbours' messages, made by `gossamer.aggregators`; a rule only hands it
to `Agent.gossip_robust`."""


class State(Mapping[str, Array]):
    """The immutable arrays of a rule between two rounds, by name: ``State(x=x, m=m).m``."""

    # two tuples, which JAX reads without a call of Python's: a trace takes hundreds of states apart
    __slots__ = ("_arrays", "_names")

    def __init__(self, **arrays: Array):
        object.__setattr__(self, "_names", tuple(arrays))
        object.__setattr__(self, "_arrays", tuple(arrays.values()))

    def __getattr__(self, name: str) -> Array:
        names = object.__getattribute__(self, "_names")
        if name not in names:
            raise AttributeError(f"this state has {', '.join(names)}, but no {name!r}")
        return self._arrays[names.index(name)]

    def __setattr__(self, name: str, value: Array) -> None:
        raise AttributeError("a state is immutable; return a new State from `step`")

    def __getitem__(self, name: str) -> Array:
        if name not in self._names:
            raise KeyError(name)
        return self._arrays[self._names.index(name)]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __repr__(self) -> str:
        return f"State({', '.join(self)})"


class Agent(Protocol):
    """The agents as a rule sees them, and all that it may touch; the engine makes it anew each round.

    Each method takes one array and returns one, or takes several and returns as many.
    """

    def gradient(self, *points: Array) -> Array:
        """Return the oracle's gradients at the points. One call is one sample ξ for all its points."""
        ...

    def full_gradient(self, *points: Array) -> Array:
        """Return the oracle's gradients at the points over all samples that the agent has. That costs as many queries
        as there are mini-batches in them."""
        ...

    def gossip(self, *arrays: Array, over: Over = "W") -> Array:
        """Return Σ_j w_ij a_j for each array. One call is one message to every neighbour."""
        ...

    def gossip_compressed(self, *arrays: Array, by: Compressor) -> Any:
        """Return the pair C(a_i), Σ_j w_ij C(a_j) for each array. One call is one message to every neighbour."""
        ...

    def gossip_copies(self, copy: Array, apart: Array, a: Array, by: Compressor | None = None) -> Any:
        """Return the pair C(a_i), Σ_j w_ij (ŷ_i − ŷ_j) of the copies ŷ = h + C(a) that neighbours hold of one another.

        Here `copy` is h and `apart` is Σ_j w_ij (h_i − h_j). One call is one message C(a) to every neighbour, or a
        itself. A sum of differences has no rounding of its own where copies agree, so that a rule may add it up. An
        engine that holds all copies takes their differences; one that holds none adds those of the messages to `apart`.
        """
        ...

    def gossip_robust(self, *arrays: Array, by: Aggregator) -> Array:
        """Return the aggregate of a_i and of each neighbour's a_j, for each array. One call is one message to every
        neighbour."""
        ...

    def gossip_sum(self, *arrays: Array) -> Array:
        """Return Σ_j a_j over an agent's neighbours, without weights and without itself, for each array: for rules that
        run on trees. One call is one message to every neighbour."""
        ...

    def mean(self, *arrays: Array) -> Array:
        """Return the mean over all agents (an all-reduce), for centralised rules and for starts that need it."""
        ...

    def average(self, a: Array, warm: Any, over: Literal["W", "C"] = "W") -> Array:
        """Return an array after `warm` gossips, by the weights of rounds 0, 1, …, `warm` − 1, or its `mean` where
        `warm` is "mean": for the start of a tracker. With 0, return the array itself and send nothing."""
        ...

    def ones(self) -> Array:
        """Return the number 1 for each agent, shaped to divide its vector: push-sum's weights."""
        ...

    def place(self) -> Array:
        """Return the i-th unit vector of as many numbers as there are agents, for agent i."""
        ...

    def norm(self, a: Array) -> Array:
        """Return ‖a_i‖ for each agent, shaped to divide its vector."""
        ...

    def repeat(self, times: int, step: Callable[..., Any], *arrays: Array) -> Any:
        """Return the arrays after `times` calls of `step`, which takes and returns as many: a loop compiled once."""
        ...


class PostingAgent(Agent, Protocol):
    """An agent in a process of its own, for a rule's ``ahead``: its messages may travel while it computes."""

    def post(self, *arrays: Array, over: Over = "W", late: tuple[int, ...] = ()) -> Callable[[], Any]:
        """Send a message of `gossip` now, and return a function that waits for those of the neighbours.

        Where arrays belong to earlier rounds, whose weights may be others, `late` holds for each of them how many
        rounds ago that was.
        """
        ...


class MeetingAgent(Protocol):
    """The agent that wakes on an asynchronous network, for a rule's ``wake``."""

    def meet(self, **arrays: Array) -> Any:
        """Return the means of the arrays and of the partner's by the same names, and leave them in its state."""
        ...


class Rule(Protocol):
    """An algorithm. ``s.x`` is always the model that is evaluated; `@rule` adds all else that an engine asks for.

    A rule may also have ``wake(self, s, g, agent) -> State``, its form for asynchronous networks, where `agent` is a
    `MeetingAgent`: ``s`` is the state of the agent that wakes, and ``g`` the gradient that it asked for at its model
    right after it woke last, and which others did not wait for.

    One that can go on after agents were lost or have joined has ``restart(self, s) -> State``: the state from which an
    agent goes on among others, made of its own alone. What a rule keeps in sums over agents must hold there again, such
    as ``v=s.m`` where v tracks the mean of m.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    needs: ClassVar[Needs]
    static: ClassVar[bool]
    lowest: ClassVar[float | None]
    tree: ClassVar[bool]
    decays: ClassVar[tuple[str, ...]]
    drifts: ClassVar[bool]

    def init(self, x: Array, agent: Agent) -> State: ...

    def step(self, s: State, agent: Agent) -> State: ...
