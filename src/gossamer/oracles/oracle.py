"""The contract of an oracle: where an agent's gradients come from, and all that it may touch."""

import abc
import dataclasses
from typing import Any, NamedTuple

from jaxtyping import Array, Float, Key

from gossamer.attacks import Attack
from gossamer.basics.keys import of_stage
from gossamer.basics.text import fields_of, format_call
from gossamer.core import InputError
from gossamer.oracles.constants import ErrorBounds
from gossamer.problems import Problem


class Site(NamedTuple):
    """An agent at a query. The same key is the same sample, however the agents are blocked."""

    problem: Problem
    agent: Array
    """The agent's number."""
    key: Key[Array, ""]
    """The key of the query, from which the `own_key` of each stage is folded: draw from that (`custom` is given it)."""
    round: Array


class Privacy(NamedTuple):
    """Parameters that decide the (ε, δ) of a private oracle, together with the number of its releases."""

    clip: float
    noise: float
    """The noise multiplier σ: the deviation of the noise over `clip`."""
    rate: float
    """The probability with which each row is taken."""
    delta: float
    """The δ at which ε is stated."""


class Oracle(abc.ABC):
    """A gradient oracle, written for one agent; the engine maps it over all. ``a | b`` puts stage b around oracle a.

    An oracle may hold state (a bias drawn once, the order of an epoch). It is a frozen dataclass under
    `gossamer.pytree`: its numbers are leaves, so that another magnitude needs no new compilation.
    """

    def __init_subclass__(cls) -> None:
        if "__repr__" not in vars(cls):
            cls.__repr__ = Oracle.__repr__  # so that no dataclass writes one that prints arrays

    def __repr__(self) -> str:
        own = format_call(type(self).__name__, fields_of(self, "inner"))
        inner = getattr(self, "inner", None)
        return own if inner is None else f"{inner} | {own}"

    @abc.abstractmethod
    def check(self, problem: Problem) -> None:
        """Refuse, before any work, a problem that this oracle cannot serve."""

    def init(self, site: Site) -> Any:
        """The state before the first query."""
        return ()

    @abc.abstractmethod
    def query(self, site: Site, state: Any, points: tuple[Array, ...]) -> tuple[tuple[Array, ...], Any]:
        """The gradients at the points, all on one sample, and the next state."""

    def value(self, site: Site, state: Any, points: tuple[Array, ...]) -> tuple[Array, ...]:
        """The losses at the points, on the sample that `query` takes at the same site and state."""
        raise InputError(f"{type(self).__name__} gives gradients only, and no losses that belong to them.")

    @abc.abstractmethod
    def bias(self, site: Site, state: Any) -> Float[Array, " d"] | None:
        """The part of E[g̃ − ∇f_i] that is the same at every point; None where that is not all of it."""

    def attackers(self, agents: int) -> frozenset[int]:
        """Return which of the given number of agents give gradients that are wrong on purpose."""
        return frozenset()

    def together(self, agents: int) -> Attack | None:
        """Return what some of so many agents make of all agents' gradients, once these are there; None if nothing."""
        return None

    def constants(self, problem: Problem) -> ErrorBounds:
        """The bounds of Assumption 3 on this problem that are known in closed form."""
        return ErrorBounds(None, None, None, f"{type(self).__name__} states no constants: measure them.")

    @property
    def privacy(self) -> Privacy | None:
        """Return what the source promises about its samples; None if it promises nothing."""
        return None

    @property
    def rooted(self) -> bool:
        """True if there is a source at the bottom of the stages."""
        return True

    @property
    def depth(self) -> int:
        """How many stages stand around the source.

        Each draws from a key of its own, so that one more around all of them moves no sample.
        """
        return 0

    def own_key(self, site: Site) -> Key[Array, ""]:
        """The key of this stage's, or this source's, own draws (see `gossamer.basics.keys`)."""
        return of_stage(site.key, self.depth)

    def asks(self, dim: int) -> int:
        """How many gradients, or function values, one query takes of the agent's own loss."""
        return 1

    def full(self) -> "Oracle":
        """This oracle with all of an agent's samples in place of a draw, for rules that ask for a full gradient.

        It takes the state of this one and gives it back.
        """
        raise InputError(
            f"{type(self).__name__} has no gradient over all samples of an agent, which this rule asks for: use a "
            "source that has, oracles.exact() or oracles.minibatch(…), or a rule that asks for none, such as gt-hsgd."
        )

    def passes(self, problem: Problem) -> float:
        """How many queries a full gradient counts as, the mean over agents."""
        return float(self.asks(problem.dim))

    def __or__(self, stage: Any) -> "Oracle":
        if not isinstance(stage, Stage):
            raise InputError(
                f"{type(stage).__name__} cannot stand around another oracle: the right of | is a stage, such as "
                "oracles.additive_bias(...) or oracles.custom(...)."
            )
        return stage.around(self)


class Stage(Oracle):
    """An oracle that changes what another returns. On its own it stands around the exact gradient."""

    inner: Oracle | None

    def around(self, source: Oracle) -> "Stage":
        """This stage, and those inside it, around a source."""
        inner = source if self.inner is None else source | self.inner
        return dataclasses.replace(self, inner=inner)  # pyright: ignore[reportArgumentType]

    @property
    def privacy(self) -> Privacy | None:
        return self.source.privacy

    @property
    def rooted(self) -> bool:
        return self.inner is not None and self.inner.rooted

    @property
    def source(self) -> Oracle:
        """The oracle that this stage stands around."""
        if self.inner is None:
            raise InputError(f"{type(self).__name__} has no oracle to stand around: write oracles.exact() | it.")
        return self.inner

    @property
    def depth(self) -> int:
        return self.source.depth + 1

    def attackers(self, agents: int) -> frozenset[int]:
        return self.source.attackers(agents)

    def asks(self, dim: int) -> int:
        return self.source.asks(dim)

    def full(self) -> Oracle:
        return dataclasses.replace(self, inner=self.source.full())  # pyright: ignore[reportArgumentType]

    def passes(self, problem: Problem) -> float:
        return self.source.passes(problem) * self.asks(problem.dim) / self.source.asks(problem.dim)
