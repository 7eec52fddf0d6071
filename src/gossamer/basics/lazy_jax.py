"""JAX, imported when something of it is first used, for code that mostly does without.

Graphs, weights and compressors are described in NumPy; only what is computed with them inside a compiled program is
JAX's. A room whose import shall not bring JAX in takes `jax`, `jnp` and `Array` from here, and uses them in functions.

JAX must know our classes before anyone hands it an object of theirs: what it does not know it takes for a leaf, without
a word. So `once_imported` notes what is to be done as soon as JAX is there, whoever imports it: until then a finder of
ours stands before all others, and changes nothing but that.
"""

import importlib
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
    jax, jnp = Lazy("jax"), Lazy("jax.numpy")
    Array = Any  # in annotations: anything that has a shape and a dtype

__all__ = ["Array", "is_array", "is_known", "jax", "jnp", "once_imported"]


def once_imported(do: Callable[[], None]) -> None:
    """Do this now if JAX has been imported, or else when it is."""
    with _FINDER.lock:
        if _FINDER.waiting is not None:
            _FINDER.waiting.append(do)
            return
    do()


def is_array(value: Any) -> bool:
    """Whether this is an array of JAX, which nobody has before JAX is imported; a tracer is one."""
    return "jax" in sys.modules and isinstance(value, jax.Array)


def is_known(value: Any) -> bool:
    """Whether this is an array of JAX with numbers in it."""
    return is_array(value) and not isinstance(value, jax.core.Tracer)


class _Finder:
    """Finds JAX as the others do, and does what waits for it once it has been loaded."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.waiting: list[Callable[[], None]] | None = []

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != "jax":
            return None
        others = (finder.find_spec(name, path, target) for finder in list(sys.meta_path) if finder is not self)
        spec = next((spec for spec in others if spec is not None), None)
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def loaded(module: Any) -> None:
                load(module)
                self.done()

            spec.loader.exec_module = loaded
        return spec

    def done(self) -> None:
        """JAX is there."""
        with self.lock:
            waiting, self.waiting = self.waiting, None
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        for do in waiting or ():
            do()


_FINDER = _Finder()
sys.meta_path.insert(0, _FINDER)
if "jax" in sys.modules:
    importlib.import_module("jax")  # waits, where another thread is in the middle of it
    _FINDER.done()
