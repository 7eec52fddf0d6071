"""Caches for several threads."""

import functools
import threading
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class once(Generic[T]):
    """A `functools.cache` that computes each answer once, however many threads ask at the same time."""

    def __init__(self, function: Callable[..., T]):
        self._known, self._lock = functools.cache(function), threading.RLock()
        functools.update_wrapper(self, function)

    def __call__(self, *given: Hashable) -> T:
        with self._lock:
            return self._known(*given)

    def cache_clear(self) -> Any:
        """Remove all answers."""
        self._known.cache_clear()
