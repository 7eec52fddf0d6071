"""The algorithms, one a file, each as the few lines of its paper. Every file of this package is found by itself."""

import importlib
import pkgutil
from collections.abc import Iterator
from typing import Any

from gossamer.core import InputError, Registry, brief, is_rule


def _find_rules() -> Iterator[tuple[str, Any]]:
    """Yield the names and rules of all modules of this package."""
    for found in pkgutil.iter_modules(__path__):
        module = importlib.import_module(f"{__name__}.{found.name}")
        for value in vars(module).values():
            if getattr(value, "__module__", None) == module.__name__ and is_rule(value):
                yield value.name, value


ALGORITHMS: Registry[Any] = Registry("algorithm", "gossamer.algorithms", dict(_find_rules()))
"""Every algorithm by its name in spec files."""


def register(kind: Any) -> Any:
    """Register a rule under its own name, so that a spec can name it."""
    if not is_rule(kind):
        raise InputError(f"{brief(kind)} is not a rule: make a class one by @rule.")
    ALGORITHMS.add(kind.name, kind)  # pyright: ignore[reportAttributeAccessIssue]
    return kind


def __getattr__(name: str) -> Any:
    """Return a rule by the name of its class: `gs.algorithms.BiasedDMT` is `gs.BiasedDMT`."""
    for kind in ALGORITHMS.values():
        if kind.__name__ == name:
            return kind
    raise AttributeError(f"there is no algorithm {name}; `gossamer list algorithms` has all.")
