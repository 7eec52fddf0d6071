"""The contract of an oracle, the source of an agent's gradients, and of the stages around it."""

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
        """Raise InputError, before any work, for a problem that this oracle cannot serve."""

    def init(self, site: Site) -> Any:
        """Return the state before the first query."""
        return ()

    @abc.abstractmethod
    def query(self, site: Site, state: Any, points: tuple[Array, ...]) -> tuple[tuple[Array, ...], Any]:
        """Return the gradients at the points, all on one sample, and the next state."""

    def value(self, site: Site, state: Any, points: tuple[Array, ...]) -> tuple[Array, ...]:
        """Return the losses at the points, on the sample that `query` takes at the same site and state."""
        raise InputError(f"{type(self).__name__} gives gradients only, and no losses that belong to them.")

    @abc.abstractmethod
    def bias(self, site: Site, state: Any) -> Float[Array, " d"] | None:
        """Return E[g̃ − ∇f_i] if it is the same at every point, else None."""

    def attackers(self, agents: int) -> frozenset[int]:
        """Return the numbers of the agents, of so many, that give wrong gradients on purpose."""
        return frozenset()

    def together(self, agents: int) -> Attack | None:
        """Return the attack that is computed from all agents' gradients, as ALIE is; None if there is none."""
        return None

    def constants(self, problem: Problem) -> ErrorBounds:
        """Return the bounds of Assumption 3 on this problem that are known in closed form."""
        return ErrorBounds(None, None, None, f"{type(self).__name__} states no constants: measure them.")

    @property
    def privacy(self) -> Privacy | None:
        """Return the differential privacy of the source's samples; None if it has none."""
        return None

    @property
    def rooted(self) -> bool:
        """True if there is a source at the bottom of the stages."""
        return True

    @property
    def depth(self) -> int:
        """Return the number of stages around the source.

        Each stage folds it into its key, so that one more stage around all of them changes no draw of the others.
        """
        return 0

    def own_key(self, site: Site) -> Key[Array, ""]:
        """Return the key of this stage's, or this source's, own draws (see `gossamer.basics.keys`)."""
        return of_stage(site.key, self.depth)

    def asks(self, dim: int) -> int:
        """Return the number of gradients, or function values, that one query takes of the agent's own loss."""
        return 1

    def full(self) -> "Oracle":
        """Return this oracle with all of an agent's samples in place of a draw, for rules that ask for a full gradient.

        The new oracle takes the state of this one and returns it unchanged.
        """
        raise InputError(
            f"{type(self).__name__} has no gradient over all samples of an agent, which this rule asks for: use a "
            "source that has, oracles.exact() or oracles.minibatch(…), or a rule that asks for none, such as gt-hsgd."
        )

    def passes(self, problem: Problem) -> float:
        """Return the number of queries that a full gradient counts as, the mean over agents."""
        return float(self.asks(problem.dim))

    def __or__(self, stage: Any) -> "Oracle":
        if not isinstance(stage, Stage):
            raise InputError(
                f"{type(stage).__name__} cannot stand around another oracle: the right of | is a stage, such as "
                "oracles.additive_bias(...) or oracles.custom(...)."
            )
        return stage.around(self)


class Stage(Oracle):
    """An oracle that changes the gradients of another. On its own it stands around the exact gradient.

    A stage defines `change`, or `init` and `query` if it has a state of its own. Without one it hands on the state of
    its source. Unless it defines `bias`, its bias counts as one that depends on the point.
    """

    inner: Oracle | None

    def change(self, site: Site, g: Float[Array, " d"], x: Float[Array, " d"]) -> Float[Array, " d"]:
        """Return what becomes of the source's gradient g at the point x."""
        raise InputError(f"{type(self).__name__} must define change(site, g, x), or query(site, state, points).")

    def query(self, site: Site, state: Any, points: tuple[Array, ...]) -> tuple[tuple[Array, ...], Any]:
        gradients, state = self.source.query(site, state, points)
        return tuple(self.change(site, g, x) for g, x in zip(gradients, points, strict=True)), state

    def around(self, source: Oracle) -> "Stage":
        """Return this stage, and those inside it, around a source."""
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
        """Return the oracle that this stage stands around."""
        if self.inner is None:
            raise InputError(f"{type(self).__name__} has no oracle to stand around: write oracles.exact() | it.")
        return self.inner

    @property
    def depth(self) -> int:
        return self.source.depth + 1

    def check(self, problem: Problem) -> None:
        self.source.check(problem)

    def init(self, site: Site) -> Any:
        return self.source.init(site)

    def bias(self, site: Site, state: Any) -> Float[Array, " d"] | None:
        return None

    def attackers(self, agents: int) -> frozenset[int]:
        return self.source.attackers(agents)

    def asks(self, dim: int) -> int:
        return self.source.asks(dim)

    def full(self) -> Oracle:
        return dataclasses.replace(self, inner=self.source.full())  # pyright: ignore[reportArgumentType]

    def passes(self, problem: Problem) -> float:
        return self.source.passes(problem) * self.asks(problem.dim) / self.source.asks(problem.dim)
