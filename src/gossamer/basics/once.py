"""Answers that are made once in a process, whichever thread asks first."""

import functools
import threading
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class once(Generic[T]):
    """`functools.cache` for several threads: one of those that ask at once makes the answer, and the others wait."""

    def __init__(self, function: Callable[..., T]):
        self._known, self._lock = functools.cache(function), threading.RLock()
        functools.update_wrapper(self, function)

    def __call__(self, *given: Hashable) -> T:
        with self._lock:
            return self._known(*given)

    def cache_clear(self) -> Any:
        """Forget all answers."""
        self._known.cache_clear()
