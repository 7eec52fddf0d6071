"""JAX, imported when something of it is first used, for code that mostly does without.

Graphs, weights and compressors are described in NumPy; only products and draws inside a compiled program are JAX's. A
room whose import shall not bring JAX in takes `jax`, `jnp` and `Array` from here, and uses them in functions.
"""

import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from gossamer.basics.lazy import Lazy

if TYPE_CHECKING:
    import jax
    import jax.core
    import jax.numpy as jnp
    from jax import Array
else:
    Array = Any  # in annotations: anything that has a shape and a dtype

__all__ = ["Array", "call_with_jax", "is_array", "is_known", "jax", "jnp"]

_waiting: list[Callable[[], None]] = []
_lock = threading.RLock()


def call_with_jax(do: Callable[[], None]) -> None:
    """Call this now if JAX is imported, or else when this package first uses JAX."""
    _waiting.append(do)
    if "jax" in sys.modules:
        _call_waiting()


def _call_waiting() -> None:
    with _lock:
        while _waiting:
            _waiting.pop(0)()


class _LazyJAX(Lazy):
    """A module of JAX that is imported with its first use, before which everything that waits for JAX is called."""

    def __getattr__(self, attribute: str) -> Any:
        found = super().__getattr__(attribute)
        _call_waiting()
        return found


if not TYPE_CHECKING:
    jax, jnp = _LazyJAX("jax"), _LazyJAX("jax.numpy")


def is_array(value: Any) -> bool:
    """Return True for an array of JAX, which nobody has before JAX is imported; a tracer is one."""
    return "jax" in sys.modules and isinstance(value, jax.Array)


def is_known(value: Any) -> bool:
    """Return True for an array of JAX that is no tracer."""
    return is_array(value) and not isinstance(value, jax.core.Tracer)
