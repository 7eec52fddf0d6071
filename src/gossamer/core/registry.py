"""Registries of things by name: ours, and those that users add."""

import functools
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from gossamer.core.errors import InputError, brief

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

T = TypeVar("T")

NAME = re.compile(r"[a-z0-9]+([-_.:+][a-z0-9]+)*")


class Registry(Mapping[str, T], Generic[T]):
    """The things of one kind by their names in spec files.

    A user's own come from an installed package, by an entry point of the group ``gossamer.algorithms`` (or networks,
    oracles, compressors, aggregators, problems, datasets), or are added by `register`. Ours cannot be replaced; a
    user's own can, as a notebook does when a cell runs again.

    Args:
        kind: what one thing is called, in messages.
        group: the group of entry points.
        ours: those that come with Gossamer.
    """

    def __init__(self, kind: str, group: str, ours: Mapping[str, T]):
        self.kind, self.group = kind, group
        self._ours, self._added = dict(ours), dict[str, T]()

    def include(self, ours: Mapping[str, T]) -> None:
        """Add to those that come with Gossamer."""
        self._ours |= ours

    def add(self, name: Any, thing: T) -> None:
        """Make a thing known by a name."""
        if not isinstance(name, str) or len(name) > 60 or not NAME.fullmatch(name):
            raise InputError(
                f"the name of this {self.kind} must be small letters and digits, joined by hyphens, such as "
                f"'my-{self.kind.split()[-1]}', but is {brief(name)}."
            )
        if name in self._ours:
            raise InputError(f"{name!r} is one of Gossamer's own {self.kind}s: choose another name.")
        self._added[name] = thing

    def register(self, name: str) -> Callable[[T], T]:
        """Return a decorator that makes a class or function known by a name."""

        def add(thing: T) -> T:
            self.add(name, thing)
            return thing

        return add

    def own(self, name: str) -> T | None:
        """Return a user's thing of this name; None if it is one of ours."""
        return None if name in self._ours else self[name]

    @functools.cached_property
    def _entry_points(self) -> dict[str, "EntryPoint"]:
        from importlib.metadata import entry_points  # slow to import, and few programs get here

        offered = {}
        for point in entry_points(group=self.group):
            if point.name in self._ours:
                warnings.warn(
                    f"{_package(point)} offers a {self.kind} {point.name!r}, which is the name of one of ours: it is "
                    "left out.",
                    stacklevel=2,
                )
            else:
                offered[point.name] = point
        return offered

    def __getitem__(self, name: str) -> T:
        if name in self._ours:  # first, so that no installed package changes what a spec of ours means
            return self._ours[name]
        if name not in self._added and name in self._entry_points:
            point = self._entry_points[name]
            try:
                self._added[name] = point.load()
            except Exception as error:
                raise InputError(
                    f"the {self.kind} {name!r} of {_package(point)} cannot be imported from {point.value}: "
                    f"{type(error).__name__}: {error}"
                ) from error
        return self._added[name]

    def __contains__(self, name: object) -> bool:
        return name in self._ours or name in self._added or name in self._entry_points

    def __iter__(self) -> Iterator[str]:
        yield from dict.fromkeys([*self._ours, *self._added, *self._entry_points])

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _package(point: "EntryPoint") -> Any:
    return f"the package {point.dist.name}" if point.dist is not None else "a package"
