"""Parts: what a spec describes, made and checked, and what the store calls it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from gossamer.clocks import Clock
from gossamer.core import Rule, hyperparameters, parts
from gossamer.metrics import own
from gossamer.networks import NETWORKS, Network
from gossamer.oracles import STAGES, Oracle
from gossamer.problems import PROBLEMS, Problem
from gossamer.results.cache_key import digest, made_by
from gossamer.results.store import MADE_BY
from gossamer.schedules import Schedule
from gossamer.specs.candidates import Candidate
from gossamer.specs.making import MADE_OF


@dataclass(frozen=True, eq=False)
class Parts:
    """What a spec describes, made and checked."""

    candidates: list[Candidate]
    problem: Problem
    network: Network
    oracle: Oracle
    key: dict[str, Any]
    """What the store calls the problem, the network and the oracle."""
    makers: tuple[Callable[..., Any], ...] = ()
    """The user's own functions that made some of it."""
    clock: Clock | None = None

    @cached_property
    def contents(self) -> str:
        """The digest of all that the problem, the network and the oracle hold, as a part of cache keys."""
        return digest(self.problem, self.network, self.oracle)

    def key_of(self, rule: Rule) -> dict[str, Any]:
        """All that determines a run of this rule, besides its seed, its length and its block."""
        return {
            **self.key,
            "algorithm": rule.name,
            "hyper": {name: _stored(getattr(rule, name)) for name in hyperparameters(type(rule))},
            "parts": {name: str(part) for name, part in parts(rule).items()},
            MADE_BY: made_by((rule, self.makers, own()), lambda: self.contents, self.problem),
        }


def makers(spec: Any) -> tuple[Callable[..., Any], ...]:
    """The user's own functions that a spec names and whose results do not identify them fully."""
    own = [
        *named(PROBLEMS, "name", spec.problem),
        *named(NETWORKS, "name", spec.network),
        *named(STAGES, "kind", spec.oracle.stages),
        *(
            thing
            for registry in MADE_OF.values()
            for thing in named(registry, "kind", [spec.algorithm, spec.oracle.stages])
        ),
    ]
    return tuple(dict.fromkeys(own))


def named(registry: Any, key: str, tables: Any) -> Iterator[Callable[..., Any]]:
    """A registry's own things of the user that these tables, or tables inside them, name."""
    if isinstance(tables, dict):
        name = tables.get(key)
        if isinstance(name, str) and name in registry and (thing := registry.own(name)) is not None:
            yield thing
        tables = list(tables.values())
    if isinstance(tables, list):
        for table in tables:
            yield from named(registry, key, table)


def _stored(value: Any) -> Any:
    """A hyper-parameter as the store calls it."""
    if isinstance(value, Schedule):
        return value.asdict()
    return "its own function" if callable(value) else value
